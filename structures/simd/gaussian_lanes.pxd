# Declarations of gaussian_lanes.h.

cdef extern from "gaussian_lanes.h" nogil:
    enum: EXPFAM_LANES
    const double EXPFAM_HUGE
