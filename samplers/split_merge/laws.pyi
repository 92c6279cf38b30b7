from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.samplers.split_merge.kernel import CollapsedSplitMerge

def moved_partitions(
    kernel: CollapsedSplitMerge, state: Any, starts: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
