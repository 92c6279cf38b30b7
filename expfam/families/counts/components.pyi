from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

class CountComponents:
    def __init__(
        self, family: Any, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> None: ...

def count_rows(X: Any) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[np.float64], bool, float]: ...
