"""Sweeps that follow the paper to the letter; their stationary law is not the posterior.

The mode "published" moves one datum after the other. In the mode "asynchronous" several threads draw, and one thread at
a time moves the data. Both modes use q before the move in both directions.

References
----------
Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash clustering with exponential families", eqs. 14-18.
"""

import threading
from collections import deque
from contextlib import contextmanager

import numpy as np

from libc.stdint cimport uint64_t

from expfam.contracts cimport EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.samplers.chain.accept cimport accept
from expfam.samplers.collapsed._sweep cimport (
    GROW, MetropolisSweep, find_place, place, score_of, move_into, shift_one, sweep_state,
)
from expfam.samplers.states.collapsed cimport slot_find_spare
from expfam.structures.ground.rng cimport ACCEPT, MOVE, philox_aim, philox_init, philox_stream
from expfam.structures.ground.team cimport Team

from expfam.structures.ground.threads import resolve_n_threads, run

cdef enum:
    CHUNK_ROWS = 256            # data for which an asynchronous sampler draws between two reads of the statistics


cdef int move_published(sweep_state *m, Py_ssize_t i, Py_ssize_t k_new, double log_back,
                        philox_stream *rng) noexcept nogil:
    """Move datum i by a q made from all data; both directions use the q before the move."""
    # Ahmed et al. 2012, eq. 17, as printed. It violates detailed balance: on tiny data the law is wrong by 0.2 to 0.7.
    cdef place at
    cdef Py_ssize_t target
    cdef double score
    cdef int code
    if k_new == m.labels[i]:
        return EXPFAM_OK
    code = find_place(m, i, &at)
    if code or (at.alone and k_new == EXPFAM_NEW):
        return code
    m.n_proposed += 1
    target = m.slots.spare if k_new == EXPFAM_NEW else k_new
    code = score_of(m, &at, target, &score)
    if code or not accept(score - at.score + log_back, rng):
        return code
    code = move_into(m, &at, target, score)
    return code if code else shift_one(m, i, at.old, target)


cdef int published_rows(sweep_state *m, int _mode, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t *at) noexcept nogil:
    """Move consecutive data one by one; set `at` to the first unfinished one."""
    cdef philox_stream rng, move
    cdef Py_ssize_t i, k_new
    cdef double log_back
    cdef int code
    philox_init(&move, m.seed, MOVE)
    philox_init(&rng, m.seed, ACCEPT)
    for i in range(start, stop):
        at[0] = i
        if not slot_find_spare(m.slots):
            return GROW
        philox_aim(&move, m.row_offset + <uint64_t> i, m.step)
        philox_aim(&rng, m.row_offset + <uint64_t> i, m.step)
        code = m.p.draw(m.p.self, i, m.labels[i], &move.bitgen, &k_new, &log_back, m.proposal_work)
        if code == EXPFAM_OK:
            code = move_published(m, i, k_new, log_back, &rng)
        if code:
            return code
    at[0] = stop
    return EXPFAM_OK


def published_sweep(MetropolisSweep worker):
    """Run one sweep of the mode "published"; the proposal must hold the statistics of all data."""
    worker.move_in_order(&published_rows, 0)


# ---- asynchronous: samplers and one updater ------------------------------------------------------------------------

cdef int publish_rows(sweep_state *m, const Py_ssize_t *rows, const Py_ssize_t *drawn, const double *log_back,
                      Py_ssize_t n, Py_ssize_t *at) noexcept nogil:
    """Accept or refuse recent draws, from at[0] on."""
    cdef philox_stream rng
    cdef Py_ssize_t i, new
    cdef int code
    philox_init(&rng, m.seed, ACCEPT)
    while at[0] < n:
        i = rows[at[0]]
        if not slot_find_spare(m.slots):
            return GROW
        philox_aim(&rng, m.row_offset + <uint64_t> i, m.step)
        new = drawn[at[0]]
        # otherwise the cluster no longer exists, or another recent draw has opened the last cluster that is allowed
        if (new == EXPFAM_NEW and m.slots.n_live < m.slots.max_live) or (new >= 0 and m.slots.counts[new] > 0):
            code = move_published(m, i, new, log_back[at[0]], &rng)
            if code:
                return code
        at[0] += 1
    return EXPFAM_OK


cdef int publish(MetropolisSweep worker, rows, drawn, log_back) except -1:
    """Accept or refuse draws of the asynchronous mode by the present exact predictives."""
    cdef Py_ssize_t[::1] row = rows, k_new = drawn
    cdef double[::1] back = log_back
    cdef Py_ssize_t at = 0, n = len(rows), before = worker.m.n_moved, failed_at = -1
    cdef int code = EXPFAM_OK
    while at < n:
        with nogil:
            code = publish_rows(&worker.m, &row[0], &k_new[0], &back[0], n, &at)
        if code == GROW:
            worker.note(before)
            before = worker.m.n_moved
            worker.grow()
        elif code == EXPFAM_NUMERICAL and failed_at != at:
            failed_at = at
            worker.note(before)
            before = worker.m.n_moved
            worker.state.refresh()
            worker.aim()
        elif code:
            raise worker.failure(code, row[at])
    worker.note(before)
    return 0


def asynchronous_sweep(MetropolisSweep worker, n_threads):
    """Draw for chunks of data in several threads; one thread at a time moves the data.

    Each chunk is drawn from the statistics of that moment. In one point it differs from the paper: a lock separates the
    readers of a chunk from the updater, so that no thread reads statistics that are half written. The law of the draws
    is that of the published mode, but from statistics that lack the moves of chunks in other threads.
    """
    N = worker.state.data.n_rows
    n_threads = 1 if worker.handle.needs_gil else resolve_n_threads(n_threads)
    chunks = iter([(start, min(start + CHUNK_ROWS, N)) for start in range(0, N, CHUNK_ROWS)])
    taking, updating, gate, waiting = threading.Lock(), threading.Lock(), _Gate(), deque()

    def update():
        with gate.writing():
            while waiting:
                rows, drawn, log_back = waiting.popleft()
                publish(worker, rows, drawn, log_back)

    def work(_):
        while True:
            with taking:
                chunk = next(chunks, None)
            if chunk is None:
                break
            rows = np.arange(*chunk)
            with gate.reading():
                drawn = worker.draw(rows, Team(), by_block=False)
            waiting.append((rows, *drawn))
            if updating.acquire(blocking=False):
                try:
                    update()
                finally:
                    updating.release()

    run(work, [(place,) for place in range(n_threads)], n_threads, uses_blas=False)
    update()


class _Gate:
    """Lock for any number of readers, or one writer."""

    def __init__(self):
        self._changed, self._n_readers = threading.Condition(), 0

    @contextmanager
    def reading(self):
        """Read while no thread writes."""
        with self._changed:
            self._n_readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self):
        """Write while no thread reads; later readers wait."""
        with self._changed:
            while self._n_readers:
                self._changed.wait()
            yield
