# Declarations of blocks.h.

cdef extern from "blocks.h" nogil:
    enum: EXPFAM_BLOCK
