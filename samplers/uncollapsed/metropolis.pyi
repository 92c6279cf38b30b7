from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.uncollapsed.kernel import UncollapsedKernel

class UncollapsedMetropolis(UncollapsedKernel):
    proposal: Any
    steps: int
    redraw: bool
    refresh: Literal["always", "never"] | int
    def __init__(
        self,
        proposal: Any = "prototype",
        *,
        steps: int = 2,
        redraw: bool = True,
        refresh: Literal["always", "never"] | int = "always",
        theta: Literal["draw", "map", "mean"] = "draw",
        truncation: int = 100,
        n_threads: int | None = None,
    ) -> None: ...
    def choose_proposal(self, model: Any, data: Any) -> Any: ...
    def reversed(self) -> UncollapsedMetropolis | None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def sweeper(self, state: Any) -> Any: ...
    def draw_labels(self, state: Any) -> tuple[NDArray[np.int32], dict[str, Any]]: ...
