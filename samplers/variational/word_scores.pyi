from typing import Any

import numpy as np
from numpy.typing import NDArray

def listed_scores(
    indptr: NDArray[np.int64],
    indices: NDArray[np.integer],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    clusters: NDArray[np.int32],
    above: NDArray[Any],
    columns: NDArray[np.int64],
    table: NDArray[Any],
    c: NDArray[Any],
    level: NDArray[Any],
    out: NDArray[Any],
) -> None: ...
def listed_candidates(
    indptr: NDArray[np.int64],
    indices: NDArray[np.integer],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    clusters: NDArray[np.int32],
    above: NDArray[Any],
    columns: NDArray[np.int64],
    table: NDArray[Any],
    c: NDArray[Any],
    level: NDArray[Any],
    buckets: NDArray[np.int32],
    graph: NDArray[np.int32],
    last: NDArray[np.int32],
    scores_last: bool,
    out: NDArray[Any],
) -> int: ...
