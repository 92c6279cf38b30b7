from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.samplers.uncollapsed.dense import DenseScores, Tile
from expfam.samplers.uncollapsed.kernel import UncollapsedKernel

class ExpectationState(UncollapsedState):
    log_likelihood: float
    converged: bool
    def expect(self, n_threads: int | None = None) -> int: ...

class ExpectationMaximization(UncollapsedKernel):
    tol: float
    def __init__(self, *, tol: float = 1e-4, truncation: int = 100, n_threads: int | None = None) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...

def expectation(
    scores: DenseScores, n_threads: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.int32]]: ...
def add_responsibilities(phi: Any, p: NDArray[np.float64], near: NDArray[np.float64]) -> None: ...
def expect_dense(
    s: DenseScores, tile: Tile, phi: NDArray[np.float64], weight: NDArray[np.float64], labels: NDArray[np.int32]
) -> float: ...
def expect_sparse(
    s: DenseScores,
    tile: Tile,
    phi: Any,
    weight: NDArray[np.float64],
    labels: NDArray[np.int32],
    near: NDArray[np.float64],
    n: NDArray[np.float64],
) -> float: ...
