import numpy as np
import numpy.typing as npt

from expfam.families.modes import ModeLaw
from expfam.model.data import Dataset
from expfam.model.weights import SymmetricDirichlet
from expfam.protocols import Floats

def has_few_rows(data: Dataset, n_components: int) -> bool: ...
def may_climb_at_once(data: Dataset, n_components: int) -> bool: ...
def expectation_of_few_rows(
    data: Dataset, Theta: Floats, G: Floats, log_pi: Floats
) -> tuple[Floats, Floats, float, npt.NDArray[np.int32]]: ...
def no_score(data: Dataset, row: int) -> FloatingPointError: ...

class FewRowsClimb:
    labels: npt.NDArray[np.int32]
    log_joint: float
    converged: bool
    def __init__(
        self, law: ModeLaw, data: Dataset, labels: npt.ArrayLike, weights: SymmetricDirichlet, *, tol: float
    ) -> None: ...
    def step(self) -> int: ...
