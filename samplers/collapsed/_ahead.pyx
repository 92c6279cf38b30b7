"""Scores of the next rows of a sweep, which are computed together before the rows are drawn.

A row that stays where it is changes no statistics, and of many clusters few change in a block of rows. So the scores of
a block are computed together, by threads, and a row that is drawn later is scored again only under the slots that have
changed since. Where blocks begin and end depends on numbers of rows, slots and moves alone: labels have the same bits
for any number of threads.

Scores that depend on a row through one distance to each slot are filtered: a matrix product bounds all, and those that
lie DEPTH nats below the best one are left out. A row is scored whole where its uniform number falls so near the end of
an interval that weights which were left out might change the draw. So labels are those of all scores. Most rows are
settled by bounds alone: the weights of all other slots together are so small beside that of a row's own slot that its
uniform number leaves it there.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from expfam.contracts cimport EXPFAM_NEEDS_GIL, EXPFAM_OK, components_v1
from expfam.families.components cimport Components
from expfam.families.filtered_scores cimport (
    FilteredScores, MovedSlots, RowTile, bound_groups, codes_are_dear, moved_bound, near_scores, read_moved,
    tile_scratch, weights_of_others,
)
from expfam.samplers.states.collapsed cimport slot_table
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

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
    FEWEST_OF_PART = 128        # rows of a part of a filtered block: the locations are copied for each product
    MOST_FILTERED = 512
    MOST_LEFT = 524288          # scores of a filtered block

cdef double SURE = 1e-11            # more than rounding can move the place of a uniform number among weights of sum 1


cdef bint scores_ahead(Components components, Py_ssize_t n_slots, RowsAhead ahead) except -1:
    """Tell whether rows over so many slots may be scored in blocks; without `ahead` never."""
    if ahead is None or components.c.flags & EXPFAM_NEEDS_GIL or n_slots > MOST_SCORES // FEWEST_ROWS:
        return False
    return n_slots >= FEWEST_SLOTS or ahead.filters(components, n_slots)


cdef double mass_without(const slot_table *t, const double *log_new_mass, Py_ssize_t k) noexcept nogil:
    """Return the log mass of slot k without one of its data."""
    if t.counts[k] == 1:
        return log_new_mass[t.n_live - 1]
    return log(t.counts[k] - 1 + t.offset)


cdef void list_masses(const slot_table *t, const double *log_new_mass, Py_ssize_t n, double *mass) noexcept nogil:
    """Write the log masses of n slots; that of the spare one is of a new cluster."""
    memcpy(mass, t.log_mass, n * sizeof(double))
    if 0 <= t.spare < n:
        mass[t.spare] = log_new_mass[t.n_live]


cdef int near_row(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row, Py_ssize_t old,
                  double own_mass, bint is_bounded, const double *mass, double *scores) noexcept nogil:
    """Score datum i, a row of a filtered block that is not settled.

    It is counted where it is scored whole. If it is bounded, `bound_groups` has written bounds with these masses.
    """
    cdef tile_scratch *w = a.tiles[row // a.part_rows]
    cdef int code = c.log_predictive_self(c.self, i, old, &a.own[row], w.work)
    a.is_settled[row] = 0
    if code:
        return code
    if is_bounded and near_scores(a.slots, w, row % a.part_rows, mass, a.own[row] + own_mass, DEPTH, scores,
                                  &a.rest[row]):
        return EXPFAM_OK
    a.rest[row] = -INFINITY
    a.n_whole[row // a.part_rows] += 1
    return c.log_predictive(c.self, i, NULL, a.n_slots, scores, w.work)


cdef double changed_bound(ahead_scores *a, components_v1 *c, Py_ssize_t i, Py_ssize_t row, Py_ssize_t j) noexcept nogil:
    """Return a bound of the score of datum i under the stale slot in place j."""
    cdef tile_scratch *w = a.tiles[row // a.part_rows]
    cdef Py_ssize_t k = a.stale[j]
    cdef double score
    if j >= a.moved.room or k >= a.slots.m:         # more than are noted, or a slot that the tables do not have
        return INFINITY if c.log_predictive(c.self, i, &k, 1, &score, w.work) else score
    if not a.is_read[k]:
        if read_moved(a.slots, a.moved, j, k):
            return INFINITY
        a.is_read[k] = 1
    return moved_bound(a.slots, a.moved, j, w, row % a.part_rows)


cdef bint ahead_stays(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row,
                      Py_ssize_t old) noexcept nogil:
    """Tell whether datum i, a settled row, stays in its slot after others have changed."""
    cdef double weights = a.rest[row], mass, score
    cdef Py_ssize_t j, k
    ahead_note_slots(a, t)
    if a.n_stale == 0:
        return True
    if a.is_stale[old] or (t.counts[old] == 1 and t.n_live != a.n_live):
        return False
    for j in range(a.n_stale):
        k = a.stale[j]
        mass = a.log_new_mass[t.n_live] if k == t.spare else t.log_mass[k]
        if mass == -INFINITY:                       # no datum is there any more
            continue
        score = changed_bound(a, c, i, row, j) + mass
        if not score < a.own[row]:
            return False
        weights += exp(score - a.own[row])
    return weights < min(a.uniform[row], 1.0 - a.uniform[row]) - SURE


cdef int ahead_open(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row,
                    Py_ssize_t old, double *scores) noexcept nogil:
    """Score datum i, which is settled no more, under the slots that have not changed since."""
    cdef tile_scratch *w = a.tiles[row // a.part_rows]
    cdef Py_ssize_t j
    list_masses(t, a.log_new_mass, a.slots.m, a.mass)
    a.mass[old] = -INFINITY
    for j in range(a.n_stale):
        a.mass[a.stale[j]] = -INFINITY
    return near_row(a, c, t, i, row, old, mass_without(t, a.log_new_mass, old),
                    bound_groups(a.slots, w, row % a.part_rows, a.mass), a.mass, scores)


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
        self.moved = MovedSlots(self.filtered, MOST_NOTED)
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
            self.part_rows = max((self.n_rows + FILTERED_PARTS - 1) // FILTERED_PARTS, <Py_ssize_t> FEWEST_OF_PART)
        n_parts = (self.n_rows + self.part_rows - 1) // self.part_rows
        self.a.start, self.a.n_slots, self.a.n_stale, self.a.stride = start, t.n_slots, 0, t.capacity
        self.a.slots, self.a.n_groups, self.a.part_rows = NULL, 0, self.part_rows
        self.a.spare, self.a.n_live = t.spare, t.n_live
        self.allot()
        if filters:
            self.a.slots = &self.filtered.s
        self.done, self.n_whole = np.zeros(n_parts, dtype=np.intp), np.zeros(n_parts, dtype=np.intp)
        done, whole = self.done, self.n_whole
        self.a.n_whole = &whole[0]
        score = self.score_filtered if filters else self.score
        run(score, [(part,) for part in range(n_parts)], self.n_threads, uses_blas=filters)
        for part in range(n_parts):
            n_good += done[part]
            n_whole += whole[part]
            if n_good < min(self.n_rows, (part + 1) * self.part_rows):
                break
        self.n_filtered += n_good - n_whole if filters else 0
        if filters:
            self.judge(n_parts, n_whole)
        rows = self.rows
        self.a.rows = &rows[0] if n_good else NULL
        return start + (n_good if n_good else 1)

    cdef void judge(self, Py_ssize_t n_parts, Py_ssize_t n_whole) noexcept:
        """Decide how the next blocks are filtered; `n_whole` rows of this one were scored whole."""
        cdef Py_ssize_t part, n_near = self.n_rows
        if not self.filtered.is_coded:
            self.is_useless = n_whole * 2 > self.n_rows
            return
        for part in range(n_parts):
            n_near += self.a.tiles[part].n_near
        self.filtered.is_coded = not (n_whole * 2 > self.n_rows
                                      or codes_are_dear(self.a.slots, self.n_rows, n_near, 1))

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
        """Do the same with filtered scores, of the rows that bounds do not settle."""
        cdef RowTile tile = self.tiles[part]
        cdef double[::1] rows = self.rows
        cdef double[:, ::1] masses = self.masses
        cdef Py_ssize_t[::1] done = self.done
        cdef Py_ssize_t row, i, k, first = part * self.part_rows, last = min(self.n_rows, first + self.part_rows)
        cdef ahead_scores *a = &self.a
        cdef double *mass = &masses[part, 0]
        cdef double kept, own_mass, room
        cdef bint is_bounded
        cdef philox_stream rng
        cdef int code = EXPFAM_OK
        tile.read(self.filtered, self.order, a.start + first, last - first, self.filtered.is_coded)
        with nogil:
            philox_init(&rng, self.seed, MOVE)
            list_masses(self.t, self.log_new_mass, a.n_slots, mass)
            for row in range(first, last):
                i = a.start + row if self.order == NULL else self.order[a.start + row]
                k = self.labels[i]
                own_mass, kept = mass_without(self.t, self.log_new_mass, k), mass[k]
                mass[k] = -INFINITY                 # its score has another datum less
                is_bounded = bound_groups(a.slots, &tile.w, row - first, mass)
                if is_bounded:
                    philox_aim(&rng, self.row_offset + <uint64_t> i, self.step)
                    a.uniform[row] = philox_double(&rng)
                    room = min(a.uniform[row], 1.0 - a.uniform[row]) - SURE
                    a.rest[row] = weights_of_others(a.slots, &tile.w, row - first, k, own_mass, room, &a.own[row])
                    a.is_settled[row] = a.rest[row] < room
                if not is_bounded or not a.is_settled[row]:
                    code = near_row(a, &self.components.c, self.t, i, row, k, own_mass, is_bounded, mass,
                                    &rows[row * a.stride])
                mass[k] = kept
                if code:
                    break
                done[part] += 1

    cdef int allot(self) except -1:
        """Allocate what the block needs, and set the pointers."""
        cdef Py_ssize_t capacity = self.t.capacity, work_size = max(self.components.c.work_size, 1), part
        cdef Py_ssize_t[:, ::1] stale
        cdef uint8_t[:, ::1] is_stale
        cdef uint8_t[::1] settled
        cdef double[::1] fresh
        cdef double[:, ::1] numbers, masses
        if len(self.rows) < self.n_rows * capacity:
            self.rows = np.empty(self.n_rows * capacity)
        if len(self.fresh) < capacity:
            self.fresh, self.stale = np.empty(capacity), np.empty((2, capacity), dtype=np.intp)
            self.masses, self.numbers = np.empty((FILTERED_PARTS, capacity)), np.empty((3, MOST_FILTERED))
            self.settled = np.zeros(MOST_FILTERED, dtype=np.uint8)
        if len(self.works[0]) < work_size:
            self.works = [np.empty(work_size) for _ in range(MOST_PARTS)]
        self.is_stale = np.zeros((3, capacity), dtype=np.uint8)
        stale, is_stale, fresh, numbers = self.stale, self.is_stale, self.fresh, self.numbers
        masses, settled = self.masses, self.settled
        self.a.stale, self.a.is_stale, self.a.fresh = &stale[0, 0], &is_stale[0, 0], &fresh[0]
        self.a.groups, self.a.is_listed, self.a.is_read = &stale[1, 0], &is_stale[1, 0], &is_stale[2, 0]
        self.a.own, self.a.rest, self.a.uniform = &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
        self.a.mass, self.a.is_settled, self.a.log_new_mass = &masses[0, 0], &settled[0], self.log_new_mass
        if self.tiles is not None:
            self.a.moved = &self.moved.v
            for part in range(FILTERED_PARTS):
                self.a.tiles[part] = &(<RowTile> self.tiles[part]).w
        return 0
