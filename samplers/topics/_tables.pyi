from typing import Any

import numpy as np
from numpy.typing import NDArray

def expected_table(
    word_counts: NDArray[np.float64],
    eta: NDArray[np.float64],
    expected_sums: NDArray[np.float64],
    B: NDArray[Any],
    shift: NDArray[np.float64],
    start: int,
    stop: int,
) -> None: ...
