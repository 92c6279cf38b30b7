# Scores of the next rows of a sweep, which are computed together before the rows are drawn one by one.

from libc.math cimport INFINITY, exp
from libc.stdint cimport int32_t, uint8_t, uint64_t

from expfam.contracts cimport EXPFAM_OK, components_v1
from expfam.families.components cimport Components
from expfam.families.filtered_scores cimport (
    FilteredScores, MovedSlots, RowTile, filtered_slots, moved_slots, tile_scratch,
)
from expfam.samplers.states.collapsed cimport slot_table

cdef enum:
    MOST_STALE = 16             # slots that have changed since a block was scored; with more the next block begins
    MOST_NOTED = 32             # of these slots, whose scores are bounded as they are now
    FILTERED_PARTS = 2          # of a block whose scores are filtered, for the threads
    DEPTH = 16                  # nats below the best score at which scores are left out


ctypedef struct ahead_scores:
    double *rows                # (n, stride) scores of the rows of a block; NULL where rows are scored one by one
    Py_ssize_t stride
    Py_ssize_t start            # place of the first row of the block
    Py_ssize_t n_slots          # slots that are scored, or stale
    Py_ssize_t *stale           # slots that have changed since
    Py_ssize_t n_stale
    uint8_t *is_stale           # (capacity,)
    double *fresh               # scratch for scores of stale slots
    # The rest is of blocks whose scores are filtered: scores that are left out are -inf in `rows`.
    const filtered_slots *slots         # NULL in other blocks
    tile_scratch *tiles[FILTERED_PARTS]     # rows of each part, and their products with the slots
    Py_ssize_t part_rows
    moved_slots *moved          # slots that have changed, in the order of `stale`
    uint8_t *is_read            # (capacity,) whether one is there as it is now
    uint8_t *is_settled         # (n,) whether a row stays in its slot, without any score
    double *uniform             # (n,) the numbers by which the rows are drawn
    double *own                 # (n,) scores of the rows in their own slots, from the other data
    double *rest                # (n,) bounds of the scores that are left out, with the masses of their slots
    # Of settled rows `own` has a lower bound with the mass, and `rest` a bound of the weights of the other slots, where
    # that of their own is 1.
    double *mass                # (capacity,) scratch
    Py_ssize_t *n_whole         # rows of each part that are scored whole
    const double *log_new_mass
    Py_ssize_t *groups          # groups of slots that are scored again, since one of them has changed
    Py_ssize_t n_groups
    uint8_t *is_listed          # (capacity,) whether a group is among them
    Py_ssize_t spare            # of the slot table, and its number of clusters, when the masses were read
    Py_ssize_t n_live


cdef inline void ahead_change(ahead_scores *a, Py_ssize_t k) noexcept nogil:
    """Note that slot k has changed."""
    cdef Py_ssize_t g
    if a.slots != NULL:
        a.is_read[k] = 0
    if a.is_stale[k]:
        return
    a.is_stale[k] = 1
    a.stale[a.n_stale] = k
    a.n_stale += 1
    if a.slots != NULL:
        g = k // a.slots.f.group
        if not a.is_listed[g]:
            a.is_listed[g] = 1
            a.groups[a.n_groups] = g
            a.n_groups += 1


cdef inline bint ahead_is_used_up(const ahead_scores *a) noexcept nogil:
    """Tell whether so many slots have changed that the next rows had better be scored anew."""
    return a.rows != NULL and a.n_stale > MOST_STALE


cdef inline void ahead_note_slots(ahead_scores *a, const slot_table *t) noexcept nogil:
    """Note the slots that are new since the block was scored."""
    while a.n_slots < t.n_slots:
        ahead_change(a, a.n_slots)
        a.n_slots += 1
    if a.slots != NULL and t.spare >= 0 and (t.spare != a.spare or t.n_live != a.n_live):
        ahead_change(a, t.spare)        # a new cluster has another slot, or another mass


