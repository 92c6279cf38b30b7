from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]
_Places = NDArray[np.int64]

def add_rows(
    documents: tuple[Any, ...],
    rows: _Places,
    weight: _Floats | None,
    sizes: _Numbers,
    topics: _Numbers,
    values: NDArray[Any],
    total: _Floats,
    sign: float,
) -> None: ...
def draw_tokens(
    indptr: _Places,
    rows: _Places,
    sizes: _Numbers,
    topics: _Numbers,
    values: NDArray[Any],
    token_start: _Places,
    seed: int,
    out: _Numbers,
) -> None: ...
def expected_inner(
    documents: tuple[Any, ...],
    rows: _Places,
    weight: _Floats | None,
    sizes: _Numbers,
    topics: _Numbers,
    values: NDArray[Any],
    B: NDArray[Any],
    tables: tuple[Any, ...],
) -> float: ...
