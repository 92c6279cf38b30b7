from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Scores = Callable[[int, NDArray[np.intp]], NDArray[np.float64]]

class MergeTable:
    n_items: int
    n_kept: int
    block_size: int
    n_live: int
    n_merges: int
    n_scores: int
    n_bounds: int
    n_rescans: int
    pending: BaseException | None
    bad_k: int
    bad_l: int
    def __init__(
        self,
        n_items: int,
        score: _Scores | object,
        *,
        bound: _Scores | None = None,
        candidates: Callable[[int], ArrayLike] | None = None,
        n_kept: int = 4,
        block_size: int = 4096,
    ) -> None: ...
    @property
    def slots(self) -> NDArray[np.intp]: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    def best(self) -> tuple[int, int, float] | None: ...
    def merge(self, k: int, l: int) -> int: ...
    def run(
        self, absorb: Callable[[int, int], object] | None = None, *, n_clusters: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def check(self) -> None: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @classmethod
    def from_arrays(
        cls,
        arrays: dict[str, NDArray[Any]],
        score: _Scores | object,
        *,
        bound: _Scores | None = None,
        candidates: Callable[[int], ArrayLike] | None = None,
    ) -> MergeTable: ...

class WardScores:
    capsule: Any
    def __init__(self, X: ArrayLike, *, size: ArrayLike | None = None) -> None: ...
    def to_arrays(self) -> dict[str, NDArray[np.float64]]: ...
    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.float64]]) -> WardScores: ...
