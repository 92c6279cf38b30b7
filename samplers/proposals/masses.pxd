# Prior weights of the columns among which a proposal chooses: the slots, and one empty column for a new cluster.

from libc.stdint cimport int64_t


ctypedef struct mass_table:
    float *bias                         # (width,) log prior weight, nats; -inf for columns that cannot be proposed
    int64_t *n                          # (width,) number of data
    const double *log_new_mass          # log mass of a new cluster, by the number of clusters
    Py_ssize_t width                    # number of columns; a multiple of 64, larger than the number of slots
    Py_ssize_t n_columns                # number of columns that are scored
    Py_ssize_t new_column               # an empty column; its bias is -inf while no cluster can be opened
    Py_ssize_t n_live                   # number of columns that hold data
    double offset


cdef void mass_enter(mass_table *t, Py_ssize_t k) noexcept nogil       # add a datum to slot k
cdef void mass_leave(mass_table *t, Py_ssize_t k) noexcept nogil       # remove a datum from slot k


cdef class Masses:
    cdef mass_table t
    cdef readonly object bias           # (width,) float32
    cdef readonly object n              # (width,) int64
    cdef object log_new_mass

    cdef void point(self)
