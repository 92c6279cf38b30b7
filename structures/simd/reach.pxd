# Declarations of reach.h.

cdef extern from "reach.h" nogil:
    enum: EXPFAM_REACHES
    void (*expfam_rises)(const double *reach, const double *weight, Py_ssize_t m, double base, double distance,
                         double most, double *out, double *mass) noexcept
