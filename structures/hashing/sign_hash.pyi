from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

class SignHash:
    n_bits: int
    n_words: int
    n_bits_asked: int
    entries: str
    seed: int
    largest_entry: int
    def __init__(
        self, n_bits: int, *, entries: Literal["rademacher", "gaussian8"] = "rademacher", seed: int = 0
    ) -> None: ...
    def matrix(self, coordinates: ArrayLike) -> NDArray[np.int32]: ...
    def tie_bits(self, owners: ArrayLike) -> NDArray[np.uint64]: ...
    def project(self, X: Any, *, scale: ArrayLike | None = None, n_threads: int | None = 1) -> NDArray[np.float64]: ...
    def codes(
        self,
        X: Any,
        *,
        scale: ArrayLike | None = None,
        centre: ArrayLike | None = None,
        factor: ArrayLike | None = None,
        first_row: int = 0,
        n_threads: int | None = 1,
    ) -> NDArray[np.uint64]: ...
    def angle(self, h: ArrayLike) -> Any: ...
