from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.model.occurring import OccurringColumns
from expfam.protocols import Floats
from expfam.samplers.uncollapsed.dense import DenseScores
from expfam.samplers.uncollapsed.listed_parameters import ListedParameters

def scores_of(data: Any, state: Any, occurring: OccurringColumns | None = None) -> DenseScores: ...
def largest_of_lists(
    starts: npt.NDArray[np.integer], values: Floats, step: float, out: npt.NDArray[np.uint16]
) -> None: ...

class WordScores(DenseScores):
    def __init__(
        self, data: Any, parameters: ListedParameters, log_pi: Floats, occurring: OccurringColumns | None
    ) -> None: ...
