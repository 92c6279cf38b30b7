from numpy.typing import ArrayLike

from expfam.protocols import Floats

def posterior_of_full(
    n: Floats, S: Floats, location: Floats, strength: float, scale: Floats
) -> tuple[Floats, Floats, Floats]: ...
def modes_of_full(
    n: Floats, S: Floats, location: Floats, strength: float, scale: Floats, dof: float
) -> tuple[Floats, Floats, int]: ...
def log_prior_of_full(theta: Floats, location: Floats, strength: float, scale: Floats, dof: float) -> Floats: ...
def modes_of_columns(
    count: Floats, S: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> tuple[Floats, Floats, int]: ...
def log_prior_of_columns(
    theta: Floats, location: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> Floats: ...
