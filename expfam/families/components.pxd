# Handle through which samplers call components, of this package or of a plugin.

from expfam.contracts cimport components_v1
from expfam.families.growth cimport log_growth_v1


cdef int copy_struct(capsule, const char *name, void *target, size_t size, size_t least, what) except -1
cdef int copy_growth(capsule, log_growth_v1 *target, family) except -1

cdef int components_set_members(components_v1 *c, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t k) noexcept nogil


cdef class Components:
    cdef components_v1 c            # copy of the owner's struct; members behind its struct_size are zero
    cdef readonly object owner      # keeps the memory alive that the struct's `self` points to
    cdef readonly object family
    cdef readonly Py_ssize_t n_rows
    cdef readonly Py_ssize_t capacity
    cdef double[::1] work           # (work_size,) scratch of the calling thread
    cdef int take(self) except -1   # copies the owner's struct; call it again after each reserve()
    cdef object fail(self, int code, Py_ssize_t i, Py_ssize_t k)  # exception for a status other than 0
