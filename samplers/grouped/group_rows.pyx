"""Inner loops of the local step of grouped variational inference.

Each group has its own weights. The scores w_ik of its rows are fixed, and N_k is the sum of the rows' responsibilities
of cluster k. An iteration computes the softmax of the L largest w_ik + psi(alpha_k + N_k) of each row, and then N. This
is coordinate ascent: the group's bound never falls. Rows keep their candidates in all iterations, so it never falls
with candidates either. An iteration costs O(rows K), or O(rows C + K) with C candidates a row, and a digamma for each
cluster with rows of the group. The functions release the gil and allocate nothing.
"""

from libc.math cimport INFINITY, fabs, lgamma
from libc.stdint cimport int32_t, int64_t
from scipy.special.cython_special cimport psi

from expfam.samplers.variational.sparse_rows cimport soften, soften_all
from expfam.structures.selection.top_l cimport top_row, value_t

cdef double LEAST_REST = 1e-3           # a cluster with fewer rows of the group counts as empty
cdef double GAIN = 1e-9                 # share of the bound that a restart must gain


cdef struct settings:
    Py_ssize_t max_iterations
    Py_ssize_t n_restarts
    Py_ssize_t restart_iterations
    double tol


cdef struct workspace:                       # the present group
    Py_ssize_t K
    Py_ssize_t C                        # scores of a row
    Py_ssize_t G                        # scores of its candidates; the other C - G are of its last clusters
    Py_ssize_t L
    Py_ssize_t n_rows
    const double *weight                # (n_rows,) or NULL
    const double *alpha                 # (K,)
    const double *resting               # (K,) psi(alpha), or NULL
    const int32_t *buckets              # (n_rows,), or NULL where column k is cluster k
    const int32_t *graph                # (B, G)
    const int32_t *last                 # (n_rows, C - G)
    double *N                           # (K,)
    double *fresh                       # (K,) scratch, like the next three
    double *saved
    double *tried
    double *bias
    double *e                           # (work_size(K),) scratch of a whole row's softmax
    double *entropy                     # (n_rows,)
    int64_t n_iterations
    int64_t n_tried
    int64_t n_accepted
    Py_ssize_t bad                      # row without a finite score, or -1


cdef inline Py_ssize_t cluster_of(const workspace *d, Py_ssize_t i, Py_ssize_t column) noexcept nogil:
    """Return the cluster of a column of a row; negative for none."""
    if d.buckets == NULL:
        return column
    if column < d.G:
        return d.graph[d.buckets[i] * d.G + column]
    return d.last[i * (d.C - d.G) + column - d.G]


cdef void add_bias(const workspace *d, Py_ssize_t i, const value_t *scores, value_t *row) noexcept nogil:
    """Write the scores of a row plus the expected log weights of its group to `row`."""
    cdef Py_ssize_t c, k
    cdef const int32_t *near
    if d.buckets == NULL:
        for c in range(d.C):
            row[c] = <value_t> (scores[c] + d.bias[c])
        return
    near = d.graph + d.buckets[i] * d.G
    for c in range(d.G):
        row[c] = <value_t> (scores[c] + d.bias[near[c]])
    for c in range(d.G, d.C):
        k = d.last[i * (d.C - d.G) + c - d.G]
        row[c] = <value_t> (scores[c] + d.bias[k]) if k >= 0 else <value_t> -INFINITY


