from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.proposals.base import Proposal
from expfam.structures.hashing.sign_hash import SignHash

class HashProposal(Proposal):
    n_bits: int
    shortlist: int
    entries: str
    temperature: Literal["auto"] | float
    bound: Literal["hoeffding", "kl"] | None
    balance: bool
    floor: float
    memory_limit: int
    def __init__(
        self,
        *,
        n_bits: int = 512,
        shortlist: int = 32,
        entries: Literal["rademacher", "gaussian8"] = "rademacher",
        temperature: Literal["auto"] | float = "auto",
        bound: Literal["hoeffding", "kl"] | None = None,
        balance: bool = True,
        floor: float = 0.01,
        memory_limit: int = ...,
    ) -> None: ...
    def check(self, model: Any, data: Any) -> None: ...
    def bind(self, model: Any, data: Any, *, seed: int) -> BoundHash: ...
    def memory(self, model: Any, data: Any, n_clusters: int) -> int: ...

class BoundHash:
    capsule: Any
    pending: BaseException | None
    hash: SignHash
    is_exact: bool
    temperature: float | None
    n_threads: int | None
    def __init__(self, settings: HashProposal, model: Any, data: Any, *, seed: int) -> None: ...
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
