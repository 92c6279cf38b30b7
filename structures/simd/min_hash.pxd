# Declarations of min_hash.h.

cdef extern from "min_hash.h" nogil:
    void (*expfam_icws)(const double *draws, double log_x, double feature, double *best, double *level, double *winner,
                        Py_ssize_t n) noexcept
