from typing import Any

from expfam.samplers.proposals._on_tree import OnTree
from expfam.samplers.proposals.base import Proposal

class CoverTreeProposal(Proposal):
    modes: frozenset[str]
    level: int | None
    floor: float
    def __init__(self, level: int | None = None, *, floor: float = 0.02) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundCoverTree: ...

class BoundCoverTree(OnTree):
    n_groups: int
    def __init__(self, settings: CoverTreeProposal, data: Any) -> None: ...
