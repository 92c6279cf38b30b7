from typing import Any

import numpy as np
from numpy.typing import NDArray

CELL: np.dtype[np.void]

def column_bounds(X: NDArray[np.floating[Any]], lo: int, hi: int) -> NDArray[np.float64]: ...
def centred(
    X: NDArray[np.floating[Any]], centre: NDArray[np.float64], out: NDArray[np.float32], lo: int, hi: int
) -> NDArray[np.float64]: ...
def chunks(lo: int, hi: int) -> list[tuple[int, int]]: ...
def build(
    rows: NDArray[np.float32], *, base: float, leaf: int, max_children: int, slack: float, n_threads: int | None
) -> tuple[NDArray[np.void], NDArray[np.int32], NDArray[np.float32]]: ...
