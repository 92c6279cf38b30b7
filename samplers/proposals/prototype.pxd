# Alias tables and short lists of clusters for groups of data.

from libc.math cimport log
from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport proposal_v1
from expfam.families.dense_source cimport DenseSource
from expfam.samplers.proposals.group_tables cimport GroupTables, TableScratch, group_table
from expfam.structures.ground.team cimport Team
from expfam.structures.selection.alias cimport alias_cell, alias_draw


ctypedef struct prototype_state:
    const group_table *tables       # (G,) of each group
    const int32_t *group            # (N,) group of each datum
    const alias_cell *shared_cells  # (K,) table of the draws by weight
    const double *shared_law        # (K,) its probabilities
    Py_ssize_t K                    # 0 before the first refresh
    Py_ssize_t n_rows
    Py_ssize_t longest              # number of outcomes of the longest table
    double most_back                # upper bound of the log ratio of two probabilities of a group


cdef inline Py_ssize_t suggested(const prototype_state *s, Py_ssize_t g, bitgen_t *rng) noexcept nogil:
    """Draw a cluster from the law of group g."""
    cdef const group_table *t = s.tables + g
    cdef Py_ssize_t j = alias_draw(t.cells, t.size, rng.next_uint64(rng.state))
    if j == t.size - 1:
        return alias_draw(s.shared_cells, s.K, rng.next_uint64(rng.state))
    return t.names[j]


cdef inline double law_of(const prototype_state *s, Py_ssize_t g, Py_ssize_t k) noexcept nogil:
    """Return the probability that a draw for group g is cluster k, listed or by weight."""
    cdef const group_table *t = s.tables + g
    cdef Py_ssize_t below = 0, last = t.size - 1, size = last, half
    cdef double own = 0.0
    while size > 1:                     # a binary search without branches in the loop
        half = size >> 1
        below += half if t.names[below + half] <= <uint32_t> k else 0
        size -= half
    if size and t.names[below] == <uint32_t> k:
        own = t.law[below]
    return own + t.law[last] * s.shared_law[k]


cdef inline double log_way_back(const prototype_state *s, Py_ssize_t g, Py_ssize_t old, Py_ssize_t new) noexcept nogil:
    """Return the log of the probability of `old` over that of `new`."""
    return log(law_of(s, g, old) / law_of(s, g, new))


cdef class BoundPrototype:
    cdef proposal_v1 api
    cdef prototype_state s
    cdef readonly object capsule
    cdef public object pending, n_threads
    cdef readonly object data_cells
    cdef object settings, data, seed
    cdef object center, means, rows_of      # centre and means of phi, and the number of rows of scores of each group
    cdef object max_group, limit
    cdef object blocks                      # number of clusters, and blocks of groups for it
    cdef readonly DenseSource source        # of the anchors; None where their statistics are made by Python
    cdef GroupTables tables
    cdef TableScratch scratch
    cdef public Team team                   # that makes tables now, or None
    cdef object group32, shared, shared_law
