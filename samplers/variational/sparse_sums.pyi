from typing import Any

import numpy as np
import numpy.typing as npt

def merged_sums(S: Any, taken: Any, added: Any) -> Any: ...
def sums_of_shares(
    R: Any, phi: Any, numbers: npt.NDArray[np.int64], place: npt.NDArray[np.int32], n_columns: int
) -> Any: ...
