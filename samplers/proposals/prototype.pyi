from typing import Any, Literal

from expfam.protocols import BoundProposal
from expfam.samplers.proposals.base import Proposal
from expfam.structures.rows.data_cells import DataCells

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
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundProposal: ...
