"""Sums of sufficient statistics by cluster.

The order of summation depends only on the size of the data. Dense rows are cut into 64 contiguous segments: sums run in
row order within a segment, then over the segments in order. Sparse rows are summed in row order. The cost is O(N F) or
O(nnz) time and O(N + K F) memory; the data are not copied.
"""

from functools import lru_cache

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t

from expfam.families.support import chosen_rows
from expfam.structures.ground.threads import segments

cdef Py_ssize_t BLOCK_BYTES = 1 << 20       # bytes of dense statistics computed at a time
cdef Py_ssize_t BLOCK_ROWS = 1 << 14        # rows of sparse statistics computed at a time
cdef Py_ssize_t TABLE_BYTES = 1 << 25       # up to this size, sparse sums use a dense table


def label_statistics(data, labels, Py_ssize_t n_clusters):
    """Return counts (K,) and sums of phi (K, F) of the data in each cluster.

    Parameters
    ----------
    data : Dataset
    labels : (N,) array_like of int
        A negative label leaves its datum out.
    n_clusters : int
        K, above all labels.

    Returns
    -------
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray, or CSR where phi is sparse

    Raises
    ------
    ValueError
        Labels have another length, or one is not below `n_clusters`.
    """
    labels = np.ascontiguousarray(labels, dtype=np.int32)
    if labels.shape != (data.n_rows,):
        raise ValueError(f"labels must have shape ({data.n_rows},); got {labels.shape}")
    n = _counts(labels, n_clusters)
    if data.has_sparse_phi:
        return n, sparse_sums(data, labels, n_clusters)
    return n, _dense_sums(data.phi, labels, _ends_of_segments(data.n_rows), n_clusters, data.n_statistics)


