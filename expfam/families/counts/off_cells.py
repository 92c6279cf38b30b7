"""Cells of categorical rows off the most frequent level of their column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.counts.categorical import Categorical
    from expfam.protocols import Floats

_BLOCK_CELLS = 1 << 20


class OffCells(NamedTuple):
    """Cells off the most frequent levels, and the pseudo-counts that belong to them.

    The levels of all columns stand side by side, and each column has one more place, of missing values.
    """

    cells: Any  # (N, F + V) CSR of ones, places ascending in each row
    column: npt.NDArray[np.int32]  # (F + V,) of each place
    prior: Floats  # (F + V,) pseudo-count of each place; that of a missing value is 0
    base: Floats  # (V,) pseudo-count of the most frequent level
    total: Floats  # (V,) sum of the pseudo-counts


def off_cells(family: Categorical, X: npt.NDArray[Any]) -> OffCells:
    """Return the cells of rows of codes (N, V) off the most frequent levels of these rows.

    The family is bound; negative codes are missing values.

    Examples
    --------
    >>> from expfam import Categorical
    >>> from expfam.families.counts.off_cells import off_cells
    >>> X = np.array([[0, 1], [0, 1], [1, 1], [0, -1]])
    >>> off_cells(Categorical(concentration=1.0).bind(X), X).cells.indices.tolist()
    [1, 5]
    """
    a, totals = family.pseudocounts()
    V = len(family.levels_)
    first = family.offsets_[:-1] + np.arange(V)  # places of the levels 0
    column = np.repeat(np.arange(V, dtype=np.int32), family.levels_ + 1)
    prior, missing = np.zeros(len(column)), first + family.levels_
    is_level = np.ones(len(column), dtype=bool)
    is_level[missing] = False
    prior[is_level] = a
    common = _most_frequent(X, family, first, missing, is_level)
    blocks = [_off_of(X[rows], common, first, missing) for rows in _blocks(X)]
    sizes = np.concatenate([[0], *(each[0] for each in blocks)])
    places = np.concatenate([each[1] for each in blocks] or [np.empty(0, np.int32)])
    cells = sparse.csr_array(
        (np.ones(len(places), dtype=np.int32), places, np.cumsum(sizes)), shape=(X.shape[0], len(column))
    )
    return OffCells(cells, column, prior, prior[common], np.ascontiguousarray(totals, dtype=np.float64))


def _blocks(X):
    step = max(1, _BLOCK_CELLS // X.shape[1])
    return [slice(start, start + step) for start in range(0, X.shape[0], step)]


def _places(X, first, missing):
    places = np.add(X, first, dtype=np.int32, casting="unsafe")
    is_missing = X < 0
    if is_missing.any():
        np.copyto(places, missing.astype(np.int32), where=is_missing)
    return places


def _most_frequent(X, family, first, missing, is_level):
    """Return the place of each column's most frequent level, the first of equal ones: (V,)."""
    counts = np.zeros(len(is_level), dtype=np.int64)
    for rows in _blocks(X):
        counts += np.bincount(_places(X[rows], first, missing).ravel(), minlength=len(counts))
    starts = np.flatnonzero(is_level)[family.offsets_[:-1]]
    found = np.empty(len(starts), dtype=np.intp)
    for n in np.unique(family.levels_):  # columns with as many levels at once
        at = np.flatnonzero(family.levels_ == n)
        found[at] = starts[at] + np.argmax(counts[starts[at][:, None] + np.arange(n)], axis=1)
    return found


def _off_of(X, common, first, missing):
    """Return how many cells each row has off the most frequent levels, and their places."""
    places = _places(X, first, missing)
    is_off = places != common
    return is_off.sum(axis=1), places[is_off]
