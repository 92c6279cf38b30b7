from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.structures.ground.rng import UniformStream

class RowBlocks:
    shape: tuple[int, int]
    def __init__(self, read: Callable[[slice], NDArray[np.floating]], n_rows: int) -> None: ...
    def __getitem__(self, part: slice) -> NDArray[np.floating]: ...

class RowsInPlace(RowBlocks):
    X: NDArray[np.float32]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    def __init__(
        self,
        read: Callable[[slice], NDArray[np.floating]],
        n_rows: int,
        X: NDArray[np.float32],
        centre: NDArray[np.float64],
        scale: NDArray[np.float64],
    ) -> None: ...

class RowTiles:
    @property
    def n_rows(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    def __init__(
        self, X: ArrayLike | RowBlocks, *, weight: ArrayLike | None = None, n_threads: int | None = None
    ) -> None: ...
    def take(self, rows: ArrayLike) -> NDArray[np.float64]: ...
    def seeds(
        self,
        K: int,
        rng: np.random.Generator | UniformStream,
        *,
        n_trials: int | None = None,
        n_threads: int | None = None,
    ) -> NDArray[np.intp]: ...
    def lloyd(
        self, centres: ArrayLike, *, max_passes: int = 30, tol: float = 1e-4, n_threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
    def kmeans(
        self,
        K: int,
        rng: np.random.Generator | UniformStream,
        *,
        max_passes: int = 30,
        tol: float = 1e-4,
        n_threads: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...

def nearest_centres(X: ArrayLike, centres: ArrayLike, *, n_threads: int | None = None) -> NDArray[np.int32]: ...