cdef inline int ahead_correct(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row,
                              double *scores, double *work) noexcept nogil:
    """Score datum i, a row of the block, again under the slots that have changed, or that are new."""
    cdef Py_ssize_t j
    cdef int code
    ahead_note_slots(a, t)
    if a.slots != NULL:
        return ahead_score_groups(a, c, t, i, row, scores, work)
    if a.n_stale == 0:
        return EXPFAM_OK
    code = c.log_predictive(c.self, i, a.stale, a.n_stale, a.fresh, work)
    if code:
        return code
    for j in range(a.n_stale):
        scores[a.stale[j]] = a.fresh[j]
    return EXPFAM_OK


cdef inline int ahead_score_groups(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i,
                                   Py_ssize_t row, double *scores, double *work) noexcept nogil:
    """Do the same in a block whose scores are filtered."""
    cdef const filtered_slots *s = a.slots
    cdef tile_scratch *w = a.tiles[row // a.part_rows]
    cdef const double *x = w.x + (row % a.part_rows) * s.d
    cdef Py_ssize_t j, first
    for j in range(a.n_groups):
        first = a.groups[j] * s.f.group
        if s.f.exact(s.f.self, x, first, min(first + s.f.group, t.n_slots), scores, w.work):
            return c.log_predictive(c.self, i, NULL, t.n_slots, scores, work)
    return EXPFAM_OK


cdef inline int ahead_own(const ahead_scores *a, components_v1 *c, Py_ssize_t i, Py_ssize_t row, Py_ssize_t k,
                          double *own, double *work) noexcept nogil:
    """Write the score of datum i in its own slot k, from the other data."""
    if a.rows == NULL or a.slots == NULL or a.is_stale[k]:
        return c.log_predictive_self(c.self, i, k, own, work)
    own[0] = a.own[row]
    return EXPFAM_OK


cdef inline double ahead_left_out(const ahead_scores *a, Py_ssize_t row, double best) noexcept nogil:
    """Return a bound of the weights that are left out of a row, where exp(score - best) is a weight."""
    if a.rows == NULL or a.slots == NULL or a.rest[row] == -INFINITY:
        return 0.0
    return a.n_slots * exp(min(a.rest[row] - best, 30.0))


cdef inline bint ahead_is_settled(const ahead_scores *a, Py_ssize_t row) noexcept nogil:
    """Tell whether a row of a block stays in its slot if no slot has changed since."""
    return a.rows != NULL and a.slots != NULL and a.is_settled[row]


cdef bint ahead_stays(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row,
                      Py_ssize_t old) noexcept nogil
cdef int ahead_open(ahead_scores *a, components_v1 *c, const slot_table *t, Py_ssize_t i, Py_ssize_t row,
                    Py_ssize_t old, double *scores) noexcept nogil


cdef class RowsAhead:
    cdef ahead_scores a
    cdef const Py_ssize_t *order
    cdef const int32_t *labels
    cdef const slot_table *t
    cdef const double *log_new_mass
    cdef Components components
    cdef FilteredScores filtered        # of the slots as they were when the last block began
    cdef bint is_known                  # whether all slots that have changed since are stale ones of that block
    cdef bint is_useless                # whether no further block of the sweep is filtered
    cdef bint is_alone                  # whether the rows since the last block were scored one by one
    cdef Py_ssize_t n_rows, part_rows
    cdef uint64_t seed, step, row_offset    # of the sweep
    cdef readonly Py_ssize_t n_filtered     # rows so far of which scores were left out
    cdef object n_threads, rows, stale, is_stale, fresh, works, done, tiles, numbers, masses, n_whole, settled
    cdef MovedSlots moved
    cdef bint filters(self, Components components, Py_ssize_t n_slots) except -1
    cdef int load(self, Components components, Py_ssize_t n_slots) except -1
    cdef int renew(self, Components components, Py_ssize_t n_slots) except -1
    cdef Py_ssize_t rows_a_move(self) noexcept
    cdef void forget(self)
    cdef Py_ssize_t fill(self, Components components, const slot_table *t, const int32_t *labels,
                         const double *log_new_mass, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t rows_a_move) except -1
    cdef void judge(self, Py_ssize_t n_parts, Py_ssize_t n_whole) noexcept
    cdef int allot(self) except -1


cdef bint scores_ahead(Components components, Py_ssize_t n_slots, RowsAhead ahead) except -1
