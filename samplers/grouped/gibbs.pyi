from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.collapsed.gibbs import CollapsedGibbs

class GroupedGibbs(CollapsedGibbs):
    learn_alpha: bool
    learn_every: int
    backward: bool
    def __init__(
        self, *, order: str = "sequential", learn_alpha: bool = True, learn_every: int = 1, backward: bool = False
    ) -> None: ...
    def reversed(self) -> Any: ...
    def check(self, model: Any, data: Any) -> None: ...
    def first_labels(
        self, start: Any, model: Any, data: Any, seed: int, n_clusters: int | None
    ) -> NDArray[np.int32]: ...

def draw_alpha(state: Any) -> None: ...
