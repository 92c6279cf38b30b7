"""Labels renumbered by first appearance or in their own order, in two passes over them."""

import numpy as np

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from expfam.amounts import counted

ctypedef fused label_kind:
    int32_t
    int64_t


def renumbered(const label_kind[::1] labels, Py_ssize_t n_slots):
    """Return the number of distinct labels, and the labels renumbered from 0: (N,) int32.

    Labels lie in 0..n_slots-1; another one raises IndexError. Memory is that of a table up to the largest label.
    """
    found = np.empty(labels.shape[0], dtype=np.int32)
    cdef int32_t[::1] out = found
    return renumber(labels, n_slots, &out[0] if labels.shape[0] else NULL), found


def division_bytes(const label_kind[::1] labels, Py_ssize_t n_slots):
    """Return the renumbered labels as bytes, without an array; see `renumbered`."""
    cdef object found = PyBytes_FromStringAndSize(NULL, labels.shape[0] * <Py_ssize_t> sizeof(int32_t))
    renumber(labels, n_slots, <int32_t *> PyBytes_AS_STRING(found))
    return found


cdef int32_t renumber(const label_kind[::1] labels, Py_ssize_t n_slots, int32_t *out) except -1:
    """Write the renumbered labels; return the number of distinct ones."""
    cdef label_kind largest = 0
    cdef int32_t *rank
    cdef int32_t count = 0
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
    rank = <int32_t *> calloc(largest + 1, sizeof(int32_t))     # 1 + the new number, 0 while there is none
    if rank == NULL:
        raise MemoryError(f"no memory for a table of {counted(largest + 1, 'label')}")
    with nogil:
        for i in range(labels.shape[0]):
            if not rank[labels[i]]:
                count += 1
                rank[labels[i]] = count
            out[i] = rank[labels[i]] - 1
        free(rank)
    return count


def compacted(const label_kind[::1] labels):
    """Return the labels renumbered without gaps, in the same order: (N,) int32.

    None is negative; memory is that of a table up to the largest label.
    """
    found = np.empty(labels.shape[0], dtype=np.int32)
    cdef int32_t[::1] out = found
    cdef label_kind largest = -1, least = 0, k
    cdef int32_t *rank
    cdef int32_t count = 0
    cdef Py_ssize_t i
    for i in range(labels.shape[0]):
        largest, least = max(largest, labels[i]), min(least, labels[i])
    if least < 0:
        raise ValueError(f"labels must not be negative; got {least}")
    rank = <int32_t *> calloc(largest + 2, sizeof(int32_t))
    if rank == NULL:
        raise MemoryError(f"no memory for a table of {counted(largest + 1, 'label')}")
    with nogil:
        for i in range(labels.shape[0]):
            rank[labels[i]] = 1
        for k in range(largest + 1):
            if rank[k]:
                rank[k] = count
                count += 1
        for i in range(labels.shape[0]):
            out[i] = rank[labels[i]]
        free(rank)
    return found
