from typing import Any

import numpy as np
from numpy.typing import NDArray

def draw_labels(state: Any, n_threads: int | None, limits: NDArray[np.int32] | None = None) -> NDArray[np.int32]: ...
def grid(offset: int, start: int, stop: int, size: int) -> list[tuple[int, int]]: ...
def draw_rows(
    scores: NDArray[np.float64],
    rows: NDArray[np.intp],
    labels: NDArray[np.int32],
    seed: int,
    step: int,
    first_row: int,
) -> int: ...

class DenseScores:
    def __init__(
        self, data: Any, Theta: NDArray[np.float64], G: NDArray[np.float64], log_pi: NDArray[np.float64], n: Any, S: Any
    ) -> None: ...
    def exact_scores(self, phi: Any) -> NDArray[np.float64]: ...
