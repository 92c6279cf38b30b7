# Where the cells of arrays lie, and arrays that fill lines of the cache.

cdef void *address(object array) except? NULL
cdef void *cells_in(list arrays, shape, kind) except? NULL
cpdef object aligned(object shape, object kind=*)
cpdef object in_lines(object shape, object kind=*)
