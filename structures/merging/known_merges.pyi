import numpy as np
from numpy.typing import ArrayLike, NDArray

def known_merges(
    table: ArrayLike, n_others: int, classes: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
