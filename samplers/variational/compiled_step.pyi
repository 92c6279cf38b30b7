from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.families.dense_source import DenseSource
from expfam.structures.ground.team import Team

class CompiledStep:
    found: NDArray[np.float64]
    def __init__(
        self,
        source: DenseSource,
        rows: slice | NDArray[np.integer],
        theta: NDArray[Any],
        c: NDArray[Any],
        weight: NDArray[np.float64] | None,
        *,
        n_active: int,
        n_block: int,
        n_parts: int,
        step: int,
        labels: NDArray[np.int32],
        kept: tuple[NDArray[np.int32], NDArray[Any]] | None,
        sums: Any,
        n_threads: int,
    ) -> None: ...
    def run(self, team: Team, *, most_products: int) -> int: ...
