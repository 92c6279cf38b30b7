from typing import Any

import numpy as np
from numpy.typing import NDArray

_Reals = NDArray[Any]
_Doubles = NDArray[np.float64]

def group_step(
    scores: _Reals,
    starts: NDArray[np.int64],
    weight: _Doubles | None,
    alpha: _Doubles,
    counts: _Doubles,
    values: _Reals,
    indices: NDArray[np.int32],
    entropy: _Doubles,
    max_iterations: int,
    tol: float,
    n_restarts: int,
    restart_iterations: int,
    work: _Reals,
    scratch: _Doubles,
    counters: NDArray[np.int64],
    buckets: NDArray[np.int32] | None = None,
    graph: NDArray[np.int32] | None = None,
    last: NDArray[np.int32] | None = None,
) -> int: ...
