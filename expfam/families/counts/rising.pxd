# Rising factorials in logs, alone and as factors of a product.

from libc.math cimport floor

from expfam.structures.simd.elementary cimport expfam_log1, expfam_log_rising1


cdef inline double log_rising(double z, double m) noexcept nogil:
    """Return log Gamma(z + m) - log Gamma(z)."""
    return expfam_log_rising1(z, m, 16 if z < 16 else 0)


ctypedef struct log_product:
    double factor           # kept within 1e-150 .. 1e150; factors lie within 1e-100 .. 1e100
    double sum


cdef inline void multiply_rising(log_product *value, double z, double m, int sign) noexcept nogil:
    """Add sign * log_rising(z, m) to `value`; multiply factors if m is a small integer."""
    cdef double product = 1.0, t = 0.0
    if m > 8 or m != floor(m) or z > 1e15:
        value.sum += sign * log_rising(z, m)
        return
    while t < m:
        product *= z + t
        t += 1
        if product > 1e100 or product < 1e-100:
            value.sum += sign * expfam_log1(product)
            product = 1.0
    value.factor = value.factor * product if sign > 0 else value.factor / product
    if value.factor > 1e150 or value.factor < 1e-150:
        value.sum += expfam_log1(value.factor)
        value.factor = 1.0
