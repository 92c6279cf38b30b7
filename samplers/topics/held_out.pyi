from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

def collapsed_counts(
    documents: tuple[Any, ...],
    B: NDArray[Any],
    alpha: _Floats,
    start: int,
    stop: int,
    n_iterations: int,
    tol: float,
    N: _Floats,
) -> None: ...
