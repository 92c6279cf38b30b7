from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOSSES: tuple[str, ...]

def count_values(loss: Literal["vi", "binder", "omari"], n_rows: int) -> NDArray[np.float64]: ...
def loss_value(
    loss: Literal["vi", "binder", "omari"], C: Any, P: Any, Q: Any, n_rows: int, *, split_cost: float = 1.0
) -> Any: ...
def search_partition(
    draws: ArrayLike,
    *,
    loss: Literal["vi", "binder", "omari"] = "vi",
    split_cost: float = 1.0,
    n_starts: int = 16,
    max_clusters: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
) -> tuple[NDArray[np.int32], float]: ...
