from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.structures.cluster_tree.cells import ClusterCells

class Scratch:
    def __init__(self, owner: ClusterTree) -> None: ...

class ClusterTree(ClusterCells):
    def draw(
        self,
        phi: Any,
        *,
        seed: int,
        step: int = 0,
        first_row: int = 0,
        labels: ArrayLike | None = None,
        tau: float = 12.0,
        method: Literal["tree", "rejection"] = "tree",
        scratch: Scratch | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def bounds(self, phi: Any) -> NDArray[np.float64]: ...
    def members(self, cell: int) -> NDArray[np.int32]: ...
    def children(self, cell: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]: ...

def smoothed_means(
    n: ArrayLike, S: Any, Theta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
