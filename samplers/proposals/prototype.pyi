from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.proposals.base import Proposal
from expfam.structures.data_cells import DataCells

class PrototypeProposal(Proposal):
    modes: frozenset[str]
    data_cells: Literal["means", "tree"] | DataCells
    max_group: Literal["auto"] | int
    n_anchors: int
    floor: float
    def __init__(
        self,
        *,
        data_cells: Literal["means", "tree"] | DataCells = "means",
        max_group: Literal["auto"] | int = "auto",
        n_anchors: int = 4,
        floor: float = 0.02,
    ) -> None: ...
    def check(self, model: Any, data: Any) -> None: ...
    def largest_group(self, n_clusters: int) -> int: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundPrototype: ...

class Scratch:
    def __init__(self, n_rows: int, K: int) -> None: ...

class BoundPrototype:
    capsule: Any
    pending: BaseException | None
    n_threads: int | None
    data_cells: DataCells | None
    table_bytes: int
    def __init__(self, settings: PrototypeProposal, data: Any, seed: int) -> None: ...
    @property
    def order(self) -> NDArray[np.intp] | None: ...
    def rebind(self, model: Any) -> None: ...
    def refresh(self, snapshot: Any) -> None: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    def from_arrays(self, arrays: Mapping[str, Any]) -> None: ...
