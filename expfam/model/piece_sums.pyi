import numpy as np
import numpy.typing as npt

def add_rows_by_label(
    table: npt.NDArray[np.float64],
    phi: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int32],
    lift: npt.NDArray[np.float64],
) -> None: ...
def move_rows_by_label(
    table: npt.NDArray[np.float64],
    phi: npt.NDArray[np.float64],
    old: npt.NDArray[np.int32],
    new: npt.NDArray[np.int32],
    lift: npt.NDArray[np.float64],
) -> None: ...
def has_whole_cells(phi: npt.NDArray[np.float64]) -> bool: ...
