# Signs of random projections from hash bits.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef class SignHash:
    cdef readonly Py_ssize_t n_bits         # a multiple of 64
    cdef readonly Py_ssize_t n_words        # n_bits / 64
    cdef readonly Py_ssize_t n_bits_asked
    cdef readonly str entries               # "rademacher" or "gaussian8"
    cdef readonly uint64_t seed
    cdef readonly int largest_entry         # 1, or 127
    cdef uint64_t key                       # seed of entries
    cdef uint64_t tie_key                   # seed of the bits that break ties
    cdef bint by_bytes                      # entries are quantiles by byte
    cdef uint32_t table_32[256]             # these quantiles modulo 2^32, modulo 2^64, and as they are
    cdef uint64_t table_64[256]
    cdef double table_real[256]

    cdef void add_32(self, const int64_t *coordinates, const uint32_t *v, Py_ssize_t n, uint32_t *dots) noexcept nogil
    cdef void add_64(self, const int64_t *coordinates, const uint64_t *v, Py_ssize_t n, uint64_t *dots) noexcept nogil
    cdef void add_real(self, const int64_t *coordinates, const double *v, Py_ssize_t n, double *dots) noexcept nogil
    cdef uint64_t tie_word(self, int64_t owner, Py_ssize_t p) noexcept nogil
