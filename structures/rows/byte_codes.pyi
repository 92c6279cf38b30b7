import numpy as np
import numpy.typing as npt

MOST_COLUMNS: int
LEAST_COLUMNS: int
LEAST_POINTS: int

def has_byte_products() -> bool: ...
def suits_codes(n_points: int, n_columns: int, *, is_soft: bool = False) -> bool: ...
def column_scales(reach: npt.NDArray[np.floating], spread: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]: ...

class CodedRows:
    room: int
    d: int
    def __init__(self, n_rows: int, d: int) -> None: ...

class CodedPoints:
    m: int
    d: int
    width: int
    def __init__(self, m: int, d: int) -> None: ...

class ScoredPoints(CodedPoints): ...

def coded_products(
    X: npt.NDArray[np.float32], W: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]: ...
