from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike, NDArray

from expfam.structures.cluster_tree.tree import ClusterTree

class OnTree:
    capsule: Any
    pending: BaseException | None
    tree: ClusterTree
    def __init__(
        self, data: Any, floor: float, rows: ArrayLike | None = None, row_of: ArrayLike | None = None
    ) -> None: ...
    def refresh(self, snapshot: Any) -> None: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    def from_arrays(self, arrays: Mapping[str, Any]) -> None: ...
