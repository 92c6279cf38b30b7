from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.samplers.hierarchy_tree import HierarchyTree
from expfam.samplers.kernel import Kernel

class OddsScores:
    capsule: Any
    components: Any
    weight: NDArray[np.float64]
    count: NDArray[np.int64]
    block: NDArray[np.float64]
    def __init__(
        self,
        model: Any,
        data: Any,
        labels: NDArray[np.int32],
        *,
        leaf_weight: NDArray[np.float64] | None,
        by_size: bool,
    ) -> None: ...
    @property
    def pending(self) -> BaseException | None: ...
    def absorb(self, k: int, l: int) -> float: ...
    def to_arrays(self) -> dict[str, Any]: ...
    def from_arrays(self, arrays: dict[str, Any]) -> None: ...

class MergeState:
    model: Any
    data: Any
    seed: int
    n_steps: int
    order: str
    n_kept: int
    stamp: int
    memory: dict[str, Any]
    leaf: NDArray[np.int32]
    leaf_weight: NDArray[np.float64]
    scores: OddsScores
    table: Any
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
        n_kept: int = 4,
        n_steps: int = 0,
    ) -> None: ...
    @classmethod
    def of_children(cls, model: Any, data: Any, children: ArrayLike) -> MergeState: ...
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
    n_kept: int
    n_merges: int
    def __init__(
        self, *, order: str = "odds", duplicates: str = "exact", n_kept: int = 4, n_merges: int = 256
    ) -> None: ...
    def init_state(self, model: Any, data: Any, labels: NDArray[np.int32], *, seed: int) -> MergeState: ...
    def move(self, state: MergeState) -> tuple[int, int, dict[str, Any]]: ...

def chain_weight(model: Any, data: Any, labels: ArrayLike) -> NDArray[np.float64]: ...
