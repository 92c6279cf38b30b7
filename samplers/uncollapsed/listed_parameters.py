"""Modes of parameters of counts in very many columns, without an array of all of them.

Where most sums are 0, the parameters of a column are those of an empty sum in most components, but for a level of the
component. So they are kept as the sums that are not 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.counts.natural_cells import (
    NaturalCells,
    above_by_column,
    has_natural_cells,
    log_prior_of_modes,
    natural_cells,
    natural_levels,
)
from expfam.samplers.states.storage import matrix_arrays, stored_matrix
from expfam.structures.ground.stored import numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.occurring import OccurringColumns
    from expfam.protocols import Floats

_LEAST_CELLS = 1 << 22  # parameters: fewer take little memory and time
_SPARSE_SHARE = 3  # of all sums at most a third is not 0


class ListedParameters:
    """Modes of the natural parameters of K components, from sparse sums.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) CSR

    Attributes
    ----------
    level, g : (K,) float64 ndarray
        As of `NaturalCells`.
    shape : (int, int)
        (K, F). ``numpy.asarray`` makes an array of this shape.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam import Multinomial
    >>> from expfam.samplers.uncollapsed.listed_parameters import ListedParameters
    >>> family, S = Multinomial(1.0).bind([[2, 0, 1]]), sparse.csr_array([[0.0, 0.0, 3.0]])
    >>> np.exp(np.asarray(ListedParameters(family, np.ones(1), S))).round(3)
    array([[0.167, 0.167, 0.667]])
    """

    def __init__(self, family: Any, n: Floats, S: Any) -> None:
        self.family, self.n, self.S, self.shape = family, n, S, S.shape
        self.level, self.g = natural_levels(family, n, S, mode=True)
        # each step asks for it when it has the next sums, beside which there is less room than now
        self._log_prior = log_prior_of_modes(family, n, S, (self.level, self.g))

    def cells(self) -> NaturalCells:
        """Compute the parameters at the sums that are not 0; they are not held."""
        return natural_cells(self.family, self.n, self.S, mode=True, levels=(self.level, self.g))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        empty, cells, level, _ = self.cells()
        made = np.repeat(empty[None], self.shape[0], axis=0)
        made[np.repeat(np.arange(self.shape[0]), np.diff(self.S.indptr)), self.S.indices] = cells
        made -= level[:, None]
        return made if dtype is None else made.astype(dtype, copy=False)

    def by_column(self, occurring: OccurringColumns | None) -> tuple[Floats, Any]:
        """Return the parameters of empty sums, and how much others are above.

        For these see `NaturalCells.by_column`.
        """
        return above_by_column(self.family, self.S, occurring, mode=True)

    def log_prior(self) -> Floats:
        """Return the log prior density of each component, up to a constant: (K,) nats."""
        return self._log_prior

    def to_arrays(self) -> dict[str, Any]:
        """Return the sums as a dict of arrays."""
        return {"n": self.n.copy(), "S": matrix_arrays(self.S)}

    @classmethod
    def from_arrays(cls, family: Any, arrays: dict[str, Any], shape: tuple[int, int]) -> ListedParameters:
        """Return the parameters of the arrays that `to_arrays` gave.

        Parameters
        ----------
        family : Family
            That of the run.
        arrays : dict
        shape : (int, int)
            (K, F), against which the arrays are checked.

        Raises
        ------
        ArchiveError
            The arrays have another shape, or other values than sums can have.
        """
        n = numbers(arrays, "n", shape[:1], low=0.0)
        return cls(family, n, sparse.csr_array(stored_matrix(arrays, "S", shape)))


def listed_parameters(data: Dataset, family: Any, n: Floats, S: Any) -> ListedParameters | None:
    """Return the modes of all parameters as lists, or None where these take no less memory.

    Sizes, the family and the number of sums that are not 0 decide, so parts of the rows have the same parameters.

    Parameters
    ----------
    data : Dataset
    family : Family
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray or CSR
    """
    cells = S.shape[0] * S.shape[1]
    if cells < _LEAST_CELLS or not data.has_sparse_phi or data.known is not None:
        return None
    if not has_natural_cells(family, mode=True):
        return None
    n_filled = S.count_nonzero() if sparse.issparse(S) else np.count_nonzero(S)
    if n_filled * _SPARSE_SHARE > cells:
        return None
    S = sparse.csr_array(S)
    S.eliminate_zeros()
    return ListedParameters(family, n, S)
