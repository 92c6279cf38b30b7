from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.structures.cover_tree.tree import CoverTree

class DataCells:
    group: NDArray[np.intp]
    indptr: NDArray[np.intp]
    members: NDArray[np.intp]
    prototype: NDArray[np.float64] | None
    radius: NDArray[np.float64] | None
    n_groups: int
    def __init__(self, group: ArrayLike, *, phi: ArrayLike | None = None, n_threads: int | None = None) -> None: ...
    @classmethod
    def from_tree(
        cls, tree: CoverTree, max_group: int, *, phi: ArrayLike | None = None, n_threads: int | None = None
    ) -> DataCells: ...
    @classmethod
    def from_labels(
        cls, labels: ArrayLike, *, phi: ArrayLike | None = None, n_threads: int | None = None
    ) -> DataCells: ...
    @classmethod
    def from_duplicates(cls, X: Any, *, phi: ArrayLike | None = None, n_threads: int | None = None) -> DataCells: ...
    @property
    def sizes(self) -> NDArray[np.intp]: ...
    def _drawn_members(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]: ...
    def __len__(self) -> int: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> DataCells: ...
