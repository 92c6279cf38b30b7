import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

def value_of_sticks(
    mean: _Floats,
    size: _Floats,
    alpha: float,
    gamma: float,
    n_known: int,
    rising: _Floats,
    falling: float,
    n_groups: float,
    slopes: _Floats | None = None,
) -> float: ...
