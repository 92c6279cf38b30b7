# The sweep over a collapsed state, as other kernels use it whose groups of rows have their own weights.

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.contracts cimport components_v1
from expfam.samplers.states.classes cimport ClassTable, class_table
from expfam.samplers.states.collapsed cimport CollapsedState, slot_table


ctypedef struct group_counts:   # counts of the present group; of_row is NULL if all rows share their weights
    const Py_ssize_t *of_row    # (N,) group of each row
    const Py_ssize_t *rows      # (N,) rows sorted by group
    const Py_ssize_t *starts    # (G + 1,) first place of each group in `rows`
    double *alpha               # (K,) pseudo-count of each cluster; changed only where their number is unknown
    int64_t *counts             # (K,) data of the group in each cluster
    double *log_mass            # (K,) log(n + alpha)
    Py_ssize_t visited          # number of the present group; -1 before the first one
    Py_ssize_t rest             # empty slot that stands for all clusters not listed; -1 where their number is given
    const Py_ssize_t *free      # slots without data and weight; the last of the first n_free is the next to be used
    Py_ssize_t n_free
    double gamma


ctypedef struct sweep:          # data that all rows of one sweep share
    components_v1 *c
    slot_table *slots
    group_counts groups
    class_table classes
    int32_t *labels
    const Py_ssize_t *order     # NULL for the order of the rows
    const double *log_new_mass  # log mass of a new cluster, by the number of clusters of the other data
    double *scores              # (n_slots,)
    double *sums                # (n_slots / 64,) sums of blocks of weights
    double *work
    uint64_t seed
    uint64_t step
    uint64_t row_offset
    double log_joint            # one running sum, so that its rounding does not depend on how rows are cut into calls
    Py_ssize_t n_moved


cdef class Sweep:
    cdef sweep s
    cdef CollapsedState state
    cdef ClassTable classes
    cdef readonly Py_ssize_t n_places   # rows of the sweep: those that move one by one
    cdef object order, table, scores, sums, kept
    cdef int take(self, order) except -1
    cdef void aim(self)
    cdef void note(self)
