"""Log evidences of clusters under a separable family, for merges of clusters.

Let A(n, S) = a(n, S.) + sum_w f(w, S_w) with f(w, 0) = 0. Then the evidence of two clusters together differs from the
two sums over w only in the columns that both have. Clusters of text have few words in common: of 204 clusters of
snippets two share 32 words of 4709, and each has 249. A call costs O(stored entries), a term of f for each shared one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse


class SeparableStatistics:
    """Evidences of clusters from their statistics, with the methods of components.

    Parameters
    ----------
    family : Family
        Bound; `family.separable()` is not None.
    n : (B,) array of float64
    S : (B, F) ndarray or CSR

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Multinomial
    >>> from expfam.samplers.starts.separable import SeparableStatistics
    >>> family = Multinomial(concentration=1.0).bind([[2, 0], [1, 1]])
    >>> clusters = SeparableStatistics(family, np.array([1.0, 1.0]), np.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> clusters.log_merged(0, np.array([1])).round(6)
    array([-2.995732])
    """

    def __init__(self, family: Any, n: npt.ArrayLike, S: Any) -> None:
        self._of_total, self._of_column = family.separable()
        S = sparse.csr_array(S, dtype=np.float64, copy=True)
        S.sum_duplicates()
        S.eliminate_zeros()
        self.n, self.n_columns = np.array(n, dtype=np.float64), S.shape[1]
        self.total = np.asarray(S.sum(axis=1), dtype=np.float64).ravel()
        # entries of all clusters; those of one cluster by ascending column, so that a pair has one sum from both sides
        self._slot = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
        self._column, self._value = S.indices.astype(np.intp), S.data
        self._term = self._of_column(self._column, self._value)
        self._terms = np.bincount(self._slot, weights=self._term, minlength=len(self.n))

    def log_marginal(self, slots: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the log evidence of each slot: (m,) nats."""
        slots = np.asarray(slots)
        return self._of_total(self.n[slots], self.total[slots]) + self._terms[slots]

    def log_merged(self, k: int, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Return the log evidence of slot k together with each of the others: (m,) nats."""
        mine = np.flatnonzero(self._slot == k)
        value, term = np.zeros(self.n_columns), np.zeros(self.n_columns)
        value[self._column[mine]], term[self._column[mine]] = self._value[mine], self._term[mine]
        place = np.full(len(self.n), -1)
        place[slots] = np.arange(len(slots))
        shared = np.flatnonzero(value[self._column])
        shared = shared[place[self._slot[shared]] >= 0]
        column = self._column[shared]
        change = self._of_column(column, self._value[shared] + value[column]) - (self._term[shared] + term[column])
        together = np.bincount(place[self._slot[shared]], weights=change, minlength=len(slots))
        of_total = self._of_total(self.n[k] + self.n[slots], self.total[k] + self.total[slots])
        return of_total + (self._terms[k] + self._terms[slots]) + together

    def absorb(self, k: int, other: int) -> None:
        """Add the data of slot `other` to slot k; nothing is left in the other one."""
        for array in (self.n, self.total):
            array[k] += array[other]
            array[other] = 0.0
        both = (self._slot == k) | (self._slot == other)
        column, of_entry = np.unique(self._column[both], return_inverse=True)
        value = np.bincount(of_entry, weights=self._value[both])
        term = self._of_column(column, value)
        self._terms[k], self._terms[other] = term.sum(), 0.0
        self._slot = np.append(self._slot[~both], np.full(len(column), k))
        self._column = np.append(self._column[~both], column)
        self._value, self._term = np.append(self._value[~both], value), np.append(self._term[~both], term)
