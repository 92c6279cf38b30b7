# Short lists of clusters by group of data: what a proposal may offer beside its draws.

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport proposal_v1
from expfam.structures.alias cimport alias_cell


ctypedef struct prototype_state:
    const alias_cell *cells         # the groups' tables one after the other; the last outcome of each is "by weight"
    const double *law               # of the outcomes of each table
    const uint32_t *names           # cluster of each outcome, ascending within a table
    const Py_ssize_t *start         # (G + 1,) of the tables
    const int32_t *group            # (N,)
    const alias_cell *shared_cells  # (K,)
    const double *shared_law        # (K,)
    Py_ssize_t K                    # 0 before the first refresh
    Py_ssize_t n_rows
    Py_ssize_t longest              # outcomes of the longest table


cdef class BoundPrototype:
    cdef proposal_v1 api
    cdef prototype_state s
    cdef readonly object capsule
    cdef public object pending, n_threads
    cdef readonly object grouping
    cdef readonly Py_ssize_t table_bytes
    cdef object settings, data, seed
    cdef object center, means, rows_of      # of the prototypes, and how many rows of scores each group has
    cdef object max_group, limit
    cdef object group32, cells, law, names, start, shared, shared_law
    cdef int _aim(self, Py_ssize_t K) except -1
