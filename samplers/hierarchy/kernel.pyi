from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.hierarchy.tree import HierarchyTree

def has_index(family: Any, data: Any) -> bool: ...
def scores_of(family: Any, data: Any) -> type: ...

class MergeState:
    model: Any
    data: Any
    seed: int
    n_steps: int
    order: str
    stamp: int
    memory: dict[str, Any]
    leaf: NDArray[np.int32]
    leaf_weight: NDArray[np.float64]
    scores: Any
    partners: Any
    queue: Any
    children: list[tuple[int, int]]
    log_block: list[float]
    counts: list[int]
    ids: list[int]
    log_joint: float
    def __init__(
        self,
        model: Any,
        data: Any,
        labels: ArrayLike,
        *,
        seed: int,
        leaf_weight: NDArray[np.float64] | None = None,
        order: str = "odds",
        index: str | None = "exact",
        graph: Any = None,
        n_kept: int = 8,
        n_threads: int | None = None,
        n_steps: int = 0,
    ) -> None: ...
    @classmethod
    def of_children(
        cls,
        model: Any,
        data: Any,
        children: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        leaf_weight: NDArray[np.float64] | None = None,
    ) -> MergeState: ...
    def by_size(self, *, n_threads: int | None = None) -> MergeState | None: ...
    @property
    def n_clusters(self) -> int: ...
    @property
    def n_scores(self) -> int: ...
    def merge(self) -> bool: ...
    def tree(self) -> HierarchyTree: ...
    @property
    def labels(self) -> NDArray[np.int32]: ...
    @property
    def partition(self) -> NDArray[np.int32]: ...
    def statistics(self) -> tuple[NDArray[np.float64], Any]: ...
    def check(self) -> None: ...
    def to_arrays(self) -> dict[str, Any]: ...
    def from_arrays(self, arrays: dict[str, Any]) -> None: ...
    def as_type(self, state_type: type) -> Any: ...

class HierarchicalClustering(Kernel):
    order: str
    duplicates: str
    index: str | None
    candidates: Any
    n_neighbors: int
    n_kept: int
    n_merges: int
    n_threads: int | None
    def __init__(
        self,
        *,
        order: str = "auto",
        duplicates: str = "exact",
        index: str | None = "exact",
        candidates: Any = None,
        n_neighbors: int = 10,
        n_kept: int = 8,
        n_merges: int = 256,
        n_threads: int | None = None,
    ) -> None: ...
    def refuse_unused(self) -> None: ...
    def init_state(self, model: Any, data: Any, labels: NDArray[np.int32], *, seed: int) -> MergeState: ...
    def move(self, state: MergeState) -> tuple[int, int, dict[str, Any]]: ...

def chain_weight(model: Any, data: Any, labels: ArrayLike) -> NDArray[np.float64]: ...
