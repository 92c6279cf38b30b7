"""Gains of all cuts of sorted columns in two, where each row counts once.

Cuts of clusters of a hundred rows are asked for tens of times in a fit: a call of NumPy for each term of the gain would
take longer than the terms. Logarithms are those of NumPy, in one call.
"""

from functools import lru_cache

import numpy as np

from libc.math cimport INFINITY, isnan


def best_gain(const double[:, :] ordered, const double[::1] mean, double least, double floor):
    """Return the cut of a column that gains most under two normal densities.

    Parameters
    ----------
    ordered : (N, C) float64 ndarray
        Each column ascends; at least two rows.
    mean : (C,) float64 ndarray
        Of the columns.
    least : float
        Rows on either side.
    floor : float
        Share of a column's variance that either side keeps at least.

    Returns
    -------
    place, column : int
        The rows after `place` are on the upper side. Of equal cuts it is that of the lowest place, then column.
    gain : float
        Nats; -inf where nothing can be cut, NaN where a gain is no number.
    """
    cdef Py_ssize_t N = ordered.shape[0], C = ordered.shape[1], i, c, place = 0, column = 0
    cdef double n = <double> N, low, high, total, square, centred, gain, best = -INFINITY
    logs, ends, variances = np.empty((2, N - 1, C)), np.empty((2, C)), np.empty(C)
    cdef double[:, :, ::1] spread = logs
    cdef double[:, ::1] last = ends
    cdef double[::1] variance = variances
    cdef const double[::1] shares = _log_shares(N)
    for c in range(C):
        total, square = 0.0, 0.0
        for i in range(N):
            centred = ordered[i, c] - mean[c]
            total += centred
            square += centred * centred
            if i < N - 1:
                spread[0, i, c], spread[1, i, c] = total, square
        last[0, c], last[1, c], variance[c] = total, square, square / n
    for i in range(N - 1):
        low = i + 1.0
        high = n - low
        for c in range(C):
            total, square = spread[0, i, c], spread[1, i, c]
            gain = last[0, c] - total
            spread[0, i, c] = at_least((square - total * total / low) / low, floor * variance[c])
            spread[1, i, c] = at_least((last[1, c] - square - gain * gain / high) / high, floor * variance[c])
    with np.errstate(divide="ignore", invalid="ignore"):
        np.log(logs, out=logs)
        all_ = np.log(variances)
    cdef const double[::1] whole = all_
    for i in range(N - 1):
        low = i + 1.0
        high = n - low
        if low < least or high < least:
            continue
        for c in range(C):
            if ordered[i, c] == ordered[i + 1, c] or not variance[c] > 0.0:
                continue
            gain = 0.5 * (n * whole[c] - (low * spread[0, i, c] + high * spread[1, i, c])) + shares[i]
            if isnan(gain):
                return i, c, gain
            if gain > best:
                place, column, best = i, c, gain
    return place, column, best


cdef double at_least(double value, double floor) noexcept:
    """Return the larger number, or NaN."""
    return value if value >= floor or isnan(value) else floor


@lru_cache(maxsize=64)
def _log_shares(N):
    """Return what the shares of both sides add to each gain: (N - 1,) float64."""
    n, low = float(N), np.arange(1.0, float(N))
    high = n - low
    return low * np.log(low / n) + high * np.log(high / n)
