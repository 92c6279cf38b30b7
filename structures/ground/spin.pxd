# A number that threads change and watch without the gil; the words of a team of threads.

from libc.stdint cimport int64_t


cdef extern from "spin.h" nogil:
    int64_t expfam_watched(const int64_t *number) noexcept
    int64_t expfam_taken(int64_t *number) noexcept
    int64_t expfam_swap(int64_t *number, int64_t value) noexcept
    int64_t expfam_nanoseconds() noexcept
    void expfam_nap(int64_t nanoseconds) noexcept
    int expfam_watch(const int64_t *number, int64_t seen, int64_t nanoseconds) noexcept


cdef class Watched:
    cdef int64_t number
