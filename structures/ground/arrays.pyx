"""Where the cells of arrays lie, and arrays that begin with a line of the cache."""

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


cdef object aligned(Py_ssize_t size, object kind=np.float64):
    """Return zeros (size,) of a dtype whose first cell begins a line of the cache.

    No vector of a block then lies across two lines.
    """
    kind = np.dtype(kind)
    cdef Py_ssize_t item = kind.itemsize
    raw = np.zeros(size + LINE // item, dtype=kind)
    cdef Py_ssize_t skip = (LINE - <size_t> address(raw) % LINE) % LINE // item
    return raw[skip : skip + size]
