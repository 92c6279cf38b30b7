from typing import Any

import numpy as np
from numpy.typing import NDArray

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
