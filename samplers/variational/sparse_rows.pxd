# Responsibilities of one row, for loops that compute their own scores.

from libc.stdint cimport int32_t

from expfam.structures.selection.top_l cimport value_t


cdef bint soften(value_t *values, int32_t *indices, Py_ssize_t L, double *objective, double *entropy) noexcept nogil
cdef bint soften_all(value_t *scores, Py_ssize_t K, int32_t *label, double *objective, double *entropy,
                     double *e) noexcept nogil
