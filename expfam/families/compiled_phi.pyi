from typing import Any

import numpy.typing as npt

from expfam.protocols import Floats

class CompiledPhi:
    n_features: int
    n_statistics: int
    def __call__(self, X: npt.ArrayLike) -> Floats: ...

class ColumnsPhi(CompiledPhi):
    def __init__(self, center: npt.ArrayLike) -> None: ...

def compiled_phi_of(family: Any) -> CompiledPhi | None: ...
