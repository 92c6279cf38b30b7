from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.samplers.collapsed.gibbs import Sweep
from expfam.samplers.grouped.gibbs_state import GroupedState
from expfam.samplers.nonparametric.slots import Slots
from expfam.samplers.nonparametric.weights import SharedWeights

class GroupedProcessState(GroupedState):
    shared: Slots
    def __init__(self, model: Any, data: Any, labels: ArrayLike, *, seed: int, n_steps: int = 0) -> None: ...
    @property
    def weights(self) -> SharedWeights: ...
    def set_weights(self, weights: SharedWeights) -> None: ...

class GroupedProcessSweep(Sweep):
    def __init__(self, state: GroupedProcessState, order: str) -> None: ...

def checked_labels(labels: ArrayLike, n_rows: int) -> NDArray[np.int32]: ...
