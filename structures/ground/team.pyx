"""Threads that wait without the gil for work of one loop after the other.

A loop of a tenth of a millisecond is over before a pool has woken a thread that then waits for the gil. The threads of
a team run all loops of a block of code; between two of them they watch. Which thread does an item follows the schedule,
so items must not depend on each other, and each thread has scratch memory of its own.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from expfam.structures.ground.spin cimport expfam_nap, expfam_swap, expfam_taken, expfam_watch, expfam_watched

cdef enum:
    WATCHED = 1000000           # nanoseconds for which a thread watches before it naps between two looks
    NAP = 50000


cdef class Team:
    """A team of the caller and up to `n_threads` - 1 threads that serve.

    `share` does a loop. It returns when all of its items are done, also where no thread serves.

    >>> from expfam.structures.ground.team import Team
    >>> team = Team(2)
    >>> team.end()
    >>> team.serve()            # in another thread, as a rule; it returns at once, since the team has ended
    """

    def __init__(self, n_threads=1):
        self.n_threads = n_threads

    cdef Py_ssize_t take(self, item_t *work, void **job) noexcept nogil:
        """Take the next item of the present loop; return -1 if there is none."""
        cdef Py_ssize_t item = -1
        while expfam_swap(&self.lock, 1):
            expfam_watch(&self.lock, 1, NAP)
        if self.first < self.n_items:
            item = self.first
            self.first += 1
            work[0], job[0] = self.work, self.job
        expfam_swap(&self.lock, 0)
        return item

    cdef void share(self, item_t work, void *job, Py_ssize_t n_items) noexcept nogil:
        """Do all items of a loop, with the threads that serve; the caller is thread 0."""
        self._share(work, job, 0, n_items)

    cdef int share_in_loops(self, item_t work, void *job, Py_ssize_t n_items, Py_ssize_t step) except -1:
        """Do the same in loops of so many items, between which a Ctrl-C is noticed."""
        cdef Py_ssize_t first = 0
        while first < n_items:
            with nogil:
                self._share(work, job, first, min(first + step, n_items))
            PyErr_CheckSignals()
            first += step
        return 0

    cdef void _share(self, item_t work, void *job, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        cdef Py_ssize_t item
        while expfam_swap(&self.lock, 1):
            expfam_watch(&self.lock, 1, NAP)
        self.work, self.job, self.n_items, self.first, self.done = work, job, stop, first, 0
        expfam_swap(&self.lock, 0)
        expfam_taken(&self.phase)
        while True:
            item = self.take(&work, &job)
            if item < 0:
                break
            work(job, item, 0)
            expfam_taken(&self.done)
        while expfam_watched(&self.done) < stop - first:    # others are at their last items
            expfam_watch(&self.done, expfam_watched(&self.done), NAP)

    def serve(self):
        """Do items of loops until the team ends."""
        cdef item_t work = NULL
        cdef void *job = NULL
        cdef Py_ssize_t item, thread = expfam_taken(&self.n_helpers) + 1
        cdef int64_t seen
        with nogil:
            while not expfam_watched(&self.over):
                seen = expfam_watched(&self.phase)
                item = self.take(&work, &job)
                if item >= 0:
                    work(job, item, thread)
                    expfam_taken(&self.done)
                elif not expfam_watch(&self.phase, seen, WATCHED):
                    while expfam_watched(&self.phase) == seen:
                        expfam_nap(NAP)

    def end(self):
        """Let the threads that serve return; later ones return at once."""
        expfam_taken(&self.over)
        expfam_taken(&self.phase)
