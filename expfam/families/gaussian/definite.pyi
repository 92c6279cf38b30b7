import numpy as np
from numpy.typing import NDArray

def invert_definite(M: NDArray[np.float64], log_dets: NDArray[np.float64]) -> int: ...
