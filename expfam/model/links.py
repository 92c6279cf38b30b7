"""Links of rows, made from pairs of rows that belong together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError
from expfam.model.partitions import by_first_appearance

_CALL = "link_groups([(0, 1), (1, 7)], n_rows=X.shape[0])"


def link_groups(pairs: Iterable[Sequence[int]] | npt.ArrayLike, n_rows: int) -> npt.NDArray[np.int64]:
    """Return the links of rows that belong together, from pairs of rows.

    Parameters
    ----------
    pairs : (P, 2) array_like of int
        Two rows that are in one cluster; chains of pairs make one group. An array, a frame of two columns, or any
        iterable of pairs.
    n_rows : int

    Returns
    -------
    (N,) int64 ndarray
        Number of the group of each row, by first appearance; -1 for rows in no pair. It is what `Mixture.fit` takes as
        ``links=``.

    Raises
    ------
    DataError
        A pair does not have two rows, or names a row that does not exist; a DataTypeError where something is not of the
        right type. The message names the pair.

    Examples
    --------
    >>> from expfam import link_groups
    >>> link_groups([(0, 3), (3, 4)], n_rows=6)
    array([ 0, -1, -1,  0,  0, -1])
    """
    n_rows = _number_of_rows(n_rows)
    found = _pairs_of_rows(pairs)
    links = np.full(n_rows, -1)
    bad = np.flatnonzero(((found < 0) | (found >= n_rows)).any(axis=1))
    if bad.size:
        pair, last = tuple(found[bad[0]].tolist()), n_rows - 1
        rows = f"rows are the numbers 0 to {last}" if n_rows else "there are no rows"
        raise DataError(f"pair {bad[0]} is {pair}; {rows}")
    if not len(found):
        return links
    graph = sparse.coo_array((np.ones(len(found)), (found[:, 0], found[:, 1])), shape=(n_rows, n_rows))
    groups = connected_components(graph, directed=False)[1]
    paired = np.unique(found)
    links[paired] = by_first_appearance(groups[paired])[1]
    return links


def _number_of_rows(n_rows):
    is_truth = isinstance(n_rows, (bool, np.bool_))
    try:
        number = None if is_truth else operator.index(n_rows)
    except TypeError:
        number = None
    if number is None:
        what = f"{n_rows!r}" if isinstance(n_rows, (bool, float, str, type(None))) else f"a {type(n_rows).__name__}"
        raise DataTypeError(f"n_rows must be the number of all rows; got {what}: write {_CALL}")
    if number < 0:
        raise DataError(f"n_rows must be the number of all rows, at least 0; got {number}: write {_CALL}")
    return number


def _pairs_of_rows(pairs):
    """Return pairs as a (P, 2) array of integers, or refuse them."""
    if sparse.issparse(pairs):
        raise DataTypeError(
            "pairs must be pairs of rows; got a sparse matrix: write"
            " link_groups(np.argwhere(pairs.toarray()), n_rows=pairs.shape[0])"
        )
    if isinstance(pairs, (str, bytes, Mapping)) or not (hasattr(pairs, "__array__") or isinstance(pairs, Iterable)):
        raise DataTypeError(f"pairs must be pairs of rows, two rows each; got a {type(pairs).__name__}: write {_CALL}")
    given = np.asarray(pairs) if hasattr(pairs, "__array__") else list(pairs)
    if isinstance(given, np.ndarray):
        if given.size == 0:
            return np.empty((0, 2), dtype=np.int64)
        if given.ndim != 2 or given.shape[1] != 2:
            raise DataError(f"pairs must be (P, 2) integers, two rows each; got {given.dtype} of shape {given.shape}")
        if given.dtype.kind in "iu":
            return _as_signed(given)
        given = given.tolist()
    return _as_signed(np.array([_pair(place, pair) for place, pair in enumerate(given)]).reshape(-1, 2))


def _as_signed(found):
    """Return integers as int64; those beyond become its largest, which is no row either."""
    if found.dtype == object or found.dtype == np.uint64:
        limits = np.iinfo(np.int64)
        return np.clip(found.astype(object), limits.min, limits.max).astype(np.int64)
    return found.astype(np.int64)


def _pair(place, pair):
    """Return a pair as two integers."""
    is_pair = not isinstance(pair, (str, bytes, Mapping)) and (hasattr(pair, "__len__") or hasattr(pair, "__iter__"))
    rows = list(pair) if is_pair and np.ndim(getattr(pair, "shape", 0)) < 2 else [pair]
    if len(rows) != 2:
        found = f"has {counted(len(rows), 'row')}: {pair!r}" if is_pair else f"is {pair!r}"
        raise DataError(f"pairs must be (P, 2) integers, two rows each; pair {place} {found}")
    return tuple(_row(place, pair, row) for row in rows)


def _row(place, pair, row):
    """Return one row of a pair as an integer."""
    if not isinstance(row, (bool, np.bool_)):
        try:
            return operator.index(row)
        except TypeError:
            pass
    shown = tuple(getattr(pair, "tolist", lambda: pair)())
    message = f"pair {place} is {shown!r}, and {row!r} is a {type(row).__name__}, not the number of a row"
    if isinstance(row, str):
        message += (
            ": write place = {name: row for row, name in enumerate(names)}, where names has the name of each row, and"
            " link_groups([(place[a], place[b]) for a, b in pairs], n_rows=len(names))"
        )
    elif isinstance(row, (float, np.floating)) and float(row).is_integer():
        message += ": write link_groups(np.asarray(pairs).astype(int), n_rows=X.shape[0])"
    raise DataTypeError(message)
