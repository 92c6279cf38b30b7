# Declarations of popcount.h.

from libc.stdint cimport uint64_t

cdef extern from "popcount.h" nogil:
    uint64_t expfam_popcount1(uint64_t x) noexcept
