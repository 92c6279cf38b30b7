from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def are_few_rows(model: Any, data: Any, n_clusters: int) -> bool: ...

class FewRows:
    n: NDArray[np.float64]
    def __init__(self, model: Any, data: Any, n_clusters: int) -> None: ...
    def load(self, labels: NDArray[np.int32]) -> None: ...
    def log_joint(self) -> float: ...
    def most_probable(self) -> NDArray[np.int32]: ...
    def climb(
        self,
        labels: NDArray[np.int32],
        max_passes: int,
        *,
        hold: Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.int32]] | None = None,
        known: Callable[[NDArray[np.int32]], bool] | None = None,
        least: float = ...,
        hope: float = 0.0,
        least_rise: float = 0.0,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], bool, bool]: ...
    def log_predictive(self, data: Any, rows: NDArray[np.integer], k: int) -> NDArray[np.float64]: ...

def first_lost(before: NDArray[np.int32], after: NDArray[np.int32], n_clusters: int) -> int: ...
