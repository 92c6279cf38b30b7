from typing import Any

from expfam.protocols import BoundProposal
from expfam.samplers.proposals.base import Proposal

class Int8Proposal(Proposal):
    modes: frozenset[str]
    shortlist: int
    temperature: float | str
    floor: float
    def __init__(self, *, shortlist: int = 16, temperature: float | str = "auto", floor: float = 0.01) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def check(self, model: Any, data: Any) -> None: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundProposal: ...
