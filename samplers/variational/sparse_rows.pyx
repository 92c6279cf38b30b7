"""Inner loops of a variational pass: scores of a block of rows, responsibilities, and sums.

Scores and responsibilities are float32 or float64, like the given arrays; objectives, entropies, counts and sums over
blocks are float64. A block costs O(rows K F) for the scores of dense statistics (one matrix product), O(nnz K) for
sparse ones, O(K) a row for the selection, and O(rows L F) or O(nnz L) for the sums. All functions release the gil and
allocate nothing.
"""

from libc.math cimport INFINITY, log, sqrt
from libc.stdint cimport int32_t, int64_t
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, saxpy, sdot, sgemm

from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.elementary cimport expfam_exp1
from expfam.structures.simd.softmax cimport expfam_exp_blocks
from expfam.structures.selection.top_l cimport top_row, top_work_size, value_t

cdef enum:
    SHORT = 32              # up to this length of vectors a plain loop is faster than BLAS
    FEW_ROWS = 4            # up to this many rows of a bucket, parameters are not gathered for a matrix product

ctypedef fused index_kind:
    int32_t
    int64_t


cdef inline value_t least(const value_t *row) noexcept nogil:
    """Return the responsibility below which the softmax gives 0.

    Products with smaller ones would be subnormal numbers, which cost a hundred times more.
    """
    if value_t is float:
        return <value_t> 1e-30
    else:
        return <value_t> 1e-290


cdef inline void add_scaled(Py_ssize_t n, value_t a, const value_t *x, value_t *y) noexcept nogil:
    cdef int size = <int> n, one = 1
    cdef Py_ssize_t f
    if n <= SHORT:
        for f in range(n):
            y[f] += a * x[f]
    elif value_t is float:
        saxpy(&size, &a, <float *> x, &one, y, &one)
    else:
        daxpy(&size, &a, <double *> x, &one, y, &one)


cdef inline value_t inner(Py_ssize_t n, const value_t *x, const value_t *y) noexcept nogil:
    cdef int size = <int> n, one = 1
    cdef Py_ssize_t f
    cdef value_t total = 0
    if n <= SHORT:
        for f in range(n):
            total += x[f] * y[f]
        return total
    if value_t is float:
        return sdot(&size, <float *> x, &one, <float *> y, &one)
    else:
        return ddot(&size, <double *> x, &one, <double *> y, &one)


cdef void products(const value_t *phi, const value_t *theta, Py_ssize_t rows, Py_ssize_t K, Py_ssize_t F, value_t *out,
                   Py_ssize_t stride) noexcept nogil:
    """Add phi theta' to `out`, all row-major."""
    cdef int m = <int> K, n = <int> rows, k = <int> F, ld = <int> stride
    cdef char transposed = b"T", plain = b"N"
    cdef value_t one = 1
    if value_t is float:
        sgemm(&transposed, &plain, &m, &n, &k, &one, <float *> theta, &k, <float *> phi, &k, &one, out, &ld)
    else:
        dgemm(&transposed, &plain, &m, &n, &k, &one, <double *> theta, &k, <double *> phi, &k, &one, out, &ld)


# ---- statistics ------------------------------------------------------------------------------------------------------


def pack_outer(const value_t[:, ::1] rows, bint with_linear, const value_t[::1] center, value_t[:, ::1] out):
    """Write (x, svec xx') - center, or without the x, of each row to `out`: (R, d) to (R, F)."""
    cdef Py_ssize_t i, a, b, at, d = rows.shape[1]
    cdef value_t x, root = <value_t> sqrt(2.0)
    cdef const value_t *row
    cdef value_t *to
    with nogil:
        for i in range(rows.shape[0]):
            row, to = &rows[i, 0], &out[i, 0]
            at = 0
            if with_linear:
                for a in range(d):
                    to[a] = row[a] - center[a]
                at = d
            for a in range(d):
                x = row[a]
                to[at] = x * x - center[at]
                x *= root
                for b in range(1, d - a):
                    to[at + b] = x * row[a + b] - center[at + b]
                at += d - a


# ---- scores ----------------------------------------------------------------------------------------------------------


