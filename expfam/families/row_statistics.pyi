from typing import Any

import numpy.typing as npt

from expfam.protocols import Floats

class RowStatistics:
    pending: BaseException | None
    def __init__(self, owner: Any, data: Any) -> None: ...
    def added(self, i: int, sign: float, S: npt.ArrayLike) -> Floats: ...
