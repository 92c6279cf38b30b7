# The one handle through which samplers reach components, whoever made them.

from expfam.contracts cimport components_v1
from expfam.families.growth cimport log_growth_v1


cdef int copy_struct(capsule, const char *name, void *target, size_t size, size_t least, what) except -1
cdef int copy_growth(capsule, log_growth_v1 *target, family) except -1


cdef class Components:
    cdef components_v1 c            # the owner's struct, zero-filled beyond its struct_size
    cdef readonly object owner      # keeps the struct's `self` alive
    cdef readonly object family
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t capacity
    cdef double[::1] work           # (work_size,) scratch of the calling thread
    cdef int take(self) except -1   # copy the owner's struct; again after every reserve()
    cdef object fail(self, int code, Py_ssize_t i, Py_ssize_t k)  # the exception of a result other than 0
