"""Repeated values of real columns, spread for a search.

A density knows no repeated values: a cluster of rows that are equal in one column is infinitely dense there. So the
posterior of rounded values, of counts taken as real, of columns with many zeros and of constant columns prefers such
clusters to all others. A search on values that are spread over what they stand for does not find them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.families.column_summaries import column_summaries
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.families.support import widened
from expfam.model.data import Dataset
from expfam.model.equal_rows import first_equal_rows
from expfam.structures.ground.rng import generator

_MOST_LOOKED_AT = 20_000  # rows in which frequent values are looked for
_COARSE = 0.01  # share of a column's variance from which that of its rounding matters
# rows a cluster of one value gains over the others log(rows of the value) / 2 nats, and it costs log(values)
_MANY_ROWS = 0.125  # share of the cube of the number of values from which rounding matters
_SHARE = 0.03  # share of a column's variance that the rows of a frequent value are given
_FREQUENT = 0.05  # share of the rows, or half of a cluster's
_FEWEST = 5  # rows of a frequent value
_BITS_OF_BOX = 12  # of a count of values: a box holds few of 20,000 distinct ones
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiples of it lie apart (Knuth, volume 3, 6.4)
_PEAK = 8  # times the rows of either neighbouring value: a value that rounding does not explain


Ties = dict[int, tuple[float, npt.NDArray[np.float64], float]]


def spread_ties(data: Dataset, n_clusters: int | None, *, seed: int, tied: Ties | None = None) -> Dataset:
    """Return data whose repeated values are spread at random, the data themselves if none are.

    Parameters
    ----------
    data : Dataset
    n_clusters : int or None
        Number of clusters that are looked for; None if it is open.
    seed : int
    tied : dict, optional
        What `tied_columns` has found.

    Returns
    -------
    Dataset
        With the same family, weights and groups.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.ties import spread_ties
    >>> values = np.random.default_rng(0).normal(size=(100, 2))
    >>> data = Dataset(np.column_stack([values[:, 0].round(), values[:, 1]]), DiagonalGaussian())
    >>> spread = spread_ties(data, 3, seed=0)
    >>> np.unique(spread.X[:, 0]).size, bool(abs(spread.X - data.X).max() <= 0.5)
    (100, True)
    >>> np.array_equal(spread.X[:, 1], data.X[:, 1])
    True

    Notes
    -----
    Of one family only dense rows of Gaussians are spread, not those that are read by their logarithms. Uniform numbers
    are added: over the resolution, where a column is rounded to more than a hundredth of its variance, or where rows
    are more than the cube of half the number of values (many rows of one value are a denser cluster than any group; a
    value counts by its rows: two random rows agree with the inverse of the number as probability), but where columns
    share one variance only if at least half of the rows are repeats of whole rows; with 0.03 of its variance, in the
    rows of a value that 5 % of the rows or half a cluster's share them, eight times as many as have the next values;
    and with 0.03 of the mean variance of the others in a constant column, unless the family leaves such columns out of
    account.

    Of a table the columns of all its Gaussian parts are spread over their resolution, however fine it is: few
    categories keep a cluster together that is one value of one column. Columns that are read by their logarithms are
    multiplied, so that they stay positive, by at most 1 + resolution / (2 x).
    """
    found = tied_columns(data, n_clusters) if tied is None else tied
    if not found:
        return data
    X = np.array(widened(data.X), order="C")
    rng = generator(seed, "start", unit=8)
    logs = {j for j, of_logs in _table_columns(data.family).items() if of_logs}
    for j, (width, values, width_of_values) in found.items():
        is_frequent, shift = np.isin(data.X[:, j], values), rng.uniform(-0.5, 0.5, data.n_rows)
        widths: npt.NDArray[np.float64]
        if j in logs:
            width = 2.0 * np.log1p(0.5 * width / data.X[:, j].astype(np.float64))
            widths = np.where(is_frequent, np.maximum(width, width_of_values), width)
            X[:, j] *= np.exp(widths * shift)
        else:
            widths = np.where(is_frequent, max(width, width_of_values), width)
            X[:, j] += widths * shift
    return Dataset(X, data.family, weight=data.weight, groups=data.groups, known=data.known)


def spread_alike(data: Dataset) -> Dataset:
    """Return data whose repeated values are spread, alike in equal rows.

    The order of the rows and a factor of the data do not matter. The number of clusters counts as open. Data of a
    family that takes sparse rows stay as they are, so that dense rows have the answer of sparse ones: where columns
    share one variance, a repeated value of a column has no infinite density.

    Parameters
    ----------
    data : Dataset

    Returns
    -------
    Dataset
        With the same family and weights; the data themselves if no values are repeated.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.ties import spread_alike
    >>> family = DiagonalGaussian().bind([[0.0], [1.0], [2.0], [1.0]])
    >>> found = spread_alike(Dataset([[0.0], [1.0], [2.0], [1.0]], family)).X
    >>> found[1] == found[3], np.array_equal(spread_alike(Dataset([[2.0], [1.0], [0.0]], family)).X[::-1], found[:3])
    (array([ True]), True)
    """
    tied = {} if isinstance(data.family, SphericalGaussian) else tied_columns(data, None)
    if not tied:
        return data
    first, row = np.unique(first_equal_rows(data.X), return_inverse=True)
    order = np.lexsort(data.X[first].T)
    distinct = Dataset(data.X[first[order]], data.family)
    place = np.argsort(order)[row]
    X = spread_ties(distinct, None, seed=0, tied=tied).X[place]
    return Dataset(X, data.family, weight=data.weight, known=data.known)


def spread_memory(data: Dataset, n_clusters: int | None, tied: Ties | None = None) -> int:
    """Return the bytes that the spread data and their making need; `tied` as for `spread_ties`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.ties import spread_memory
    >>> spread_memory(Dataset(np.arange(100.0).reshape(50, 2), DiagonalGaussian()), 3)
    0
    >>> spread_memory(Dataset(np.eye(50), DiagonalGaussian()), 3)
    21200
    """
    if not (tied_columns(data, n_clusters) if tied is None else tied):
        return 0
    of_column = 24 * data.n_rows  # numbers that are added, their widths, and which rows have frequent values
    return data.n_rows * data.n_features * widened(data.X[:1]).itemsize + of_column


def tied_columns(data: Dataset, n_clusters: int | None) -> Ties:
    """Find the columns whose repeated values `spread_ties` spreads.

    Returns
    -------
    dict of int to (float, ndarray, float)
        For each such column: the width of the random numbers that are added to all its rows, its frequent values, and
        the width for the rows that have one of these values. This last width is on the scale of the logarithm for
        columns whose logarithms the table reads.
    """
    few = data.X[:: -(-data.n_rows // _MOST_LOOKED_AT)]
    of_table = _table_columns(data.family)
    if of_table:
        ties = ((j, _tie_of_table(few[:, j], n_clusters, of_logs=of_logs)) for j, of_logs in of_table.items())
        return {j: tie for j, tie in ties if tie is not None}
    resolution = getattr(data.family, "resolution_", None)
    if resolution is None or data.is_sparse or data.family.of_logs:
        return {}
    least = _least_rows(len(few), n_clusters)
    if not (resolution > 0.0).any() and not _may_repeat(few, least):
        return {}
    ordered = np.sort(few, axis=0)
    is_frequent = (ordered[least - 1 :] == ordered[: len(ordered) - least + 1]).any(axis=0)
    if not (resolution > 0.0).any() and not is_frequent.any():
        return {}
    ordered = ordered.astype(np.float64)
    variance = np.where(ordered[0] == ordered[-1], 0.0, ordered.var(axis=0))
    if not variance.any():
        return {}
    is_whole = ~np.isnan(ordered[-1])  # missing cells are sorted to the end
    is_coarse = (resolution**2 > 12.0 * _COARSE * variance) | (
        (resolution > 0.0) & (data.n_rows > _MANY_ROWS * _n_values(ordered) ** 3) & _is_dense_value(data, few)
    )
    is_left = (variance == 0.0) & (getattr(data.family, "constant_", 0.0) > 0.0)  # the family knows such columns
    found = {}
    for j in np.flatnonzero(is_whole & (is_coarse | is_frequent) & ~is_left):
        values = _peaks(ordered[:, j], least) if is_frequent[j] else ordered[:0, j]
        width = float(resolution[j]) if is_coarse[j] else 0.0
        if width or values.size:
            typical = variance[j] or variance[variance > 0.0].mean()
            found[int(j)] = width, values, float(np.sqrt(12.0 * _SHARE * typical))
    return found


def _table_columns(family):
    """Return the real columns of a table, and whether each is read by its logarithms."""
    return family.real_columns() if hasattr(family, "real_columns") else {}


def _tie_of_table(column, n_clusters, *, of_logs):
    """Return widths and frequent values of a column of a table; None without ties."""
    ordered = np.sort(column[~np.isnan(column)]).astype(np.float64)
    if not ordered.size or ordered[0] == ordered[-1]:
        return None
    _, _, resolution = column_summaries(ordered[:, None])
    values = _peaks(ordered, _least_rows(len(column), n_clusters))
    if not values.size and not resolution[0]:
        return None
    variance = np.var(np.log(ordered)) if of_logs else ordered.var()
    return float(resolution[0]), values, float(np.sqrt(12.0 * _SHARE * variance))


def _n_values(ordered):
    """Return the number of values of each column, one over the probability that two rows agree."""
    counts = (np.diff(_begins(column), append=len(column)) for column in ordered.T)
    return np.array([1.0 / np.square(each / len(ordered)).sum() for each in counts])


def _is_dense_value(data, few):
    """Return whether many rows of one value are a dense cluster.

    Where columns share one variance, rows have to be equal in all of them: at least half of the rows are repeats.
    """
    has_one_variance = isinstance(data.family, SphericalGaussian)
    return not has_one_variance or 2 * len(np.unique(first_equal_rows(few))) <= len(few)


def _begins(ordered):
    """Return where each value of a sorted column begins."""
    return np.append(0, 1 + (ordered[1:] != ordered[:-1]).nonzero()[0])


def _least_rows(n_rows, n_clusters):
    """Return how many rows a frequent value has at least."""
    share = _FREQUENT if n_clusters is None else min(_FREQUENT, 0.5 / n_clusters)
    return min(n_rows, max(_FEWEST, int(np.ceil(share * n_rows))))


def _may_repeat(few, least):
    """Tell whether a value may occur `least` times in a column, without sorting any."""
    for column in few.T:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # both zeros have the same bits after a sum
        boxes = (bits * _ODD) >> np.uint64(64 - _BITS_OF_BOX)
        if np.bincount(boxes.view(np.int64)).max() >= least:
            return True
    return False


def _peaks(ordered, least):
    """Return the values that at least `least` rows have, and many more than the values beside."""
    first = _begins(ordered)
    values, counts = ordered[first], np.diff(first, append=len(ordered))
    beside = np.maximum(np.append(0, counts[:-1]), np.append(counts[1:], 0))
    return values[(counts >= least) & (counts >= _PEAK * beside)]
