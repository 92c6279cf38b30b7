from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from expfam.protocols import BoundProposal
from expfam.samplers.proposals.base import Proposal

class CellProposal(Proposal):
    modes: frozenset[str]
    floor: float
    def __init__(self, *, floor: float = 0.02) -> None: ...
    def groups(self, data: Any) -> NDArray[np.intp]: ...
    def probabilities(self, snapshot: Any) -> NDArray[np.float64] | sparse.csr_array | sparse.csr_matrix: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundProposal: ...
