# Codes of K vectors that updates keep exact.

from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.structures.hashing.sign_hash cimport SignHash


cdef class SignCodes:
    cdef readonly SignHash hash
    cdef readonly Py_ssize_t n_codes        # K
    cdef readonly Py_ssize_t n_padded       # K rounded up to a multiple of 64: length of planes, norms and weights
    cdef readonly Py_ssize_t n_features     # D
    cdef readonly int exponent              # a value v is stored as round(2^exponent v)
    cdef readonly int slope_exponent        # a direction a is stored as round(2^slope_exponent a)
    cdef bint wide                          # dots are int64
    cdef object _dots                       # (K, n_bits) int32 or int64, without the centre
    cdef object _planes                     # (n_words, n_padded) uint64
    cdef object _squares, _slopes           # (K,) int64
    cdef object _norms_32, _slopes_32       # (n_padded,) float32
    cdef object _limit, _centre             # (D,) int32, fixed point
    cdef object _direction                  # (D,) int32, fixed point with its own exponent
    cdef object _centre_dots                # (n_bits,) of the type of dots
    cdef object _table                      # (n_bits + 1,) float32, cosines
    cdef int64_t empty_square, empty_slope  # values of the zero vector
    cdef char *dots                         # the same memory as above
    cdef char *centre_dots
    cdef uint64_t *planes
    cdef int64_t *squares
    cdef int64_t *slopes
    cdef float *norms_32
    cdef float *slopes_32
    cdef const int32_t *limit
    cdef const int32_t *centre
    cdef const int32_t *direction           # NULL without a direction

    cdef _set_up(self, SignHash hash, Py_ssize_t n_codes, bint wide, int exponent, int slope_exponent, limit, centre,
                 direction)
    cdef _clear(self, Py_ssize_t k)
    # Replace `old` by `new`: fixed-point values of the given coordinates, each once, |new| <= limit. Not checked here.
    cdef void move(self, Py_ssize_t k, const int64_t *coordinates, const int32_t *old, const int32_t *new,
                   Py_ssize_t n) noexcept nogil
    cdef void sign(self, Py_ssize_t k) noexcept nogil           # bits and float32 numbers of code k from its integers
    cdef Py_ssize_t record_size(self) noexcept nogil            # number of bytes that `save` writes
    cdef void save(self, Py_ssize_t k, char *record) noexcept nogil
    cdef void restore(self, Py_ssize_t k, const char *record) noexcept nogil
    cdef void hamming_to(self, const uint64_t *code, int32_t *out) noexcept nogil       # out: (K,)
    # Draw a code; -1 where no weight is positive and finite. weights: (n_padded,), sums: (n_padded / 64,).
    cdef Py_ssize_t draw_one(self, const uint64_t *code, float norm, float factor, const float *bias,
                             const float *table, double uniform, float *weights, float *sums,
                             double *total) noexcept nogil
