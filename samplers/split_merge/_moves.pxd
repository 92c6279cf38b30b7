# Single split and merge moves and runs of moves, without the gil.

from libc.stdint cimport int32_t, uint64_t

from expfam.samplers.split_merge._allocators cimport allocator_plan, division
from expfam.samplers.states.collapsed cimport slot_table
from expfam.structures.ground.rng cimport philox_stream

cdef enum:
    GROW = 1                    # a run of moves stopped for lack of free slots
    AWAY = 2                    # a run of moves stopped before a move that Python makes
    NO_MEMORY = 3

cdef enum:                      # kinds of moves
    ANCHORED = 0
    MEMBER = 1
    BUCKET = 2
    SOFTMAX = 3
    CUT = 4


ctypedef struct move_plan:
    int kind
    bint is_away                # made in Python
    allocator_plan allocator
    double rho                  # probability of trying a split of n data: min(rho, most / n)
    double most
    const uint64_t *keys        # (N, n_tables)
    Py_ssize_t n_tables


ctypedef struct known_rows:     # what is known of rows; the first and third pointers are NULL where nothing is
    const int32_t *row_class    # (N,) class of each row, -1 where it is not known
    bint is_cluster             # the rows of a class are one cluster
    const int32_t *row_group    # (N,) link group of each row, -1 for rows without one
    const int32_t *group_size   # (G,)
    int32_t *group_seen         # (G,) scratch, zeros


ctypedef struct move_state:
    division d
    known_rows known
    slot_table *slots
    int32_t *labels
    const move_plan *plans
    const int32_t *which        # plan of each move
    const Py_ssize_t *pairs     # (n_moves, 2) anchors, -1 where there are none
    Py_ssize_t *ks              # (capacity,)
    double *scores              # (2 * capacity,)
    Py_ssize_t n_rows
    uint64_t seed
    uint64_t step
    uint64_t first              # number of the run's first move within the step
    double log_joint
    bint eager                  # no merge is refused before its log q is complete: for tests
    bint changed                # the last move was accepted
    Py_ssize_t n_shifted        # data of sides that were subtracted or absorbed: sums drift with their number
    Py_ssize_t[4] n             # splits proposed and accepted, merges proposed and accepted

cdef int merged_ratio(move_state *w, Py_ssize_t k, Py_ssize_t l, Py_ssize_t n_clusters, double n_k, double n_l,
                      double *out) noexcept nogil
cdef int finish_split(move_state *w, double extra, double lu) noexcept nogil
cdef int finish_merge(move_state *w, double ratio, double extra, double lu) noexcept nogil
cdef bint can_split(const move_state *w) noexcept nogil
cdef double thinning(const move_state *w, const move_plan *p) noexcept nogil
cdef bint draw_member_anchors(move_state *w, Py_ssize_t *u, Py_ssize_t *v, philox_stream *rng) noexcept nogil
cdef bint has_slots(move_state *w) noexcept nogil
cdef int run_moves(move_state *w, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil
