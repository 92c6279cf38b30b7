# C interface of `MergeTable`: the caller's scores as a struct of functions, and the steps of a greedy search.

from libc.stdint cimport int64_t

cdef enum:
    MERGE_OK = 0
    MERGE_NUMERICAL = -1        # a score is NaN or +inf, or a bound NaN; the pair is (bad_k, bad_l)
    MERGE_PYTHON = -3           # the exception is stored in `pending`
    MERGE_NONE = 1              # no pair is left that may be merged

# Compute the scores of slot k with each of ls; -inf forbids a pair. Return 0, or a negative status for the caller.
ctypedef int (*pair_scores)(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil
# Write the slots that may merge with k, each once, at most n_items (k and dead slots are ignored). Return their
# number, or a status < 0.
ctypedef Py_ssize_t (*pair_candidates)(void *self, Py_ssize_t k, Py_ssize_t *out) noexcept nogil
# Add cluster l to cluster k and remove l.
ctypedef int (*pair_absorb)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil

ctypedef struct merge_scores_v1:    # capsule "expfam.merge_scores_v1"
    void *self
    pair_scores score
    pair_scores bound               # numbers never below the score; NULL: no bounds
    pair_candidates candidates      # NULL: every pair
    pair_absorb absorb              # NULL: the caller passes a function to run()

cdef class MergeTable:
    cdef readonly Py_ssize_t n_items
    cdef readonly Py_ssize_t n_kept
    cdef readonly Py_ssize_t block_size
    cdef readonly Py_ssize_t n_live
    cdef readonly Py_ssize_t n_merges
    cdef readonly int64_t n_scores          # number of scores that were computed
    cdef readonly int64_t n_bounds          # number of bounds that were computed
    cdef readonly int64_t n_rescans         # number of deferred entries that were scanned again
    cdef readonly object pending            # exception of a Python callable that will be raised
    cdef readonly Py_ssize_t bad_k
    cdef readonly Py_ssize_t bad_l
    cdef merge_scores_v1 _source
    cdef object _score                      # a callable, or the object that keeps _source.self alive
    cdef object _bound
    cdef object _candidates
    cdef Py_ssize_t[::1] _live              # (n_items,) the first n_live are the live slots by ascending id
    cdef int64_t[::1] _id                   # (n_items,) id of the cluster in each slot, -1 where it is dead
    cdef double[:, ::1] _kept_score         # (n_items, n_kept) best first
    cdef Py_ssize_t[:, ::1] _kept_slot      # (n_items, n_kept) partners, always younger
    cdef Py_ssize_t[::1] _n_listed          # (n_items,)
    cdef double[::1] _floor                 # (n_items,) bound of every owned pair that is not listed
    cdef double[::1] _out                   # (n_items,) scratch: scores
    cdef double[::1] _limit                 # (n_items,) scratch: bounds, as a heap
    cdef Py_ssize_t[::1] _partner           # (n_items,) scratch: slots that go with `_limit` or `_out`
    cdef Py_ssize_t[::1] _chosen            # (n_items,) scratch: slots taken from the heap

    cdef int _ask(self, pair_scores function, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                  double *out) noexcept nogil
    cdef Py_ssize_t _younger(self, Py_ssize_t place) noexcept nogil
    cdef Py_ssize_t _others(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
    cdef void _offer(self, Py_ssize_t a, Py_ssize_t b, double score) noexcept nogil
    cdef int _fill(self, Py_ssize_t a, Py_ssize_t m) noexcept nogil
    cdef int _fill_bounded(self, Py_ssize_t a, Py_ssize_t m) noexcept nogil
    cdef void _forget(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil
    cdef void _rename(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
    cdef int c_scan(self, Py_ssize_t place) noexcept nogil
    cdef int c_best(self, Py_ssize_t *a, Py_ssize_t *b, double *score) noexcept nogil
    cdef int c_merge(self, Py_ssize_t k, Py_ssize_t l) noexcept nogil
    cdef int _bind(self, object score, object bound, object candidates) except -1
    cdef int _raise(self, int status) except -1

ctypedef struct ward_state:
    double *center                  # (n_items, n_features)
    double *size                    # (n_items,)
    Py_ssize_t n_features

cdef class WardScores:
    cdef readonly object capsule
    cdef merge_scores_v1 _functions
    cdef ward_state _state
    cdef double[:, ::1] _center             # owner of _state.center
    cdef double[::1] _size                  # owner of _state.size
