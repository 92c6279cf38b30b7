"""The expectation of few rows in double precision, one row after the other.

Tables, tiles and tasks of a pass over many rows take longer to make than a hundred rows take to be weighed.
"""

import numpy as np

from libc.math cimport INFINITY, exp, isnan, log
from libc.stdint cimport int32_t

cdef Py_ssize_t MOST_BYTES = 1 << 18    # of the statistics of all rows, which a data set holds up to this size
cdef Py_ssize_t MOST_SCORES = 1 << 13   # of a pass; more are computed faster in single precision
cdef double DEPTH = 46.0                # components that lie this many nats below the best one have no weight


def has_few_rows(data, Py_ssize_t n_components):
    """Return whether the rows are so few, and their statistics dense."""
    cdef Py_ssize_t n_rows = data.n_rows
    if n_rows * n_components > MOST_SCORES or 8 * n_rows * data.n_statistics > MOST_BYTES:
        return False
    return not data.has_sparse_phi


def expectation_of_few_rows(data, Theta, G, log_pi):
    """Return what `expectation` does: soft counts and sums, log likelihood, and labels.

    Parameters
    ----------
    data : Dataset
        See `has_few_rows`.
    Theta, G, log_pi : (K, F), (K,) and (K,) float64 ndarray

    Returns
    -------
    n, S : (K,) and (K, F) float64 ndarray
    log_likelihood : float
        Nats, without log-base.
    labels : (N,) int32 ndarray

    Raises
    ------
    FloatingPointError
        A datum has no finite score.
    """
    cdef const double[:, ::1] phi = data.phi(0, data.n_rows), theta = np.ascontiguousarray(Theta, dtype=np.float64)
    cdef const double[::1] bias = np.ascontiguousarray(log_pi - G, dtype=np.float64)
    cdef const double[::1] weight = data.weight
    cdef Py_ssize_t N = phi.shape[0], F = phi.shape[1], K = theta.shape[0], i = 0, k, f, top
    n_array, S_array, label_array = np.zeros(K), np.zeros((K, F)), np.empty(N, dtype=np.int32)
    cdef double[::1] n = n_array, scores = np.empty(K)
    cdef double[:, ::1] S = S_array
    cdef int32_t[::1] labels = label_array
    cdef double log_likelihood = 0.0, total, share, w
    cdef bint is_bad = False
    with nogil:
        for i in range(N):
            top = 0
            for k in range(K):
                scores[k] = bias[k] + product(&phi[i, 0], &theta[k, 0], F)
                if isnan(scores[k]):
                    is_bad = True
                elif scores[k] > scores[top]:
                    top = k
            if is_bad or not -INFINITY < scores[top] < INFINITY:
                is_bad = True
                break
            labels[i] = <int32_t> top
            total, w = 0.0, 1.0 if weight is None else weight[i]
            share = scores[top]
            for k in range(K):
                scores[k] -= share
                scores[k] = exp(scores[k]) if scores[k] > -DEPTH else 0.0
                total += scores[k]
            log_likelihood += w * (share + log(total))
            w /= total
            for k in range(K):
                if scores[k] > 0.0:
                    share = w * scores[k]
                    n[k] += share
                    for f in range(F):
                        S[k, f] += share * phi[i, f]
    if is_bad:
        raise FloatingPointError(
            f"family {data.family.name!r}, datum {data.row_offset + i}: no component has a finite score under the"
            " parameters"
        )
    return n_array, S_array, log_likelihood, label_array


cdef double product(const double *x, const double *y, Py_ssize_t n) noexcept nogil:
    """Return the sum of products; a statistic of 0 adds nothing, whatever the parameter is."""
    cdef double total = 0.0
    cdef Py_ssize_t f
    for f in range(n):
        total += x[f] * y[f]
    if isnan(total):
        total = 0.0
        for f in range(n):
            if x[f] != 0.0:
                total += x[f] * y[f]
    return total
