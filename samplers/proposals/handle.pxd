# Handle through which kernels call all proposals, those of other packages too.

from expfam.contracts cimport proposal_v1


cdef class ProposalHandle:
    cdef proposal_v1 p              # the owner's struct, zero-filled beyond its struct_size
    cdef readonly object owner      # keeps the struct's `self` alive
    cdef readonly object name       # of the proposal, for messages
    cdef double[::1] work           # (work_size,) scratch of the calling thread
    cdef int take(self) except -1   # copy the owner's struct; to be called after every refresh, shift or reserve
    cdef object fail(self, int code, Py_ssize_t i, Py_ssize_t k)
