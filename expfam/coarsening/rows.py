"""Some rows of a fit with their clusters, for questions about the clusters that need data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.samplers.geometry.drawn_rows import drawn_rows

if TYPE_CHECKING:
    from expfam.model.data import Dataset

MOST_ROWS = 5000
_FEWEST_ROWS, _MOST_BYTES = 500, 1 << 26  # fewer rows are kept where they are wide
_UNIT = 13  # stream of the purpose "start"


class KeptRows(NamedTuple):
    """Rows of a fit and their clusters.

    Attributes
    ----------
    data : Dataset
        A copy of the rows.
    labels : (N,) int32 ndarray
    """

    data: Dataset
    labels: npt.NDArray[np.int32]


def some_rows(data: Dataset, labels: npt.ArrayLike, *, seed: int) -> KeptRows:
    """Return a copy of at most about 5,000 rows that count, drawn at random, with their labels.

    Rows that take more than 64 MB are fewer, down to 500. There is a row of each cluster.

    Parameters
    ----------
    data : Dataset
        Groups of rows and what is known of them are left out.
    labels : (N,) array_like of int
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.coarsening.rows import some_rows
    >>> some_rows(Dataset(np.ones((9000, 1)), Poisson()), np.zeros(9000), seed=0).data
    Dataset(5000 x 1, float64, family='poisson')
    """
    counted = data.counted_rows
    counted = np.arange(data.n_rows) if counted is None else counted
    chosen = drawn_rows(len(counted), _n_kept(data), seed=seed, unit=_UNIT)
    labels = np.asarray(labels)
    rows = counted
    if chosen is not None:
        found, firsts = np.unique(labels[counted], return_index=True)
        missed = firsts[~np.isin(found, labels[counted[chosen]])]
        rows = counted[np.union1d(chosen, missed)]
    return KeptRows(data.without_known().take(rows), labels[rows].astype(np.int32))


def _n_kept(data):
    if data.is_sparse:
        each = (data.X.data.nbytes + data.X.indices.nbytes) / max(data.n_rows, 1)
    else:
        each = data.X.nbytes / max(data.n_rows, 1)
    return int(np.clip(_MOST_BYTES // max(each, 1.0), _FEWEST_ROWS, MOST_ROWS))
