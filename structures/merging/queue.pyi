from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

class MergeQueue:
    n_items: int
    n_kept: int
    n_live: int
    n_merges: int
    n_scores: int
    n_scans: int
    bad_k: int
    bad_l: int
    bad_rest: float
    pending: BaseException | None
    def __init__(
        self,
        n_items: int,
        partners: Callable[[int, NDArray[np.int64]], tuple[ArrayLike, ArrayLike, float]] | Any,
        *,
        n_kept: int = 4,
        n_threads: int | None = None,
    ) -> None: ...
    def best(self) -> tuple[int, int, float] | None: ...
    def merge(self, k: int, l: int) -> int: ...
    def run(
        self, absorb: Callable[[int, int], object], *, n_clusters: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def widen(self, partners: Any) -> None: ...
    @property
    def slots(self) -> NDArray[np.intp]: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    def check(self, score: Callable[[int, NDArray[np.intp]], ArrayLike]) -> None: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], partners: Any) -> MergeQueue: ...
    @classmethod
    def shifted(
        cls, arrays: dict[str, NDArray[Any]], partners: Any, shift: float, *, n_threads: int | None = None
    ) -> MergeQueue: ...
