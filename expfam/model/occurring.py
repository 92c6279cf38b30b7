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
    columns : (U,) int64 ndarray
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
        self.columns, self.n_columns = columns, n_columns
        self.place = np.zeros(n_columns, dtype=np.int32)
        self.place[columns] = np.arange(columns.size)

    def narrow(self, S: Any) -> Any:
        """Return CSR rows (m, F) with these columns alone, where all their entries are: (m, U)."""
        parts = (S.data, self.place[S.indices], S.indptr)
        return sparse.csr_array(parts, shape=(S.shape[0], self.columns.size))

    def widen(self, S: Any) -> Any:
        """Return CSR rows (m, U) with all columns: (m, F)."""
        columns = self.columns.astype(S.indices.dtype, copy=False)
        return sparse.csr_array((S.data, columns[S.indices], S.indptr), shape=(S.shape[0], self.n_columns))
