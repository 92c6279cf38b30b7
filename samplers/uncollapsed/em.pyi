from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.model.data import Dataset
from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.samplers.uncollapsed.kernel import UncollapsedKernel
from expfam.samplers.uncollapsed.soft_sums import Bounds, Sizes, SoftSums

class ExpectationState(UncollapsedState):
    log_likelihood: float
    converged: bool
    def expect(self, n_threads: int | None = None) -> int: ...
    def _begin(self, sums: Any) -> None: ...
    def _take_first(self, n: npt.NDArray[np.float64], S: Any) -> None: ...
    def _take_soft(self, n: Any, S: Any, log_likelihood: float) -> None: ...

class ExpectationMaximization(UncollapsedKernel):
    tol: float
    def __init__(self, *, tol: float = 1e-3, truncation: int = 100, n_threads: int | None = None) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...

def sizes_of(data: Any, n_components: int) -> Sizes: ...
def expected_rows(
    data: Dataset,
    state: Any,
    sizes: Sizes,
    bounds: Bounds,
    n_threads: int | None,
    start: int,
    stop: int,
    labels: npt.NDArray[np.int32],
    *,
    is_summed: bool = True,
) -> SoftSums: ...
