# Sweeps by Metropolis steps given parameters: what a step reads, and the change of the log weight by a step.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from expfam.contracts cimport proposal_v1
from expfam.families.dense_source cimport DenseSource
from expfam.families.rows cimport csr_rows, entry_column, entry_value, row_start
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.proposals.prototype cimport prototype_state
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.list_scores cimport expfam_dot_difference


ctypedef struct sweep_state:           # data that all rows of one sweep share
    proposal_v1 *p
    const int32_t *labels
    int32_t *moved              # (N,) labels after the sweep
    const Py_ssize_t *order     # NULL for the order of the rows
    const csr_rows *rows        # sparse statistics of all data, or NULL
    const double *Theta         # (K, F)
    const double *bias          # (K,) log pi - G
    const prototype_state *tables   # tables of a proposal by groups, or NULL
    const prototype_state *lists    # the same if exact draws from short lists follow, or NULL
    Py_ssize_t n_rows
    Py_ssize_t F
    Py_ssize_t K
    Py_ssize_t n_steps
    uint64_t seed
    uint64_t step
    uint64_t row_offset


ctypedef struct listed:         # the list of one group and its parameters
    Py_ssize_t group            # -1 before the first
    const uint32_t *names       # its clusters, ascending
    Py_ssize_t size
    Py_ssize_t padded           # a multiple of EXPFAM_LIST_ENTRIES
    double *table               # (F, padded), dense statistics only
    double *bias                # (padded,)
    double *scores              # (padded,)
    double *sums                # (padded / EXPFAM_BLOCK + 1,)


ctypedef struct tally:          # of one task
    Py_ssize_t n_proposed       # proposals of other clusters than the present one
    Py_ssize_t n_accepted
    Py_ssize_t failed           # datum whose step failed
    Py_ssize_t code             # of its failure


ctypedef struct move_scratch:   # of one thread
    double *work
    listed *lists               # NULL without draws from lists
    listed own
    Py_ssize_t *waits           # (MADE_ROWS,) data that wait for statistics
    double *phi                 # (MADE_ROWS, F), where statistics are compiled
    double *row                 # (F,)


cdef inline double gain(const sweep_state *w, Py_ssize_t i, const double *x, Py_ssize_t old,
                        Py_ssize_t new) noexcept nogil:
    """Compute the log weight of cluster `new` for the datum minus the one of `old`."""
    cdef const double *a = w.Theta + new * w.F
    cdef const double *b = w.Theta + old * w.F
    cdef Py_ssize_t at, f
    cdef double sum_ = 0.0
    if x != NULL:
        sum_ = expfam_dot_difference(x, a, b, w.F)
    else:
        for at in range(row_start(w.rows, i), row_start(w.rows, i + 1)):
            f = entry_column(w.rows, at)
            sum_ += entry_value(w.rows, at) * (a[f] - b[f])
    return sum_ + (w.bias[new] - w.bias[old])


cdef class MetropolisSweep:
    cdef sweep_state w
    cdef csr_rows rows
    cdef readonly ProposalHandle handle
    cdef readonly object model          # model to which the proposal is bound
    cdef readonly object snapshot       # snapshot of the last refresh, if it is used in later sweeps too
    cdef object data, order, phi, sorted, sparse, n_clusters
    cdef DenseSource source             # None where statistics are held, sparse, or made by Python
    cdef const double *held             # (N, F) statistics in the order of the sweep, or NULL
    cdef Team team                      # that moves labels now, or None
    cdef MoveScratch scratch
    cdef Py_ssize_t n_tasks
    cdef tally *tallies
    cdef int64_t n_failed               # tasks that have failed

    cdef void move_task(self, Py_ssize_t item, Py_ssize_t thread) noexcept nogil
    cdef object _failure(self, const tally *t)
    cdef int _share(self, Team team) except -1
    cdef int _move_places(self, Py_ssize_t start, Py_ssize_t stop, move_scratch *s, tally *t) noexcept nogil
    cdef int _move_block(self, Py_ssize_t first, Py_ssize_t last, move_scratch *s, tally *t) except? -1
    cdef int _move_compiled(self, Py_ssize_t start, Py_ssize_t stop, move_scratch *s, tally *t) noexcept nogil


cdef class MoveScratch:
    cdef list arrays
    cdef Py_ssize_t n_threads, work_size
    cdef Py_ssize_t longest             # outcomes of the longest list that there is room for
    cdef bint has_lists
    cdef list free                      # numbers of scratch memory that no task uses now
    cdef move_scratch *of_thread
