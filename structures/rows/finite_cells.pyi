import numpy as np
import numpy.typing as npt

from expfam.structures.ground.team import Team

def are_finite(cells: npt.NDArray[np.floating], *, may_miss: bool = False, team: Team | None = None) -> bool: ...
