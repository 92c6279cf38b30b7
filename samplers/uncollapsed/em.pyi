from typing import Any

from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.samplers.uncollapsed.kernel import UncollapsedKernel

class ExpectationState(UncollapsedState):
    log_likelihood: float
    converged: bool
    def expect(self, n_threads: int | None = None) -> int: ...

class ExpectationMaximization(UncollapsedKernel):
    tol: float
    def __init__(self, *, tol: float = 1e-3, truncation: int = 100, n_threads: int | None = None) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
