from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.kernel import Kernel

class CollapsedGibbs(Kernel):
    order: str
    def __init__(self, *, order: str = "sequential") -> None: ...

class UncollapsedGibbs(Kernel):
    truncation: int
    n_threads: int | None
    def __init__(self, *, truncation: int = 100, n_threads: int | None = None) -> None: ...

def collapsed_sweep(state: Any, order: str) -> tuple[int, int, dict[str, Any]]: ...
def draw_labels(state: Any, n_threads: int | None) -> NDArray[np.int32]: ...
def csr_scores(phi: Any, table: NDArray[np.float64], bias: NDArray[np.float64]) -> NDArray[np.float64]: ...
def draw_rows(
    scores: NDArray[np.float64], labels: NDArray[np.int32], seed: int, step: int, first_row: int
) -> int: ...
