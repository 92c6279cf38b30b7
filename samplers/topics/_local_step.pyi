from typing import Any

import numpy as np
from numpy.typing import NDArray

class LocalStep:
    def __init__(
        self,
        tables: tuple[Any, ...],
        alpha: NDArray[np.float64],
        log_gamma: NDArray[np.float64],
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
        self,
        documents: tuple[Any, ...],
        rows: NDArray[np.int64],
        start: int,
        stored: Any,
        scratch: Scratch,
        outputs: Outputs,
    ) -> int: ...

class Scratch:
    def __init__(self, n_types: int, width: int, n_topics: int, n_active: int, dtype: Any) -> None: ...

class Outputs:
    size: NDArray[np.int32]
    bound: NDArray[np.float64]
    topics: NDArray[np.int32]
    N: NDArray[np.float64]
    values: NDArray[Any]
    counters: NDArray[np.int64]
    n_docs: int
    n_pairs: int
    n_values: int
    def __init__(self, n_docs: int, n_pairs: int, n_values: int, dtype: Any) -> None: ...
