"""Scores of the next rows of a sweep, which are computed together before the rows are drawn.

A row that stays where it is changes no statistics, and of many clusters few change in a block of rows. So the scores of
a block are computed together, by threads, and a row that is drawn later is scored again only under the slots that have
changed since. Where blocks begin and end depends on numbers of rows, slots and moves alone: labels have the same bits
for any number of threads.

Scores that depend on a row through one distance to each slot are filtered: a matrix product bounds all, and those that
lie DEPTH nats below the best one are left out. A row is scored whole where its uniform number falls so near the end of
an interval that weights which were left out might change the draw. So labels are those of all scores.
"""

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from expfam.contracts cimport EXPFAM_NEEDS_GIL, components_v1
from expfam.families.components cimport Components
from expfam.families.filtered_scores cimport FilteredScores, RowTile, near_scores
from expfam.samplers.states.collapsed cimport slot_table

from expfam.families.filtered_scores import scores_of
from expfam.structures.ground.threads import run

cdef enum:
    MOST_ROWS = 128             # of a block
    FEWEST_ROWS = 8
    MOST_SCORES = 262144        # of a block: 2 MiB
    FEWEST_SLOTS = 256          # fewer are scored in the time that threads take to begin
    MOST_PARTS = 8              # of a block, for the threads
    MOST_MOVED = 12             # blocks pay if one row of so many moves
    BLOCK_COST = 300000         # numbers in locations: scores of so many cost as much as a move in a filtered block
    ROWS_A_MOVE = 8             # of a filtered block: rows for each move that is expected, as many moved among the last
    FEWEST_FILTERED = 32        # rows of a filtered block
    MOST_FILTERED = 512         # many: the locations are copied for each product
    MOST_LEFT = 524288          # scores of a filtered block


cdef bint scores_ahead(Components components, Py_ssize_t n_slots, RowsAhead ahead) except -1:
    """Tell whether rows over so many slots may be scored in blocks; without `ahead` never."""
    if ahead is None or components.c.flags & EXPFAM_NEEDS_GIL or n_slots > MOST_SCORES // FEWEST_ROWS:
        return False
    return n_slots >= FEWEST_SLOTS or ahead.filters(components, n_slots)


