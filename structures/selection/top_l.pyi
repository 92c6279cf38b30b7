from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

def select_top(
    values: ArrayLike, n_top: int, *, n_threads: int | None = 1
) -> tuple[NDArray[Any], NDArray[np.int32]]: ...
