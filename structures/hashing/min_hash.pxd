# Hashes of non-negative vectors whose collision probability is sum of minima / sum of maxima.

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    MIN_HASH_FINE = -1          # results of `hash_row`; a number from 0 on is the position of an entry that is refused
    MIN_HASH_SCARCE = -2        # the weights are too small relative to `upper` for rejection

cdef class WeightedMinHash:
    cdef readonly Py_ssize_t n_features
    cdef readonly Py_ssize_t n_tables
    cdef readonly Py_ssize_t n_hashes   # number of hashes in the key of each table
    cdef readonly Py_ssize_t work_size  # number of doubles that `hash_row` needs; they are zeros at the first call
    cdef readonly str method
    cdef readonly bint is_signed
    cdef readonly uint64_t seed
    cdef readonly object upper
    cdef bint is_icws
    cdef Py_ssize_t n_weights           # n_features, or twice that with signs
    cdef Py_ssize_t block               # number of hashes computed together
    cdef double[::1] bounds             # (n_weights,) upper, flat
    cdef double[::1] ends               # (n_weights,) its cumulative sums
    # Hash the entries of one row; columns NULL: all columns in order. codes (n_tables * n_hashes,): 0 for a row of
    # zeros.
    cdef Py_ssize_t hash_row(self, const int64_t *columns, const double *values, Py_ssize_t n, uint64_t *codes,
                             double *work) noexcept nogil
    cdef Py_ssize_t icws_row(self, const int64_t *columns, const double *values, Py_ssize_t n, Py_ssize_t first,
                             Py_ssize_t size, const double *table, uint64_t *codes, double *work) noexcept nogil
    cdef Py_ssize_t rejection_row(self, const int64_t *columns, const double *values, Py_ssize_t n,
                                  const int32_t *components, const double *offsets, Py_ssize_t n_ready,
                                  uint64_t *codes, double *work) noexcept nogil
    cdef int32_t dart(self, Py_ssize_t h, Py_ssize_t number, double *offset) noexcept nogil
    cdef void fold(self, const uint64_t *codes, Py_ssize_t first, Py_ssize_t size, Py_ssize_t n_hashes,
                   uint64_t *keys) noexcept nogil
