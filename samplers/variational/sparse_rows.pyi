from typing import Any

import numpy as np
from numpy.typing import NDArray

_Reals = NDArray[Any]
_Doubles = NDArray[np.float64]
_Places = NDArray[np.int64]
_Clusters = NDArray[np.int32]

def pack_outer(rows: _Reals, with_linear: bool, center: _Reals, out: _Reals) -> None: ...
def centre_rows(phi: _Doubles, origin: _Doubles, out: _Reals) -> None: ...
def dense_scores(phi: _Reals, theta: _Reals, c: _Reals, out: _Reals) -> None: ...
def sparse_scores(
    indptr: _Places, indices: NDArray[Any], values: _Doubles, table: _Reals, c: _Reals, out: _Reals
) -> None: ...
def dense_candidates(
    phi: _Reals,
    theta: _Reals,
    c: _Reals,
    buckets: _Clusters,
    graph: _Clusters,
    last: _Clusters,
    scores_last: bool,
    gathered: _Reals,
    out: _Reals,
) -> int: ...
def sparse_candidates(
    indptr: _Places,
    indices: NDArray[Any],
    values: _Doubles,
    table: _Reals,
    c: _Reals,
    buckets: _Clusters,
    graph: _Clusters,
    last: _Clusters,
    scores_last: bool,
    out: _Reals,
) -> int: ...
def work_size(n_scores: int) -> int: ...
def select_rows(
    scores: _Reals,
    buckets: _Clusters | None,
    graph: _Clusters | None,
    last: _Clusters | None,
    values: _Reals,
    indices: _Clusters,
    objective: _Doubles,
    entropy: _Doubles,
    work: _Reals,
) -> int: ...
def lost_mass(scores: _Reals, first: int, step: int, objective: _Doubles) -> float: ...
def soft_rows(scores: _Reals, labels: _Clusters, objective: _Doubles, entropy: _Doubles, work: _Doubles) -> int: ...
def add_dense_rows(
    phi: _Reals,
    values: _Reals,
    indices: _Clusters,
    weight: _Doubles | None,
    n: _Doubles,
    S: _Doubles,
    starts: _Places,
    places: _Places,
    total: _Reals,
) -> None: ...
def add_sparse_rows(
    indptr: _Places,
    columns: NDArray[Any],
    counts: _Doubles,
    values: _Reals,
    indices: _Clusters,
    weight: _Doubles | None,
    n: _Doubles,
    S: _Doubles,
    starts: _Places,
    places: _Places,
) -> None: ...
def add_soft_rows(
    phi: _Reals, shares: _Reals, weight: _Doubles | None, n: _Doubles, S: _Doubles, product: _Reals
) -> None: ...
def add_soft_sparse_rows(
    indptr: _Places,
    columns: NDArray[Any],
    counts: _Doubles,
    shares: _Reals,
    weight: _Doubles | None,
    n: _Doubles,
    table: _Doubles,
) -> None: ...
