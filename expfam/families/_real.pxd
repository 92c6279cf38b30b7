# What the compiled components of the real-valued families share: storage, rows of the data, the struct's functions.

from expfam.contracts cimport components_v1

# First member of each family's own struct, so that a pointer to the one is a pointer to the other.
ctypedef struct real_state:
    Py_ssize_t capacity             # slots in use by callers; storage is padded to whole blocks of lanes
    Py_ssize_t d, F                 # columns of X and of phi
    const void *x                   # dense rows, or the values of CSR
    int value_kind                  # 0 float64, 1 float32, 2 int64, 3 int32
    const void *indices             # CSR only, else NULL
    const void *indptr
    int wide_indices                # 1 for int64 indices, 0 for int32
    int wide_indptr
    const double *center            # (d,)
    double *n                       # (slots,)
    double *S                       # (slots, F), a row for each cluster
    double *fresh                   # (F + d,) the writer's scratch
    # out = S + sign phi(x_i)
    void (*shifted)(void *self, Py_ssize_t i, double sign, const double *S, double *out) noexcept nogil
    # makes (n, S) the statistics of k, with all that is cached; nothing changes unless it returns EXPFAM_OK
    int (*commit)(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil
    # log evidence of statistics that belong to no slot
    int (*evidence)(void *self, double n, const double *S, double *out, double *work) noexcept nogil
    void (*exchange)(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil     # of what is cached


cdef void real_row(const real_state *state, Py_ssize_t i, double *out) noexcept nogil
cdef int real_is_slot(const real_state *state, Py_ssize_t k) noexcept nogil
cdef int real_clear(void *self, Py_ssize_t k) noexcept nogil


cdef class RealComponents:
    cdef components_v1 api
    cdef real_state *state
    cdef readonly object capsule, family
    cdef readonly Py_ssize_t capacity
    cdef public object pending
    cdef object data, X, arrays     # what the pointers point into
    cdef object center, n, S, fresh
    cdef int prepare(self, real_state *state) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1


cdef object aligned(Py_ssize_t size)
cdef double *pointer(object array) except? NULL
