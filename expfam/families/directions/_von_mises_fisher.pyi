from typing import Any

import numpy as np
import numpy.typing as npt

class VonMisesFisherComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...

def log_bessel(nu: float, square: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
def bessel_ratio(nu: float, square: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
def log_evidence_of_angles(
    n: npt.NDArray[np.float64],
    S: npt.NDArray[np.float64],
    kappa: npt.NDArray[np.float64],
    log_weight: npt.NDArray[np.float64],
    mean: npt.NDArray[np.float64],
    strength: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]: ...
