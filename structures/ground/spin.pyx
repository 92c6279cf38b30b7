"""A number that threads change and watch without the gil, for waits that are shorter than a sleep."""

from libc.stdint cimport int64_t


cdef extern from "spin.h" nogil:
    int64_t expfam_watched(const int64_t *number) noexcept
    void expfam_change(int64_t *number) noexcept
    int expfam_watch(const int64_t *number, int64_t seen, int64_t nanoseconds) noexcept


cdef class Watched:
    """A number that begins at 0.

    >>> from expfam.structures.ground.spin import Watched
    >>> number = Watched()
    >>> number.change()
    >>> number.value, number.watch(0, 1e-4), number.watch(1, 1e-4)
    (1, True, False)
    """
    cdef int64_t number

    @property
    def value(self):
        """Number of changes."""
        return expfam_watched(&self.number)

    def change(self):
        """Add one."""
        expfam_change(&self.number)

    def watch(self, int64_t seen, double seconds):
        """Wait until the number is not `seen`, at most so many seconds; tell whether it differs."""
        cdef int64_t nanoseconds = <int64_t> (1e9 * seconds)
        cdef bint differs
        with nogil:
            differs = expfam_watch(&self.number, seen, nanoseconds)
        return differs
