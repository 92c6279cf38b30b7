from numpy.typing import ArrayLike

from expfam.protocols import Floats

def of_columns(value: ArrayLike, d: int) -> Floats: ...
def posterior_of_columns(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, int]: ...
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

class ScaleEvidence(_Evidence):
    def __init__(self, own: Floats, dof: Floats, prior_dof: float) -> None: ...

class LocationEvidence(_Evidence):
    def __init__(self, n: Floats, q: Floats, dof: Floats, base: float, d: int) -> None: ...
