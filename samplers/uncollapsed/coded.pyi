from typing import Any

import numpy as np
import numpy.typing as npt

class CodedScores:
    scores: Any
    def __init__(self, scores: Any, spread: npt.NDArray[np.float64]) -> None: ...

def coded_scores(state: Any) -> CodedScores | None: ...
def draw_labels(
    state: Any, n_threads: int | None, coded: CodedScores
) -> tuple[npt.NDArray[np.int32], dict[str, float]]: ...
def mean_visits(state: Any, coded: CodedScores, blocks: list[tuple[int, int]]) -> npt.NDArray[np.float64]: ...
