import numpy as np
import numpy.typing as npt

from expfam.structures.ground.team import Team

def drawn_rows(first: int, stop: int, share: float) -> npt.NDArray[np.intp]: ...
def repeats(
    rows: npt.NDArray[np.float32] | npt.NDArray[np.float64],
    numbers: npt.NDArray[np.intp] | None,
    columns: npt.NDArray[np.intp],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    enough: npt.NDArray[np.float64],
    team: Team | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
