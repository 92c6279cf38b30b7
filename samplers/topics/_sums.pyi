from typing import Any

import numpy as np
from numpy.typing import NDArray

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
