from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.uncollapsed.metropolis import UncollapsedMetropolis

def update_law(kernel: UncollapsedMetropolis, state: Any, i: int, *, is_fresh: bool = True) -> NDArray[np.float64]: ...
