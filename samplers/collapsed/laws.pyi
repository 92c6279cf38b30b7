from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.collapsed.metropolis import CollapsedMetropolis

def update_law(
    kernel: CollapsedMetropolis, state: Any, i: int, *, rows: NDArray[np.intp] | None = None, snapshot: Any = None
) -> dict[int, float]: ...
