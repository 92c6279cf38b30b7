"""Where the cells of arrays lie, and arrays that fill lines of the cache.

Vectors of such arrays do not lie across two lines. No line holds cells of two of them: two threads that write to arrays
of their own in one line would wait for each other at each number, and small arrays often lie side by side.
"""

import numpy as np

from cpython.buffer cimport PyBUF_ANY_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer

cdef enum:
    LINE = 64               # bytes of a line of the cache


cdef void *address(object array) except? NULL:
    """Return where the first cell of a contiguous array lies; the array must live on."""
    cdef Py_buffer held     # `array.ctypes` would take a microsecond, and the owners of few rows ask for ten pointers
    PyObject_GetBuffer(array, &held, PyBUF_ANY_CONTIGUOUS)
    cdef void *found = held.buf
    PyBuffer_Release(&held)
    return found


cpdef object aligned(object shape, object kind=np.float64):
    """Return zeros of a shape and a dtype that fill lines of the cache.

    >>> from expfam.structures.ground.arrays import aligned
    >>> aligned((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return made(np.zeros, shape, np.dtype(kind))


cpdef object in_lines(object shape, object kind=np.float64):
    """Return an array as `aligned` does, whose cells may hold anything.

    >>> from expfam.structures.ground.arrays import in_lines
    >>> in_lines((2, 3), "int32").shape
    (2, 3)
    """
    return made(np.empty, shape, np.dtype(kind))


cdef void *cells_in(list arrays, shape, kind) except? NULL:
    """Return the first cell of new zeros, as of `aligned`, which `arrays` keeps alive."""
    array = aligned(shape, kind)
    arrays.append(array)
    return address(array)


cdef object made(make, shape, kind):
    """Return an array that begins with a line, and ends a line before other memory begins."""
    cdef Py_ssize_t size = 1, item = kind.itemsize, skip
    for extent in shape if isinstance(shape, tuple) else (shape,):
        size *= extent
    raw = make(size + 2 * LINE // item, dtype=kind)
    skip = (LINE - <size_t> address(raw) % LINE) % LINE // item
    return raw[skip : skip + size].reshape(shape)
