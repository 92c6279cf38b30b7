from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]
_Places = NDArray[np.int64]

class LocalStep:
    def __init__(
        self,
        tables: tuple[Any, ...],
        alpha: _Floats,
        log_gamma: _Floats,
        *,
        local: int,
        n_active: int,
        max_iterations: int,
        n_restarts: int,
        restart_iterations: int,
        tol: float,
        tau: float,
        is_best: bool,
    ) -> None: ...
    def width(self, n_types: int) -> int: ...
    def run(
        self, documents: tuple[Any, ...], rows: _Places, start: int, stored: Any, scratch: Scratch, outputs: Outputs
    ) -> int: ...

class Scratch:
    def __init__(self, n_types: int, width: int, n_topics: int, n_active: int, dtype: Any) -> None: ...

class Outputs:
    size: _Numbers
    bound: _Floats
    topics: _Numbers
    N: _Floats
    values: NDArray[Any]
    counters: _Places
    n_docs: int
    n_pairs: int
    n_values: int
    def __init__(self, n_docs: int, n_pairs: int, n_values: int, dtype: Any) -> None: ...
