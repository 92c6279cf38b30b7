from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.proposals.proposal import Proposal

class Int8Proposal(Proposal):
    modes: frozenset[str]
    shortlist: int
    temperature: float | str
    floor: float
    def __init__(self, *, shortlist: int = 16, temperature: float | str = "auto", floor: float = 0.01) -> None: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundInt8: ...

class BoundInt8:
    capsule: Any
    pending: BaseException | None
    is_exact: bool
    temperature: float
    def __init__(self, settings: Int8Proposal, model: Any, data: Any) -> None: ...
    def reserve(self, n_slots: int) -> None: ...
    def refresh(self, snapshot: Any) -> None: ...
    def shift(
        self,
        snapshot: Any,
        added: tuple[NDArray[np.intp], NDArray[np.intp]],
        removed: tuple[NDArray[np.intp], NDArray[np.intp]],
    ) -> None: ...
    def scores(self, i: int) -> NDArray[np.float32]: ...
    def to_arrays(self) -> dict[str, NDArray[Any]]: ...
    def from_arrays(self, arrays: Mapping[str, Any]) -> None: ...
