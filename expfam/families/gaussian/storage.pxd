# Shared parts of the compiled Gaussian components: storage, rows of the data, functions of the struct.

from expfam.contracts cimport EXPFAM_RANGE, components_v1
from expfam.families.row_statistics cimport row_statistics_v1
from expfam.families.rows cimport csr_rows
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.prefetch cimport EXPFAM_PREFETCH

# Each family's own struct begins with this one, so that a pointer to it is also a pointer to a real_state.
ctypedef struct real_state:
    Py_ssize_t capacity             # slots that callers may use; storage is padded to whole blocks of lanes
    Py_ssize_t d, F                 # columns of X and of phi
    csr_rows rows                   # CSR rows; of dense rows only `values` and `kind`, and `starts` is NULL
    const double *center            # (d,)
    int is_log                      # 1 if the model is about the logarithms of dense rows
    double *n                       # (slots,)
    double *S                       # (slots, F), a row for each cluster
    double *fresh                   # (F + d,) the writer's scratch
    # out = S + sign phi(x_i); x (d,) is scratch memory, and out may be S
    void (*shifted)(void *self, Py_ssize_t i, double sign, const double *S, double *out, double *x) noexcept nogil
    # sets the statistics of k to (n, S) and updates its caches; changes nothing unless it returns EXPFAM_OK
    int (*commit)(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil
    # computes the log evidence of statistics that belong to no slot
    int (*evidence)(void *self, double n, const double *S, double *out, double *work) noexcept nogil
    void (*exchange)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil     # exchanges the caches


cdef void real_row(const real_state *state, Py_ssize_t i, double *out) noexcept nogil
cdef int real_is_slot(const real_state *state, Py_ssize_t k) noexcept nogil
cdef int real_clear(void *self, Py_ssize_t k) noexcept nogil
cdef void real_add_rows(void *self, const Py_ssize_t *rows, Py_ssize_t n, double sign, double *S,
                        double *work) noexcept nogil
cdef int real_set_sums(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil
cdef int real_set_members(void *self, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t k) noexcept nogil


cdef enum:
    AHEAD = 3                       # rows by which memory is prefetched ahead
    N_SIZES = 16
    LINE = 8                        # numbers of a cache line
    MOST_FETCHED = 64


ctypedef struct size_terms:         # cache of the terms that depend only on the number of data
    double n[N_SIZES]
    double term[N_SIZES]


cdef inline void forget_sizes(size_terms *terms) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(N_SIZES):
        terms.n[i] = -1.0


cdef inline Py_ssize_t place_of_size(double n) noexcept nogil:
    return (<Py_ssize_t> n) % N_SIZES


cdef inline Py_ssize_t gather_pairs(const real_state *state, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t start,
                                    Py_ssize_t m, const double **rows, double *n) noexcept nogil:
    """Write statistics of partners of k, and numbers of data of the pairs, one per lane.

    The partners begin at `start`; return their number, or EXPFAM_RANGE if a slot does not exist. Lanes without a
    partner repeat the last partner.
    """
    cdef Py_ssize_t size = m - start, i, j, other = 0
    if size > EXPFAM_LANES:
        size = EXPFAM_LANES
    for i in range(EXPFAM_LANES):
        if i < size:
            other = start + i if ls == NULL else ls[start + i]
            if not 0 <= other < state.capacity:
                return EXPFAM_RANGE
        rows[i] = state.S + other * state.F
        n[i] = state.n[k] + state.n[other]
    if ls != NULL:                  # partners lie anywhere in memory: the processor cannot predict where
        for i in range(start + EXPFAM_LANES, start + 2 * EXPFAM_LANES):
            if i < m and 0 <= ls[i] < state.capacity:
                j = 0
                while j < state.F and j < MOST_FETCHED:
                    EXPFAM_PREFETCH(state.S + ls[i] * state.F + j)
                    j += LINE
    return size


cdef inline void exchange_lanes(double *block, Py_ssize_t rows, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Exchange the numbers of two clusters in blocks of `rows` rows."""
    cdef double *a = block + (k // EXPFAM_LANES) * rows * EXPFAM_LANES + k % EXPFAM_LANES
    cdef double *b = block + (l // EXPFAM_LANES) * rows * EXPFAM_LANES + l % EXPFAM_LANES
    cdef Py_ssize_t r
    cdef double t
    for r in range(rows):
        t = a[r * EXPFAM_LANES]
        a[r * EXPFAM_LANES] = b[r * EXPFAM_LANES]
        b[r * EXPFAM_LANES] = t


cdef class RealComponents:
    cdef components_v1 api
    cdef real_state *state
    cdef row_statistics_v1 statistics
    cdef readonly object capsule, row_statistics, family
    cdef readonly Py_ssize_t capacity
    cdef public object pending
    cdef object data, X, arrays     # arrays behind the pointers
    cdef object center, n, S, fresh
    cdef int prepare(self, real_state *state) except -1
    cdef int read_rows(self) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef void offer_sums(self)


cdef double *pointer(object array) except? NULL
