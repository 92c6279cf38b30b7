# The sweep over a collapsed state, for kernels whose rows have weights of their own.

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.contracts cimport components_v1
from expfam.samplers.states.collapsed cimport CollapsedState, slot_table


ctypedef struct group_counts:   # of the group that is visited; of_row is NULL where all rows share their weights
    const Py_ssize_t *of_row    # (N,)
    const Py_ssize_t *rows      # (N,) by group
    const Py_ssize_t *starts    # (G + 1,)
    const double *alpha         # (K,)
    int64_t *counts             # (K,)
    double *log_mass            # (K,) log(n + alpha)
    Py_ssize_t visited          # -1 before the first


ctypedef struct sweep:          # what the rows of one sweep share
    components_v1 *c
    slot_table *slots
    group_counts groups
    int32_t *labels
    const Py_ssize_t *order     # NULL for the order of the rows
    const double *log_new_mass  # by number of clusters among the other data
    double *scores              # (n_slots,)
    double *sums                # (n_slots / 64,)
    double *work
    uint64_t seed
    uint64_t step
    uint64_t row_offset
    double log_joint            # one running sum: how the rows are cut into calls must not show in its rounding
    Py_ssize_t n_moved


cdef class Sweep:
    cdef sweep s
    cdef CollapsedState state
    cdef object order, table, scores, sums, kept
    cdef int take(self, order) except -1
    cdef void aim(self)
