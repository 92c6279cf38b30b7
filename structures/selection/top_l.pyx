"""Selection of the L largest of the K values of each row.

The algorithm has three steps: find a bound that at least L values reach, keep these values in one pass, and sort them.
For L up to 12 the bound is the L-th largest of 32 maxima, each over every 32nd value; about 1.2 L values are expected
to reach it. For larger L the bound is the largest of 32 sampled values that at least L values reach, found by counting.
If many values remain, this is repeated among them. A bound can only be too low, which costs time but never changes a
result. Up to 128 values are sorted by counting their ranks over all pairs; more values are merged from sorted runs.
The order is total: values descend, ties are broken by the lowest index, and NaN counts as -inf.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from expfam.amounts import counted
from expfam.errors import DataError, SupportError
from expfam.structures.ground.threads import run

cdef extern from "top_l.h" nogil:
    enum: TOP_LANES
    enum: TOP_RUN
    void (*top_ranks_f32)(const float *values, Py_ssize_t n, float *ranks) noexcept
    void (*top_ranks_f64)(const double *values, Py_ssize_t n, double *ranks) noexcept
    float (*top_bound_f32)(const float *row, Py_ssize_t size, Py_ssize_t n_top) noexcept
    double (*top_bound_f64)(const double *row, Py_ssize_t size, Py_ssize_t n_top) noexcept
    Py_ssize_t (*top_count_f32)(const float *row, Py_ssize_t size, float bound) noexcept
    Py_ssize_t (*top_count_f64)(const double *row, Py_ssize_t size, double bound) noexcept
    Py_ssize_t (*top_keep_f32)(const float *row, const int32_t *origin, Py_ssize_t size, float bound, int above,
                               float *values, int32_t *indices) noexcept
    Py_ssize_t (*top_keep_f64)(const double *row, const int32_t *origin, Py_ssize_t size, double bound, int above,
                               double *values, int32_t *indices) noexcept

cdef Py_ssize_t FEW = 12            # up to this L the bound by maxima is tight
cdef Py_ssize_t ROUNDS = 6          # rounds of sampling; limited because bad data could make every round useless
_BLOCK_VALUES = 1 << 18             # values in a task


cdef inline Py_ssize_t count(const value_t *row, Py_ssize_t size, value_t bound) noexcept nogil:
    if value_t is float:
        return top_count_f32(row, size, bound)
    else:
        return top_count_f64(row, size, bound)


cdef inline Py_ssize_t keep(const value_t *row, const int32_t *origin, Py_ssize_t size, value_t bound, bint above,
                            value_t *values, int32_t *indices) noexcept nogil:
    if value_t is float:
        return top_keep_f32(row, origin, size, bound, above, values, indices)
    else:
        return top_keep_f64(row, origin, size, bound, above, values, indices)


cdef void order_run(value_t *values, int32_t *indices, Py_ssize_t n) noexcept nogil:
    """Sort up to TOP_RUN pairs by descending value; ties keep their order.

    Values after the last one, up to a multiple of 16, are overwritten.
    """
    cdef value_t sorted_values[TOP_RUN]
    cdef int32_t sorted_indices[TOP_RUN]
    cdef int32_t n_equal[TOP_RUN]
    cdef value_t ranks[TOP_RUN]
    cdef Py_ssize_t j, rank
    for j in range(n, (n + 15) & ~15):
        values[j] = -INFINITY
    if value_t is float:
        top_ranks_f32(values, n, ranks)
    else:
        top_ranks_f64(values, n, ranks)
    for j in range(n):
        n_equal[j] = 0
    for j in range(n):
        rank = <Py_ssize_t> ranks[j]
        n_equal[rank] += 1
        rank += n_equal[rank] - 1
        sorted_values[rank], sorted_indices[rank] = values[j], indices[j]
    memcpy(values, sorted_values, n * sizeof(value_t))
    memcpy(indices, sorted_indices, n * sizeof(int32_t))


cdef void merge(const value_t *x, const int32_t *x_at, Py_ssize_t middle, Py_ssize_t n, value_t *out,
                int32_t *out_at) noexcept nogil:
    """Merge the descending runs [0, middle) and [middle, n) into one.

    Of equal values, those of the first run come first.
    """
    cdef Py_ssize_t i = 0, j = middle, t
    cdef bint second
    for t in range(n):
        second = i == middle or (j < n and x[j] > x[i])
        if second:
            out[t], out_at[t] = x[j], x_at[j]
            j += 1
        else:
            out[t], out_at[t] = x[i], x_at[i]
            i += 1


cdef bint order(value_t *values, int32_t *indices, Py_ssize_t n, value_t *other, int32_t *other_indices) noexcept nogil:
    """Sort by descending value; ties keep their order.

    Returns whether the result is in the second pair of arrays.
    """
    cdef Py_ssize_t start = 0, size = TOP_RUN
    cdef bint swapped = False
    while start < n:
        order_run(values + start, indices + start, min(size, n - start))
        start += size
    while size < n:
        start = 0
        while start < n:
            merge(values + start, indices + start, min(size, n - start), min(2 * size, n - start), other + start,
                  other_indices + start)
            start += 2 * size
        values, other = other, values
        indices, other_indices = other_indices, indices
        swapped = not swapped
        size *= 2
    return swapped


cdef Py_ssize_t drop_ties(value_t *values, int32_t *indices, Py_ssize_t n, value_t bound,
                          Py_ssize_t n_equal) noexcept nogil:
    """Remove values equal to the bound, except the first n_equal of them."""
    cdef Py_ssize_t i, kept = 0
    for i in range(n):
        values[kept], indices[kept] = values[i], indices[i]
        if values[i] > bound:
            kept += 1
        elif n_equal > 0:
            n_equal -= 1
            kept += 1
    return kept


cdef value_t sampled_bound(const value_t *row, Py_ssize_t size, Py_ssize_t n_top) noexcept nogil:
    """Return the largest of 32 sampled values that at least n_top values reach, or -inf."""
    cdef value_t sample[TOP_LANES]
    cdef int32_t unused[TOP_LANES]
    cdef Py_ssize_t j, low = 0, high = TOP_LANES, middle
    for j in range(TOP_LANES):
        sample[j] = row[(2 * j + 1) * size // (2 * TOP_LANES)]
        if not sample[j] > -INFINITY:
            sample[j] = -INFINITY
        unused[j] = 0
    order_run(<value_t *> sample, <int32_t *> unused, TOP_LANES)
    while low < high:
        middle = (low + high) // 2
        if count(row, size, sample[middle]) >= n_top:
            high = middle
        else:
            low = middle + 1
    return sample[low] if low < TOP_LANES else <value_t> -INFINITY


cdef Py_ssize_t candidates(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values,
                           int32_t *indices) noexcept nogil:
    """Collect values above -inf that include the n_top largest; return their number.

    The values are in the order of their positions.
    """
    cdef value_t bound = -INFINITY, higher
    cdef Py_ssize_t n, before, n_above, i, _turn
    if n_top <= FEW and size >= TOP_LANES:
        if value_t is float:
            bound = top_bound_f32(row, size, n_top)
        else:
            bound = top_bound_f64(row, size, n_top)
    elif size >= 2 * TOP_LANES and n_top < size // 2:
        bound = sampled_bound(row, size, n_top)
    n = keep(row, NULL, size, bound, bound == -INFINITY, values, indices)
    for _turn in range(ROUNDS):
        if n <= n_top + n_top // 2 + 16:
            break
        n_above = 0
        for i in range(n):
            n_above += values[i] > bound
        if n_above < n_top:
            return drop_ties(values, indices, n, bound, n_top - n_above)
        higher = sampled_bound(values, n, n_top)
        before = n
        if higher > bound:
            bound = higher
            n = keep(values, indices, n, bound, False, values, indices)
        else:
            n = keep(values, indices, n, bound, True, values, indices)
        if n == before:
            break
    return n


cdef void fill_up(const value_t *row, Py_ssize_t n_top, value_t *values, int32_t *indices) noexcept nogil:
    """Fill the remaining places with columns that are -inf or NaN, lowest index first.

    All other columns are in the result already.
    """
    cdef Py_ssize_t n = 0, k = 0
    while n < n_top and values[n] > -INFINITY:
        n += 1
    while n < n_top:
        if not row[k] > -INFINITY:
            values[n], indices[n] = -INFINITY, <int32_t> k
            n += 1
        k += 1


cdef int top_row(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices,
                 value_t *work) noexcept nogil:
    cdef Py_ssize_t room = size + TOP_PADDING, n, j
    cdef value_t *other = work + room
    cdef int32_t *at = <int32_t *> (work + 2 * room)
    cdef int32_t *other_at = <int32_t *> (work + 3 * room)
    n = candidates(row, size, n_top, work, at)
    if order(work, at, n, other, other_at):
        work, at = other, other_at
    for j in range(n_top):
        if j < n:
            values[j], indices[j] = work[j], at[j]
        else:
            values[j], indices[j] = -INFINITY, -1
    if n == 0:
        return 1
    if n < n_top:
        fill_up(row, n_top, values, indices)
    return 0


cdef Py_ssize_t select_block(const value_t[:, ::1] rows, value_t[:, ::1] values, int32_t[:, ::1] indices,
                             value_t[::1] work) noexcept nogil:
    """Select the largest values of a block of rows.

    Returns the first row without a value above -inf, or -1.
    """
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        if top_row(&rows[i, 0], rows.shape[1], values.shape[1], &values[i, 0], &indices[i, 0], &work[0]):
            return i
    return -1


def _select_block(rows, values, indices):
    work = np.empty(top_work_size(rows.shape[1]), dtype=rows.dtype)
    cdef const float[:, ::1] rows_single
    cdef const double[:, ::1] rows_double
    cdef float[:, ::1] values_single
    cdef double[:, ::1] values_double
    cdef float[::1] work_single
    cdef double[::1] work_double
    cdef int32_t[:, ::1] out = indices
    cdef Py_ssize_t bad
    if rows.dtype == np.float32:
        rows_single, values_single, work_single = rows, values, work
        with nogil:
            bad = select_block(rows_single, values_single, out, work_single)
    else:
        rows_double, values_double, work_double = rows, values, work
        with nogil:
            bad = select_block(rows_double, values_double, out, work_double)
    return bad


def select_top(values, n_top, *, n_threads=1):
    """Select the largest values of each row and their columns.

    Parameters
    ----------
    values : (N, K) array_like of float
        float32 stays float32; all other types are read as float64. NaN counts as -inf.
    n_top : int
        Number L of values to select, from 1 to K.
    n_threads : int or None

    Returns
    -------
    values : (N, L) ndarray of the same dtype
        Largest first.
    indices : (N, L) int32 ndarray
        Columns of these values, all different. Of equal values the lowest column comes first.

    Raises
    ------
    SupportError
        A row has no value above -inf; the message gives its number.

    Notes
    -----
    A row costs O(K + L log L), and O(K log K) in the worst case.

    Examples
    --------
    >>> from expfam.structures import select_top
    >>> select_top([[1.0, 5.0, 3.0, 5.0]], 3)
    (array([[5., 5., 3.]]), array([[1, 3, 2]], dtype=int32))
    """
    rows = np.asarray(values)
    rows = np.ascontiguousarray(rows, dtype=np.float32 if rows.dtype == np.float32 else np.float64)
    if rows.ndim != 2 or not 1 <= rows.shape[1] < 2**31:
        raise DataError(f"values must be a matrix with at least one column; got shape {rows.shape}")
    n_rows, size = rows.shape
    if not 1 <= n_top <= size or n_top != int(n_top):
        raise ValueError(f"n_top must be a whole number from 1 to the {counted(size, 'column')}; got {n_top!r}")
    top = np.empty((n_rows, n_top), dtype=rows.dtype)
    indices = np.empty((n_rows, n_top), dtype=np.int32)
    step = max(1, _BLOCK_VALUES // size)
    tasks = [(rows[b : b + step], top[b : b + step], indices[b : b + step]) for b in range(0, n_rows, step)]
    for block, bad in enumerate(run(_select_block, tasks, n_threads)):
        if bad >= 0:
            raise SupportError(
                f"row {block * step + bad} has no value above -inf: no column can be kept; "
                "give at least one a finite value"
            )
    return top, indices
