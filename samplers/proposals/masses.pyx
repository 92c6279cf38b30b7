"""Prior weights of the columns among which a proposal chooses; a single move costs O(1).

The column of a slot has the number of the slot. "A cluster that has no slot yet" is an empty column: the statistics of
all empty clusters are zero, so tables need no extra row for it.
"""

import numpy as np

from libc.math cimport INFINITY, log

from expfam.structures.simd.blocks cimport EXPFAM_BLOCK


cdef void mass_enter(mass_table *t, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t j
    t.n[k] += 1
    t.bias[k] = <float> log(t.n[k] + t.offset)
    if t.n[k] > 1:
        return
    t.n_live += 1
    if k >= t.n_columns:
        t.n_columns = k + 1
    if k == t.new_column:
        j = 0
        while t.n[j]:               # an empty column exists: there are more columns than slots
            j += 1
        t.new_column = j
        if j >= t.n_columns:
            t.n_columns = j + 1
    t.bias[t.new_column] = <float> t.log_new_mass[t.n_live]


cdef void mass_leave(mass_table *t, Py_ssize_t k) noexcept nogil:
    t.n[k] -= 1
    if t.n[k]:
        t.bias[k] = <float> log(t.n[k] + t.offset)
        return
    t.n_live -= 1
    t.bias[k] = -INFINITY
    if k < t.new_column:            # the lowest empty column, so that it depends on the slots but not on their history
        t.bias[t.new_column] = -INFINITY
        t.new_column = k
    t.bias[t.new_column] = <float> t.log_new_mass[t.n_live]


cdef class Masses:
    """Prior weights of columns, for proposals that follow single moves of `n_rows` data."""

    def __init__(self, weights, Py_ssize_t n_rows):
        most = n_rows if weights.max_components is None else min(n_rows, weights.max_components)
        self.log_new_mass = np.ascontiguousarray(weights.log_new_mass(max(n_rows - 1, 0), most), dtype=np.float64)
        self.t.offset = weights.offset
        self.t.n_columns = self.t.n_live = self.t.new_column = 0
        self.bias = np.full(0, -np.inf, dtype=np.float32)
        self.n = np.zeros(0, dtype=np.int64)
        self.reserve(0)

    @property
    def width(self):
        """Number of columns, a multiple of the size of the blocks in which scores are summed."""
        return self.t.width

    @property
    def new_column(self):
        """The empty column that stands for a new cluster."""
        return self.t.new_column

    @property
    def n_columns(self):
        """Number of columns that are scored."""
        return self.t.n_columns

    def reserve(self, Py_ssize_t n_slots):
        """Allocate columns for `n_slots` slots and a new cluster; return whether any were added."""
        block = <Py_ssize_t> EXPFAM_BLOCK
        width = (n_slots + 1 + block - 1) // block * block
        if width <= len(self.bias):
            return False
        width = max(width, (len(self.bias) * 3 // 2 + block - 1) // block * block)
        more = width - len(self.bias)
        self.bias = np.concatenate([self.bias, np.full(more, -np.inf, dtype=np.float32)])
        self.n = np.concatenate([self.n, np.zeros(more, dtype=np.int64)])
        self.point()
        return True

    cdef void point(self):
        cdef float[::1] bias = self.bias
        cdef int64_t[::1] n = self.n
        cdef const double[::1] log_new_mass = self.log_new_mass
        self.t.bias, self.t.n, self.t.log_new_mass = &bias[0], &n[0], &log_new_mass[0]
        self.t.width = bias.shape[0]

    def set(self, snapshot):
        """Set the weights to those of a snapshot; return whether columns were added for its slots."""
        grew = self.reserve(int(snapshot.slots.max(initial=-1)) + 1)
        self.bias[:] = -np.inf
        self.n[:] = 0
        self.bias[snapshot.slots] = snapshot.log_weight
        self.n[snapshot.slots] = snapshot.n
        used = np.zeros(len(self.n), dtype=bool)
        used[snapshot.slots] = True
        self.t.new_column = int(np.argmin(used))
        self.bias[self.t.new_column] = snapshot.log_weight_new
        self.t.n_live = int(np.count_nonzero(self.n))
        self.t.n_columns = max(int(snapshot.slots.max(initial=-1)), self.t.new_column) + 1
        return grew
