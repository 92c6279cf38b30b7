from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

def label_statistics(data: Any, labels: ArrayLike, n_clusters: int) -> tuple[NDArray[np.float64], Any]: ...
def weighted_statistics(data: Any, labels: ArrayLike, n_clusters: int) -> tuple[NDArray[np.float64], Any]: ...
def moved_statistics(
    data: Any, n: NDArray[np.float64], S: Any, old: NDArray[np.int32], new: NDArray[np.int32]
) -> tuple[NDArray[np.float64], Any]: ...
def sparse_sums(data: Any, labels: Any, n_clusters: int) -> Any: ...
def add_sparse_rows(table: Any, indptr: Any, indices: Any, values: Any, labels: Any) -> None: ...
def gather_sparse_rows(
    indptr: Any,
    indices: Any,
    values: Any,
    order: Any,
    labels: Any,
    row_sum: Any,
    seen: Any,
    out_indices: Any,
    out_values: Any,
    out_indptr: Any,
) -> int: ...
