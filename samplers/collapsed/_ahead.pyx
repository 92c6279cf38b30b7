"""Scores of the next rows of a sweep, which threads compute before the rows are drawn.

A row that stays where it is changes no statistics, and of many clusters few change in a block of rows. So the scores of
a block are computed together, and a row that is drawn later is scored again only under the slots that have changed
since. Where blocks begin and end depends on numbers of rows, slots and moves alone: labels have the same bits for any
number of threads.
"""

import numpy as np

from libc.stdint cimport uint8_t

from expfam.contracts cimport EXPFAM_NEEDS_GIL, components_v1

from expfam.structures.ground.threads import run

cdef enum:
    MOST_ROWS = 128             # of a block
    FEWEST_ROWS = 8
    MOST_SCORES = 262144        # of a block: 2 MiB
    FEWEST_SLOTS = 256          # fewer are scored in the time that threads take to begin
    MOST_PARTS = 8              # of a block, for the threads


cdef bint scores_ahead(const components_v1 *c, Py_ssize_t n_slots, RowsAhead ahead) noexcept:
    """Tell whether rows over so many slots may be scored in blocks; without `ahead` never."""
    if ahead is None or c.flags & EXPFAM_NEEDS_GIL:
        return False
    return FEWEST_SLOTS <= n_slots <= MOST_SCORES // FEWEST_ROWS


cdef Py_ssize_t rows_of_block(Py_ssize_t n_slots) noexcept:
    """Return the number of rows of a block."""
    return min(MOST_ROWS, MOST_SCORES // n_slots)


cdef class RowsAhead:
    """Buffers of the scores of a block of rows.

    Parameters
    ----------
    n_threads : int or None
    """

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self.rows = self.fresh = np.empty(0)
        self.works = [np.empty(0)]

    cdef Py_ssize_t fill(self, components_v1 *c, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t m, Py_ssize_t capacity) except -1:
        """Score the rows from place `start` on; return the place at which the block ends.

        It ends before a row whose scores fail; if this is the first one, the sweep scores it alone.
        """
        cdef Py_ssize_t[::1] done
        cdef double[::1] rows
        cdef Py_ssize_t part, n_parts, n_good = 0
        self.c, self.order = c, order
        self.n_rows = min(stop - start, rows_of_block(m))
        self.part_rows = (self.n_rows + MOST_PARTS - 1) // MOST_PARTS
        n_parts = (self.n_rows + self.part_rows - 1) // self.part_rows
        self.a.start, self.a.n_slots, self.a.n_stale, self.a.stride = start, m, 0, capacity
        self.allot(capacity)
        self.done = done = np.zeros(n_parts, dtype=np.intp)
        run(self.score, [(part,) for part in range(n_parts)], self.n_threads, uses_blas=False)
        for part in range(n_parts):
            n_good += done[part]
            if n_good < min(self.n_rows, (part + 1) * self.part_rows):
                break
        rows = self.rows
        self.a.rows = &rows[0] if n_good else NULL
        return start + (n_good if n_good else 1)

    def score(self, Py_ssize_t part):
        """Score the rows of a part of the block; count them until one fails."""
        cdef double[::1] rows = self.rows, work = self.works[part]
        cdef Py_ssize_t[::1] done = self.done
        cdef Py_ssize_t row, i, first = part * self.part_rows, last = min(self.n_rows, first + self.part_rows)
        with nogil:
            for row in range(first, last):
                i = self.a.start + row if self.order == NULL else self.order[self.a.start + row]
                if self.c.log_predictive(self.c.self, i, NULL, self.a.n_slots, &rows[row * self.a.stride], &work[0]):
                    break
                done[part] += 1

    cdef int allot(self, Py_ssize_t capacity) except -1:
        """Allocate what the block needs, and set the pointers."""
        cdef Py_ssize_t[::1] stale
        cdef uint8_t[::1] is_stale
        cdef double[::1] fresh
        if len(self.rows) < self.n_rows * capacity:
            self.rows = np.empty(self.n_rows * capacity)
        if len(self.fresh) < capacity:
            self.fresh, self.stale = np.empty(capacity), np.empty(capacity, dtype=np.intp)
        if len(self.works[0]) < max(self.c.work_size, 1):
            self.works = [np.empty(max(self.c.work_size, 1)) for _ in range(MOST_PARTS)]
        self.is_stale = np.zeros(capacity, dtype=np.uint8)
        stale, is_stale, fresh = self.stale, self.is_stale, self.fresh
        self.a.stale, self.a.is_stale, self.a.fresh = &stale[0], &is_stale[0], &fresh[0]
        return 0
