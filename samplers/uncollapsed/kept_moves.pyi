from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.uncollapsed.kept_lists import Needs

class Moves:
    fits: bool
    def __init__(
        self, lists: Any, Theta: npt.NDArray[np.float64], bias: npt.NDArray[np.float64], depth: float
    ) -> None: ...
    def compute(self, n_threads: int | None) -> Needs: ...
    def compute_restless(self, n_threads: int | None) -> Needs | None: ...
