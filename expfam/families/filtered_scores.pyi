import numpy as np
from numpy.typing import NDArray

from expfam.families.components import Components

class FilteredScores:
    components: Components
    m: int
    d: int
    is_usable: bool
    def __init__(self, components: Components, m: int) -> None: ...
    def bounds(self, start: int, stop: int) -> NDArray[np.float64]: ...
    def most_probable(
        self, start: int, stop: int, log_mass: NDArray[np.float64], labels: NDArray[np.int32]
    ) -> None: ...
    def ranked(
        self,
        start: int,
        stop: int,
        log_mass: NDArray[np.float64],
        slots: NDArray[np.int32],
        margins: NDArray[np.float64],
    ) -> None: ...
    def shares(
        self,
        start: int,
        stop: int,
        log_mass: NDArray[np.float64],
        labels: NDArray[np.int32],
        out: NDArray[np.float32],
    ) -> None: ...

def scores_of(components: Components, m: int, n_rows: int) -> Components | FilteredScores: ...
