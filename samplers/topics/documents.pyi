import numpy as np
from numpy.typing import NDArray

def draw_topics(
    starts: NDArray[np.int64],
    words: NDArray[np.int32],
    topics: NDArray[np.int32],
    phi: NDArray[np.float64],
    alpha: NDArray[np.float64],
    seed: int,
    step: int,
    first_row: int,
    is_first: bool = False,
) -> int: ...
