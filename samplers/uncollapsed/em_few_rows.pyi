import numpy as np
from numpy.typing import NDArray

from expfam.model.data import Dataset

def has_few_rows(data: Dataset, n_components: int) -> bool: ...
def expectation_of_few_rows(
    data: Dataset, Theta: NDArray[np.float64], G: NDArray[np.float64], log_pi: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.int32]]: ...
