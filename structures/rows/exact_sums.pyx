"""Sums over rows that are the same bits in any order and for any division into parts.

A term is split into three pieces, each a multiple of a unit chosen from the largest term and the number of terms, so
that no partial sum of pieces is ever rounded (Demmel and Hida 2003, "Accurate and efficient floating point summation").
What is below the last unit is left out of each term: 3 (52 - log2 n) bits below the largest of n terms.
"""

import numpy as np

from libc.math cimport INFINITY, frexp, ldexp

from expfam.amounts import counted
from expfam.structures.ground.arrays cimport address, aligned
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.column_sums cimport (
    expfam_double_extremes,
    expfam_double_squares,
    expfam_double_terms,
    expfam_float_extremes,
    expfam_float_squares,
    expfam_float_terms,
)

cdef enum:
    N_PIECES = 3
    LANES = 64              # narrow rows are taken together up to this number of cells
    COLUMNS = 512           # columns of a pass: their sums stay in the fastest cache
    LEAST_CELLS = 1 << 16   # of the rows that a thread takes at a time
    MOST_CELLS = 1 << 20
    SHARES = 64             # times that a thread takes rows, where they are neither few nor many
    LINE = 16               # numbers of a thread fill whole lines of the cache: else threads would take them in turns

MOST = 2.0**900             # largest bound of a term

ctypedef fused real:
    float
    double


ctypedef struct reading:
    # read n columns, from column j on, of rows that are taken as one
    void (*read)(const reading *job, const void *rows, Py_ssize_t n_rows, Py_ssize_t n, Py_ssize_t j,
                 Py_ssize_t thread) noexcept nogil
    const void *rows
    Py_ssize_t n, F             # rows and columns
    Py_ssize_t fold, step       # rows that are taken as one; such rows that a thread takes at a time
    Py_ssize_t pitch            # of the numbers of a thread
    bint is_single
    void *low
    void *high
    double *count
    const double *shift
    const double *centre        # NULL for sums of cells
    const double *lift
    double *sums


