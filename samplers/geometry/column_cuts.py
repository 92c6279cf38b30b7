"""Cuts of a single column, in two or into several segments, that tell most about the rows.

A row of groups along one column, at equal distances, is no two groups: no single cut of the column pays, and columns of
noise beside it lead k-means astray. All segments of a column at once are found by dynamic programming.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.samplers.geometry.cut_gains import best_gain

_LEAST_SHARE = 0.005  # of the rows, on either side
_FLOOR = 1e-3  # share of a column's variance that a side or segment keeps at least
_COLUMNS_AT_ONCE = 16  # a few arrays of this many columns are held
_BINS = 64  # of about equally many rows; segments begin and end with them
_PASSES = 10  # of k-means in one column, which mends the ends of the segments
_MOST_COLUMNS = 16  # those of the lightest tails, as groups along a column have
_COST = 1.5  # times the log of the number of rows: a mean, a variance and a share for each further segment


class ColumnCut(NamedTuple):
    """Rows whose value in `column` is at least `threshold` are on the upper side.

    Attributes
    ----------
    column : int
    threshold : float
    gain : float
        Nats by which two normal densities with their shares explain the column better than one.
    """

    column: int
    threshold: float
    gain: float


def best_cut(points: npt.NDArray[np.float64], weight: npt.NDArray[np.float64] | None = None) -> ColumnCut | None:
    """Return the cut of one column in two that gains most; None where no column can be cut.

    Parameters
    ----------
    points : (N, C) float64 ndarray
        Finite.
    weight : (N,) float64 ndarray, optional
        Above 0; how often each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.geometry.column_cuts import best_cut
    >>> points = np.array([[0.0, 1.0], [0.1, 3.0], [0.2, 1.5], [0.3, 2.5], [9.0, 1.1], [9.1, 2.9], [9.2, 2.0]])
    >>> cut = best_cut(points)
    >>> cut.column, cut.threshold
    (0, 9.0)

    Notes
    -----
    All cuts of a column are compared by running sums of its sorted values, O(N log N) a column. Equal values are never
    cut apart. Either side has at least 0.5 % of the rows.
    """
    n = len(points) if weight is None else float(weight.sum())
    least = max(2, int(np.ceil(_LEAST_SHARE * n)))
    if n < 2 * least or not points.shape[1]:
        return None
    blocks = range(0, points.shape[1], _COLUMNS_AT_ONCE)
    cuts = [_best_of(points[:, start : start + _COLUMNS_AT_ONCE], weight, start, least) for start in blocks]
    found = max(cuts, key=lambda cut: cut.gain)
    return found if np.isfinite(found.gain) else None


def _best_of(block, weight, start, least):
    """Return the best cut of some columns, of which `start` is the number of the first."""
    if weight is None:
        ordered = np.sort(np.asarray(block, dtype=np.float64), axis=0)
        mean = np.ascontiguousarray(ordered.sum(axis=0) / float(len(block)))
        place, column, gain = best_gain(ordered, mean, least, _FLOOR)
        return ColumnCut(start + column, float(ordered[place + 1, column]), gain)
    n, order = float(weight.sum()), np.argsort(block, axis=0, kind="stable")
    ordered, mass = np.take_along_axis(block, order, axis=0), weight[order]
    low = np.cumsum(mass, axis=0)[:-1]  # rows on the lower side of each cut
    centred = ordered - (mass * ordered).sum(axis=0) / n
    sums, squares = np.cumsum(mass * centred, axis=0), np.cumsum(mass * centred**2, axis=0)
    variance, high = squares[-1] / n, n - low
    with np.errstate(divide="ignore", invalid="ignore"):
        of_low = (squares[:-1] - sums[:-1] ** 2 / low) / low
        of_high = (squares[-1] - squares[:-1] - (sums[-1] - sums[:-1]) ** 2 / high) / high
        apart = low * np.log(np.maximum(of_low, _FLOOR * variance)) + high * np.log(
            np.maximum(of_high, _FLOOR * variance)
        )
        shares = low * np.log(low / n) + high * np.log(high / n)
        gain = 0.5 * (n * np.log(variance) - apart) + shares
    gain[(ordered[:-1] == ordered[1:]) | (low < least) | (high < least)] = -np.inf
    gain[:, ~(variance > 0.0)] = -np.inf
    place, column = np.unravel_index(np.argmax(gain), gain.shape)
    return ColumnCut(start + int(column), float(ordered[place + 1, column]), float(gain[place, column]))


# ---- several segments ------------------------------------------------------------------------------------------------


class ColumnSegments(NamedTuple):
    """Segments of the values of one column.

    Attributes
    ----------
    column : int
    labels : (N,) int32 ndarray
        Segment of each row, from the lowest values on.
    gain : float
        Nats by which normal densities of the segments with their shares explain the column better than one.
    """

    column: int
    labels: npt.NDArray[np.int32]
    gain: float


def best_segments(
    points: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64] | None = None,
    *,
    n_segments: int | None = None,
    most: int = 16,
) -> ColumnSegments | None:
    """Return the segments of one column that gain most; None where none pay.

    Parameters
    ----------
    points, weight
        As of `best_cut`.
    n_segments : int, optional
        Their number, at least 2; as many as pay if not given.
    most : int
        Largest number of segments where none is given.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.geometry.column_cuts import best_segments
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(400, 2)) + np.outer(np.arange(400) % 4, [0.0, 9.0])
    >>> found = best_segments(points)
    >>> found.column, np.bincount(found.labels).tolist()
    (1, [100, 100, 100, 100])

    Notes
    -----
    A column is sorted into 64 bins of equally many rows; the best division of the bins into contiguous segments is
    exact. k-means in the column then moves the ends. Equal values are never in two segments. The gain that chooses
    column and number has a penalty of 1.5 log N nats for each further segment.
    """
    best, found = -np.inf, None
    for column in _lightest(points):
        one = _Column(np.asarray(points[:, column], dtype=np.float64), weight)
        for size, gain in one.gains(n_segments, most):
            if (score := gain - _COST * (size - 1) * np.log(one.n)) > best:
                best, found = score, (int(column), one, size)
    if found is None or (n_segments is None and best <= 0.0):
        return None
    column, one, size = found
    labels, gain = one.mended(one.ends(size))
    return ColumnSegments(column, labels, gain)


def _lightest(points):
    """Return the columns, in order, whose fourth moments are small beside their variances."""
    if points.shape[1] <= _MOST_COLUMNS:
        return range(points.shape[1])
    centred = points - points.mean(axis=0)
    squares = centred**2
    with np.errstate(invalid="ignore", divide="ignore"):
        tails = np.nan_to_num((squares**2).mean(axis=0) / squares.mean(axis=0) ** 2, nan=np.inf)
    return np.sort(np.argsort(tails, kind="stable")[:_MOST_COLUMNS])


class _Column:
    """Sums of the sorted values of a column, and the best gain of each number of segments."""

    def __init__(self, values, weight):
        order = np.argsort(values, kind="stable")
        self.values, self.sorted = values, values[order]
        mass = np.ones(len(values)) if weight is None else weight[order]
        self.mean = float(np.average(self.sorted, weights=mass))
        centred = self.sorted - self.mean
        sums = np.cumsum(np.stack([mass, mass * centred, mass * centred**2]), axis=1)
        self.sums = np.concatenate([np.zeros((3, 1)), sums], axis=1)
        self.n, self.variance = sums[0, -1], sums[2, -1] / sums[0, -1]
        self.places, self.back = np.zeros(0, dtype=np.int64), []

    def gains(self, n_segments, most):
        """Yield numbers of segments and the highest gain of each; of a given number that one alone."""
        begins = np.flatnonzero(np.diff(self.sorted)) + 1  # equal values stay together
        if not self.variance > 0.0 or len(begins) + 1 < (n_segments or 2):
            return
        if len(begins) >= _BINS:
            whole = np.linspace(0, len(self.sorted), _BINS + 1)[1:-1]
            begins = begins[np.unique(np.minimum(np.searchsorted(begins, whole), len(begins) - 1))]
        self.places = np.concatenate([[0], begins, [len(self.sorted)]])
        value = self._of_segments(self.places[:, None], self.places[None, :])
        best = value[0]
        for size in range(2, (n_segments or min(most, len(begins) + 1)) + 1):
            options = best[:, None] + value
            self.back.append(options.argmax(axis=0))
            best = options.max(axis=0)
            if n_segments in (None, size) and np.isfinite(best[-1]):
                yield size, float(best[-1])

    def ends(self, size):
        """Return where the best segments begin and end among the sorted rows: (size + 1,)."""
        at = len(self.places) - 1
        found = [at]
        for step in reversed(self.back[: size - 1]):
            at = int(step[at])
            found.append(at)
        return self.places[[0, *found[::-1]]]

    def mended(self, ends):
        """Return labels and gain after k-means in the column."""
        for _ in range(_PASSES):
            n, s, _ = np.diff(self.sums[:, ends], axis=1)
            mean = s / n + self.mean
            moved = np.searchsorted(self.sorted, 0.5 * (mean[1:] + mean[:-1]))
            moved = np.concatenate([[0], moved, [len(self.sorted)]])
            if (np.diff(moved) == 0).any() or np.array_equal(moved, ends):
                break
            ends = moved
        labels = np.searchsorted(self.sorted[ends[1:-1]], self.values, side="right").astype(np.int32)
        return labels, float(self._of_segments(ends[:-1], ends[1:]).sum())

    def _of_segments(self, begins, ends):
        """Return what segments add to the gain, nats; -inf where one has no rows."""
        n, s, q = self.sums[:, ends] - self.sums[:, begins]
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.maximum((q - s * s / n) / n, _FLOOR * self.variance)
            gain = n * (np.log(n / self.n) - 0.5 * np.log(variance / self.variance))
        return np.where(n > 0.0, gain, -np.inf)
