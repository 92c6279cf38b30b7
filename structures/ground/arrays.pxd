# Where the cells of arrays lie, and arrays that begin with a line of the cache.

cdef void *address(object array) except? NULL
cdef object aligned(Py_ssize_t size, object kind=*)
