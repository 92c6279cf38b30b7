"""Data that enter and leave slots, listed by slot.

The sums of a slot then change in one go, and threads may share the slots. The data of a slot keep their order, and with
it the bits of its sums.
"""

import numpy as np


cdef void count_rows(const Py_ssize_t[::1] slots, Py_ssize_t[::1] sizes) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(slots.shape[0]):
        sizes[slots[j]] += 1


cdef void list_rows(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] slots, Py_ssize_t[::1] next_place,
                    Py_ssize_t[::1] out) noexcept nogil:
    """Sort data by slot; `next_place` (by slot) begins at the first place of each."""
    cdef Py_ssize_t j
    for j in range(rows.shape[0]):
        out[next_place[slots[j]]] = rows[j]
        next_place[slots[j]] += 1


cdef class MovedRows:
    """Data that enter and then leave slots, by slot.

    Parameters
    ----------
    added, removed : pair of (m,) intp ndarrays
        Data and the slot of each; slots are below `width`.
    width : int
        Number of slots.
    """

    def __init__(self, added, removed, Py_ssize_t width):
        cdef const Py_ssize_t[::1] rows_in, slots_in, rows_out, slots_out
        rows_in, slots_in, rows_out, slots_out = (np.ascontiguousarray(a, dtype=np.intp) for a in (*added, *removed))
        cdef Py_ssize_t n_in = rows_in.shape[0], n_out = rows_out.shape[0], k, n = 0
        cdef Py_ssize_t[:, ::1] sizes = np.zeros((2, width), dtype=np.intp)
        cdef Py_ssize_t[:, ::1] firsts
        cdef Py_ssize_t[::1] changed, rows
        changed, rows = np.empty(width + 1, dtype=np.intp), np.empty(n_in + n_out + 1, dtype=np.intp)
        firsts = np.zeros((2, width + 1), dtype=np.intp)
        with nogil:
            count_rows(slots_in, sizes[0])
            count_rows(slots_out, sizes[1])
            for k in range(width):
                if sizes[0, k] or sizes[1, k]:
                    changed[n] = k
                    firsts[0, n + 1], firsts[1, n + 1] = firsts[0, n] + sizes[0, k], firsts[1, n] + sizes[1, k]
                    sizes[0, k], sizes[1, k] = firsts[0, n], firsts[1, n]
                    n += 1
            list_rows(rows_in, slots_in, sizes[0], rows)
            list_rows(rows_out, slots_out, sizes[1], rows[n_in:])
        self.slots, self.firsts, self.rows = np.asarray(changed)[:n], firsts, rows
        self.m.slots, self.m.n_slots = &changed[0], n
        self.m.first_entering, self.m.first_leaving = &firsts[0, 0], &firsts[1, 0]
        self.m.entering = &rows[0]
        self.m.leaving = self.m.entering + n_in

    def parts(self, Py_ssize_t n_parts):
        """Cut the slots into at most `n_parts` ranges (start, stop) with about as many data each."""
        cdef Py_ssize_t n = self.m.n_slots, total = self.m.first_entering[n] + self.m.first_leaving[n], start = 0, j
        found = []
        for j in range(n):
            if (self.m.first_entering[j + 1] + self.m.first_leaving[j + 1]) * n_parts >= total * (len(found) + 1):
                found.append((start, j + 1))
                start = j + 1
        return found
