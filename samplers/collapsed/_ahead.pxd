# Scores of the next rows of a sweep, which threads compute together before the rows are drawn one by one.

from libc.stdint cimport uint8_t

from expfam.contracts cimport EXPFAM_OK, components_v1

cdef enum:
    MOST_STALE = 16             # slots that have changed since a block was scored; with more the next block begins


ctypedef struct ahead_scores:
    double *rows                # (n, stride) scores of the rows of a block; NULL where rows are scored one by one
    Py_ssize_t stride
    Py_ssize_t start            # place of the first row of the block
    Py_ssize_t n_slots          # slots that are scored, or stale
    Py_ssize_t *stale           # slots that have changed since
    Py_ssize_t n_stale
    uint8_t *is_stale           # (capacity,)
    double *fresh               # scratch for scores of stale slots


cdef inline void ahead_change(ahead_scores *a, Py_ssize_t k) noexcept nogil:
    """Note that slot k has changed."""
    if not a.is_stale[k]:
        a.is_stale[k] = 1
        a.stale[a.n_stale] = k
        a.n_stale += 1


cdef inline bint ahead_is_used_up(const ahead_scores *a) noexcept nogil:
    """Tell whether so many slots have changed that the next rows had better be scored anew."""
    return a.rows != NULL and a.n_stale > MOST_STALE


cdef inline int ahead_correct(ahead_scores *a, components_v1 *c, Py_ssize_t i, Py_ssize_t m, double *scores,
                              double *work) noexcept nogil:
    """Score datum i again under the slots that have changed, or that are new."""
    cdef Py_ssize_t j
    cdef int code
    while a.n_slots < m:
        ahead_change(a, a.n_slots)
        a.n_slots += 1
    if a.n_stale == 0:
        return EXPFAM_OK
    code = c.log_predictive(c.self, i, a.stale, a.n_stale, a.fresh, work)
    if code:
        return code
    for j in range(a.n_stale):
        scores[a.stale[j]] = a.fresh[j]
    return EXPFAM_OK


cdef class RowsAhead:
    cdef ahead_scores a
    cdef components_v1 *c
    cdef const Py_ssize_t *order
    cdef Py_ssize_t n_rows, part_rows
    cdef object n_threads, rows, stale, is_stale, fresh, works, done
    cdef Py_ssize_t fill(self, components_v1 *c, const Py_ssize_t *order, Py_ssize_t start, Py_ssize_t stop,
                         Py_ssize_t m, Py_ssize_t capacity) except -1
    cdef int allot(self, Py_ssize_t capacity) except -1


cdef bint scores_ahead(const components_v1 *c, Py_ssize_t n_slots, RowsAhead ahead) noexcept
