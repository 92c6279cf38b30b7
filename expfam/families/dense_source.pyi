from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.families.compiled_phi import CompiledPhi

class DenseSource:
    def __init__(self, X: NDArray[np.floating], compiled: CompiledPhi, origin: NDArray[np.float64] | None) -> None: ...
    def fill(self, rows: slice | NDArray[np.integer], out: NDArray[Any]) -> None: ...

def dense_source(family: Any, X: Any, origin: NDArray[np.float64] | None) -> DenseSource | None: ...
