"""Greedy merges of the clusters that other partitions separate least, compiled."""

from libc.math cimport INFINITY, log, sqrt
from libc.stdint cimport int64_t

import numpy as np

from expfam.amounts import counted


cdef inline double entropy_part(double x) noexcept nogil:
    return x * log(x) if x > 0 else 0.0


cdef double told_apart(const double *a, const double *b, const double *part_a, const double *part_b,
                       const int64_t *used, Py_ssize_t n_used, double n_a, double n_b,
                       double n_others) noexcept nogil:
    """Return i / sqrt(h) of two clusters; columns that one of them lacks add nothing to h - i."""
    cdef Py_ssize_t at, c
    cdef double untold = 0, h = entropy_part(n_a + n_b) - entropy_part(n_a) - entropy_part(n_b)
    for at in range(n_used):
        c = used[at]
        if b[c] > 0:
            untold += entropy_part(a[c] + b[c]) - part_a[c] - part_b[c]
    return max(h - untold / n_others, 0.0) / sqrt(h)


cdef Py_ssize_t list_used(const double *row, int64_t *used, Py_ssize_t n_columns) noexcept nogil:
    cdef Py_ssize_t c, n_used = 0
    for c in range(n_columns):
        if row[c] > 0:
            used[n_used] = c
            n_used += 1
    return n_used


cdef bint may_join(int64_t a, int64_t b) noexcept nogil:
    return a < 0 or b < 0 or a == b


def known_merges(table, Py_ssize_t n_others, classes):
    """Merge clusters down to one, each time the two that other partitions separate least.

    Let the random variable Z say which of two clusters a row of them belongs to. Then h is the entropy of Z times the
    number of rows, nats, and i is the mutual information of Z and the cluster of the row in another partition, times
    the number of rows, on average over the other partitions. Each merge joins the pair with the least i / sqrt(h); of
    equal ones the pair with the lowest slots.

    Parameters
    ----------
    table : (K, M) array_like of non-negative float
        Rows that each cluster shares with each cluster of all other partitions, side by side.
    n_others : int
        Number of these partitions, at least 1; each row of the table sums to `n_others` times the rows of its cluster,
        above 0.
    classes : (K,) array_like of int
        Class of each cluster, negative for none; clusters of two classes are joined last.

    Returns
    -------
    pairs : (K - 1, 2) int64 ndarray
        Slots of each merge, the lower one first; the merged cluster has it.
    heights : (K - 1,) float64 ndarray
        i / sqrt(h) of each merge.

    Raises
    ------
    ValueError
        A cluster has no rows, or an argument does not fit the others.

    Examples
    --------
    >>> from expfam.structures.merging.known_merges import known_merges
    >>> pairs, heights = known_merges([[5, 0], [5, 0], [0, 9]], 1, [-1, -1, -1])
    >>> pairs.tolist(), heights[0]
    ([[0, 1], [0, 2]], np.float64(0.0))
    """
    cdef double[:, ::1] T = np.array(table, dtype=np.float64, order="C", ndmin=2)
    cdef int64_t[::1] of_class = np.array(classes, dtype=np.int64)
    cdef Py_ssize_t K = T.shape[0], M = T.shape[1], a, b, c, t, best_a, best_b
    if K < 1 or M < 1 or n_others < 1 or of_class.shape[0] != K:
        raise ValueError(
            f"a table of at least one cluster and one other partition, and a class for each cluster, are needed; got a"
            f" table of shape ({K}, {M}), n_others={n_others} and {counted(of_class.shape[0], 'class', 'classes')}"
        )
    sizes = np.asarray(T).sum(axis=1) / n_others
    if not (sizes > 0).all():
        raise ValueError(f"cluster {int(np.argmin(sizes > 0))} shares no row with the other partitions: leave it out")
    cdef double[::1] n = sizes
    cdef double[:, ::1] part = np.zeros((K, M))
    cdef double[:, ::1] score = np.full((K, K), np.inf)
    cdef int64_t[:, ::1] used = np.empty((K, M), dtype=np.int64)
    cdef Py_ssize_t[::1] n_used = np.empty(K, dtype=np.intp)
    cdef int64_t[:, ::1] pairs = np.empty((K - 1, 2), dtype=np.int64)
    cdef double[::1] heights = np.empty(K - 1)
    cdef double least
    with nogil:
        for a in range(K):
            for c in range(M):
                part[a, c] = entropy_part(T[a, c])
            n_used[a] = list_used(&T[a, 0], &used[a, 0], M)
            for b in range(a):
                score[b, a] = told_apart(&T[a, 0], &T[b, 0], &part[a, 0], &part[b, 0], &used[a, 0], n_used[a],
                                         n[a], n[b], n_others)
        for t in range(K - 1):
            best_a = best_b = -1
            while best_a < 0:
                least = INFINITY
                for a in range(K):
                    if n[a] == 0:
                        continue
                    for b in range(a + 1, K):
                        if n[b] > 0 and score[a, b] < least and may_join(of_class[a], of_class[b]):
                            least, best_a, best_b = score[a, b], a, b
                if best_a < 0:  # clusters of different classes alone are left
                    for a in range(K):
                        of_class[a] = -1
            pairs[t, 0], pairs[t, 1], heights[t] = best_a, best_b, least
            for c in range(M):
                T[best_a, c] += T[best_b, c]
                part[best_a, c] = entropy_part(T[best_a, c])
            n[best_a] += n[best_b]
            n[best_b] = 0
            of_class[best_a] = max(of_class[best_a], of_class[best_b])
            n_used[best_a] = list_used(&T[best_a, 0], &used[best_a, 0], M)
            for b in range(K):
                if b != best_a and n[b] > 0:
                    score[min(best_a, b), max(best_a, b)] = told_apart(
                        &T[best_a, 0], &T[b, 0], &part[best_a, 0], &part[b, 0], &used[best_a, 0], n_used[best_a],
                        n[best_a], n[b], n_others)
    return np.asarray(pairs), np.asarray(heights)
