from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class NaturalLaw:
    def __init__(self, family: Any) -> None: ...
    @staticmethod
    def knows(family: Any) -> bool: ...
    def __call__(self, n: float, S: ArrayLike) -> tuple[NDArray[np.float64], float]: ...
