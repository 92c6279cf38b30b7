import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]

def draw_topics(
    starts: NDArray[np.int64],
    words: _Numbers,
    topics: _Numbers,
    phi: _Floats,
    alpha: _Floats,
    seed: int,
    step: int,
    first_row: int,
    is_first: bool = False,
) -> int: ...
