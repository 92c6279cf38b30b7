"""Copies of the rows with given numbers; rows that come later are asked for meanwhile.

Rows that lie far apart come from memory one after the other where nobody asks for them ahead.
"""

import numpy as np


from expfam.structures.ground.arrays cimport address
from expfam.structures.simd.copy cimport expfam_copy
from expfam.structures.simd.prefetch cimport expfam_prefetch


cdef const Py_ssize_t[::1] checked_numbers(rows, Py_ssize_t n_rows):
    """Return numbers of rows in 0..n_rows-1, as intp; negative ones count from the end."""
    found = np.ascontiguousarray(rows, dtype=np.intp)
    cdef const Py_ssize_t[::1] numbers = found
    cdef Py_ssize_t i
    cdef bint is_negative = False
    for i in range(numbers.shape[0]):
        is_negative |= numbers[i] < 0
        if not -n_rows <= numbers[i] < n_rows:
            raise IndexError(f"rows have the numbers 0..{n_rows - 1}; got {numbers[i]}")
    return np.where(found < 0, found + n_rows, found) if is_negative else numbers


def copied_rows(object X, rows):
    """Return the rows of an array with the given numbers, in their order, C-contiguous.

    Parameters
    ----------
    X : (N, V) ndarray
        C-contiguous, of numbers.
    rows : (m,) int ndarray
        Numbers in 0..N-1; negative ones count from the end.

    Raises
    ------
    IndexError
        A number is not in -N..N-1.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.rows.row_copies import copied_rows
    >>> copied_rows(np.array([[1, 2], [3, 4], [5, 6]]), np.array([2, 0]))
    array([[5, 6],
           [1, 2]])
    """
    cdef const Py_ssize_t[::1] numbers = checked_numbers(rows, X.shape[0])
    cdef Py_ssize_t i, m = numbers.shape[0], size = X.shape[1] * X.itemsize, ahead = rows_ahead(size)
    out = np.empty((m, X.shape[1]), dtype=X.dtype)
    cdef const char *source = NULL if X.size == 0 else <const char *> address(X)
    cdef char *to = NULL if out.size == 0 else <char *> address(out)
    with nogil:
        for i in range(m):
            if i + ahead < m:
                expfam_prefetch(source + numbers[i + ahead] * size, size)
            expfam_copy(to + i * size, source + numbers[i] * size, size)
    return out