cdef double iterate(workspace *d, const value_t *scores, value_t *values, int32_t *indices,
                    value_t *work) noexcept nogil:
    """Update the rows from N, then N from the rows; return the group's bound, nats.

    The bound lacks the terms that depend on the size of the group alone.
    """
    cdef Py_ssize_t i, k, e, K = d.K, L = d.L
    cdef bint is_whole = L == K, done
    cdef double bound = 0.0, objective, weight
    cdef value_t *row
    cdef value_t *kept
    d.n_iterations += 1
    for k in range(K):
        if d.resting != NULL and d.N[k] == 0:
            d.bias[k] = d.resting[k]
        else:
            d.bias[k] = psi(d.alpha[k] + d.N[k])
        d.fresh[k] = 0.0
    for i in range(d.n_rows):
        weight = 1.0 if d.weight == NULL else d.weight[i]
        kept = values + i * L
        row = kept if is_whole else work
        add_bias(d, i, scores + i * d.C, row)
        if is_whole:
            done = soften_all(row, K, indices + i, &objective, d.entropy + i, d.e)
            if done:
                for k in range(K):
                    d.fresh[k] += weight * kept[k]
        else:
            done = top_row(row, d.C, L, kept, indices + i * L, work + d.C) == 0
            done = done and soften(kept, indices + i * L, L, &objective, d.entropy + i)
            if done:
                for e in range(L):
                    if kept[e] > 0:
                        d.fresh[cluster_of(d, i, indices[i * L + e])] += weight * kept[e]
        if not done:
            d.bad = i
            return -INFINITY
        bound += weight * objective
    for k in range(K):
        d.N[k] = d.fresh[k]
        if d.N[k] > 0:
            bound += lgamma(d.alpha[k] + d.N[k]) - lgamma(d.alpha[k]) - d.N[k] * d.bias[k]
    return bound


cdef double converge(const settings *s, workspace *d, const value_t *scores, value_t *values, int32_t *indices,
                     value_t *work) noexcept nogil:
    """Iterate until no count changes by more than the tolerance; return the last bound."""
    cdef Py_ssize_t k, _t
    cdef double bound = -INFINITY, change
    for _t in range(s.max_iterations):
        for k in range(d.K):
            d.saved[k] = d.N[k]
        bound = iterate(d, scores, values, indices, work)
        if d.bad >= 0:
            return bound
        change = 0.0
        for k in range(d.K):
            change = max(change, fabs(d.N[k] - d.saved[k]))
        if change <= s.tol:
            break
    return bound


cdef Py_ssize_t smallest(workspace *d) noexcept nogil:
    """Return the smallest cluster of the group that was not tried, or -1.

    Also return -1 if the group has a single cluster.
    """
    cdef Py_ssize_t k, best = -1, held = 0
    for k in range(d.K):
        if d.N[k] <= LEAST_REST:
            continue
        held += 1
        if d.tried[k] == 0 and (best < 0 or d.N[k] < d.N[best]):
            best = k
    return best if held > 1 else -1


cdef void restart(const settings *s, workspace *d, const value_t *scores, value_t *values, int32_t *indices,
                  value_t *work, double bound) noexcept nogil:
    """Try to remove the smallest clusters, one at a time; keep what raises the bound."""
    cdef Py_ssize_t k, _t, _trial, last
    cdef double fresh
    cdef bint is_stale = False
    for k in range(d.K):
        d.tried[k] = 0
    for _trial in range(s.n_restarts):
        last = smallest(d)
        if last < 0:
            break
        d.tried[last] = 1
        d.n_tried += 1
        for k in range(d.K):
            d.saved[k] = d.N[k]
        d.N[last] = 0.0
        fresh = -INFINITY
        for _t in range(s.restart_iterations):
            fresh = iterate(d, scores, values, indices, work)
        is_stale = not fresh > bound + GAIN * fabs(bound)
        if is_stale:
            for k in range(d.K):
                d.N[k] = d.saved[k]
        else:
            bound = fresh
            d.n_accepted += 1
    if is_stale:                                    # the rows are of a failed trial: compute them again
        iterate(d, scores, values, indices, work)


cdef void name_clusters(const workspace *d, int32_t *indices) noexcept nogil:
    """Replace the kept columns of the rows by their clusters."""
    cdef Py_ssize_t i, e
    for i in range(d.n_rows):
        for e in range(d.L):
            if indices[i * d.L + e] >= 0:
                indices[i * d.L + e] = <int32_t> cluster_of(d, i, indices[i * d.L + e])


