from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_CLUSTERS: int
NEEDS_PASS: int

class Needs:
    least: npt.NDArray[np.float32]
    restless: tuple[int, ...]
    def __init__(self, K: int, restless: Sequence[int] = ()) -> None: ...

class KeptLists:
    N: int
    K: int
    F: int
    data: Any
    Theta: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    centre: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    means: npt.NDArray[np.float32]
    ends: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float64]
    def __init__(self, state: Any, centre: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]) -> None: ...
    def suit(self, state: Any) -> bool: ...
    def close(self) -> None: ...
    def listed(self, row: int, needs: Needs) -> npt.NDArray[np.int32] | None: ...
    def sift(
        self,
        needs: Needs,
        labels: npt.NDArray[np.int32],
        left: npt.NDArray[np.uint8],
        start: int,
        stop: int,
        seed: int,
        step: int,
        depth_weight: float,
    ) -> int: ...
