# The sweep over a collapsed state, as other kernels use it whose rows do not share their weights.

from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport components_v1
from expfam.samplers.collapsed._ahead cimport RowsAhead, ahead_scores
from expfam.samplers.states.classes cimport ClassTable, class_table
from expfam.samplers.states.collapsed cimport CollapsedState, slot_table
from expfam.structures.ground.rng cimport philox_stream


cdef struct sweep

ctypedef struct prior_masses:   # how the masses of the clusters follow from the labels of the other rows
    void *self
    # get ready for row i; False if there are too few slots for its draw
    bint (*begin)(sweep *s, Py_ssize_t i) noexcept nogil
    # add the log masses to the scores, without the datum; it is in slot `old`, where its score is `own`
    void (*add)(sweep *s, Py_ssize_t old, double own) noexcept nogil
    # count the datum in slot `new` in place of `old`
    void (*change)(sweep *s, Py_ssize_t old, Py_ssize_t new, philox_stream *rng) noexcept nogil


cdef struct sweep:              # data that all rows of one sweep share
    components_v1 *c
    slot_table *slots
    prior_masses masses
    class_table classes
    int32_t *labels
    const Py_ssize_t *order     # NULL for the order of the rows
    const double *log_new_mass  # log mass of a new cluster, by the number of clusters of the other data
    ahead_scores *ahead         # scores of the rows of a block
    Py_ssize_t row              # of the datum in the block
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
    cdef RowsAhead ahead
    cdef ahead_scores none_ahead
    cdef readonly Py_ssize_t n_places   # rows of the sweep: those that move one by one
    cdef object order, table, scores, sums, kept
    cdef int take(self, order) except -1
    cdef void aim(self)
    cdef void note(self)
    cdef Py_ssize_t look_ahead(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n_rows, Py_ssize_t n_moved) except -1
