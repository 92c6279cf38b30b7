from typing import Any

import numpy as np
from numpy.typing import NDArray

class DenseScores:
    data: Any
    Theta: NDArray[np.float64]
    bias: NDArray[np.float64]
    table: NDArray[np.float32]
    row_bias: NDArray[np.float32]
    shifted: NDArray[np.float64]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    reach: NDArray[np.float64]
    origin: NDArray[np.float64]
    K: int
    F: int
    width: int
    sparse: bool
    fits: bool
    def __init__(
        self,
        data: Any,
        Theta: NDArray[np.float64],
        G: NDArray[np.float64],
        log_pi: NDArray[np.float64],
        n: NDArray[np.float64],
        S: Any,
    ) -> None: ...
    @property
    def tile_rows(self) -> int: ...
    def tile(self) -> Tile: ...
    def score_tile(self, tile: Tile, phi: NDArray[np.float64]) -> None: ...
    def exact_scores(self, phi: Any) -> NDArray[np.float64]: ...

class Tile:
    phi: NDArray[np.float32]
    scores: NDArray[np.float32]
    rough: NDArray[np.uint8]
    def __init__(self, scores: DenseScores, rows: int) -> None: ...

class Draw:
    def __init__(self, seed: int, step: int, first_row: int) -> None: ...

def draw_labels(state: Any, n_threads: int | None) -> NDArray[np.int32]: ...
def draw_dense(
    s: DenseScores,
    tile: Tile,
    phi: NDArray[np.float64],
    old: NDArray[np.int32],
    labels: NDArray[np.int32],
    seed: int,
    step: int,
    first_row: int,
) -> None: ...
def draw_sparse(
    s: DenseScores,
    tile: Tile,
    phi: Any,
    old: NDArray[np.int32],
    labels: NDArray[np.int32],
    seed: int,
    step: int,
    first_row: int,
) -> None: ...
def sparse_arrays(phi: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]: ...
def draw_rows(
    scores: NDArray[np.float64],
    rows: NDArray[np.intp],
    labels: NDArray[np.int32],
    seed: int,
    step: int,
    first_row: int,
) -> int: ...
