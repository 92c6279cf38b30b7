# Declarations of copy.h.

cdef extern from "copy.h" nogil:
    void expfam_copy(char *to, const char *from_, Py_ssize_t n_bytes) noexcept
