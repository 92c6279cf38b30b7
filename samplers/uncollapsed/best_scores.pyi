from typing import Any

from numpy.typing import NDArray

from expfam.protocols import Floats
from expfam.samplers.uncollapsed.dense import DenseScores

class BestScores:
    def __init__(self, scores: DenseScores) -> None: ...
