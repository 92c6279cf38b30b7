"""Labels renumbered by first appearance, in one pass over them."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

ctypedef fused label_kind:
    int32_t
    int64_t


def renumbered(const label_kind[::1] labels, Py_ssize_t n_slots):
    """Return the number of distinct labels, and the labels renumbered from 0: (N,) int32.

    Labels lie in 0..n_slots-1; another one raises IndexError.
    """
    found = np.empty(labels.shape[0], dtype=np.int32)
    cdef int32_t[::1] out = found
    cdef int32_t[::1] rank = np.full(n_slots, -1, dtype=np.int32)
    cdef Py_ssize_t i
    cdef int32_t count = 0
    cdef bint is_outside = False
    with nogil:
        for i in range(labels.shape[0]):
            if not 0 <= labels[i] < n_slots:
                is_outside = True
                break
            if rank[labels[i]] < 0:
                rank[labels[i]] = count
                count += 1
            out[i] = rank[labels[i]]
    if is_outside:
        raise IndexError(f"label {labels[i]} of datum {i} is not one of 0 to {n_slots - 1}")
    return count, found
