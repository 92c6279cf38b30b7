# Declarations of elementary.h.

cdef extern from "elementary.h" nogil:
    double expfam_log1(double x) noexcept
    double expfam_exp1(double x) noexcept
    double expfam_log_rising1(double z, double m, int shift) noexcept
