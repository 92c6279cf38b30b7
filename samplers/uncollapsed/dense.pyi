from typing import Any

import numpy as np
from numpy.typing import NDArray

def draw_labels(state: Any, n_threads: int | None) -> NDArray[np.int32]: ...
