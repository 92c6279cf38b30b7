from typing import Any

import numpy as np
import numpy.typing as npt

SCORED_DEPTH: float

class CodedScores:
    scores: Any
    column_scale: npt.NDArray[np.float64]
    def __init__(self, scores: Any, spread: npt.NDArray[np.float64]) -> None: ...

def coded_scores(state: Any) -> CodedScores | None: ...
def draw_labels(
    state: Any, n_threads: int | None, coded: CodedScores, lists: Any = None, share: int = 1
) -> tuple[npt.NDArray[np.int32], dict[str, float]]: ...
def task_rows(N: int) -> list[tuple[int, int]]: ...
def draw_left(
    state: Any,
    n_threads: int | None,
    coded: CodedScores,
    lists: Any,
    needs: Any,
    labels: npt.NDArray[np.int32],
    left: npt.NDArray[np.uint8],
) -> int: ...
def others_weight(K: int) -> float: ...
def mean_visits(state: Any, coded: CodedScores, blocks: list[tuple[int, int]]) -> npt.NDArray[np.float64]: ...
