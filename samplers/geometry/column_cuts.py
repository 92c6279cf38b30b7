"""The cut of a single column in two that tells most about the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.samplers.geometry.cut_gains import best_gain

_LEAST_SHARE = 0.005  # of the rows, on either side
_FLOOR = 1e-3  # share of a column's variance that either side keeps at least
_COLUMNS_AT_ONCE = 16  # a few arrays of this many columns are held


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
