from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

def label_statistics(data: Any, labels: ArrayLike, n_clusters: int) -> tuple[NDArray[np.float64], Any]: ...