cdef class RowsAhead:
    """Buffers of the scores of a block of rows.

    Parameters
    ----------
    n_threads : int or None
    """

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self.rows = self.fresh = self.masses = np.empty(0)
        self.works = [np.empty(0)]

    cdef bint filters(self, Components components, Py_ssize_t n_slots) except -1:
        """Tell whether blocks of rows over so many slots are filtered."""
        if self.filtered is None and not self.is_useless:
            self.load(components, n_slots)
        return not self.is_useless

    cdef int load(self, Components components, Py_ssize_t n_slots) except -1:
        """Read all slots; note if filtered scores are of no use."""
        found = scores_of(components, n_slots, components.n_rows)
        self.is_useless = not isinstance(found, FilteredScores)
        if self.is_useless:
            return 0
        self.filtered, self.is_known, self.a.n_stale = found, True, 0
        self.tiles = [RowTile(self.filtered, MOST_FILTERED // FILTERED_PARTS, 1) for _ in range(FILTERED_PARTS)]
        return 0

    cdef int renew(self, Components components, Py_ssize_t n_slots) except -1:
        """Read the slots that have changed since the last block."""
        if not self.is_known or self.filtered.m != n_slots:
            return self.load(components, n_slots)
        if self.filtered.renew(self.a.stale, self.a.n_stale):
            self.is_useless = True
        return 0

    cdef Py_ssize_t rows_a_move(self) noexcept:
        """Return the number of rows for each move from which on blocks pay."""
        if self.is_useless or self.filtered is None:
            return MOST_MOVED
        return min(max(BLOCK_COST // (self.filtered.m * self.filtered.d), 2), MOST_MOVED)

    cdef void forget(self):
        """Note that slots may have changed that are not stale."""
        self.is_known = False

    cdef Py_ssize_t fill(self, Components components, const slot_table *t, const int32_t *labels,
                         const double *log_new_mass, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t rows_a_move) except -1:
        """Score the rows from place `start` on; return the place at which the block ends.

        It ends before a row whose scores fail; if this is the first one, the sweep scores it alone. Of the last rows,
        one of `rows_a_move` has moved.
        """
        cdef Py_ssize_t[::1] done, whole
        cdef double[::1] rows
        cdef Py_ssize_t part, n_parts, n_good = 0, n_whole = 0
        cdef bint filters
        if self.filters(components, t.n_slots):
            self.renew(components, t.n_slots)
        filters = not self.is_useless
        self.components, self.t, self.labels, self.log_new_mass, self.order = components, t, labels, log_new_mass, order
        self.n_rows = min(stop - start, min(MOST_ROWS, MOST_SCORES // t.n_slots))
        self.part_rows = (self.n_rows + MOST_PARTS - 1) // MOST_PARTS
        if filters:
            self.n_rows = min(stop - start, min(MOST_FILTERED, MOST_LEFT // t.n_slots))
            self.n_rows = min(self.n_rows, max(<Py_ssize_t> FEWEST_FILTERED, ROWS_A_MOVE * rows_a_move))
            self.part_rows = (self.n_rows + FILTERED_PARTS - 1) // FILTERED_PARTS
        n_parts = (self.n_rows + self.part_rows - 1) // self.part_rows
        self.a.start, self.a.n_slots, self.a.n_stale, self.a.stride = start, t.n_slots, 0, t.capacity
        self.a.f, self.a.n_groups, self.a.part_rows = NULL, 0, self.part_rows
        self.a.spare, self.a.n_live = t.spare, t.n_live
        self.allot()
        if filters:
            self.a.f = &self.filtered.f
        self.done, self.n_whole = np.zeros(n_parts, dtype=np.intp), np.zeros(n_parts, dtype=np.intp)
        done, whole = self.done, self.n_whole
        score = self.score_filtered if filters else self.score
        run(score, [(part,) for part in range(n_parts)], self.n_threads, uses_blas=filters)
        for part in range(n_parts):
            n_good += done[part]
            n_whole += whole[part]
            if n_good < min(self.n_rows, (part + 1) * self.part_rows):
                break
        self.n_filtered += n_good - n_whole if filters else 0
        if n_whole * 2 > self.n_rows:
            self.is_useless = True
        rows = self.rows
        self.a.rows = &rows[0] if n_good else NULL
        return start + (n_good if n_good else 1)

    def score(self, Py_ssize_t part):
        """Score the rows of a part of the block; count them until one fails."""
        cdef double[::1] rows = self.rows, work = self.works[part]
        cdef Py_ssize_t[::1] done = self.done
        cdef Py_ssize_t row, i, first = part * self.part_rows, last = min(self.n_rows, first + self.part_rows)
        cdef components_v1 *c = &self.components.c
        with nogil:
            for row in range(first, last):
                i = self.a.start + row if self.order == NULL else self.order[self.a.start + row]
                if c.log_predictive(c.self, i, NULL, self.a.n_slots, &rows[row * self.a.stride], &work[0]):
                    break
                done[part] += 1

    def score_filtered(self, Py_ssize_t part):
        """Do the same with filtered scores; count the rows that are scored whole, too."""
        cdef RowTile tile = self.tiles[part]
        cdef FilteredScores filtered = self.filtered
        cdef double[::1] rows = self.rows
        cdef double[:, ::1] numbers = self.numbers, masses = self.masses
        cdef Py_ssize_t[::1] done = self.done, whole = self.n_whole
        cdef Py_ssize_t row, i, k, first = part * self.part_rows, last = min(self.n_rows, first + self.part_rows)
        cdef components_v1 *c = &self.components.c
        cdef double *mass = &masses[part, 0]
        cdef double *scores
        cdef double *own = &numbers[0, 0]
        cdef double *rest = &numbers[1, 0]
        cdef double kept
        cdef bint is_near
        tile.read(filtered, self.order, self.a.start + first, last - first)
        with nogil:
            memcpy(mass, self.t.log_mass, self.a.n_slots * sizeof(double))
            if self.t.spare >= 0:
                mass[self.t.spare] = self.log_new_mass[self.t.n_live]
            for row in range(first, last):
                i = self.a.start + row if self.order == NULL else self.order[self.a.start + row]
                k, scores = self.labels[i], &rows[row * self.a.stride]
                if c.log_predictive_self(c.self, i, k, &own[row], tile.w.work):
                    break
                kept = mass[k]
                mass[k] = -INFINITY                 # its score has another datum less, and is known
                is_near = near_scores(filtered, &tile.w, row - first, mass, own[row] + self.own_mass(k), DEPTH, scores,
                                      &rest[row])
                mass[k] = kept
                if not is_near:
                    rest[row] = -INFINITY
                    whole[part] += 1
                    if c.log_predictive(c.self, i, NULL, self.a.n_slots, scores, tile.w.work):
                        break
                done[part] += 1

    cdef double own_mass(self, Py_ssize_t k) noexcept nogil:
        """Return the log mass of slot k without one of its data."""
        if self.t.counts[k] == 1:
            return self.log_new_mass[self.t.n_live - 1]
        return log(self.t.counts[k] - 1 + self.t.offset)

    cdef int allot(self) except -1:
        """Allocate what the block needs, and set the pointers."""
        cdef Py_ssize_t capacity = self.t.capacity, work_size = max(self.components.c.work_size, 1), part
        cdef Py_ssize_t[:, ::1] stale
        cdef uint8_t[:, ::1] is_stale
        cdef double[::1] fresh
        cdef double[:, ::1] numbers
        if len(self.rows) < self.n_rows * capacity:
            self.rows = np.empty(self.n_rows * capacity)
        if len(self.fresh) < capacity:
            self.fresh, self.stale = np.empty(capacity), np.empty((2, capacity), dtype=np.intp)
            self.masses, self.numbers = np.empty((FILTERED_PARTS, capacity)), np.empty((2, MOST_FILTERED))
        if len(self.works[0]) < work_size:
            self.works = [np.empty(work_size) for _ in range(MOST_PARTS)]
        self.is_stale = np.zeros((2, capacity), dtype=np.uint8)
        stale, is_stale, fresh, numbers = self.stale, self.is_stale, self.fresh, self.numbers
        self.a.stale, self.a.is_stale, self.a.fresh = &stale[0, 0], &is_stale[0, 0], &fresh[0]
        self.a.groups, self.a.is_listed = &stale[1, 0], &is_stale[1, 0]
        self.a.own, self.a.rest = &numbers[0, 0], &numbers[1, 0]
        if self.tiles is not None:
            for part in range(FILTERED_PARTS):
                self.a.x[part] = (<RowTile> self.tiles[part]).w.x
            self.a.work = (<RowTile> self.tiles[0]).w.work
        return 0