def centre_rows(const double[:, ::1] phi, const double[::1] origin, value_t[:, ::1] out):
    """Write statistics (R, F) minus their origin (F,) to `out`."""
    cdef Py_ssize_t i, f
    with nogil:
        for i in range(phi.shape[0]):
            for f in range(phi.shape[1]):
                out[i, f] = <value_t> (phi[i, f] - origin[f])


def dense_scores(const value_t[:, ::1] phi, const value_t[:, ::1] theta, const value_t[::1] c,
                 value_t[:, ::1] out):
    """Write phi theta' + c to `out`: (R, F), (K, F), (K,) to (R, K)."""
    with nogil:
        score_rows(&phi[0, 0], &theta[0, 0], &c[0], out.shape[0], out.shape[1], phi.shape[1], &out[0, 0])


cdef void score_rows(const value_t *phi, const value_t *theta, const value_t *c, Py_ssize_t R, Py_ssize_t K,
                     Py_ssize_t F, value_t *out) noexcept nogil:
    cdef Py_ssize_t i, k
    for i in range(R):
        for k in range(K):
            out[i * K + k] = c[k]
    products(phi, theta, R, K, F, out, K)


def sparse_scores(const int64_t[::1] indptr, const index_kind[::1] indices, const double[::1] values,
                  const value_t[:, ::1] table, const value_t[::1] c, value_t[:, ::1] out):
    """Write scores as `dense_scores`, of CSR rows and the transposed parameters `table` (F, K)."""
    cdef Py_ssize_t i, j, K = table.shape[1]
    with nogil:
        for i in range(out.shape[0]):
            out[i, :] = c
            for j in range(indptr[i], indptr[i + 1]):
                add_scaled(K, <value_t> values[j], &table[indices[j], 0], &out[i, 0])


cdef bint holds(const int32_t *ascending, Py_ssize_t n, int32_t k) noexcept nogil:
    cdef Py_ssize_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < k:
            low = middle + 1
        else:
            high = middle
    return low < n and ascending[low] == k


def dense_candidates(const value_t[:, ::1] phi, const value_t[:, ::1] theta, const value_t[::1] c,
                     const int32_t[::1] buckets, const int32_t[:, ::1] graph, const int32_t[:, ::1] last,
                     bint scores_last, value_t[:, ::1] gathered, value_t[:, ::1] out):
    """Score each row against the candidates of its bucket, and against its last clusters.

    Parameters
    ----------
    phi, theta, c
        As in `dense_scores`.
    buckets : (R,) int32
        Row of `graph` for each row; rows of one bucket should be neighbours.
    graph : (K, G) int32
        Candidates of each bucket, ascending.
    last : (R, L) int32
        Clusters that each row had last, -1 for none.
    scores_last : bool
        Whether to score the last clusters that are not among the candidates.
    gathered : (G, F)
        Scratch.
    out : (R, G + L)
        Written: scores of the candidates, then of the last clusters, which are -inf for candidates.

    Returns
    -------
    int
        Number of last clusters that were not among the candidates.
    """
    cdef Py_ssize_t i, j, g, e, k, F = phi.shape[1], G = graph.shape[1], R = phi.shape[0], n_last_outside = 0
    with nogil:
        i = 0
        while i < R:
            j = i
            while j < R and buckets[j] == buckets[i]:
                for g in range(G):
                    out[j, g] = c[graph[buckets[i], g]]
                j += 1
            if j - i > FEW_ROWS:
                for g in range(G):
                    gathered[g, :] = theta[graph[buckets[i], g], :]
                products(&phi[i, 0], &gathered[0, 0], j - i, G, F, &out[i, 0], out.shape[1])
                i = j
            while i < j:
                for g in range(G):
                    out[i, g] += inner(F, &phi[i, 0], &theta[graph[buckets[i], g], 0])
                i += 1
        for i in range(R):
            for e in range(last.shape[1]):
                k = last[i, e]
                if scores_last and k >= 0 and not holds(&graph[buckets[i], 0], G, <int32_t> k):
                    out[i, G + e] = c[k] + inner(F, &phi[i, 0], &theta[k, 0])
                    n_last_outside += 1
                else:
                    out[i, G + e] = -INFINITY
    return n_last_outside


