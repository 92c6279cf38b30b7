from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.structures.hashing.sign_hash import SignHash

class BoundHash:
    capsule: Any
    pending: BaseException | None
    hash: SignHash
    is_exact: bool
    temperature: float | None
    n_threads: int | None
    def __init__(self, settings: Any, model: Any, data: Any, *, seed: int) -> None: ...
    def refresh(self, snapshot: Any) -> None: ...
    def shift(
        self,
        snapshot: Any,
        added: tuple[NDArray[np.intp], NDArray[np.intp]],
        removed: tuple[NDArray[np.intp], NDArray[np.intp]],
    ) -> None: ...
    def reserve(self, n_slots: int) -> None: ...
    def release(self) -> None: ...
    def export(self) -> dict[str, NDArray[Any]]: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None: ...

def layout(model: Any, data: Any) -> str: ...
