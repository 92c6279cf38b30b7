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
    def __init__(self, n_docs: int, n_pairs: int, n_values: int, dtype: Any) -> None: ...

def add_rows(
    documents: tuple[Any, ...],
    rows: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    sizes: NDArray[np.int32],
    topics: NDArray[np.int32],
    values: NDArray[Any],
    total: NDArray[np.float64],
    sign: float,
) -> None: ...
def draw_tokens(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int64],
    sizes: NDArray[np.int32],
    topics: NDArray[np.int32],
    values: NDArray[Any],
    token_start: NDArray[np.int64],
    seed: int,
    out: NDArray[np.int32],
) -> None: ...
def expected_inner(
    documents: tuple[Any, ...],
    rows: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    sizes: NDArray[np.int32],
    topics: NDArray[np.int32],
    values: NDArray[Any],
    B: NDArray[Any],
    tables: tuple[Any, ...],
) -> float: ...
def expected_table(
    word_counts: NDArray[np.float64],
    eta: NDArray[np.float64],
    expected_sums: NDArray[np.float64],
    B: NDArray[Any],
    shift: NDArray[np.float64],
    start: int,
    stop: int,
) -> None: ...
def collapsed_counts(
    documents: tuple[Any, ...],
    B: NDArray[Any],
    alpha: NDArray[np.float64],
    start: int,
    stop: int,
    n_iterations: int,
    tol: float,
    N: NDArray[np.float64],
) -> None: ...
