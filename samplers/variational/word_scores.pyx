"""Scores of rows of counts from lists of the clusters that differ at each column.

At most columns a parameter is that of an empty sum, which differs between clusters by a level alone. So a score is
c_k - (sum of x) level_k, plus x times what is above an empty sum at the columns of the row. A column that is above in
many clusters has a row of a table in place of a list. What all clusters have in common is left out.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from expfam.families.counts.long_lists cimport place_of

ctypedef fused value_t:
    float
    double

ctypedef fused index_kind:
    int32_t
    int64_t


cdef inline void score_row(const int64_t[::1] indptr, const index_kind[::1] indices, const double[::1] values,
                           Py_ssize_t i, const int64_t[::1] starts, const int32_t[::1] clusters,
                           const value_t[::1] above, const int64_t[::1] columns, const value_t[:, ::1] table,
                           const value_t[::1] c, const value_t[::1] level, value_t *out) noexcept nogil:
    cdef Py_ssize_t j, e, k, first, last, place, K = c.shape[0]
    cdef double length = 0.0
    cdef value_t x
    cdef const value_t *row
    for j in range(indptr[i], indptr[i + 1]):
        length += values[j]
    x = <value_t> length
    for k in range(K):
        out[k] = c[k] - x * level[k]
    for j in range(indptr[i], indptr[i + 1]):
        x = <value_t> values[j]
        first, last = starts[indices[j]], starts[indices[j] + 1]
        if first == last:
            place = place_of(columns, indices[j])
            if place >= 0:
                row = &table[place, 0]
                for k in range(K):
                    out[k] += x * row[k]
        for e in range(first, last):
            out[clusters[e]] += x * above[e]


def listed_scores(const int64_t[::1] indptr, const index_kind[::1] indices, const double[::1] values,
                  const int64_t[::1] starts, const int32_t[::1] clusters, const value_t[::1] above,
                  const int64_t[::1] columns, const value_t[:, ::1] table, const value_t[::1] c,
                  const value_t[::1] level, value_t[:, ::1] out):
    """Write the scores (R, K) of CSR rows.

    Parameters
    ----------
    indptr, indices, values
        CSR rows of counts.
    starts : (U + 1,) int64
        First entry of the list of each column.
    clusters, above : (n,) int32 and float
        Entries: a cluster, and how much its parameter is above that of an empty sum.
    columns : (H,) int64
        Columns without a list that have a row of `table`, ascending.
    table : (H, K)
        What is above an empty sum at these columns.
    c, level : (K,)
    out : (R, K)
        Written.
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(out.shape[0]):
            score_row(indptr, indices, values, i, starts, clusters, above, columns, table, c, level, &out[i, 0])


def listed_candidates(const int64_t[::1] indptr, const index_kind[::1] indices, const double[::1] values,
                      const int64_t[::1] starts, const int32_t[::1] clusters, const value_t[::1] above,
                      const int64_t[::1] columns, const value_t[:, ::1] table, const value_t[::1] c,
                      const value_t[::1] level, const int32_t[::1] buckets, const int32_t[:, ::1] graph,
                      const int32_t[:, ::1] last, bint scores_last, value_t[:, ::1] out):
    """Write scores of candidates and of last clusters of rows, as `sparse_candidates` does.

    All clusters are scored, because a list cannot be entered at some of them.
    """
    cdef Py_ssize_t i, g, e, k, G = graph.shape[1], n_last_outside = 0
    cdef bint is_near
    cdef value_t[::1] scores = np.empty(c.shape[0], dtype=np.float32 if value_t is float else np.float64)
    with nogil:
        for i in range(out.shape[0]):
            score_row(indptr, indices, values, i, starts, clusters, above, columns, table, c, level, &scores[0])
            for g in range(G):
                out[i, g] = scores[graph[buckets[i], g]]
            for e in range(last.shape[1]):
                k = last[i, e]
                is_near = False
                for g in range(G):
                    is_near |= graph[buckets[i], g] == k
                out[i, G + e] = -INFINITY
                if scores_last and k >= 0 and not is_near:
                    out[i, G + e] = scores[k]
                    n_last_outside += 1
    return n_last_outside
