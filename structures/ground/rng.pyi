from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

class RandomPurpose(IntEnum):
    MOVE = 1
    ACCEPT = 2
    ORDER = 3
    POSTERIOR = 4
    START = 5
    HYPER = 6
    TABLES = 7
    CHOICE = 8
    PREDICT = 9
    SUBSAMPLE = 10

def generator(seed: int, purpose: RandomPurpose | str, *, unit: int = 0, step: int = 0) -> np.random.Generator: ...
def resolve_seed(random_state: int | np.random.Generator | np.random.RandomState | None = None) -> int: ...
def stream_words(seed: int, purpose: int, unit: int, step: int, size: int) -> NDArray[np.uint64]: ...
