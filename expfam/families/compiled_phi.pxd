# Sufficient statistics of one dense row, as functions of C.

# The struct of each family begins with this one, so that a pointer to it is also a pointer to a phi_law.
ctypedef struct phi_law:
    # Write phi (F,) of a row (V,), with the bits of the family's `sufficient_statistics`.
    void (*of_floats)(const phi_law *law, const float *row, double *phi) noexcept nogil
    void (*of_doubles)(const phi_law *law, const double *row, double *phi) noexcept nogil


cdef class CompiledPhi:
    cdef const phi_law *law         # the first field of the struct that the subclass fills
    cdef readonly Py_ssize_t n_features, n_statistics


ctypedef struct centred_phi:
    phi_law base
    const double *center            # (V,)
    Py_ssize_t V


cdef class CentredPhi(CompiledPhi):
    cdef centred_phi own
    cdef const double[::1] center   # keeps the memory alive
