"""A number that threads change and watch without the gil, for waits shorter than a sleep."""


cdef class Watched:
    """A number that begins at 0.

    >>> from expfam.structures.ground.spin import Watched
    >>> number = Watched()
    >>> number.change()
    >>> number.value, number.watch(0, 1e-4), number.watch(1, 1e-4)
    (1, True, False)
    """

    @property
    def value(self):
        """Number of changes."""
        return expfam_watched(&self.number)

    def change(self):
        """Add one."""
        expfam_taken(&self.number)

    def watch(self, int64_t seen, double seconds):
        """Wait until the number is not `seen`, at most so many seconds; tell whether it differs."""
        cdef int64_t nanoseconds = <int64_t> (1e9 * seconds)
        cdef bint differs
        with nogil:
            differs = expfam_watch(&self.number, seen, nanoseconds)
        return differs
