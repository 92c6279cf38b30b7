from typing import Any

import numpy as np
import numpy.typing as npt

class Moves:
    need: npt.NDArray[np.float32]
    fits: bool
    def __init__(
        self, lists: Any, Theta: npt.NDArray[np.float64], bias: npt.NDArray[np.float64], depth: float
    ) -> None: ...
    def compute(self, n_threads: int | None) -> npt.NDArray[np.float32]: ...
