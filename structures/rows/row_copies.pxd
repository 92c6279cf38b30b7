# Numbers of rows, and how many rows ahead memory is asked for.


cdef enum:
    AHEAD_BYTES = 4096      # of rows that are on their way at a time
    LEAST_AHEAD = 4
    MOST_AHEAD = 128


cdef inline Py_ssize_t rows_ahead(Py_ssize_t row_bytes) noexcept nogil:
    """Return by how many rows to prefetch rows that lie far apart."""
    return min(max(AHEAD_BYTES // max(row_bytes, 1), LEAST_AHEAD), MOST_AHEAD)


cdef const Py_ssize_t[::1] checked_numbers(rows, Py_ssize_t n_rows)
