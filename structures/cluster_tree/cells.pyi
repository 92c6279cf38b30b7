import numpy as np
from numpy.typing import ArrayLike, NDArray

class ClusterCells:
    cells: NDArray[np.void]
    order: NDArray[np.int32]
    center: NDArray[np.float64]
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    def __init__(
        self,
        Theta: ArrayLike,
        G: ArrayLike,
        log_pi: ArrayLike,
        *,
        means: ArrayLike | None = None,
        center: ArrayLike | None = None,
        spread: ArrayLike | None = None,
        is_sparse: bool = False,
        base: float = 2.0,
        leaf: int = 16,
        n_threads: int | None = None,
    ) -> None: ...