cdef reading reading_of(const real[:, ::1] rows, Py_ssize_t fold, Team team):
    """Return rows as they are divided among the threads of a team."""
    cdef reading job
    cdef Py_ssize_t cells
    job.rows, job.n, job.F, job.fold, job.is_single = NULL, rows.shape[0], rows.shape[1], fold, real is float
    if job.n and job.F:
        job.rows = &rows[0, 0]
    cells = max(LEAST_CELLS, min(MOST_CELLS, job.n * job.F // (SHARES * team.n_threads)))
    job.step = max(1, cells // max(1, fold * job.F))
    return job


cdef inline Py_ssize_t whole_lines(Py_ssize_t size) noexcept nogil:
    """Return a number of numbers that fills lines of the cache."""
    return (size + LINE - 1) // LINE * LINE


cdef void read_all(reading *job, Team team) noexcept nogil:
    """Have the threads of a team read all rows; those that fill no fold are the caller's."""
    cdef Py_ssize_t rest = job.n % job.fold
    if job.n == 0 or job.F == 0:
        return
    team.share(read_item, job, (job.n // job.fold + job.step - 1) // job.step)
    if rest:
        job.read(job, cell_at(job, (job.n - rest) * job.F), 1, rest * job.F, 0, 0)


cdef void read_item(void *work, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Read some rows, some columns at a time."""
    cdef const reading *job = <const reading *> work
    cdef Py_ssize_t first = item * job.step, n = min(job.step, job.n // job.fold - first), width = job.fold * job.F
    cdef Py_ssize_t block, j
    for block in range((width + COLUMNS - 1) // COLUMNS):
        j = block * COLUMNS
        job.read(job, cell_at(job, first * width + j), n, min(COLUMNS, width - j), j, thread)


cdef inline const void *cell_at(const reading *job, Py_ssize_t at) noexcept nogil:
    """Return where a cell lies."""
    return <const void *> (<const char *> job.rows + at * (4 if job.is_single else 8))


def column_extremes(const real[:, ::1] rows, Team team=None):
    """Return the least value, the largest value and the number of values of each column.

    Three arrays (F,) of float64; a column without values has inf and -inf. The threads of a team read the rows.

    >>> import numpy as np
    >>> from expfam.structures.rows.exact_sums import column_extremes
    >>> [column.tolist() for column in column_extremes(np.array([[1.0, 5.0], [3.0, np.nan]]))]
    [[1.0, 5.0], [3.0, 5.0], [2.0, 1.0]]
    """
    cdef Team readers = Team(1) if team is None else team
    cdef Py_ssize_t F = rows.shape[1], fold = max(1, LANES // max(F, 1))
    cdef reading job = reading_of(rows, fold, readers)
    cdef Py_ssize_t pitch = whole_lines(fold * F), i, thread, j
    cdef double[::1] least = np.full(F, np.inf), largest = np.full(F, -np.inf), count = np.zeros(F)
    kind = np.float32 if real is float else np.float64
    rooms = aligned(readers.n_threads * pitch, kind), aligned(readers.n_threads * pitch, kind)
    counts = aligned(readers.n_threads * pitch)
    cdef real *low = <real *> address(rooms[0])
    cdef real *high = <real *> address(rooms[1])
    job.read = extremes
    job.pitch, job.low, job.high, job.count = pitch, low, high, <double *> address(counts)
    with nogil:
        for i in range(readers.n_threads * pitch):
            low[i], high[i] = INFINITY, -INFINITY
        read_all(&job, readers)
        for thread in range(readers.n_threads):
            for i in range(fold * F):
                j = i % F
                least[j] = min(least[j], low[thread * pitch + i])
                largest[j] = max(largest[j], high[thread * pitch + i])
                count[j] += job.count[thread * pitch + i]
    return least.base, largest.base, count.base


cdef void extremes(const reading *job, const void *rows, Py_ssize_t n_rows, Py_ssize_t n, Py_ssize_t j,
                   Py_ssize_t thread) noexcept nogil:
    """Find the extremes of n columns, from column j on, of rows that are taken as one."""
    cdef Py_ssize_t stride = job.fold * job.F, at = thread * job.pitch + j
    if job.is_single:
        expfam_float_extremes(<const float *> rows, n_rows, stride, n, <float *> job.low + at, <float *> job.high + at,
                              job.count + at)
    else:
        expfam_double_extremes(<const double *> rows, n_rows, stride, n, <double *> job.low + at,
                               <double *> job.high + at, job.count + at)


def sum_entries(values, columns, bounds):
    """Return the sum of the values of each column (F,), the same bits in any order.

    Parameters
    ----------
    values : (n,) ndarray of float
        Value i is at most ``bounds[columns[i]]`` in size.
    columns : (n,) ndarray of int
        Column of each value.
    bounds : (F,) float64 ndarray
        At most 2^900.

    Examples
    --------
    >>> from expfam.structures.rows.exact_sums import sum_entries
    >>> import numpy as np
    >>> sum_entries(np.array([1e16, 2.0, 1.0, -1e16]), np.array([0, 1, 0, 0]), np.array([1e16, 2.0])).tolist()
    [1.0, 2.0]
    """
    sums = []
    for lift in lifts(bounds, max(len(values), 1)):
        piece = (values + lift[columns]) - lift[columns]
        sums.append(np.bincount(columns, weights=piece, minlength=len(bounds)))
        values = values - piece
    return total_of(sums)


def lifts(bounds, n_terms):
    """Return the numbers (pieces, F) that round a term to a piece: 1.5 * 2^52 of its units.

    Parameters
    ----------
    bounds : (F,) float64 ndarray
        Largest size of a term of each column.
    n_terms : int
        Largest number of terms.
    """
    cdef const double[::1] given = np.ascontiguousarray(bounds, dtype=np.float64)
    cdef double[:, ::1] found = np.empty((N_PIECES, given.shape[0]))
    cdef int bits = 52 - (int(n_terms) - 1).bit_length(), exponent
    cdef Py_ssize_t j, piece
    for j in range(given.shape[0]):
        frexp(given[j], &exponent)
        for piece in range(N_PIECES):
            # below the least number of all there is nothing to round
            found[piece, j] = ldexp(1.5, 52 + max(exponent + 1 - bits * (<int> piece + 1), -1074))
    return found.base


def total_of(pieces):
    """Return the sums (F,) that pieces (3, F) add up to, largest piece first.

    >>> import numpy as np
    >>> from expfam.structures.rows.exact_sums import total_of
    >>> total_of(np.array([[8.0], [0.5], [0.25]])).tolist()
    [8.75]
    """
    return pieces[0] + (pieces[1] + pieces[2])


cdef class ExactSums:
    """Sums of F columns, or of squares in them, the same bits in any order of the rows.

    Parameters
    ----------
    bounds : array of shape (F,)
        Largest absolute value of a term of each column, at most 2^900.
    n_terms : int
        Largest number of terms that are ever added to one column, in this object and in those merged into it.

    Notes
    -----
    The error of a sum of n terms is at most n times the bound times 2^-(3 (52 - log2 n)), besides one rounding. Objects
    that are merged must have been made from the same bounds and number of terms. A cell that is NaN adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.rows.exact_sums import ExactSums
    >>> rows = np.array([[1e16], [1.0], [-1e16]])
    >>> sums = ExactSums([1e16], 3)
    >>> sums.add(rows)
    >>> sums.total().tolist(), rows.sum(axis=0).tolist()
    ([1.0], [0.0])
    """

    cdef readonly Py_ssize_t n_columns
    cdef readonly object n_terms
    cdef object bounds, lift, sums      # (F,), (3, fold F), (3, F)
    cdef Py_ssize_t fold

    def __init__(self, bounds, n_terms):
        bounds = np.array(bounds, dtype=np.float64, ndmin=1)
        if bounds.ndim != 1 or not all_between(bounds, 0.0, MOST):
            raise ValueError(f"bounds must be a vector of numbers from 0 to 2^900; got {bounds}")
        if not 1 <= n_terms <= 1 << 48:
            raise ValueError(f"n_terms must be from 1 to 2^48; got {n_terms!r}")
        self.bounds, self.n_terms, self.n_columns = bounds, int(n_terms), bounds.size
        self.fold = max(1, LANES // max(bounds.size, 1))
        self.lift = self._wide(lifts(bounds, self.n_terms))
        self.sums = np.zeros((N_PIECES, self.n_columns))

    def add(self, rows, shift=None, team=None):
        """Add the rows, less a shift, to the sums.

        Parameters
        ----------
        rows : (n, F) float32 or float64 ndarray, C-contiguous
        shift : (F,) float64 ndarray, optional
            Zero if not given.
        team : Team, optional
            Its threads read the rows.
        """
        shift = self._wide(np.zeros(self.n_columns) if shift is None else shift)
        add_rows(rows, shift[0], None, self.lift, self.sums, team or Team(1))

    def add_squares(self, rows, shift, centre, team=None):
        """Add (x - shift - centre)^2 of each cell x of the rows.

        Parameters
        ----------
        rows : (n, F) float32 or float64 ndarray, C-contiguous
        shift, centre : (F,) float64 ndarrays
        team : Team, optional
            Its threads read the rows.
        """
        add_rows(rows, self._wide(shift)[0], self._wide(centre)[0], self.lift, self.sums, team or Team(1))

    def merge(self, ExactSums other):
        """Add the sums of another object, made from the same bounds and number of terms."""
        if self.n_terms != other.n_terms or not np.array_equal(self.bounds, other.bounds):
            raise ValueError("sums of other bounds or of another number of terms cannot be merged exactly")
        self.sums += other.sums

    def total(self):
        """Return the sums (F,)."""
        return total_of(self.pieces())

    def pieces(self):
        """Return the sums of the pieces (3, F); those of parts may be added up in any order."""
        return self.sums.copy()

    def __reduce__(self):
        return ExactSums, (self.bounds, self.n_terms), self.sums

    def __setstate__(self, sums):
        self.sums[...] = sums

    def _wide(self, values):
        """Return numbers of columns, in one row or several, as rows of `fold` times as many."""
        values = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if values.shape[1] != self.n_columns:
            raise ValueError(
                f"one number for each of {counted(self.n_columns, 'column')} is needed; got shape {values.shape}"
            )
        found = aligned(len(values) * self.fold * self.n_columns).reshape(len(values), -1)
        cdef const double[:, :] given = values
        cdef double[:, ::1] wide = found
        cdef Py_ssize_t i, j
        for i in range(wide.shape[0]):
            for j in range(wide.shape[1]):
                wide[i, j] = given[i, j % self.n_columns]
        return found


cdef bint all_between(const double[::1] numbers, double least, double most):
    """Return whether all numbers lie between two others."""
    cdef Py_ssize_t i
    for i in range(numbers.shape[0]):
        if not least <= numbers[i] <= most:
            return False
    return True


def add_rows(const real[:, ::1] rows, const double[::1] shift, const double[::1] centre, const double[:, ::1] lift,
             double[:, ::1] sums, Team team):
    """Add the terms of rows to sums (pieces, F); `centre` is None for sums of cells."""
    cdef Py_ssize_t F = sums.shape[1], width = lift.shape[1], thread, piece, i
    if rows.shape[1] != F:
        raise ValueError(f"rows must have {counted(F, 'column')}; got {rows.shape[1]}")
    if rows.shape[0] == 0 or F == 0:
        return
    cdef reading job = reading_of(rows, width // F, team)
    job.read, job.pitch = terms, whole_lines(N_PIECES * width)
    room = aligned(team.n_threads * job.pitch)
    job.shift, job.centre, job.lift = &shift[0], NULL if centre is None else &centre[0], &lift[0, 0]
    job.sums = <double *> address(room)
    with nogil:
        read_all(&job, team)
        for thread in range(team.n_threads):
            for piece in range(N_PIECES):
                for i in range(width):
                    sums[piece, i % F] += job.sums[thread * job.pitch + piece * width + i]


cdef void terms(const reading *job, const void *rows, Py_ssize_t n_rows, Py_ssize_t n, Py_ssize_t j,
                Py_ssize_t thread) noexcept nogil:
    """Add the terms of n columns, from column j on, of rows that are taken as one."""
    cdef Py_ssize_t width = job.fold * job.F
    cdef const double *shift = job.shift + j
    cdef const double *lift = job.lift + j
    cdef double *sums = job.sums + thread * job.pitch + j
    if job.is_single and job.centre == NULL:
        expfam_float_terms(<const float *> rows, n_rows, width, n, width, shift, NULL, lift, sums)
    elif job.is_single:
        expfam_float_squares(<const float *> rows, n_rows, width, n, width, shift, job.centre + j, lift, sums)
    elif job.centre == NULL:
        expfam_double_terms(<const double *> rows, n_rows, width, n, width, shift, NULL, lift, sums)
    else:
        expfam_double_squares(<const double *> rows, n_rows, width, n, width, shift, job.centre + j, lift, sums)
