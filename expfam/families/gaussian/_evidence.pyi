from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from expfam.protocols import Floats

def of_columns(value: ArrayLike, d: int) -> Floats: ...
def posterior_of_columns(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, int]: ...
def evidence_of_columns(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, int]: ...
def evidence_by_column(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, int]: ...

class _Evidence:
    is_checked: bool
    def __call__(self, t: float) -> float: ...
    def climb(self, t: float, low: float, high: float, tol: float = 0.03) -> float: ...

class _ColumnEvidence(_Evidence):
    def __init__(
        self,
        count: Floats,
        S: Floats,
        location: ArrayLike,
        shape: ArrayLike,
        other: ArrayLike,
        base: ArrayLike,
    ) -> None: ...

class RateEvidence(_ColumnEvidence): ...
class StrengthEvidence(_ColumnEvidence): ...

class ColumnHyper:
    factors: dict[str, float]
    def __init__(
        self,
        count: Floats,
        S: Floats,
        prior: tuple[Floats, Floats, Floats, Floats],
        alike: Floats,
        factors: Mapping[str, float],
    ) -> None: ...
    def values(self, name: str) -> Floats: ...
    def set_alike(self, alike: Floats) -> bool: ...
    def measure(self) -> int: ...
    def log_odds(self, of_alike: Floats, prior: float) -> Floats: ...
    def fit(
        self, bounds: Mapping[str, Sequence[float]], of_alike: Floats, prior: float, most_rounds: int, settled: float
    ) -> bool | None: ...
    def draw(
        self, name: str, rng: np.random.Generator, low: float, high: float, otherwise: Callable[[float], float]
    ) -> None: ...

class ScaleEvidence(_Evidence):
    def __init__(self, own: Floats, dof: Floats, prior_dof: float) -> None: ...

class LocationEvidence(_Evidence):
    def __init__(self, n: Floats, q: Floats, dof: Floats, base: float, d: int) -> None: ...
