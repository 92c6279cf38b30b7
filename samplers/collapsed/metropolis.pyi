from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.chain.kernel import Kernel

_Mode = Literal["auto", "crossfit", "removed", "included", "frozen", "published", "asynchronous"]

class CollapsedMetropolis(Kernel):
    proposal: Any
    mode: _Mode
    n_blocks: int | Literal["auto"]
    n_threads: int | None
    def __init__(
        self,
        proposal: Any,
        *,
        mode: _Mode = "auto",
        n_blocks: int | Literal["auto"] = "auto",
        n_threads: int | None = None,
    ) -> None: ...
    def choose_proposal(self, model: Any, data: Any) -> Any: ...
    def choose_mode(self, model: Any, data: Any) -> str: ...
    def check(self, model: Any, data: Any) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def init_state(self, model: Any, data: Any, labels: NDArray[np.int32], *, seed: int) -> Any: ...
    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]: ...
    def worker(self, state: Any, mode: str) -> Any: ...
    def blocks(self, state: Any, owner: Any = None) -> int: ...
