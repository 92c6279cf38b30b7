from typing import Any

import numpy as np
import numpy.typing as npt

class VonMisesFisherComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...

def log_bessel(nu: float, square: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
def bessel_ratio(nu: float, square: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
