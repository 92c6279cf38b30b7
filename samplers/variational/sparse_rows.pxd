# Scores, responsibilities and sums of rows without the gil, for loops that put them together.

from libc.stdint cimport int32_t, int64_t

from expfam.structures.selection.top_l cimport value_t


# Arguments as those of `dense_scores`, `select_rows`, `lost_mass` and `add_dense_rows`; matrices are row-major.
cdef void score_rows(const value_t *phi, const value_t *theta, const value_t *c, Py_ssize_t R, Py_ssize_t K,
                     Py_ssize_t F, value_t *out) noexcept nogil
cdef bint select_row(const value_t *scores, Py_ssize_t n_scores, Py_ssize_t L, value_t *values, int32_t *indices,
                     double *objective, double *entropy, value_t *work) noexcept nogil
cdef double lost_by_row(const value_t *scores, Py_ssize_t K, double objective) noexcept nogil
cdef void add_rows(const value_t *phi, const value_t *values, const int32_t *indices, const double *weight,
                   Py_ssize_t R, Py_ssize_t L, Py_ssize_t K, Py_ssize_t F, double *n, double *S, int64_t *starts,
                   int64_t *places, value_t *total) noexcept nogil

# Responsibilities of one row.
cdef bint soften(value_t *values, int32_t *indices, Py_ssize_t L, double *objective, double *entropy) noexcept nogil
cdef bint soften_all(value_t *scores, Py_ssize_t K, int32_t *label, double *objective, double *entropy,
                     double *e) noexcept nogil
