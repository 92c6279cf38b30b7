from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

def expected_table(
    word_counts: _Floats, eta: _Floats, expected_sums: _Floats, B: NDArray[Any], shift: _Floats, start: int, stop: int
) -> None: ...
