"""The local step of dense rows against all clusters, without the gil from rows to sums.

Threads that pass from one short function of Python to the next meet at the gil, and one that waits there sleeps for as
long as a tenth of a part takes. Parts, blocks and the order of all sums are those of `SparsePass`.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t

from expfam.families.dense_source cimport DenseSource, write_phi
from expfam.samplers.variational.sparse_rows cimport add_rows, lost_by_row, score_rows, select_row
from expfam.structures.ground.arrays cimport address, aligned, in_lines
from expfam.structures.ground.spin cimport expfam_nanoseconds, expfam_swap, expfam_taken, expfam_watch, expfam_watched
from expfam.structures.ground.team cimport Team
from expfam.structures.rows.row_copies cimport checked_numbers
from expfam.structures.selection.top_l cimport value_t

from expfam.samplers.variational.sparse_rows import work_size

cdef enum:
    LINE = 64               # bytes of a line of the cache
    WAIT = 50000            # nanoseconds for which a thread looks before it looks again


cdef enum:                  # columns of what a part finds
    VALUE = 0
    ENTROPY = 1
    LOST = 2
    WRITTEN = 3             # nanoseconds
    SCORED = 4
    SELECTED = 5
    SUMMED = 6
    N_FOUND = 8


cdef void step_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<CompiledStep> job).step(item, thread)


@cython.final
cdef class CompiledStep:
    """Rows, parameters, results and scratch memory of one local step.

    Parameters
    ----------
    source : DenseSource
    rows : slice or (m,) int ndarray
    theta, c : (K, F) and (K,) ndarrays
        As in `dense_scores`; they give the precision.
    weight : (N,) float64 ndarray or None
    n_active, n_block, n_parts : int
        Clusters that a row keeps, rows of a block, and parts.
    step : int
        Distance of the rows whose lost mass is measured.
    labels : (m,) int32 ndarray
        Written.
    kept : tuple of (m, L) ndarrays or None
        Clusters and responsibilities, written if given.
    sums : Sums
        To which those of the rows are added.

    Attributes
    ----------
    found : (n_parts, 8) float64 ndarray
        By part: sums of the log normalisers and of the entropies times the weights, lost mass, and the nanoseconds of
        statistics, scores, selection and sums.
    """

    cdef DenseSource source
    cdef const Py_ssize_t[::1] numbers
    cdef const double[::1] weight
    cdef object theta, c, kept_indices, kept_values, sums, scratch
    cdef Py_ssize_t start, m, K, F, L, n_block, n_parts, n_slots, every, n_threads
    cdef bint is_single
    cdef const void *theta_at
    cdef const void *c_at
    cdef void *values_at
    cdef int32_t *indices_at
    cdef int32_t[::1] labels
    cdef double *n_at
    cdef double *S_at
    cdef readonly object found
    cdef double[:, ::1] found_view
    cdef int64_t[::1] bad           # place of the first row of a part without a finite score, -1 for none
    cdef int64_t[::1] is_done
    cdef int64_t n_added, lock
    # scratch of each thread, and sums of each slot
    cdef unsigned char[:, ::1] phi, scores, total, work, values
    cdef int32_t[:, ::1] indices
    cdef int64_t[:, ::1] starts, places
    cdef double[:, ::1] row, objective, entropy, own_weight, slot_n, slot_S

    def __init__(self, DenseSource source not None, rows, theta, c, weight, *, n_active, n_block, n_parts, step, labels,
                 kept, sums, n_threads):
        self.source, self.theta, self.c, self.weight, self.labels = source, theta, c, weight, labels
        self.m, self.start, self.numbers = len(labels), 0, None
        if isinstance(rows, slice):
            self.start = rows.start
        else:
            self.numbers = checked_numbers(rows, source.n_rows)
        self.K, self.F = theta.shape
        self.L, self.n_block, self.n_parts, self.every = n_active, n_block, n_parts, step
        self.is_single = theta.dtype == np.float32
        self.theta_at, self.c_at = <const void *> address(theta), <const void *> address(c)
        self.sums, self.n_at, self.S_at = sums, <double *> address(sums.n), <double *> address(sums.S)
        self.values_at, self.indices_at = NULL, NULL
        if kept is not None:
            self.kept_indices, self.kept_values = kept
            self.indices_at, self.values_at = <int32_t *> address(kept[0]), address(kept[1])
        self.found = aligned((n_parts, N_FOUND))
        self.found_view, self.bad = self.found, np.full(n_parts, -1, dtype=np.int64)
        self.is_done, self.n_added, self.lock = np.zeros(n_parts, dtype=np.int64), 0, 0
        self._allocate(n_threads, theta.itemsize)

    def _allocate(self, Py_ssize_t T, Py_ssize_t size):
        cdef Py_ssize_t B = min(self.n_block, self.m), K = self.K, F = self.F, L = self.L
        self.n_threads, self.n_slots = T, min(self.n_parts, 2 * T)
        self.phi, self.scores = room(T, B * F * size), room(T, B * K * size)
        self.total, self.work, self.values = room(T, F * size), room(T, work_size(K) * size), room(T, B * L * size)
        self.indices, self.starts = room(T, 4 * B * L).view(np.int32), room(T, 8 * (K + 2)).view(np.int64)
        self.places, self.row = room(T, 8 * B * L).view(np.int64), room(T, 8 * F).view(np.float64)
        self.objective, self.entropy = room(T, 8 * B).view(np.float64), room(T, 8 * B).view(np.float64)
        self.own_weight = room(T, 8 if self.weight is None else 8 * B).view(np.float64)
        self.slot_n = room(self.n_slots, 8 * K).view(np.float64)
        self.slot_S = room(self.n_slots, 8 * K * F).view(np.float64)

    def run(self, Team team, *, most_products):
        """Run all parts; return the place of the first row without a finite score, or -1.

        A Ctrl-C waits for loops of `most_products` products of rows, clusters and statistics, or of four parts a
        thread.
        """
        cdef Py_ssize_t each = max(1, self.m // self.n_parts) * self.K * self.F, part
        cdef Py_ssize_t step = max(<Py_ssize_t> (most_products // max(each, 1)), 4 * team.n_threads)
        if team.n_threads > self.n_threads:
            raise ValueError(f"there is scratch memory of {self.n_threads} threads, not of {team.n_threads}")
        team.share_in_loops(step_item, <void *> self, self.n_parts, step)
        for part in range(self.n_parts):
            if self.bad[part] >= 0:
                return self.bad[part]
        return -1

    cdef void step(self, Py_ssize_t part, Py_ssize_t thread) noexcept nogil:
        """Run one part, and add sums that are complete."""
        cdef Py_ssize_t slot = part % self.n_slots
        cdef Py_ssize_t begin = self.m * part // self.n_parts, end = self.m * (part + 1) // self.n_parts
        cdef int64_t n_added = expfam_watched(&self.n_added)
        while n_added <= part - self.n_slots:       # the slot has the sums of an earlier part
            expfam_watch(&self.n_added, n_added, WAIT)
            n_added = expfam_watched(&self.n_added)
        clear(&self.slot_n[slot, 0], self.K)
        clear(&self.slot_S[slot, 0], self.K * self.F)
        while begin < end and self.bad[part] < 0:
            if self.is_single:
                step_block[float](self, part, thread, begin, min(self.n_block, end - begin), NULL)
            else:
                step_block[double](self, part, thread, begin, min(self.n_block, end - begin), NULL)
            begin += self.n_block
        self.add_in_order(part)

    cdef void add_in_order(self, Py_ssize_t part) noexcept nogil:
        """Add the sums of all parts that no earlier part keeps waiting."""
        cdef Py_ssize_t slot
        while expfam_swap(&self.lock, 1):
            expfam_watch(&self.lock, 1, WAIT)
        self.is_done[part] = 1
        while self.n_added < self.n_parts and self.is_done[self.n_added]:
            slot = self.n_added % self.n_slots
            add(self.n_at, &self.slot_n[slot, 0], self.K)
            add(self.S_at, &self.slot_S[slot, 0], self.K * self.F)
            expfam_taken(&self.n_added)
        expfam_swap(&self.lock, 0)


cdef void step_block(CompiledStep p, Py_ssize_t part, Py_ssize_t thread, Py_ssize_t begin, Py_ssize_t R,
                     value_t *of_type) noexcept nogil:
    """Step of rows at the places begin..begin+R-1; `of_type` gives the precision."""
    cdef Py_ssize_t i, K = p.K, F = p.F, L = p.L
    cdef value_t *phi = <value_t *> &p.phi[thread, 0]
    cdef value_t *scores = <value_t *> &p.scores[thread, 0]
    cdef value_t *values = <value_t *> &p.values[thread, 0]
    cdef value_t *work = <value_t *> &p.work[thread, 0]
    cdef int32_t *indices = &p.indices[thread, 0]
    cdef double *objective = &p.objective[thread, 0]
    cdef double *entropy = &p.entropy[thread, 0]
    cdef double *weight = NULL
    cdef double *found = &p.found_view[part, 0]
    cdef double w
    cdef int64_t began = expfam_nanoseconds(), written, scored, selected
    if p.indices_at != NULL:
        indices, values = p.indices_at + begin * L, <value_t *> p.values_at + begin * L
    write_phi(p.source, p.start + begin, NULL if p.numbers is None else &p.numbers[begin], R, &p.row[thread, 0], phi)
    written = expfam_nanoseconds()
    score_rows(phi, <const value_t *> p.theta_at, <const value_t *> p.c_at, R, K, F, scores)
    scored = expfam_nanoseconds()
    for i in range(R):
        if not select_row(scores + i * K, K, L, values + i * L, indices + i * L, objective + i, entropy + i, work):
            p.bad[part] = begin + i
            return
        p.labels[begin + i] = indices[i * L]
    i = (p.every - begin % p.every) % p.every
    while i < R:
        found[LOST] += lost_by_row(scores + i * K, K, objective[i])
        i += p.every
    selected = expfam_nanoseconds()
    if p.weight is not None:
        weight = &p.own_weight[thread, 0]
        for i in range(R):
            weight[i] = p.weight[p.start + begin + i if p.numbers is None else p.numbers[begin + i]]
    add_rows(phi, values, indices, weight, R, L, K, F, &p.slot_n[part % p.n_slots, 0], &p.slot_S[part % p.n_slots, 0],
             &p.starts[thread, 0], &p.places[thread, 0], <value_t *> &p.total[thread, 0])
    for i in range(R):
        w = 1.0 if weight == NULL else weight[i]
        found[VALUE] += objective[i] * w
        found[ENTROPY] += entropy[i] * w
    found[WRITTEN] += written - began
    found[SCORED] += scored - written
    found[SELECTED] += selected - scored
    found[SUMMED] += expfam_nanoseconds() - selected


cdef object room(Py_ssize_t n, Py_ssize_t n_bytes):
    """Return memory of n threads or slots, (n, n_bytes or more) uint8, in lines of their own."""
    return in_lines((n, (n_bytes + LINE - 1) // LINE * LINE), np.uint8)


cdef void clear(double *numbers, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        numbers[i] = 0.0


cdef void add(double *total, const double *numbers, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        total[i] += numbers[i]
