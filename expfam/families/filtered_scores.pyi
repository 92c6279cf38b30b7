import numpy as np
from numpy.typing import NDArray

from expfam.families.components import Components

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]

class FilteredScores:
    components: Components
    m: int
    d: int
    is_usable: bool
    def __init__(self, components: Components, m: int) -> None: ...
    def bounds(self, start: int, stop: int) -> _Floats: ...
    def most_probable(self, start: int, stop: int, log_mass: _Floats, labels: _Numbers) -> None: ...
    def ranked(self, start: int, stop: int, log_mass: _Floats, slots: _Numbers, margins: _Floats) -> None: ...
    def shares(self, start: int, stop: int, log_mass: _Floats, labels: _Numbers, out: NDArray[np.float32]) -> None: ...

def scores_of(components: Components, m: int, n_rows: int) -> Components | FilteredScores: ...
