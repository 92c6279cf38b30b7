from collections.abc import Sequence
from typing import Any

from scipy import sparse

def stacked_rows(blocks: Sequence[Any], n_rows: int) -> sparse.csr_array: ...