def _dense_sums(phi, labels, ends, Py_ssize_t n_clusters, Py_ssize_t F):
    """Return the sums (K, F) of ``phi(start, stop)`` by label, segment by segment of the rows.

    Segments lie between the numbers `ends`; some may be empty.
    """
    rows = max(1, BLOCK_BYTES // (8 * F))
    S = np.zeros((n_clusters, F))
    if labels.size == 0:
        return S
    if labels.size <= rows:     # the rows of all segments together
        add_segments(S, phi(0, labels.size), labels, ends)
        return S
    for first, last, bounds in _segments_together(ends, rows):
        if bounds is not None:
            add_segments(S, phi(first, last), labels[first:last], bounds - first)
            continue
        used, place = _occurring(labels[first:last], n_clusters)
        part = np.zeros((n_clusters if isinstance(used, slice) else used.size, F))
        for start in range(first, last, rows):
            stop = min(last, start + rows)
            add_rows(part, phi(start, stop), place[start - first : stop - first])
        S[used] += part
    return S


def _counts(const int32_t[::1] labels, Py_ssize_t n_clusters):
    """Return the number of rows of each cluster: (K,) float64; negative labels are left out."""
    counts = np.zeros(n_clusters)
    cdef double[::1] count = counts
    cdef Py_ssize_t i, largest = -1
    with nogil:
        for i in range(labels.shape[0]):
            if labels[i] >= n_clusters:
                largest = max(largest, <Py_ssize_t> labels[i])
            elif labels[i] >= 0:
                count[labels[i]] += 1.0
    if largest >= 0:
        raise ValueError(f"labels must be below {n_clusters}; the largest is {largest}")
    return counts


@lru_cache(maxsize=64)
def _ends_of_segments(n_rows):
    ends = np.array([0, *(stop for _, stop in segments(n_rows))], dtype=np.intp)
    ends.setflags(write=False)
    return ends


def _segments_together(ends, Py_ssize_t most):
    """Yield first row, last row and bounds of segments that have `most` rows together.

    A call costs as much as the statistics of many rows. The bounds of a segment of more rows are None.
    """
    first, bounds = 0, [0]
    for start, last in zip(ends[:-1].tolist(), ends[1:].tolist()):
        if last - first > most and len(bounds) > 1:
            yield first, start, np.array(bounds, dtype=np.intp)
            first, bounds = start, [start]
        if last - start > most:
            yield start, last, None
            first, bounds = last, [last]
        else:
            bounds.append(last)
    if len(bounds) > 1:
        yield first, bounds[len(bounds) - 1], np.array(bounds, dtype=np.intp)


def _occurring(labels, Py_ssize_t n_clusters):
    """Return the clusters of a segment and the index of each datum's cluster among them.

    If there are no more clusters than data in the segment, all clusters are used.
    """
    if n_clusters <= labels.size:
        return slice(None), labels
    # Adding the zeros of all other clusters for each segment would cost 64 K F.
    used, place = np.unique(np.maximum(labels, -1), return_inverse=True)
    n_left_out = int(used.size > 0 and used[0] < 0)
    return used[n_left_out:], (place - n_left_out).astype(np.int32)


def sums_of_rows(data, rows, labels, Py_ssize_t n_clusters):
    """Return the sums (K, F) of phi of some rows by label.

    They have the bits that `label_statistics` gives if all other rows are left out. Only these rows are read, unless
    phi is sparse.

    Parameters
    ----------
    data : Dataset
    rows : (R,) intp ndarray
        Ascending.
    labels : (R,) int32 ndarray
    n_clusters : int
        K, above all labels.
    """
    if data.has_sparse_phi:
        inside = np.full(data.n_rows, -1, dtype=np.int32)
        inside[rows] = labels
        return label_statistics(data, inside, n_clusters)[1]
    ends = np.searchsorted(rows, _ends_of_segments(data.n_rows))
    return _dense_sums(lambda a, b: _phi_of(data, rows[a:b]), labels, ends, n_clusters, data.n_statistics)


def _phi_of(data, rows):
    """Return the dense statistics of some rows."""
    phi = data.family.sufficient_statistics(chosen_rows(data.X, rows))
    return np.ascontiguousarray(phi.toarray() if sparse.issparse(phi) else phi, dtype=np.float64)


def weighted_statistics(data, labels, Py_ssize_t n_clusters):
    """Return counts (K,) and sums of phi (K, F) in each cluster, weighted by the rows' weights.

    Arguments and results are those of `label_statistics`; no label is negative.
    """
    if data.weight is None:
        return label_statistics(data, labels, n_clusters)
    S = sparse.csr_array((n_clusters, data.n_statistics)) if data.has_sparse_phi else 0.0
    for start in range(0, data.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, data.n_rows)
        chosen = (data.weight[start:stop], labels[start:stop], np.arange(stop - start + 1))
        phi = data.phi_csr(start, stop) if data.has_sparse_phi else data.phi(start, stop)
        S = S + sparse.csr_array(chosen, shape=(stop - start, n_clusters)).T @ phi
    n = np.bincount(labels, weights=data.weight, minlength=n_clusters)
    return n, sparse.csr_array(S) if data.has_sparse_phi else np.ascontiguousarray(S)


def moved_statistics(data, n, S, old, new):
    """Compute the statistics of labels `new` from those of labels `old`, in new arrays.

    Only data whose label differs are read, in the order of rows. Counts are exact. Sums differ from a recount by
    rounding; sums of empty clusters are exactly 0.

    Parameters
    ----------
    data : Dataset
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray or CSR
        Statistics of the labels `old`.
    old, new : (N,) int32 ndarrays
        Labels before and after.
    """
    moved = np.flatnonzero(old != new)
    old, new = old[moved], new[moved]
    K = n.shape[0]
    n = n + (np.bincount(new, minlength=K) - np.bincount(old, minlength=K))
    if data.has_sparse_phi:
        phi = data.family.sufficient_statistics(data.X[moved]).tocsr()
        m = moved.size
        signs = sparse.csr_array((np.repeat([1.0, -1.0], m), (np.append(new, old), np.tile(np.arange(m), 2))), (K, m))
        S = sparse.csr_array(S + signs @ phi)   # the sum has no stored zeros
        empty = np.repeat(n == 0, np.diff(S.indptr))
        if empty.any():
            S.data[empty] = 0.0
            S.eliminate_zeros()
        S.sort_indices()
        return n, S
    S = S.copy()
    rows = max(1, BLOCK_BYTES // (8 * data.n_statistics))
    for start in range(0, moved.size, rows):
        stop = start + rows
        move_rows(S, _phi_of(data, moved[start:stop]), old[start:stop], new[start:stop])
    S[n == 0] = 0.0     # exactly, without rounding errors
    return n, S


def recounted_statistics(data, n, S, old, new):
    """Compute what `weighted_statistics` does for labels `new` from what it does for `old`.

    The bits are the same: clusters that gain or lose rows are counted anew. Only their rows are read where rows are
    dense and have no weights.

    Parameters
    ----------
    data : Dataset
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray or CSR
        What `weighted_statistics` returns for the labels `old`.
    old, new : (N,) int32 ndarrays
        Labels before and after.
    """
    K = len(n)
    if data.weight is not None or data.has_sparse_phi:
        return weighted_statistics(data, new, K)
    moved, is_changed = old != new, np.zeros(K, dtype=bool)
    if not moved.any():
        return n, S
    is_changed[old[moved]] = is_changed[new[moved]] = True
    rows, clusters = np.flatnonzero(is_changed[new]), np.flatnonzero(is_changed)
    place = np.cumsum(is_changed, dtype=np.int32) - np.int32(1)

    def phi(start, stop):
        return _phi_of(data, rows[start:stop])

    ends = np.searchsorted(rows, _ends_of_segments(data.n_rows)).astype(np.intp)
    n, S = _counts(np.ascontiguousarray(new, dtype=np.int32), K), S.copy()
    S[clusters] = _dense_sums(phi, place[new[rows]], ends, clusters.size, data.n_statistics)
    return n, S


def _phi_of(data, rows):
    """Return the statistics of some rows, dense."""
    phi = data.family.sufficient_statistics(chosen_rows(data.X, rows))
    return np.ascontiguousarray(phi.toarray() if sparse.issparse(phi) else phi, dtype=np.float64)


cdef void move_rows(double[:, ::1] S, const double[:, ::1] phi, const int32_t[::1] old, const int32_t[::1] new):
    """Subtract phi of each row from S[old] and add it to S[new], in row order."""
    cdef Py_ssize_t i, f, F = S.shape[1]
    with nogil:
        for i in range(phi.shape[0]):
            for f in range(F):
                S[old[i], f] -= phi[i, f]
            for f in range(F):
                S[new[i], f] += phi[i, f]


cdef void add_segments(double[:, ::1] S, const double[:, ::1] phi, const int32_t[::1] labels,
                       const Py_ssize_t[::1] bounds):
    """Add the sums of phi by label of one segment of the rows after the other to S."""
    cdef double[:, ::1] part = np.zeros((S.shape[0], S.shape[1]))
    with nogil:
        add_segments_with(S, part, phi, labels, bounds)


cdef void add_segments_with(double[:, ::1] S, double[:, ::1] part, const double[:, ::1] phi, const int32_t[::1] labels,
                            const Py_ssize_t[::1] bounds) noexcept nogil:
    """Do what `add_segments` does; `part` is scratch of the shape of S that holds zeros."""
    cdef Py_ssize_t s, i, f, k, F = S.shape[1]
    for s in range(bounds.shape[0] - 1):
        for i in range(bounds[s], bounds[s + 1]):
            k = labels[i]
            if k >= 0:
                for f in range(F):
                    part[k, f] += phi[i, f]
        if bounds[s + 1] - bounds[s] > S.shape[0]:
            for k in range(S.shape[0]):
                for f in range(F):
                    S[k, f] += part[k, f]
                    part[k, f] = 0.0
            continue
        for i in range(bounds[s], bounds[s + 1]):   # a second row of a cluster adds the zeros that the first left
            k = labels[i]
            if k >= 0:
                for f in range(F):
                    S[k, f] += part[k, f]
                    part[k, f] = 0.0


cdef void add_rows(double[:, ::1] S, const double[:, ::1] phi, const int32_t[::1] labels):
    """Add phi of each row that has a label to S[label], in row order."""
    cdef Py_ssize_t i, f, k, F = S.shape[1]
    with nogil:
        for i in range(phi.shape[0]):
            k = labels[i]
            if k >= 0:
                for f in range(F):
                    S[k, f] += phi[i, f]


ctypedef fused index_kind:
    int32_t
    int64_t


ctypedef fused value_kind:
    int32_t
    int64_t
    float
    double


def sparse_sums(data, labels, Py_ssize_t n_clusters):
    """Sum CSR statistics by label; return CSR with sorted indices and no stored zeros.

    If a dense table is small, it is filled in blocks of rows. Otherwise the sums are made cluster by cluster with one
    dense row of scratch.

    Parameters
    ----------
    data : Dataset
        With CSR statistics.
    labels : (N,) int32 ndarray
    n_clusters : int
        K, above all labels.
    """
    F = data.n_statistics
    if 8 * n_clusters * F <= TABLE_BYTES:
        table = np.zeros((n_clusters, F))
        for start in range(0, data.n_rows, BLOCK_ROWS):
            phi = data.phi_csr(start, min(start + BLOCK_ROWS, data.n_rows))
            add_sparse_rows(table, phi.indptr.astype(np.int64, copy=False), phi.indices, phi.data, labels[start:])
        return sparse.csr_array(table)
    phi = data.phi_csr(0, data.n_rows)
    order = np.argsort(labels, kind="stable").astype(np.int64, copy=False)
    starts, indptr = phi.indptr.astype(np.int64, copy=False), np.zeros(n_clusters + 1, dtype=np.int64)
    # entries are counted first: room for as many as the rows have would be several times what sums take
    size = count_sparse_rows(starts, phi.indices, order, labels, np.full(F, -1, dtype=np.int32), n_clusters)
    indices, values = np.empty(size, dtype=np.int32), np.empty(size)
    stored = gather_sparse_rows(starts, phi.indices, phi.data, order, labels, np.zeros(F), np.zeros(F, dtype=np.uint8),
                                indices, values, indptr)
    if stored < size:       # sums that are 0: a view would keep their memory
        indices, values = indices[:stored].copy(), values[:stored].copy()
    if stored <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)    # else all indices would be int64
    S = sparse.csr_array((values, indices, indptr), shape=(n_clusters, F))
    S.sort_indices()
    return S


def add_sparse_rows(double[:, ::1] table, const int64_t[::1] indptr, const index_kind[::1] indices,
                    const value_kind[::1] values, const int32_t[::1] labels):
    """Add each CSR row that has a label to table[label], in row order."""
    cdef Py_ssize_t i, j, k
    with nogil:
        for i in range(indptr.shape[0] - 1):
            k = labels[i]
            if k >= 0:
                for j in range(indptr[i], indptr[i + 1]):
                    table[k, indices[j]] += values[j]


def count_sparse_rows(const int64_t[::1] indptr, const index_kind[::1] indices, const int64_t[::1] order,
                      const int32_t[::1] labels, int32_t[::1] last, Py_ssize_t n_clusters):
    """Count the pairs of a cluster and a column in rows.

    Rows in `order` are sorted by label. `last` has -1 for each column.
    """
    cdef Py_ssize_t place, j, i, k, n = 0
    with nogil:
        for place in range(order.shape[0]):
            i = order[place]
            k = labels[i]
            if not 0 <= k < n_clusters:
                continue
            for j in range(indptr[i], indptr[i + 1]):
                if last[indices[j]] != k:
                    last[indices[j]] = <int32_t> k
                    n += 1
    return n


def gather_sparse_rows(const int64_t[::1] indptr, const index_kind[::1] indices, const value_kind[::1] values,
                       const int64_t[::1] order, const int32_t[::1] labels, double[::1] row_sum,
                       unsigned char[::1] seen, int32_t[::1] out_indices, double[::1] out_values,
                       int64_t[::1] out_indptr):
    """Sum rows in `order`, which are sorted by label, into CSR arrays.

    Returns the number of stored entries.
    """
    cdef Py_ssize_t at = 0, i, j, k, first = 0, N = order.shape[0], begin, end, column
    with nogil:
        while first < N and labels[order[first]] < 0:
            first += 1
        for k in range(out_indptr.shape[0] - 1):
            begin = end = at
            while first < N and labels[order[first]] == k:
                i = order[first]
                for j in range(indptr[i], indptr[i + 1]):
                    column = indices[j]
                    if not seen[column]:
                        seen[column] = 1
                        out_indices[end] = <int32_t> column
                        end += 1
                    row_sum[column] += values[j]
                first += 1
            for j in range(begin, end):
                column = out_indices[j]
                if row_sum[column] != 0.0:
                    out_indices[at] = <int32_t> column
                    out_values[at] = row_sum[column]
                    at += 1
                row_sum[column] = 0.0
                seen[column] = 0
            out_indptr[k + 1] = at
    return at
