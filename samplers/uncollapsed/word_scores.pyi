from typing import Any

from expfam.model.occurring import OccurringColumns
from expfam.protocols import Floats
from expfam.samplers.uncollapsed.dense import DenseScores
from expfam.samplers.uncollapsed.listed_parameters import ListedParameters

def scores_of(data: Any, state: Any, occurring: OccurringColumns | None = None) -> DenseScores: ...

class WordScores(DenseScores):
    def __init__(
        self, data: Any, parameters: ListedParameters, log_pi: Floats, occurring: OccurringColumns | None
    ) -> None: ...
