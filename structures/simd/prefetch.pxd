# Declarations of prefetch.h.

cdef extern from "prefetch.h" nogil:
    void EXPFAM_PREFETCH(const void *address) noexcept
    void EXPFAM_PREFETCH_WRITE(const void *address) noexcept
    void expfam_prefetch(const void *start, Py_ssize_t n_bytes) noexcept
