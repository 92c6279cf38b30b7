from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST: float

def dense_scores(
    phi: npt.NDArray[np.float64],
    table: npt.NDArray[np.float64],
    origin: npt.NDArray[np.float64],
    row: npt.NDArray[np.int32],
) -> npt.NDArray[np.float64]: ...
def sparse_scores(
    phi: Any, table: npt.NDArray[np.float64], origin: npt.NDArray[np.float64], row: npt.NDArray[np.int32]
) -> npt.NDArray[np.float64]: ...
def log_sides(scores: npt.NDArray[np.float64], sides: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]: ...
