from typing import Any

import numpy.typing as npt

from expfam.protocols import Floats

class NaturalLaw:
    is_compiled: bool
    pending: BaseException | None
    def __call__(self, n: float, S: npt.ArrayLike) -> tuple[Floats, float]: ...

def natural_law_of(family: Any) -> NaturalLaw: ...
