from typing import Any

from expfam.samplers.proposals._on_tree import OnTree
from expfam.samplers.proposals.base import Proposal

class NearestProposal(Proposal):
    modes: frozenset[str]
    k: int
    floor: float
    def __init__(self, k: int = 16, *, floor: float = 0.01) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundNearest: ...

class BoundNearest(OnTree):
    def __init__(self, settings: NearestProposal, data: Any) -> None: ...
