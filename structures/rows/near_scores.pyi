import numpy as np
import numpy.typing as npt

def may_code(n_points: int, n_columns: int) -> bool: ...

class NearScores:
    K: int
    F: int
    def __init__(
        self, theta: npt.NDArray[np.float32], c: npt.NDArray[np.float32], spread: npt.NDArray[np.floating]
    ) -> None: ...
    def score(
        self, X: npt.NDArray[np.float32], out: npt.NDArray[np.float32], scratch: NearScratch, depth: float = 30.0
    ) -> bool: ...

class NearScratch:
    n_rows: int
    n_near: int
    n_tried: int
    def __init__(self, scores: NearScores) -> None: ...
