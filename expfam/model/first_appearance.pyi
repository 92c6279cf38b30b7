import numpy as np
from numpy.typing import NDArray

def renumbered(labels: NDArray[np.int32] | NDArray[np.int64], n_slots: int) -> tuple[int, NDArray[np.int32]]: ...
