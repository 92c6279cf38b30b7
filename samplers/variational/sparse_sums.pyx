"""Sparse sums of statistics, and additions to them, with no arrays beside the result.

Products of CSR arrays by SciPy need the values of both in one type, and sums of two arrays have room for the entries of
both first. Here entries are counted before they are written, rows are read as they lie, and sums that are replaced need
one pass over all three arrays. Results have the bits of SciPy's.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from expfam.families.rows cimport csr_rows, entry_column, entry_value, open_rows, row_start

_KINDS = ("float64", "float32", "int64", "int32")   # that rows are read in

cdef enum:
    DIGIT = 11                  # bits that numbers of columns are sorted by at a time
    N_DIGITS = 2048
    FEW = 48                    # so many are sorted faster one by one

ctypedef fused index_kind:
    int32_t
    int64_t


def merged_sums(S, taken, added):
    """Return ``S - taken + added`` of CSR arrays, without entries that are 0.

    Parameters
    ----------
    S, added : (K, F) float64 CSR
        Columns of a row ascend.
    taken : (K, F) float64 CSR or None
        None for nothing.

    Returns
    -------
    (K, F) float64 CSR
        It has the bits of two sums by SciPy.
    """
    if taken is None:
        taken = sparse.csr_array(S.shape)
    parts = [(part.indptr, part.indices) for part in (S, taken, added)]
    is_narrow = all(array.dtype == np.int32 for part in parts for array in part)
    kind = np.int32 if is_narrow and S.nnz + added.nnz <= np.iinfo(np.int32).max else np.int64
    places = [array.astype(kind, copy=False) for part in parts for array in part]
    values = [part.data.astype(np.float64, copy=False) for part in (S, taken, added)]
    indptr = np.zeros(S.shape[0] + 1, dtype=kind)
    _merge(*places, *values, S.shape[1], indptr, np.empty(0, dtype=kind), np.empty(0), False)
    np.cumsum(indptr, out=indptr)
    size = int(indptr[S.shape[0]])
    indices, data = np.empty(size, dtype=kind), np.empty(size)
    _merge(*places, *values, S.shape[1], indptr, indices, data, True)
    return sparse.csr_array((data, indices, indptr), shape=S.shape)


def _merge(const index_kind[::1] a_starts, const index_kind[::1] a_columns, const index_kind[::1] b_starts,
           const index_kind[::1] b_columns, const index_kind[::1] c_starts, const index_kind[::1] c_columns,
           const double[::1] a, const double[::1] b, const double[::1] c, Py_ssize_t n_columns,
           index_kind[::1] indptr, index_kind[::1] indices, double[::1] data, bint is_written):
    """Count the entries of ``a - b + c`` of each row, or write them from `indptr` on."""
    cdef Py_ssize_t k, i, j, h, at
    cdef Py_ssize_t column, of_a, of_b, of_c
    cdef double value
    with nogil:
        for k in range(a_starts.shape[0] - 1):
            i, j, h = a_starts[k], b_starts[k], c_starts[k]
            at = indptr[k] if is_written else 0
            while True:
                of_a = a_columns[i] if i < a_starts[k + 1] else n_columns
                of_b = b_columns[j] if j < b_starts[k + 1] else n_columns
                of_c = c_columns[h] if h < c_starts[k + 1] else n_columns
                column = min(of_a, of_b, of_c)
                if column == n_columns:
                    break
                value = 0.0
                if of_a == column:
                    value = a[i]
                    i += 1
                if of_b == column:
                    value -= b[j]
                    j += 1
                if of_c == column:
                    value += c[h]
                    h += 1
                if value != 0.0:
                    if is_written:
                        indices[at], data[at] = <index_kind> column, value
                    at += 1
            if not is_written:
                indptr[k + 1] = <index_kind> at


def sums_of_shares(R, phi, numbers, const int32_t[::1] place, Py_ssize_t n_columns):
    """Return the product ``R.T @ phi[numbers]`` of CSR arrays, with other numbers of columns.

    Parameters
    ----------
    R : (m, K) float64 CSR
        Responsibilities of the rows.
    phi : (N, F) CSR
        Statistics of all rows.
    numbers : (m,) int64 ndarray
        Which of them.
    place : (F,) int32 ndarray
        New number of each column.
    n_columns : int
        U, above all new numbers.

    Returns
    -------
    (K, U) float64 CSR
        Columns of a row ascend, and no entry is 0.
    """
    by_cluster = R.T.tocsr()
    starts, members = by_cluster.indptr.astype(np.int64, copy=False), numbers[by_cluster.indices]
    indptr = np.zeros(by_cluster.shape[0] + 1, dtype=np.int64)
    product = (starts, members, by_cluster.data, phi, place, n_columns, indptr)
    _multiply(*product, np.empty(0, dtype=np.int32), np.empty(0), 0, False)
    most = int(indptr.max())
    np.cumsum(indptr, out=indptr)
    size = int(indptr[indptr.size - 1])
    indices, data = np.empty(size, dtype=np.int32), np.empty(size)
    kept = _multiply(*product, indices, data, most, True)
    narrow = np.int32 if size <= np.iinfo(np.int32).max else np.int64
    found = (data[:kept], indices[:kept].astype(narrow, copy=False), indptr.astype(narrow, copy=False))
    return sparse.csr_array(found, shape=(by_cluster.shape[0], n_columns))


cdef void sort_numbers(int32_t *numbers, Py_ssize_t n, int32_t *room, int32_t largest) noexcept nogil:
    """Sort different numbers from 0 to `largest`; there is room for `n` others."""
    cdef Py_ssize_t counts[N_DIGITS]
    cdef Py_ssize_t i, j, total, here
    cdef int shift = 0
    cdef int32_t number
    if n <= FEW:
        for i in range(1, n):
            number, j = numbers[i], i
            while j and numbers[j - 1] > number:
                numbers[j] = numbers[j - 1]
                j -= 1
            numbers[j] = number
        return
    while largest >> shift:
        memset(counts, 0, sizeof(counts))
        for i in range(n):
            counts[(numbers[i] >> shift) & (N_DIGITS - 1)] += 1
        total = 0
        for i in range(N_DIGITS):
            here, counts[i] = counts[i], total
            total += here
        for i in range(n):
            j = (numbers[i] >> shift) & (N_DIGITS - 1)
            room[counts[j]] = numbers[i]
            counts[j] += 1
        memcpy(numbers, room, n * sizeof(int32_t))
        shift += DIGIT


def _multiply(const int64_t[::1] starts, const int64_t[::1] members, const double[::1] shares, phi,
              const int32_t[::1] place, Py_ssize_t n_columns, int64_t[::1] indptr, int32_t[::1] indices,
              double[::1] data, Py_ssize_t most, bint is_written):
    """Count the columns of the rows of each cluster, or write its sums.

    Returns how many are written in all. `most` is the largest of these counts, which is known when sums are written.
    """
    cdef csr_rows rows
    cdef Py_ssize_t k, e, i, p, first, column, n, j, at = 0
    cdef double share
    values = phi.data if phi.data.dtype.name in _KINDS else phi.data.astype(np.float64)
    open_rows(&rows, values, phi.indices, phi.indptr)
    # counting, the cluster that saw a column last; writing, the place in `sums` of a column of a cluster
    cdef int32_t[::1] seen = np.full(n_columns, -1, dtype=np.int32)
    cdef int32_t[::1] names = np.empty(most, dtype=np.int32), room = np.empty(most, dtype=np.int32)
    cdef double[::1] sums = np.empty(most)
    with nogil:
        for k in range(starts.shape[0] - 1):
            n = 0
            for e in range(starts[k], starts[k + 1]):
                i = members[e]
                share = shares[e]
                for p in range(row_start(&rows, i), row_start(&rows, i + 1)):
                    column = place[entry_column(&rows, p)]
                    if not is_written:
                        n += seen[column] != k
                        seen[column] = <int32_t> k
                        continue
                    if seen[column] < 0:
                        seen[column], names[n], sums[n] = <int32_t> n, <int32_t> column, 0.0
                        n += 1
                    sums[seen[column]] += share * entry_value(&rows, p)
            if not is_written:
                indptr[k + 1] = n
                continue
            first = at
            if n:
                sort_numbers(&names[0], n, &room[0], <int32_t> n_columns - 1)
            for j in range(n):
                if sums[seen[names[j]]] != 0.0:
                    indices[at], data[at] = names[j], sums[seen[names[j]]]
                    at += 1
                seen[names[j]] = -1
            indptr[k] = first
    if is_written:
        indptr[starts.shape[0] - 1] = at
    return at
