# Divisions of a cluster's data between two anchors: the sides are drawn, or scored where they are given.

from libc.stdint cimport int8_t, int32_t, uint64_t

from expfam.contracts cimport components_v1
from expfam.structures.ground.rng cimport philox_stream
from expfam.structures.partitions.members cimport member_table

cdef enum:
    COIN = 0
    URN = 1
    SEQUENTIAL = 2
    SCANS = 3               # restricted Gibbs scans from a launch by coins
    SCANS_AFTER_PASS = 4    # restricted Gibbs scans from a launch by a sequential pass
    CODES = 5
    DELAYED = 6
    FOREIGN = 7             # a Python object with a method `sides`


ctypedef struct allocator_plan:
    int code
    Py_ssize_t n_scans              # restricted Gibbs scans before the scored one
    double beta                     # log-odds of one bit
    Py_ssize_t first_stage          # items until the first test of delayed acceptance
    Py_ssize_t stage_factor


ctypedef struct division:           # one or two clusters whose data are divided between the anchors u and v
    components_v1 *c
    member_table *members
    double offset                   # a side of n data has the mass n + offset
    const double *log_new_mass      # by number of clusters
    double *work
    const uint64_t *codes           # (N, n_words), for the allocator CODES
    Py_ssize_t n_words
    Py_ssize_t a, b                 # spare slots, for the side of u and the side of v
    int32_t *items                  # (N,) visited data in their order, without the anchors
    int8_t *sides                   # (N,) 1 for the side of v
    int32_t *leaving                # (N,) data of the smaller side
    Py_ssize_t u, v
    Py_ssize_t k_u, k_v             # clusters of the anchors; equal for a split
    Py_ssize_t at_u, at_v           # number of visited data at the front of each list, anchors included
    Py_ssize_t n_others
    bint forced                     # the sides are given: they are the two clusters
    Py_ssize_t n_a, n_b             # sizes of the sides, anchors included
    bint fills_a, fills_b           # whether the spare slots hold data
    double log_q
    bint stopped                    # log_q fell to the given bound, and the rest was not scored
    double work_done                # in predictives of one cluster
    double evidence_cost            # work of a cluster's evidence, in the same unit

cdef void open_division(division *d, Py_ssize_t u, Py_ssize_t v) noexcept nogil
cdef int close_division(division *d) noexcept nogil
cdef Py_ssize_t next_item(division *d, philox_stream *rng) noexcept nogil
cdef int begin_sides(division *d) noexcept nogil
cdef int place_item(division *d, Py_ssize_t t, philox_stream *rng) noexcept nogil
cdef int divide(division *d, const allocator_plan *p, double stop_below, philox_stream *rng) noexcept nogil
cdef int gather_leaving(division *d) noexcept nogil
cdef int draw_subset(division *d, double offset, bint fills, philox_stream *rng) noexcept nogil
cdef double urn_log_q(double n_a, double n_b, double offset) noexcept nogil
cdef double split_prior(const division *d, Py_ssize_t n_clusters, double n_a, double n_b) noexcept nogil
