# Prior weights of the columns among which a proposal chooses: slots by number, and one empty column for a new cluster.

from libc.stdint cimport int64_t


ctypedef struct mass_table:
    float *bias                         # (width,) log prior weight, nats; -inf where a column cannot be proposed
    int64_t *n                          # (width,) data
    const double *log_new_mass          # by number of clusters
    Py_ssize_t width                    # columns that exist; a multiple of 64, larger than the number of slots
    Py_ssize_t n_columns                # columns that are scored
    Py_ssize_t new_column               # an empty one; its bias is -inf while no cluster can be opened
    Py_ssize_t n_live                   # columns that hold data
    double offset


cdef void mass_enter(mass_table *t, Py_ssize_t k) noexcept nogil       # one more datum in slot k
cdef void mass_leave(mass_table *t, Py_ssize_t k) noexcept nogil       # one datum less


cdef class Masses:
    cdef mass_table t
    cdef readonly object bias           # (width,) float32
    cdef readonly object n              # (width,) int64
    cdef object log_new_mass

    cdef void point(self)
