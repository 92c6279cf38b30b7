"""Columns of sparse statistics that occur.

All others need no parameters of their own while rows are scored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset

_BLOCK = 1 << 16  # entries


def occurring_columns(data: Dataset) -> npt.NDArray[np.int64]:
    """Return the columns of CSR statistics that have an entry in any row, ascending.

    Parameters
    ----------
    data : Dataset

    Examples
    --------
    >>> from scipy import sparse
    >>> from expfam import Dataset, Multinomial
    >>> from expfam.model.occurring import occurring_columns
    >>> occurring_columns(Dataset(sparse.csr_array([[0, 2, 0], [1, 1, 0]]), Multinomial())).tolist()
    [0, 1]
    """
    occurs = np.zeros(data.n_statistics, dtype=bool)
    occurs[data.phi_csr(0, data.n_rows).indices] = True
    return np.flatnonzero(occurs)


class OccurringColumns:
    """Numbers of some columns among each other.

    Parameters
    ----------
    columns : (U,) int64 ndarray
        Ascending.
    n_columns : int
        F, of all.

    Attributes
    ----------
    columns : (U,) int ndarray
        int32 where all numbers fit.
    place : (F,) int32 ndarray
        Number of each column; 0 for those that do not occur.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam.model.occurring import OccurringColumns
    >>> chosen, S = OccurringColumns(np.array([1, 3]), 4), sparse.csr_array([[0, 5, 0, 7]])
    >>> chosen.narrow(S).toarray().tolist(), chosen.widen(chosen.narrow(S)).toarray().tolist()
    ([[5, 7]], [[0, 5, 0, 7]])
    """

    def __init__(self, columns: npt.NDArray[np.int64], n_columns: int) -> None:
        self.columns = columns.astype(np.int32) if n_columns <= np.iinfo(np.int32).max else columns
        self.n_columns = n_columns
        self.place = np.zeros(n_columns, dtype=np.int32)
        self.place[columns] = np.arange(columns.size)

    def narrow(self, S: Any) -> Any:
        """Return CSR rows (m, F) with these columns alone, where all their entries are: (m, U)."""
        parts = (S.data, self.place[S.indices], S.indptr)
        return sparse.csr_array(parts, shape=(S.shape[0], self.columns.size))

    def widen(self, S: Any, *, in_place: bool = False) -> Any:
        """Return CSR rows (m, U) with all columns: (m, F).

        With `in_place` the numbers of the columns are written over those of `S`, which is of no more use.
        """
        indices = S.indices if in_place else np.empty_like(S.indices)
        for first in range(0, len(indices), _BLOCK):
            block = slice(first, first + _BLOCK)
            indices[block] = self.columns[S.indices[block]]
        return sparse.csr_array((S.data, indices, S.indptr), shape=(S.shape[0], self.n_columns))
