from typing import Any

import numpy as np
from numpy.typing import NDArray

def draw_labels(state: Any, n_threads: int | None, limits: NDArray[np.int32] | None = None) -> NDArray[np.int32]: ...
def grid(offset: int, start: int, stop: int, size: int) -> list[tuple[int, int]]: ...