def sparse_candidates(const int64_t[::1] indptr, const index_kind[::1] indices, const double[::1] values,
                      const value_t[:, ::1] table, const value_t[::1] c, const int32_t[::1] buckets,
                      const int32_t[:, ::1] graph, const int32_t[:, ::1] last, bint scores_last,
                      value_t[:, ::1] out):
    """Score as `dense_candidates`, of CSR rows and the transposed parameters `table` (F, K)."""
    cdef Py_ssize_t i, j, g, e, k, G = graph.shape[1], n_last_outside = 0
    cdef value_t x, score
    cdef const value_t *row
    cdef const int32_t *near
    with nogil:
        for i in range(out.shape[0]):
            near = &graph[buckets[i], 0]
            for g in range(G):
                out[i, g] = c[near[g]]
            for j in range(indptr[i], indptr[i + 1]):
                x, row = <value_t> values[j], &table[indices[j], 0]
                for g in range(G):
                    out[i, g] += x * row[near[g]]
            for e in range(last.shape[1]):
                k = last[i, e]
                score = -INFINITY
                if scores_last and k >= 0 and not holds(near, G, <int32_t> k):
                    score = c[k]
                    for j in range(indptr[i], indptr[i + 1]):
                        score += <value_t> values[j] * table[indices[j], k]
                    n_last_outside += 1
                out[i, G + e] = score
    return n_last_outside


# ---- selection -------------------------------------------------------------------------------------------------------


