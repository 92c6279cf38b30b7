from numpy.typing import ArrayLike

from expfam.protocols import Floats

def posterior_of_columns(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, int]: ...

class _Evidence:
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
