from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.uncollapsed.kernel import UncollapsedKernel

class MetropolisSweep:
    handle: Any
    model: Any
    snapshot: Any
    def __init__(self, state: Any, proposal: Any) -> None: ...
    def to_arrays(self) -> dict[str, Any]: ...
    def from_arrays(self, arrays: dict[str, Any]) -> None: ...
    def adopt(self, state: Any, proposal: Any) -> None: ...
    def refresh(self, snapshot: Any, keep: bool) -> None: ...
    def sweep(
        self, state: Any, n_steps: int, n_threads: int | None, *, redraw: bool = False
    ) -> tuple[NDArray[np.int32], int, int]: ...

class Room:
    def __init__(self, sweeper: MetropolisSweep) -> None: ...

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
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def sweeper(self, state: Any) -> MetropolisSweep: ...
    def draw_labels(self, state: Any) -> tuple[NDArray[np.int32], dict[str, Any]]: ...

def held_bytes(data: Any) -> int: ...
