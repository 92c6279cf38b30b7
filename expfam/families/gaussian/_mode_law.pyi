import numpy as np
import numpy.typing as npt

from expfam.families.modes import ModeLaw
from expfam.protocols import Floats

class ColumnModeLaw(ModeLaw):
    def __init__(
        self,
        location: Floats,
        strength: Floats,
        shape: Floats,
        rate: Floats,
        own: npt.NDArray[np.intp],
        alike: npt.NDArray[np.intp],
        precision: Floats,
    ) -> None: ...
