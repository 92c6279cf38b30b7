"""Log-odds of data between two sides, and log probabilities of sides.

Each number is that of its datum alone: additions have one order, and exponentials are those of the C library. So the
bits do not depend on the data beside it, as those of matrix products would.
"""

import numpy as np

from libc.math cimport exp, log1p
from libc.stdint cimport int8_t, int32_t

from expfam.amounts import counted

LARGEST = 600.0  # nats, beyond which a side is certain: exp must not overflow


def dense_scores(const double[:, ::1] phi, const double[:, ::1] table, const double[::1] origin,
                 const int32_t[::1] row):
    """Return the log-odds of side 0 of each datum, given dense statistics.

    Parameters
    ----------
    phi : (n, F) float64 ndarray
    table : (M, F) float64 ndarray
        Differences of natural parameters of both sides.
    origin : (M,) float64 ndarray
    row : (n,) int32 ndarray
        Row of the table that belongs to the datum.

    Returns
    -------
    (n,) float64 ndarray
        Within -600 and 600.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.states.side_scores import dense_scores
    >>> dense_scores(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]), np.zeros(1), np.zeros(1, dtype=np.int32)).tolist()
    [4.0]
    """
    cdef Py_ssize_t i, f, F = phi.shape[1]
    cdef double s0, s1, s2, s3
    cdef const double *x
    cdef const double *t
    check_rows(phi.shape[0], F, table, origin, row)
    found = np.empty(phi.shape[0])
    cdef double[::1] out = found
    with nogil:
        for i in range(phi.shape[0]):
            s0 = s1 = s2 = s3 = 0.0
            if F > 0:
                x, t = &phi[i, 0], &table[row[i], 0]
                for f in range(0, F - 3, 4):
                    s0 += x[f] * t[f]
                    s1 += x[f + 1] * t[f + 1]
                    s2 += x[f + 2] * t[f + 2]
                    s3 += x[f + 3] * t[f + 3]
                for f in range(F - F % 4, F):
                    s0 += x[f] * t[f]
            out[i] = bounded((s0 + s1) + (s2 + s3) + origin[row[i]])
    return found


def sparse_scores(phi, const double[:, ::1] table, const double[::1] origin, const int32_t[::1] row):
    """Return the log-odds of side 0 of each datum, given CSR statistics; see `dense_scores`."""
    cdef const double[::1] values = np.ascontiguousarray(phi.data, dtype=np.float64)
    cdef const Py_ssize_t[::1] columns = np.ascontiguousarray(phi.indices, dtype=np.intp)
    cdef const Py_ssize_t[::1] bounds = np.ascontiguousarray(phi.indptr, dtype=np.intp)
    cdef Py_ssize_t i, e, n = bounds.shape[0] - 1
    cdef double s
    check_rows(n, phi.shape[1], table, origin, row)
    found = np.empty(n)
    cdef double[::1] out = found
    with nogil:
        for i in range(n):
            s = 0.0
            for e in range(bounds[i], bounds[i + 1]):
                s += values[e] * table[row[i], columns[e]]
            out[i] = bounded(s + origin[row[i]])
    return found


def log_sides(const double[::1] scores, const int8_t[::1] sides):
    """Return the log probability of the side of each datum: (n,) float64, nats.

    >>> import numpy as np
    >>> from expfam.samplers.states.side_scores import log_sides
    >>> np.exp(log_sides(np.log([3.0, 3.0]), np.array([0, 1], dtype=np.int8))).round(12).tolist()
    [0.75, 0.25]
    """
    cdef Py_ssize_t i, n = scores.shape[0]
    if sides.shape[0] != n:
        raise ValueError(f"there must be a side for each of {counted(n, 'score')}; got {sides.shape[0]}")
    found = np.empty(n)
    cdef double[::1] out = found
    with nogil:
        for i in range(n):
            out[i] = -log1p(exp(-scores[i] if sides[i] == 0 else scores[i]))
    return found


cdef int check_rows(Py_ssize_t n, Py_ssize_t F, const double[:, ::1] table, const double[::1] origin,
                    const int32_t[::1] row) except -1:
    """Refuse rows that do not fit the table."""
    cdef Py_ssize_t i
    if row.shape[0] != n or table.shape[1] != F or origin.shape[0] != table.shape[0]:
        raise ValueError(
            f"a table of shape {(table.shape[0], table.shape[1])} cannot score {counted(n, 'row')} of"
            f" {counted(F, 'statistic')}"
        )
    for i in range(n):
        if not 0 <= row[i] < table.shape[0]:
            raise ValueError(f"row {row[i]} is not in a table of {counted(table.shape[0], 'row')}")


cdef double bounded(double x) noexcept nogil:
    return -LARGEST_SCORE if x < -LARGEST_SCORE else LARGEST_SCORE if x > LARGEST_SCORE else x


cdef double LARGEST_SCORE = LARGEST
