from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.chain.kernel import Kernel

class LinkedGibbs(Kernel):
    def init_state(self, model: Any, data: Any, labels: NDArray[np.int32], *, seed: int) -> Any: ...
    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]: ...

def linked_conditional(state: Any, g: int) -> NDArray[np.float64]: ...
