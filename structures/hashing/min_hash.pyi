from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class WeightedMinHash:
    n_features: int
    n_tables: int
    n_hashes: int
    work_size: int
    method: str
    is_signed: bool
    seed: int
    upper: NDArray[np.float64] | None
    def __init__(
        self,
        n_features: int,
        *,
        n_tables: int = 10,
        n_hashes: int = 1,
        method: str = "icws",
        upper: ArrayLike | None = None,
        is_signed: bool = False,
        seed: int = 0,
    ) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def keys(self, X: Any, *, n_threads: int | None = None) -> NDArray[np.uint64]: ...
    def hashes(self, X: Any, *, n_threads: int | None = None) -> NDArray[np.uint64]: ...

def column_bounds(X: Any, *, is_signed: bool = False) -> NDArray[np.float64]: ...
def collision(W: Any, *, is_signed: bool = False) -> float: ...
def first_dart(A: Any, B: Any, *, is_signed: bool = False) -> float: ...
def split_probability(A: Any, B: Any, *, is_signed: bool = False) -> float: ...
