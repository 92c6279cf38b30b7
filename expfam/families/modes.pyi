from typing import Any

import numpy.typing as npt

from expfam.protocols import Floats

class ModeLaw:
    def mode(self, n: float, S: npt.ArrayLike) -> tuple[Floats, float]: ...
    def log_prior(self, theta: npt.ArrayLike, g: float) -> float: ...

def mode_law_of(family: Any) -> ModeLaw | None: ...
