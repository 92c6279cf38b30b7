"""Classes of the clusters of a state, counted from its labels before each call of a sweep."""

import numpy as np

from libc.stdint cimport int32_t, int64_t


cdef class ClassTable:
    """Table of the known rows in each slot; `known` is a `Known` or None."""

    def __init__(self, known):
        self.known = known
        self.t.row_class = NULL

    cdef int count(self, labels, Py_ssize_t capacity) except -1:
        """Count the known rows of each slot from the labels."""
        cdef const int32_t[::1] classes
        cdef int32_t[::1] slot_class
        cdef int64_t[::1] slot_known
        if self.known is None or not self.known.masks_rows:
            return 0
        rows = np.flatnonzero(self.known.classes >= 0)
        self.slot_class = np.full(capacity, -1, dtype=np.int32)
        self.slot_class[labels[rows]] = self.known.classes[rows]
        self.slot_known = np.bincount(labels[rows], minlength=capacity).astype(np.int64)
        classes, slot_class, slot_known = self.known.classes, self.slot_class, self.slot_known
        self.t.row_class, self.t.slot_class, self.t.slot_known = &classes[0], &slot_class[0], &slot_known[0]
        return 0
