# Statistics of dense rows, written without the gil.


from expfam.families.compiled_phi cimport CompiledPhi
from expfam.structures.selection.top_l cimport value_t


cdef class DenseSource:
    cdef object X                   # keeps the rows alive
    cdef CompiledPhi compiled
    cdef const char *cells
    cdef Py_ssize_t n_rows, row_bytes
    cdef bint is_single             # the rows
    cdef const double[::1] origin

cdef void write_phi(DenseSource source, Py_ssize_t start, const Py_ssize_t *numbers, Py_ssize_t R, double *row,
                    value_t *out) noexcept nogil
