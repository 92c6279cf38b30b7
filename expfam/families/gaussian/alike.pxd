# Columns with one mean and one variance in all clusters, which tell nothing about clusters.

from libc.math cimport fmin, log

ctypedef struct alike_columns:
    Py_ssize_t size
    const Py_ssize_t *columns       # (size,)
    const double *precision         # (size,) 1 / variance; the mean is the centre
    double level                    # half the sum of the logarithms of the precisions


cdef inline double at_most(double total) noexcept nogil:
    """Return half a sum of scaled squares, or 1e12: beyond 10^6 standard deviations no other column would count."""
    return fmin(total, 1e12)


cdef inline double alike_density(const alike_columns *alike, const double *x) noexcept nogil:
    """Return the log density of a centred row in these columns, without the log base measure."""
    cdef double total = 0.0, value
    cdef Py_ssize_t j
    for j in range(alike.size):
        value = x[alike.columns[j]]
        total += alike.precision[j] * value * value
    return alike.level - at_most(0.5 * total)


cdef inline double alike_evidence(const alike_columns *alike, double n, const double *S, Py_ssize_t d) noexcept nogil:
    """Return the log density of n rows in these columns from their sums and sums of squares (2 d,)."""
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(alike.size):
        total += alike.precision[j] * S[d + alike.columns[j]]
    return n * alike.level - 0.5 * total


cdef inline int set_places(const Py_ssize_t **own, alike_columns *alike, const Py_ssize_t[::1] columns,
                           const Py_ssize_t[::1] others, const double[::1] precision) except -1:
    """Set the pointers to the columns with parameters for each cluster, and to the others; the caller holds the arrays.

    `precision` (size,) belongs to the others.
    """
    cdef Py_ssize_t j
    own[0] = &columns[0] if columns.shape[0] else NULL
    alike.size = others.shape[0]
    alike.columns = &others[0] if others.shape[0] else NULL
    alike.precision = &precision[0] if others.shape[0] else NULL
    alike.level = 0.0
    for j in range(alike.size):
        alike.level += 0.5 * log(precision[j])
    return 0
