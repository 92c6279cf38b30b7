"""The L largest of the K values of each row.

Few of many: a sorted buffer of L and its last value as a threshold; sixteen values at once are compared with it, and
only the rare blocks with a larger one are looked into: O(K) comparisons and about L log(K / L) insertions for values in
random order. The first threshold is the L-th largest of 32 maxima, each over every 32nd value, which spares most
insertions. More than 32: quickselect for the L-th largest value, one pass to collect, and a heap sort of the L.
The order is total in both: values falling, ties by lowest index, NaN as if it were -inf.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint64_t

from expfam.errors import DataError, SupportError
from expfam.structures._threads import run

cdef extern from *:
    """
    #include "kernels.h"
    #define TOP_LANES 32
    #define TOP_STEP 16
    /* Maxima over every 32nd value; a NaN never replaces one. The last values that fill no round are left out. */
    #define TOP_MAXIMA(NAME, TARGET, TYPE)                                                          \
        TARGET static void NAME(const TYPE *row, ptrdiff_t size, TYPE *out) {                       \
            TYPE lanes[TOP_LANES];                                                                  \
            for (int j = 0; j < TOP_LANES; j++) lanes[j] = (TYPE)-INFINITY;                         \
            for (ptrdiff_t k = 0; k + TOP_LANES <= size; k += TOP_LANES) {                          \
                EXPFAM_SIMD                                                                         \
                for (int j = 0; j < TOP_LANES; j++) lanes[j] = row[k + j] > lanes[j] ? row[k + j] : lanes[j]; \
            }                                                                                       \
            for (int j = 0; j < TOP_LANES; j++) out[j] = lanes[j];                                  \
        }
    #define TOP_MAXIMA_F32(NAME, TARGET) TOP_MAXIMA(NAME, TARGET, float)
    #define TOP_MAXIMA_F64(NAME, TARGET) TOP_MAXIMA(NAME, TARGET, double)
    /* First block of 16 from k on with a value above the bound, or that is cut short by the end of the row. */
    #define TOP_NEXT(NAME, TARGET, TYPE)                                                            \
        TARGET static ptrdiff_t NAME(const TYPE *row, ptrdiff_t k, ptrdiff_t size, TYPE bound) {    \
            for (; k + TOP_STEP <= size; k += TOP_STEP) {                                           \
                int any = 0;                                                                        \
                EXPFAM_PRAGMA(omp simd reduction(| : any))                                          \
                for (int j = 0; j < TOP_STEP; j++) any |= row[k + j] > bound;                       \
                if (any) return k;                                                                  \
            }                                                                                       \
            return k;                                                                               \
        }
    #define TOP_NEXT_F32(NAME, TARGET) TOP_NEXT(NAME, TARGET, float)
    #define TOP_NEXT_F64(NAME, TARGET) TOP_NEXT(NAME, TARGET, double)
    #ifndef EXPFAM_PRAGMA
    #define EXPFAM_PRAGMA(text)
    #endif
    EXPFAM_INSTANCES(TOP_MAXIMA_F32, void, top_maxima_f32, (const float *, ptrdiff_t, float *))
    EXPFAM_INSTANCES(TOP_MAXIMA_F64, void, top_maxima_f64, (const double *, ptrdiff_t, double *))
    EXPFAM_INSTANCES(TOP_NEXT_F32, ptrdiff_t, top_next_f32, (const float *, ptrdiff_t, ptrdiff_t, float))
    EXPFAM_INSTANCES(TOP_NEXT_F64, ptrdiff_t, top_next_f64, (const double *, ptrdiff_t, ptrdiff_t, double))
    """
    enum: TOP_LANES
    enum: TOP_STEP
    void (*top_maxima_f32)(const float *row, Py_ssize_t size, float *lanes) noexcept nogil
    void (*top_maxima_f64)(const double *row, Py_ssize_t size, double *lanes) noexcept nogil
    Py_ssize_t (*top_next_f32)(const float *row, Py_ssize_t k, Py_ssize_t size, float bound) noexcept nogil
    Py_ssize_t (*top_next_f64)(const double *row, Py_ssize_t k, Py_ssize_t size, double bound) noexcept nogil

_BLOCK_VALUES = 1 << 18             # of a task


cdef inline Py_ssize_t next_block(const value_t *row, Py_ssize_t k, Py_ssize_t size, value_t bound) noexcept nogil:
    if value_t is float:
        return top_next_f32(row, k, size, bound)
    else:
        return top_next_f64(row, k, size, bound)


cdef inline void insert(value_t *values, int32_t *indices, Py_ssize_t n_top, value_t value, int32_t k) noexcept nogil:
    """Into a falling buffer whose last entry is lost; after its equals, which have lower indices."""
    cdef Py_ssize_t j = n_top - 1
    while j > 0 and values[j - 1] < value:
        values[j], indices[j] = values[j - 1], indices[j - 1]
        j -= 1
    values[j], indices[j] = value, k


cdef value_t below_threshold(const value_t *row, Py_ssize_t size, Py_ssize_t n_top) noexcept nogil:
    """A value with at least n_top of the row strictly above it, or -inf."""
    cdef value_t lanes[TOP_LANES]
    cdef value_t best[TOP_LANES]
    cdef int32_t unused[TOP_LANES]
    cdef Py_ssize_t j
    if value_t is float:
        top_maxima_f32(row, size, lanes)
    else:
        top_maxima_f64(row, size, lanes)
    # One more than needed: the L maxima above the (L + 1)-th are values of the row, unless they tie with it.
    for j in range(n_top + 1):
        best[j] = -INFINITY
    for j in range(TOP_LANES):
        if lanes[j] > best[n_top]:
            insert(best, unused, n_top + 1, lanes[j], 0)
    return best[n_top] if best[n_top - 1] > best[n_top] else -INFINITY


cdef void scan(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices) noexcept nogil:
    cdef value_t bound = -INFINITY
    cdef Py_ssize_t k = 0, j
    if n_top < TOP_LANES // 2 and size >= 2 * TOP_LANES:
        bound = below_threshold(row, size, n_top)
    for j in range(n_top):
        values[j], indices[j] = bound, -1
    while True:
        k = next_block(row, k, size, bound)
        if k >= size:
            break
        for j in range(k, min(k + TOP_STEP, size)):
            if row[j] > bound:
                insert(values, indices, n_top, row[j], <int32_t> j)
                bound = values[n_top - 1]
        k += TOP_STEP


cdef value_t quickselect(value_t *x, Py_ssize_t size, Py_ssize_t n_top) noexcept nogil:
    """Value of rank n_top from above; reorders x. Pivots are pseudo-random, so no order of values is a bad one."""
    cdef Py_ssize_t low = 0, high = size - 1, i, j, target = n_top - 1
    cdef uint64_t state = 0x9E3779B97F4A7C15
    cdef value_t pivot, kept
    while low < high:
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        pivot = x[low + <Py_ssize_t> (state % <uint64_t> (high - low + 1))]
        i, j = low, high
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                kept = x[i]
                x[i] = x[j]
                x[j] = kept
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return x[target]


cdef inline bint comes_before(value_t a, int32_t i, value_t b, int32_t j) noexcept nogil:
    return a > b or (a == b and i < j)


cdef void heap_sort(value_t *values, int32_t *indices, Py_ssize_t n) noexcept nogil:
    """Into the final order, in place."""
    cdef Py_ssize_t end = n, start = n // 2, root, child
    cdef value_t value
    cdef int32_t index
    while end > 1:
        if start > 0:
            start -= 1
            value, index = values[start], indices[start]
        else:
            end -= 1
            value, index = values[end], indices[end]
            values[end], indices[end] = values[0], indices[0]
        root = start
        child = 2 * root + 1
        while child < end:                          # the heap has the last in order at its top
            if child + 1 < end and comes_before(values[child], indices[child], values[child + 1], indices[child + 1]):
                child += 1
            if not comes_before(value, index, values[child], indices[child]):
                break
            values[root], indices[root] = values[child], indices[child]
            root = child
            child = 2 * root + 1
        values[root], indices[root] = value, index


cdef void select(const value_t *row, Py_ssize_t size, Py_ssize_t n_top, value_t *values, int32_t *indices,
                 value_t *work) noexcept nogil:
    cdef Py_ssize_t k, n = 0, n_equal
    cdef value_t bound
    for k in range(size):
        work[k] = row[k] if row[k] == row[k] else <value_t> -INFINITY
    bound = quickselect(work, size, n_top)
    n_equal = n_top
    for k in range(size):
        n_equal -= row[k] > bound
    for k in range(size):
        if row[k] > bound or (row[k] == bound and n_equal > 0):
            n_equal -= row[k] == bound
            values[n], indices[n] = row[k], <int32_t> k
            n += 1
    heap_sort(values, indices, n)
    while n < n_top:                                # NaN, whose value here is -inf
        values[n], indices[n] = -INFINITY, -1
        n += 1


cdef void fill_up(const value_t *row, Py_ssize_t n_top, value_t *values, int32_t *indices) noexcept nogil:
    """Columns that are -inf or NaN take the places left, lowest index first: all others have theirs."""
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
    if top_needs_work(size, n_top):
        select(row, size, n_top, values, indices, work)
    else:
        scan(row, size, n_top, values, indices)
    if not values[n_top - 1] > -INFINITY:
        if not values[0] > -INFINITY:
            return 1
        fill_up(row, n_top, values, indices)
    return 0


cdef Py_ssize_t select_block(const value_t[:, ::1] rows, value_t[:, ::1] values, int32_t[:, ::1] indices,
                             value_t[::1] work) noexcept nogil:
    """First row without a value above -inf, or -1."""
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        if top_row(&rows[i, 0], rows.shape[1], values.shape[1], &values[i, 0], &indices[i, 0], &work[0]):
            return i
    return -1


def _select_block(rows, values, indices):
    work = np.empty(rows.shape[1], dtype=rows.dtype)
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
    """The largest values of each row and where they are.

    Parameters
    ----------
    values : (N, K) array_like of float
        float32 stays float32, all else is read as float64. NaN counts as -inf.
    n_top : int
        How many to keep, L, from 1 to K.
    n_threads : int or None

    Returns
    -------
    values : (N, L) ndarray of the same dtype
        Largest first.
    indices : (N, L) int32 ndarray
        Their columns, all different; of equal values the lowest come first.

    Raises
    ------
    SupportError
        A row without any value above -inf; its number is named.

    Notes
    -----
    O(K) a row, and O(L log L) where many are kept.

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
        raise ValueError(f"n_top must be a whole number from 1 to the {size} columns; got {n_top!r}")
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
