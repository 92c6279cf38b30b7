# Sweeps by Metropolis steps given parameters: what a step reads, and the change of the log weight by a step.

from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport proposal_v1
from expfam.families.dense_source cimport DenseSource
from expfam.families.rows cimport csr_rows, entry_column, entry_value, row_start
from expfam.samplers.proposals.handle cimport ProposalHandle
from expfam.samplers.proposals.prototype cimport prototype_state
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
    Py_ssize_t F
    Py_ssize_t K
    Py_ssize_t n_steps
    uint64_t seed
    uint64_t step
    uint64_t row_offset


ctypedef struct listed:         # the list of one group and its parameters
    Py_ssize_t group            # -1 before the first
    Py_ssize_t size
    Py_ssize_t padded           # a multiple of EXPFAM_LIST_ENTRIES
    double *table               # (F, padded), dense statistics only
    double *bias                # (padded,)
    double *scores              # (padded,)
    double *sums                # (padded / EXPFAM_BLOCK + 1,)


ctypedef struct tally:
    Py_ssize_t n_proposed       # proposals of other clusters than the present one
    Py_ssize_t n_accepted
    Py_ssize_t failed


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
    cdef object rooms                   # scratch memory that no task uses now

    cdef int _move_block(self, Py_ssize_t first, Py_ssize_t last, Room room, tally *t) except? -1
    cdef int _move_compiled(self, Py_ssize_t start, Py_ssize_t stop, Room room, tally *t) noexcept nogil


cdef class Room:
    cdef double *work
    cdef listed *lists              # NULL without draws from lists
    cdef listed l
    cdef object arrays, waiting
    cdef Py_ssize_t *waits          # (MADE_ROWS,) those of `waiting`
    cdef double *phi                # (MADE_ROWS, F), where statistics are compiled
    cdef double *row                # (F,) scratch
