# Declarations of sign_codes.h.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from "sign_codes.h" nogil:
    uint64_t expfam_mix64(uint64_t x) noexcept
    uint64_t EXPFAM_HASH_WORD
    void (*expfam_sign_keys)(const int64_t *coordinates, uint64_t seed, uint64_t *keys, Py_ssize_t n) noexcept
    void (*expfam_sign_words)(const uint64_t *keys, uint64_t p, uint64_t *words, Py_ssize_t n) noexcept
    void (*expfam_sign_add_32)(const uint64_t *words, const uint32_t *v, Py_ssize_t n, uint32_t *dots) noexcept
    void (*expfam_sign_add_64)(const uint64_t *words, const uint64_t *v, Py_ssize_t n, uint64_t *dots) noexcept
    void (*expfam_sign_add_real)(const uint64_t *words, const double *v, Py_ssize_t n, double *dots) noexcept
    void (*expfam_byte_add_32)(const uint64_t *words, const uint32_t *v, const uint32_t *table, Py_ssize_t n,
                               uint32_t *dots) noexcept
    void (*expfam_byte_add_64)(const uint64_t *words, const uint64_t *v, const uint64_t *table, Py_ssize_t n,
                               uint64_t *dots) noexcept
    void (*expfam_byte_add_real)(const uint64_t *words, const double *v, const double *table, Py_ssize_t n,
                                 double *dots) noexcept
    void (*expfam_entries_add)(const double *entries, const double *v, Py_ssize_t n, Py_ssize_t n_bits,
                               double *dots) noexcept
    uint64_t (*expfam_sign_bits_32)(const int32_t *dots, const int32_t *centre, uint64_t tie) noexcept
    uint64_t (*expfam_sign_bits_64)(const int64_t *dots, const int64_t *centre, uint64_t tie) noexcept
    uint64_t (*expfam_sign_bits_real)(const double *dots, const double *centre, uint64_t tie) noexcept
