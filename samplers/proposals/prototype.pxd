# Alias tables and short lists of clusters for groups of data.

from libc.math cimport log
from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport proposal_v1
from expfam.structures.selection.alias cimport alias_cell, alias_draw


ctypedef struct prototype_state:
    const alias_cell *cells         # tables of the groups one after the other; their last outcome is a draw by weight
    const double *law               # probabilities of the outcomes of each table
    const uint32_t *names           # cluster of each outcome, ascending within a table
    const Py_ssize_t *start         # (G + 1,) first outcome of each table
    const int32_t *group            # (N,) group of each datum
    const alias_cell *shared_cells  # (K,) table of the draws by weight
    const double *shared_law        # (K,) its probabilities
    Py_ssize_t K                    # 0 before the first refresh
    Py_ssize_t n_rows
    Py_ssize_t longest              # number of outcomes of the longest table
    double most_back                # upper bound of the log ratio of two probabilities of a group


cdef inline Py_ssize_t suggested(const prototype_state *s, Py_ssize_t g, bitgen_t *rng) noexcept nogil:
    """Draw a cluster from the law of group g."""
    cdef Py_ssize_t lo = s.start[g], size = s.start[g + 1] - lo
    cdef Py_ssize_t j = alias_draw(s.cells + lo, size, rng.next_uint64(rng.state))
    if j == size - 1:
        return alias_draw(s.shared_cells, s.K, rng.next_uint64(rng.state))
    return s.names[lo + j]


cdef inline double law_of(const prototype_state *s, Py_ssize_t g, Py_ssize_t k) noexcept nogil:
    """Return the probability that a draw for group g is cluster k, listed or by weight."""
    cdef Py_ssize_t lo = s.start[g], last = s.start[g + 1] - 1, below = lo, size = last - lo, half
    cdef double own = 0.0
    while size > 1:                     # a binary search without branches in the loop
        half = size >> 1
        below += half if s.names[below + half] <= <uint32_t> k else 0
        size -= half
    if size and s.names[below] == <uint32_t> k:
        own = s.law[below]
    return own + s.law[last] * s.shared_law[k]


cdef inline double log_way_back(const prototype_state *s, Py_ssize_t g, Py_ssize_t old, Py_ssize_t new) noexcept nogil:
    """Return the log of the probability of `old` over that of `new`."""
    return log(law_of(s, g, old) / law_of(s, g, new))


cdef class BoundPrototype:
    cdef proposal_v1 api
    cdef prototype_state s
    cdef readonly object capsule
    cdef public object pending, n_threads
    cdef readonly object data_cells
    cdef readonly Py_ssize_t table_bytes
    cdef object settings, data, seed
    cdef object center, means, rows_of      # centre and means of phi, and the number of rows of scores of each group
    cdef object max_group, limit
    cdef object blocks                      # number of clusters, and blocks of groups for it
    cdef double least_floor                 # least probability of a draw by weight
    cdef object spare                       # sizes of scratch memory, and that which no task uses now
    cdef object group32, cells, law, names, start, shared, shared_law
    cdef int _aim(self, Py_ssize_t K) except -1
