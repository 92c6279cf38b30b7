from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Rows = TypeVar("_Rows", bound=npt.NDArray[Any])

def copied_rows(X: _Rows, rows: npt.NDArray[np.integer]) -> _Rows: ...