def work_size(Py_ssize_t n_scores):
    """Return the length of the scratch of `select_rows` and `soft_rows` for rows of `n_scores`."""
    return max(top_work_size(n_scores), 8 * (n_scores + n_scores // EXPFAM_BLOCK + 2))


def select_rows(const value_t[:, ::1] scores, const int32_t[::1] buckets, const int32_t[:, ::1] graph,
                const int32_t[:, ::1] last, value_t[:, ::1] values, int32_t[:, ::1] indices,
                double[::1] objective, double[::1] entropy, value_t[::1] work):
    """Compute the softmax of the L largest scores of each row.

    Parameters
    ----------
    scores : (R, C)
    buckets, graph, last : arrays or None
        Clusters of the columns, as in `dense_candidates`; None if column k is cluster k.
    values, indices : (R, L)
        Written: responsibilities, largest first, and their clusters; 0 and -1 where a row has fewer finite scores.
    objective, entropy : (R,) float64
        Written: log of the sum of the exponentials of the kept scores, and -sum r log r; nats.
    work : (work_size(C),)
        Scratch of the type of the scores.

    Returns
    -------
    int
        First row without a finite largest score, or -1.
    """
    cdef Py_ssize_t i, e, j, L = values.shape[1], G = 0 if graph is None else graph.shape[1], bad = -1
    with nogil:
        for i in range(scores.shape[0]):
            if not select_row(&scores[i, 0], scores.shape[1], L, &values[i, 0], &indices[i, 0], &objective[i],
                              &entropy[i], &work[0]):
                bad = i
                break
            if G:
                for e in range(L):
                    j = indices[i, e]
                    if j >= 0:
                        indices[i, e] = graph[buckets[i], j] if j < G else last[i, j - G]
    return bad


cdef bint select_row(const value_t *scores, Py_ssize_t n_scores, Py_ssize_t L, value_t *values, int32_t *indices,
                     double *objective, double *entropy, value_t *work) noexcept nogil:
    """Select of one row, by column; return False if it has no finite largest score."""
    if top_row(scores, n_scores, L, values, indices, work):
        return False
    return soften(values, indices, L, objective, entropy)


cdef bint soften(value_t *values, int32_t *indices, Py_ssize_t L, double *objective, double *entropy) noexcept nogil:
    """Compute the softmax of the largest scores of a row, in place; arguments as `select_rows`.

    Return False if the largest score is +inf.
    """
    cdef Py_ssize_t e
    cdef double best = values[0], total = 0.0, t, share
    if not best < INFINITY:
        return False
    for e in range(L):
        if values[e] > -INFINITY:
            total += expfam_exp1(values[e] - best)
    objective[0] = best + log(total)
    entropy[0] = 0.0
    for e in range(L):
        if not values[e] > -INFINITY:
            values[e], indices[e] = 0, -1
            continue
        t = values[e] - best
        values[e] = <value_t> (expfam_exp1(t) / total)
        if values[e] < least(values):
            values[e] = 0
        share = values[e]
        entropy[0] += share * (log(total) - t)
    return True


def lost_mass(const value_t[:, ::1] scores, Py_ssize_t first, Py_ssize_t step, const double[::1] objective):
    """Return the probability mass outside of the kept clusters, summed over some rows.

    They are the rows first, first + step, ... `scores` (R, K) are those of all clusters; `objective` (R,) is the log
    of the sum of the exponentials of those kept.
    """
    cdef Py_ssize_t i = first
    cdef double lost = 0.0
    with nogil:
        while i < scores.shape[0]:
            lost += lost_by_row(&scores[i, 0], scores.shape[1], objective[i])
            i += step
    return lost


cdef double lost_by_row(const value_t *scores, Py_ssize_t K, double objective) noexcept nogil:
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(K):
        total += expfam_exp1(scores[k] - objective)
    return max(1.0 - 1.0 / total, 0.0)


def soft_rows(value_t[:, ::1] scores, int32_t[:, ::1] labels, double[::1] objective, double[::1] entropy,
              double[::1] work):
    """Compute the softmax of each whole row, in place; arguments and result as in `select_rows`.

    The cluster with the largest score is written to `labels` (R, 1).
    """
    cdef Py_ssize_t i, bad = -1
    with nogil:
        for i in range(scores.shape[0]):
            if not soften_all(&scores[i, 0], scores.shape[1], &labels[i, 0], &objective[i], &entropy[i], &work[0]):
                bad = i
                break
    return bad


cdef bint soften_all(value_t *scores, Py_ssize_t K, int32_t *label, double *objective, double *entropy,
                     double *e) noexcept nogil:
    """Compute the softmax of a whole row, in place; `e` (work_size(K),) is scratch.

    Return False if the largest score is not finite.
    """
    cdef Py_ssize_t k, best = 0
    cdef double total, top, spread = 0.0
    for k in range(K):
        if scores[k] > scores[best] or not scores[best] == scores[best]:
            best = k
    top = scores[best]
    if not -INFINITY < top < INFINITY:
        return False
    for k in range(K):
        e[k] = scores[k] if scores[k] > -INFINITY else -INFINITY
    total = expfam_exp_blocks(e, top, e + K, K)
    for k in range(K):
        if e[k] > least(scores) * total:
            spread += e[k] * (scores[k] - top)
            scores[k] = <value_t> (e[k] / total)
        else:
            scores[k] = 0
    objective[0] = top + log(total)
    entropy[0] = log(total) - spread / total
    label[0] = <int32_t> best
    return True


# ---- sums ------------------------------------------------------------------------------------------------------------


cdef void by_cluster(const value_t *values, const int32_t *indices, Py_ssize_t size, Py_ssize_t K, int64_t *starts,
                     int64_t *places) noexcept nogil:
    """Sort the entries with a positive weight, of `size` ones in rows, by cluster, then by row.

    Cluster k has the entries places[starts[k]:starts[k + 1]]; `starts` has room for K + 2.
    """
    cdef Py_ssize_t e
    for e in range(K + 2):
        starts[e] = 0
    for e in range(size):
        if values[e] > 0:
            starts[indices[e] + 2] += 1
    for e in range(2, K + 2):
        starts[e] += starts[e - 1]
    for e in range(size):
        if values[e] > 0:
            places[starts[indices[e] + 1]] = e
            starts[indices[e] + 1] += 1


def add_dense_rows(const value_t[:, ::1] phi, const value_t[:, ::1] values, const int32_t[:, ::1] indices,
                   const double[::1] weight, double[::1] n, double[:, ::1] S, int64_t[::1] starts,
                   int64_t[::1] places, value_t[::1] total):
    """Add sparse responsibilities r (R, L) to n, and r phi to S, by cluster and then by row.

    `weight` (R,) multiplies the rows, or is None; `starts` (K + 2,), `places` (R L,) and `total` (F,) are scratch.
    """
    with nogil:
        add_rows(&phi[0, 0], &values[0, 0], &indices[0, 0], NULL if weight is None else &weight[0], phi.shape[0],
                 values.shape[1], n.shape[0], phi.shape[1], &n[0], &S[0, 0], &starts[0], &places[0], &total[0])


cdef void add_rows(const value_t *phi, const value_t *values, const int32_t *indices, const double *weight,
                   Py_ssize_t R, Py_ssize_t L, Py_ssize_t K, Py_ssize_t F, double *n, double *S, int64_t *starts,
                   int64_t *places, value_t *total) noexcept nogil:
    cdef Py_ssize_t k, e, i, f
    cdef double r
    by_cluster(values, indices, R * L, K, starts, places)
    for k in range(K):
        if starts[k] == starts[k + 1]:
            continue
        for f in range(F):
            total[f] = 0
        for e in range(starts[k], starts[k + 1]):
            i = places[e] // L
            r = values[places[e]]
            if weight != NULL:
                r *= weight[i]
            n[k] += r
            add_scaled(F, <value_t> r, phi + i * F, total)
        for f in range(F):
            S[k * F + f] += total[f]


def add_sparse_rows(const int64_t[::1] indptr, const index_kind[::1] columns, const double[::1] counts,
                    const value_t[:, ::1] values, const int32_t[:, ::1] indices, const double[::1] weight,
                    double[::1] n, double[:, ::1] S, int64_t[::1] starts, int64_t[::1] places):
    """Add responsibilities and statistics as `add_dense_rows`, for CSR rows."""
    cdef Py_ssize_t k, e, i, j, L = values.shape[1]
    cdef double r
    with nogil:
        by_cluster(&values[0, 0], &indices[0, 0], values.shape[0] * L, n.shape[0], &starts[0], &places[0])
        for k in range(n.shape[0]):
            for e in range(starts[k], starts[k + 1]):
                i = places[e] // L
                r = values[i, places[e] % L]
                if weight is not None:
                    r *= weight[i]
                n[k] += r
                for j in range(indptr[i], indptr[i + 1]):
                    S[k, columns[j]] += r * counts[j]


def add_soft_rows(const value_t[:, ::1] phi, value_t[:, ::1] shares, const double[::1] weight, double[::1] n,
                  double[:, ::1] S, value_t[:, ::1] product):
    """Add dense responsibilities r (R, K) to n, and r phi to S.

    Multiplies the responsibilities by `weight`, in place; `product` is scratch.
    """
    cdef Py_ssize_t k, f
    cdef int F = <int> phi.shape[1], K = <int> shares.shape[1], R = <int> phi.shape[0]
    cdef char plain = b"N", transposed = b"T"
    cdef value_t one = 1, zero = 0
    with nogil:
        weigh_soft_rows(shares, weight, n)
        if value_t is float:
            sgemm(&plain, &transposed, &F, &K, &R, &one, <float *> &phi[0, 0], &F, &shares[0, 0], &K, &zero,
                  &product[0, 0], &F)
        else:
            dgemm(&plain, &transposed, &F, &K, &R, &one, <double *> &phi[0, 0], &F, &shares[0, 0], &K, &zero,
                  &product[0, 0], &F)
        for k in range(K):
            for f in range(F):
                S[k, f] += product[k, f]


cdef void weigh_soft_rows(value_t[:, ::1] shares, const double[::1] weight, double[::1] n) noexcept nogil:
    cdef Py_ssize_t i, k
    for i in range(shares.shape[0]):
        for k in range(shares.shape[1]):
            if weight is not None:
                shares[i, k] = <value_t> (shares[i, k] * weight[i])
            n[k] += shares[i, k]


def add_soft_sparse_rows(const int64_t[::1] indptr, const index_kind[::1] columns, const double[::1] counts,
                         value_t[:, ::1] shares, const double[::1] weight, double[::1] n, double[:, ::1] table):
    """Add responsibilities and statistics as `add_soft_rows`, for CSR rows, to the transposed S.

    `table` (F, K) is the transposed S.
    """
    cdef Py_ssize_t i, j, k, K = shares.shape[1]
    cdef double x
    with nogil:
        weigh_soft_rows(shares, weight, n)
        for i in range(shares.shape[0]):
            for j in range(indptr[i], indptr[i + 1]):
                x = counts[j]
                for k in range(K):
                    table[columns[j], k] += x * shares[i, k]
