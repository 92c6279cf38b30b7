# Declarations of dispatch.h.

cdef extern from "dispatch.h" nogil:
    int expfam_isa() noexcept
