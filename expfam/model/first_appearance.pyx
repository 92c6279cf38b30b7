"""Labels renumbered by first appearance, in two passes over them."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

ctypedef fused label_kind:
    int32_t
    int64_t


def renumbered(const label_kind[::1] labels, Py_ssize_t n_slots):
    """Return the number of distinct labels, and the labels renumbered from 0: (N,) int32.

    Labels lie in 0..n_slots-1; another one raises IndexError. Memory is that of a table up to the largest label.
    """
    cdef label_kind largest = 0
    cdef Py_ssize_t i
    cdef bint is_outside = False
    with nogil:
        for i in range(labels.shape[0]):
            if not 0 <= labels[i] < n_slots:
                is_outside = True
                break
            if labels[i] > largest:
                largest = labels[i]
    if is_outside:
        raise IndexError(f"label {labels[i]} of datum {i} is not one of 0 to {n_slots - 1}")
    found = np.empty(labels.shape[0], dtype=np.int32)
    cdef int32_t[::1] out = found
    cdef int32_t[::1] rank = np.zeros(largest + 1, dtype=np.int32)  # 1 + the new number, 0 while there is none
    cdef int32_t count = 0
    with nogil:
        for i in range(labels.shape[0]):
            if not rank[labels[i]]:
                count += 1
                rank[labels[i]] = count
            out[i] = rank[labels[i]] - 1
    return count, found
