from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

def label_statistics(data: Any, labels: ArrayLike, n_clusters: int) -> tuple[NDArray[np.float64], Any]: ...
def weighted_statistics(data: Any, labels: ArrayLike, n_clusters: int) -> tuple[NDArray[np.float64], Any]: ...
def moved_statistics(
    data: Any, n: NDArray[np.float64], S: Any, old: NDArray[np.int32], new: NDArray[np.int32]
) -> tuple[NDArray[np.float64], Any]: ...
