# C interface of `MergeQueue`: one function that finds partners, and the steps of a greedy search.

from libc.stdint cimport int64_t

cdef enum:
    MERGE_OK = 0
    MERGE_NUMERICAL = -1        # a score is NaN or +inf; the pair is (bad_k, bad_l)
    MERGE_PYTHON = -3           # the exception is stored in `pending`
    MERGE_BOUND = -4            # `rest` of slot bad_k is NaN, or above every score that was returned
    MERGE_NONE = 1              # no pair is left that may be merged

# Find the older partners of slot k, those with 0 <= ids[slot] < ids[k] (dead slots have id -1). Write their slots and
# scores, each partner once, at most n_items. Return their number, or a status < 0. The best n_kept
# partners, ties by smaller id, must be among them, and no other partner may have a score above rest[0].
ctypedef Py_ssize_t (*older_partners)(void *self, Py_ssize_t k, const int64_t *ids, Py_ssize_t n_kept,
                                      Py_ssize_t *slots, double *scores, double *rest) noexcept nogil

ctypedef struct merge_partners_v1:      # capsule "expfam.merge_partners_v1"
    void *self
    older_partners partners

cdef class MergeQueue:
    cdef readonly Py_ssize_t n_items
    cdef readonly Py_ssize_t n_kept
    cdef readonly Py_ssize_t n_live
    cdef readonly Py_ssize_t n_merges
    cdef readonly int64_t n_scores          # number of partners that were found, each with its score
    cdef readonly int64_t n_scans           # number of scans of entries
    cdef readonly object pending            # exception of a Python callable that will be raised
    cdef readonly Py_ssize_t bad_k
    cdef readonly Py_ssize_t bad_l
    cdef readonly double bad_rest
    cdef merge_partners_v1 _source
    cdef object _partners                   # a callable, or the object that keeps _source.self alive
    cdef object _id_array                   # what _id looks into, for partners in Python
    cdef int64_t[::1] _id                   # (n_items,) id of the cluster in each slot, -1 where it is dead
    cdef double[:, ::1] _kept_score         # (n_items, n_kept) best first
    cdef Py_ssize_t[:, ::1] _kept_slot      # (n_items, n_kept) partners, always older
    cdef int64_t[:, ::1] _kept_id           # (n_items, n_kept) id of the cluster in that slot at the time of the scan
    cdef Py_ssize_t[::1] _n_listed          # (n_items,)
    cdef double[::1] _floor                 # (n_items,) bound of every owned pair that is not listed
    cdef double[::1] _key                   # (n_items,) bound of all pairs that the entry owns
    cdef int64_t[::1] _tie                  # (n_items,) least older id of a pair that reaches the key, -1 if not known
    cdef Py_ssize_t _n_leaves               # number of leaves of the tournament: a power of 2
    cdef Py_ssize_t[::1] _winner            # (2 _n_leaves,) slot of the best entry below each node, -1 for none
    cdef int64_t[::1] _next                 # (2 n_items,) a live id itself; of a dead one, an id up to the next live
    cdef Py_ssize_t[::1] _ahead             # (n_items,) circular lists of entries that wait for one id; itself if alone
    cdef Py_ssize_t[::1] _behind            # (n_items,)
    cdef Py_ssize_t[::1] _slots             # (n_items,) scratch of scans
    cdef double[::1] _scores                # (n_items,) scratch of scans

    cdef int _bind(self, object partners) except -1
    cdef int _raise(self, int status) except -1
    cdef bint _before(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef bint _is_first_live(self, Py_ssize_t a) noexcept nogil
    cdef int64_t _next_live(self, int64_t i) noexcept nogil
    cdef void _forget_dead(self, Py_ssize_t a) noexcept nogil
    cdef void _update_key(self, Py_ssize_t a) noexcept nogil
    cdef void _play(self, Py_ssize_t a) noexcept nogil
    cdef void _play_above(self, Py_ssize_t node) noexcept nogil
    cdef bint _may_wait(self, Py_ssize_t front, Py_ssize_t a) noexcept nogil
    cdef void _wait(self, Py_ssize_t front, Py_ssize_t a) noexcept nogil
    cdef void _release(self, Py_ssize_t a) noexcept nogil
    cdef void _defer(self, Py_ssize_t a) noexcept nogil
    cdef void _offer(self, Py_ssize_t a, Py_ssize_t b, double score) noexcept nogil
    cdef int _scan(self, Py_ssize_t a, merge_partners_v1 *source, Py_ssize_t *slots, double *scores,
                   int64_t *n_scores) noexcept nogil
    cdef int _take(self, Py_ssize_t a, const Py_ssize_t *slots, const double *scores, Py_ssize_t start,
                   Py_ssize_t stop, double left_out, double *worst, double *rest) noexcept nogil
    cdef int _refuse_bound(self, Py_ssize_t a, double rest) noexcept nogil
    cdef int c_best(self, Py_ssize_t *a, Py_ssize_t *b, double *score) noexcept nogil
    cdef void c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
