import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.int32]

def draw_topics(
    starts: NDArray[np.int64],
    words: _Numbers,
    topics: _Numbers,
    phi: _Floats,
    sums: _Floats,
    places: _Numbers,
    seed: int,
    step: int,
    first_row: int,
    start: int,
    stop: int,
    is_first: bool = False,
) -> int: ...
def count_words(words: _Numbers, topics: _Numbers, counts: NDArray[np.int64]) -> None: ...
def document_keys(starts: NDArray[np.int64], topics: _Numbers, n_topics: int, width: int) -> NDArray[np.int64]: ...