def group_step(const value_t[:, ::1] scores, const int64_t[::1] starts, const double[::1] weight,
               const double[::1] alpha, double[:, ::1] counts, value_t[:, ::1] values, int32_t[:, ::1] indices,
               double[::1] entropy, Py_ssize_t max_iterations, double tol, Py_ssize_t n_restarts,
               Py_ssize_t restart_iterations, value_t[::1] work, double[::1] scratch, int64_t[::1] counters,
               const int32_t[::1] buckets=None, const int32_t[:, ::1] graph=None, const int32_t[:, ::1] last=None):
    """Compute the responsibilities of the rows of some groups, and their sums.

    Parameters
    ----------
    scores : (R, K) or (R, C)
        Expected log density of each row in each cluster, or in its candidates.
    starts : (G + 1,)
        Group g has the rows starts[g]..starts[g + 1] - 1.
    weight : (R,) or None
    alpha : (K,)
    counts : (G, K)
        Last sums of the responsibilities of each group's rows; overwritten with the new sums.
    values, indices : (R, L) and (R, L)
        Written: responsibilities, largest first, and their clusters. For L = K: responsibilities by cluster, and the
        most probable cluster in `indices` (R, 1).
    entropy : (R,)
        Written: -sum r log r of each row, nats.
    max_iterations, tol
        Largest number of iterations of a group, and the change of counts below which it stops earlier.
    n_restarts, restart_iterations
        Number of clusters of a group to try to remove, and iterations of each trial.
    work : (C + work_size(C),)
        Scratch of the type of the scores; C = K without candidates.
    scratch : (4 K + work_size(K),)
    counters : (3,) int64
        Added to: iterations, restarts tried, restarts accepted.
    buckets, graph, last : (R,), (B, G) and (R, C - G), optional
        Candidates, as in `select_rows`; for L below K.

    Returns
    -------
    int
        First row without a finite largest score, or -1.
    """
    cdef Py_ssize_t g, k, first, bad = -1
    cdef double bound
    cdef settings s
    cdef workspace d
    s.max_iterations, s.n_restarts, s.restart_iterations = max_iterations, n_restarts, restart_iterations
    s.tol = tol
    d.K, d.C, d.L, d.G = alpha.shape[0], scores.shape[1], values.shape[1], 0
    d.alpha = &alpha[0]
    d.buckets = d.graph = d.last = NULL
    if graph is not None:
        d.graph, d.G = &graph[0, 0], graph.shape[1]
    d.fresh = &scratch[0]
    d.saved, d.tried, d.bias, d.e = d.fresh + d.K, d.fresh + 2 * d.K, d.fresh + 3 * d.K, d.fresh + 4 * d.K
    d.n_iterations = d.n_tried = d.n_accepted = 0
    d.bad = -1
    d.resting = NULL
    if d.L < d.K:                       # with L = K every cluster has rows, and the softmax needs this scratch
        for k in range(d.K):
            d.e[k] = psi(d.alpha[k])
        d.resting = d.e
    with nogil:
        for g in range(counts.shape[0]):
            first = starts[g]
            d.n_rows = starts[g + 1] - first
            d.N = &counts[g, 0]
            if d.n_rows == 0:
                counts[g, :] = 0.0
                continue
            d.weight = NULL if weight is None else &weight[first]
            d.entropy = &entropy[first]
            if d.G:
                d.buckets, d.last = &buckets[first], &last[first, 0]
            bound = converge(&s, &d, &scores[first, 0], &values[first, 0], &indices[first, 0], &work[0])
            if d.bad >= 0:
                bad = first + d.bad
                break
            if n_restarts > 0:
                restart(&s, &d, &scores[first, 0], &values[first, 0], &indices[first, 0], &work[0], bound)
            if d.G:
                name_clusters(&d, &indices[first, 0])
    counters[0] += d.n_iterations
    counters[1] += d.n_tried
    counters[2] += d.n_accepted
    return bad
