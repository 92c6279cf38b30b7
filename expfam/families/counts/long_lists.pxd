# Columns whose lists are rows of a table, see `expfam.families.counts.natural_cells.long_lists`.

from libc.stdint cimport int64_t


cdef inline Py_ssize_t place_of(const int64_t[::1] ascending, Py_ssize_t column) noexcept nogil:
    """Return the place of a column among some, or -1."""
    cdef Py_ssize_t low = 0, high = ascending.shape[0], middle
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < ascending.shape[0] and ascending[low] == column else -1
