"""Sums over rows that are the same bits in any order and for any division into parts.

A term is split into three pieces, each a multiple of a unit chosen from the largest term and the number of terms, so
that no partial sum of pieces is ever rounded (Demmel and Hida 2003, "Accurate and efficient floating point summation").
What is below the last unit is left out of each term: 3 (52 - log2 n) bits below the largest of n terms.
"""

import numpy as np

from expfam.amounts import counted
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

MOST = 2.0**900             # largest bound of a term

ctypedef fused real:
    float
    double


def column_extremes(const real[:, ::1] rows):
    """Return the least value, the largest value and the number of values of each column.

    Three arrays (F,) of float64; a column without values has inf and -inf.

    >>> import numpy as np
    >>> from expfam.structures.rows.exact_sums import column_extremes
    >>> [column.tolist() for column in column_extremes(np.array([[1.0, 5.0], [3.0, np.nan]]))]
    [[1.0, 5.0], [3.0, 5.0], [2.0, 1.0]]
    """
    cdef Py_ssize_t n = rows.shape[0], F = rows.shape[1], fold = max(1, LANES // max(F, 1)), block, j
    kind = np.float32 if real is float else np.float64
    low_array, high_array = np.full(fold * F, np.inf, dtype=kind), np.full(fold * F, -np.inf, dtype=kind)
    count_array = np.zeros(fold * F)
    cdef real[::1] low = low_array, high = high_array
    cdef double[::1] count = count_array
    if n and F:
        with nogil:
            if n >= fold:
                for block in range((fold * F + COLUMNS - 1) // COLUMNS):
                    j = block * COLUMNS
                    extremes(&rows[0, 0] + j, n // fold, fold * F, min(COLUMNS, fold * F - j), &low[j], &high[j],
                             &count[j])
            if n % fold:
                extremes(&rows[n - n % fold, 0], 1, F, n % fold * F, &low[0], &high[0], &count[0])
    low_array, high_array = low_array.reshape(fold, F).min(axis=0), high_array.reshape(fold, F).max(axis=0)
    return low_array.astype(np.float64), high_array.astype(np.float64), count_array.reshape(fold, F).sum(axis=0)


cdef void extremes(const real *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n, real *low, real *high,
                   double *count) noexcept nogil:
    if real is float:
        expfam_float_extremes(rows, n_rows, stride, n, low, high, count)
    else:
        expfam_double_extremes(rows, n_rows, stride, n, low, high, count)


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
    bits = 52 - (int(n_terms) - 1).bit_length()
    exponents = np.frexp(bounds)[1]
    units = np.array([exponents + 1 - bits * (piece + 1) for piece in range(N_PIECES)])
    return np.ldexp(1.5, 52 + np.maximum(units, -1074))     # below the least number of all there is nothing to round


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
    cdef object bounds, lift, sums, fold

    def __init__(self, bounds, n_terms):
        bounds = np.array(bounds, dtype=np.float64, ndmin=1)
        if bounds.ndim != 1 or not (bounds >= 0.0).all() or not (bounds <= MOST).all():
            raise ValueError(f"bounds must be a vector of numbers from 0 to 2^900; got {bounds}")
        if not 1 <= n_terms <= 1 << 48:
            raise ValueError(f"n_terms must be from 1 to 2^48; got {n_terms!r}")
        self.bounds, self.n_terms, self.n_columns = bounds, int(n_terms), bounds.size
        self.fold = max(1, LANES // max(bounds.size, 1))
        self.lift = np.concatenate([lifts(bounds, self.n_terms)] * self.fold, axis=1)
        pitch = self.fold * self.n_columns      # beside the sums a line of the cache: threads would take it from others
        self.sums = np.zeros(N_PIECES * pitch + 16)[8:-8].reshape(N_PIECES, pitch)

    def add(self, rows, shift=None):
        """Add the rows, less a shift, to the sums.

        Parameters
        ----------
        rows : (n, F) float32 or float64 ndarray, C-contiguous
        shift : (F,) float64 ndarray, optional
            Zero if not given.
        """
        shift = np.zeros(self.n_columns) if shift is None else shift
        add_rows(rows, self._wide(shift), None, self.lift, self.sums, self.n_columns)

    def add_squares(self, rows, shift, centre):
        """Add (x - shift - centre)^2 of each cell x of the rows.

        Parameters
        ----------
        rows : (n, F) float32 or float64 ndarray, C-contiguous
        shift, centre : (F,) float64 ndarrays
        """
        add_rows(rows, self._wide(shift), self._wide(centre), self.lift, self.sums, self.n_columns)

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
        return self.sums.reshape(N_PIECES, self.fold, self.n_columns).sum(axis=1)

    def __reduce__(self):
        return ExactSums, (self.bounds, self.n_terms), self.sums

    def __setstate__(self, sums):
        self.sums[...] = sums

    def _wide(self, values):
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (self.n_columns,):
            raise ValueError(
                f"one number for each of {counted(self.n_columns, 'column')} is needed; got shape {values.shape}"
            )
        return np.concatenate([values] * self.fold)


def add_rows(const real[:, ::1] rows, const double[::1] shift, const double[::1] centre, const double[:, ::1] lift,
             double[:, ::1] sums, Py_ssize_t n_columns):
    """Add the terms of rows to sums (pieces, fold F); `centre` is None for sums of cells."""
    cdef Py_ssize_t n = rows.shape[0], F = rows.shape[1], pitch = sums.shape[1], fold, block, j, rest
    cdef const double *middle
    if F != n_columns:
        raise ValueError(f"rows must have {counted(n_columns, 'column')}; got {F}")
    if n == 0 or F == 0:
        return
    fold = pitch // F
    rest = n % fold
    with nogil:
        middle = NULL if centre is None else &centre[0]
        if n >= fold:
            for block in range((pitch + COLUMNS - 1) // COLUMNS):
                j = block * COLUMNS
                terms(&rows[0, 0] + j, n // fold, pitch, min(COLUMNS, pitch - j), pitch, &shift[j],
                      NULL if middle is NULL else middle + j, &lift[0, j], &sums[0, j])
        if rest:
            terms(&rows[n - rest, 0], 1, F, rest * F, pitch, &shift[0], middle, &lift[0, 0], &sums[0, 0])


cdef void terms(const real *rows, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t pitch,
                const double *shift, const double *centre, const double *lift, double *sums) noexcept nogil:
    if real is float:
        if centre is NULL:
            expfam_float_terms(rows, n_rows, stride, n, pitch, shift, centre, lift, sums)
        else:
            expfam_float_squares(rows, n_rows, stride, n, pitch, shift, centre, lift, sums)
    else:
        if centre is NULL:
            expfam_double_terms(rows, n_rows, stride, n, pitch, shift, centre, lift, sums)
        else:
            expfam_double_squares(rows, n_rows, stride, n, pitch, shift, centre, lift, sums)
