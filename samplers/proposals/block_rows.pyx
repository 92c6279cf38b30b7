"""Rows of counts of one block of data, copied side by side.

A block takes its data from all over the matrix, and several passes read them. Only the copy waits for distant memory.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from expfam.families.rows cimport ROWS_INT32, ROWS_ONES, csr_rows, entry_column, entry_size, entry_value, row_start
from expfam.structures.simd.prefetch cimport expfam_prefetch

from expfam.structures.ground.threads import run

cdef enum:
    TASK_ROWS = 2048            # number of data that a task copies
    AHEAD = 6                   # number of data by which memory is prefetched ahead


cdef inline void expect_entries(const csr_rows *x, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    """Prefetch n entries of consecutive rows."""
    cdef Py_ssize_t wide = 8 if x.wide_columns else 4, size = entry_size(x.kind)
    expfam_prefetch(<const uint8_t *> x.columns + first * wide, n * wide)
    if x.kind != ROWS_ONES:
        expfam_prefetch(<const uint8_t *> x.values + first * size, n * size)


cdef void expect_row(const csr_rows *x, Py_ssize_t i) noexcept nogil:
    """Prefetch the entries of datum i."""
    cdef Py_ssize_t first = row_start(x, i)
    expect_entries(x, first, row_start(x, i + 1) - first)


cdef void expect_start(const counted_rows *all, Py_ssize_t i) noexcept nogil:
    """Prefetch what is kept of datum i besides its entries."""
    expfam_prefetch(<const uint8_t *> all.x.starts + i * (8 if all.x.wide_starts else 4), 1)
    expfam_prefetch(all.length + i, 1)
    if all.length_place != NULL:
        expfam_prefetch(all.length_place + i, 1)
        expfam_prefetch(all.length_part + i, 1)


cdef void measure(const counted_rows *all, const Py_ssize_t *rows, Py_ssize_t start, Py_ssize_t stop,
                  int64_t *first, int64_t *sizes, double *length, int32_t *place, float *part) noexcept nogil:
    """Copy what is kept of some data besides their entries; note where these are."""
    cdef Py_ssize_t j, i
    for j in range(start, stop):
        if j + AHEAD < stop:
            expect_start(all, rows[j + AHEAD])
        i = rows[j]
        first[j] = row_start(&all.x, i)
        sizes[j] = row_start(&all.x, i + 1) - first[j]
        length[j] = all.length[i]
        if all.length_place != NULL:
            place[j], part[j] = all.length_place[i], all.length_part[i]


cdef void copy_entries(const csr_rows *x, const int64_t *first, const int64_t *starts, Py_ssize_t start,
                       Py_ssize_t stop, int32_t *columns, int32_t *values) noexcept nogil:
    cdef csr_rows local = x[0]      # a written number could change any field of x for the compiler
    cdef Py_ssize_t j, p, at
    for j in range(start, stop):
        if j + AHEAD < stop:
            expect_entries(&local, first[j + AHEAD], starts[j + AHEAD + 1] - starts[j + AHEAD])
        at = starts[j]
        for p in range(first[j], first[j] + starts[j + 1] - at):
            columns[at] = <int32_t> entry_column(&local, p)
            values[at] = <int32_t> entry_value(&local, p)
            at += 1


cdef class BlockRows:
    """The rows of a block, of which `copy` makes copies; its memory serves block after block."""

    def __init__(self):
        self.rows = np.zeros(0, dtype=np.intp)
        self.firsts = self.starts = np.zeros(1, dtype=np.int64)
        self.columns = self.values = np.zeros(0, dtype=np.int32)
        self.lengths, self.places, self.parts = np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.float32)

    cdef int copy(self, const counted_rows *source, rows, n_threads) except -1:
        """Copy the rows of the data `rows`; counts lie below 2**31."""
        cdef const Py_ssize_t[::1] row = rows
        self.rows, self.source, self.n = rows, source, row.shape[0]
        if not self.n:
            return 0
        self.row = &row[0]
        if self.n > len(self.lengths):
            self.starts, self.firsts = np.zeros(self.n + 1, dtype=np.int64), np.empty(self.n, dtype=np.int64)
            self.lengths, self.places = np.empty(self.n), np.empty(self.n, dtype=np.int32)
            self.parts = np.empty(self.n, dtype=np.float32)
        tasks = [(start, min(start + TASK_ROWS, self.n)) for start in range(0, self.n, TASK_ROWS)]
        run(self._measure, tasks, n_threads, uses_blas=False)
        np.cumsum(self.starts[1 : self.n + 1], out=self.starts[1 : self.n + 1])
        total = int(self.starts[self.n])
        if total > len(self.columns):
            self.columns, self.values = np.empty(total * 9 // 8, np.int32), np.empty(total * 9 // 8, np.int32)
        run(self._copy_entries, tasks, n_threads, uses_blas=False)
        self._point()
        return 0

    def _measure(self, Py_ssize_t start, Py_ssize_t stop):
        cdef int64_t[::1] sizes = self.starts, firsts = self.firsts
        cdef int32_t[::1] places = self.places
        cdef double[::1] lengths = self.lengths
        cdef float[::1] parts = self.parts
        with nogil:
            measure(self.source, self.row, start, stop, &firsts[0], &sizes[1], &lengths[0], &places[0],
                    &parts[0])

    def _copy_entries(self, Py_ssize_t start, Py_ssize_t stop):
        cdef const int64_t[::1] starts = self.starts, firsts = self.firsts
        cdef int32_t[::1] columns = self.columns, values = self.values
        if not columns.shape[0]:
            return
        with nogil:
            copy_entries(&self.source.x, &firsts[0], &starts[0], start, stop, &columns[0], &values[0])

    cdef int _point(self) except -1:
        cdef csr_rows *x = &self.c.x
        cdef const double[::1] lengths = self.lengths
        cdef const int32_t[::1] places = self.places
        cdef const float[::1] parts = self.parts
        x.values, x.columns, x.starts = (<const void *> <size_t> self.values.ctypes.data,
                                         <const void *> <size_t> self.columns.ctypes.data,
                                         <const void *> <size_t> self.starts.ctypes.data)
        x.kind, x.wide_columns, x.wide_starts = ROWS_INT32, 0, 1
        self.c.length, self.c.length_part = &lengths[0], &parts[0]
        self.c.length_place = NULL if self.source.length_place == NULL else &places[0]
        return 0
