from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from expfam.structures.hashing.sign_hash import SignHash

class SignCodes:
    hash: SignHash
    n_codes: int
    n_padded: int
    n_features: int
    exponent: int
    slope_exponent: int
    def __init__(
        self,
        hash: SignHash,
        n_codes: int,
        *,
        bound: ArrayLike,
        centre: ArrayLike | None = None,
        direction: ArrayLike | None = None,
        dots: Literal["auto", "int32", "int64"] = "auto",
    ) -> None: ...
    dots: Final[NDArray[np.int32] | NDArray[np.int64]]
    planes: Final[NDArray[np.uint64]]
    squares: Final[NDArray[np.int64]]
    norms: Final[NDArray[np.float64]]
    slopes: Final[NDArray[np.float64]]
    def code(self, k: int) -> NDArray[np.uint64]: ...
    def quantise(self, coordinates: ArrayLike, values: ArrayLike) -> NDArray[np.int32]: ...
    def update(self, k: int, coordinates: ArrayLike, *, old: ArrayLike, new: ArrayLike) -> None: ...
    def clear(self, k: int) -> None: ...
    def save_code(self, k: int) -> bytes: ...
    def restore_code(self, k: int, record: bytes) -> None: ...
    def rebuild(self, V: Any) -> None: ...
    def hamming(self, code: NDArray[np.uint64]) -> NDArray[np.int32]: ...
    def propose(
        self,
        code: NDArray[np.uint64],
        uniform: float,
        *,
        norm: float,
        bias: ArrayLike,
        factor: float = 0.0,
        table: ArrayLike | None = None,
    ) -> tuple[int, NDArray[np.float32], float]: ...
    def draws(
        self,
        codes: NDArray[np.uint64],
        uniforms: ArrayLike,
        *,
        norms: ArrayLike,
        bias: ArrayLike,
        factors: ArrayLike | None = None,
        table: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    @staticmethod
    def from_arrays(hash: SignHash, arrays: Mapping[str, NDArray[Any]]) -> SignCodes: ...
