"""Number of distinct values of columns, and their smallest gap, in one pass.

Values are rounded to a grid of 1e9 steps between the least and the largest value of the column, so that 0.3 and 0.1 * 3
are one value, and hashed. The hashes below a threshold are kept; the threshold is halved whenever too many are held, so
the number of all distinct values is about the number held divided by the share of the range below the threshold
(Wegman's adaptive sampling, Flajolet 1990). What is kept depends on the set of values alone: never on the order of the
rows, or on parts that are merged.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from expfam.amounts import counted
from expfam.structures.simd.value_hashes cimport expfam_double_hashes, expfam_float_hashes

MOST_HELD = 2048        # values of a column: the estimate of more has a standard error of 3 %
STEPS = 1e9

cdef enum:
    LANES = 64              # narrow rows are hashed together up to this number of cells

ctypedef fused real:
    float
    double

ctypedef struct table:
    uint64_t *keys          # (mask + 1,) hashes of values; places with low > high are free
    double *low             # the least and the largest value with that hash
    double *high
    Py_ssize_t mask, n_held, most_held
    uint64_t limit


cdef class DistinctValues:
    """Distinct values of F columns, exact up to `most_held` of them and estimated beyond.

    Parameters
    ----------
    low, high : arrays of shape (F,)
        The least and the largest value of each column, over all rows that will ever be added or merged.
    n_rows : int
        Largest number of rows; memory is 48 bytes for each row and column, at most 98 kB a column by default.
    most_held : int
        Number of values of a column that are held. The standard error of an estimate is about 1.4 divided by its root.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures.rows.distinct_values import DistinctValues
    >>> rows = np.array([[0.0, 1.0], [0.5, 1.0], [0.75, 2.0]])
    >>> values = DistinctValues(rows.min(axis=0), rows.max(axis=0), 3)
    >>> values.add(rows)
    >>> values.counts().tolist(), values.gaps().tolist()
    ([3.0, 2.0], [0.25, 1.0])
    """

    cdef readonly Py_ssize_t n_columns, most_held
    cdef object first, last, n_rows
    cdef object keys, lows, highs, held, limits         # of all columns
    cdef double[::1] origin, scale

    def __init__(self, low, high, n_rows, most_held=MOST_HELD):
        low, high = np.array(low, dtype=np.float64, ndmin=1), np.array(high, dtype=np.float64, ndmin=1)
        if low.ndim != 1 or low.shape != high.shape:
            raise ValueError(f"low and high must be vectors of one length; got shapes {low.shape} and {high.shape}")
        if most_held < 1:
            raise ValueError(f"most_held must be at least 1; got {most_held!r}")
        self.first, self.last, self.n_rows, self.n_columns = low, high, int(n_rows), low.size
        self.most_held = most_held
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scale = STEPS / (high - low)
        self.origin, self.scale = low, np.where((high > low) & np.isfinite(scale), scale, 0.0)
        places = 2 << int(min(most_held + 1, max(n_rows, 1))).bit_length()
        shape = (self.n_columns, places)
        self.keys = np.zeros(shape, dtype=np.uint64)
        self.lows, self.highs = np.full(shape, np.inf), np.full(shape, -np.inf)
        self.held, self.limits = np.zeros(self.n_columns, dtype=np.intp), np.full(self.n_columns, ~np.uint64(0))

    def add(self, rows):
        """Add the values of rows (n, F), float32 or float64; NaN is left out."""
        add_rows(self, rows)

    def merge(self, DistinctValues other):
        """Add the values of another object, made for the same extremes."""
        same = np.array_equal(self.first, other.first, equal_nan=True)
        if not (same and np.array_equal(self.last, other.last, equal_nan=True)):
            raise ValueError("values of other extremes cannot be merged")
        cdef Py_ssize_t j, h
        cdef table into, source
        for j in range(self.n_columns):
            source, into = other._column(j), self._column(j)
            if source.limit < into.limit:
                into.limit = source.limit
                drop(&into)
            for h in range(source.mask + 1):
                if source.low[h] <= source.high[h] and source.keys[h] <= into.limit:
                    insert(&into, source.keys[h], source.low[h], source.high[h])
            self._keep(j, &into)

    def counts(self):
        """Return the number of distinct values of each column (F,), estimated above `most_held`."""
        return self.held * (2.0**64 / (self.limits.astype(np.float64) + 1.0))

    def gaps(self):
        """Return the smallest gap between distinct values of each column (F,).

        It is inf for a column of one value, and NaN where there are more than `most_held` values.
        """
        out = np.full(self.n_columns, np.nan)
        for j in np.flatnonzero(self.limits == ~np.uint64(0)):
            used = self.lows[j] <= self.highs[j]
            order = np.argsort(self.lows[j][used])
            low, high = self.lows[j][used][order], self.highs[j][used][order]
            gaps = low[1:] - high[:-1]
            gaps = gaps[gaps > (self.last[j] - self.first[j]) / STEPS]      # else one value on two sides of a step
            out[j] = gaps.min() if gaps.size else np.inf
        return out

    def __reduce__(self):
        used = self.lows <= self.highs
        held = np.flatnonzero(used.ravel())
        state = (held, self.keys[used], self.lows[used], self.highs[used], self.held, self.limits)
        return DistinctValues, (self.first, self.last, self.n_rows, self.most_held), state

    def __setstate__(self, state):
        held, keys, lows, highs, self.held, self.limits = state
        for own, found in ((self.keys, keys), (self.lows, lows), (self.highs, highs)):
            own.ravel()[held] = found

    cdef table _column(self, Py_ssize_t j):
        cdef table t
        cdef uint64_t[:, ::1] keys = self.keys
        cdef double[:, ::1] lows = self.lows, highs = self.highs
        t.keys, t.low, t.high = &keys[j, 0], &lows[j, 0], &highs[j, 0]
        t.mask, t.n_held, t.limit, t.most_held = keys.shape[1] - 1, self.held[j], self.limits[j], self.most_held
        return t

    cdef int _keep(self, Py_ssize_t j, const table *t) except -1:
        self.held[j], self.limits[j] = t.n_held, t.limit
        return 0


def add_rows(DistinctValues self, const real[:, :] rows):
    """Add the values of the rows."""
    cdef Py_ssize_t n = rows.shape[0], F = self.n_columns, fold = max(1, LANES // max(F, 1)), j
    cdef uint64_t[::1] limits = np.tile(self.limits, fold), hashes = np.empty(fold * F, dtype=np.uint64)
    cdef double[::1] origin = np.tile(self.origin, fold), scale = np.tile(self.scale, fold)
    cdef real[::1] cells = np.empty(fold * F, dtype=np.float32 if real is float else np.float64)
    cdef table *tables
    if rows.shape[1] != F:
        raise ValueError(f"rows must have {counted(F, 'column')}; got {rows.shape[1]}")
    if n == 0 or F == 0:
        return
    if F > 1 and rows.strides[1] != sizeof(real):
        raise ValueError("the cells of a row must lie side by side")
    tables = <table *> malloc(F * sizeof(table))
    if tables is NULL:
        raise MemoryError
    try:
        for j in range(F):
            tables[j] = self._column(j)
        with nogil:
            add_cells(tables, &rows[0, 0], n, F, rows.strides[0], fold, &origin[0], &scale[0], &limits[0],
                      &hashes[0], &cells[0])
        for j in range(F):
            self._keep(j, tables + j)
    finally:
        free(tables)


cdef void add_cells(table *tables, const real *rows, Py_ssize_t n, Py_ssize_t F, Py_ssize_t stride, Py_ssize_t fold,
                    const double *origin, const double *scale, uint64_t *limits, uint64_t *hashes,
                    real *cells) noexcept nogil:
    """Add n rows, `stride` bytes apart, `fold` at a time.

    `limits` are those of the tables, `fold` times.
    """
    cdef Py_ssize_t i = 0, r, j, m, at
    cdef const char *first
    cdef const real *row
    cdef int some
    while i < n:
        m, first = min(fold, n - i), <const char *> rows + i * stride
        i += m
        row = <const real *> first
        if fold > 1 and stride != F * <Py_ssize_t> sizeof(real):
            for r in range(m):
                memcpy(cells + r * F, first + r * stride, F * sizeof(real))
            row = cells
        if real is float:
            some = expfam_float_hashes(row, m * F, origin, scale, limits, hashes)
        else:
            some = expfam_double_hashes(row, m * F, origin, scale, limits, hashes)
        if not some:
            continue
        for r in range(m):
            for j in range(F):
                at = r * F + j
                if hashes[at] <= limits[at] and hashes[at] <= tables[j].limit and row[at] == row[at]:
                    insert(tables + j, hashes[at], row[at], row[at])
        for r in range(fold):
            for j in range(F):
                limits[r * F + j] = tables[j].limit


cdef void insert(table *t, uint64_t key, double low, double high) noexcept nogil:
    """Hold a value whose hash is below the limit; lower the limit if too many are held."""
    cdef Py_ssize_t h = <Py_ssize_t> (key & <uint64_t> t.mask)
    while t.low[h] <= t.high[h] and t.keys[h] != key:
        h = (h + 1) & t.mask
    if t.low[h] > t.high[h]:
        t.n_held += 1
    t.keys[h] = key
    if low < t.low[h]:
        t.low[h] = low
    if high > t.high[h]:
        t.high[h] = high
    while t.n_held > t.most_held:
        t.limit >>= 1
        drop(t)


cdef void drop(table *t) noexcept nogil:
    """Free the places of hashes above the limit, then find places anew for those that stay."""
    cdef Py_ssize_t h, place, end = 0
    cdef uint64_t key
    cdef double low, high
    # A chain of taken places ends at a free one. From there on, each value is taken out and put in again: it goes to a
    # place that is free, at or before its own in its chain, never across the end.
    while t.low[end] <= t.high[end]:
        end += 1
    t.n_held = 0
    for h in range(end + 1, end + 1 + t.mask):
        place = h & t.mask
        if t.low[place] > t.high[place]:
            continue
        key, low, high = t.keys[place], t.low[place], t.high[place]
        t.low[place], t.high[place] = INFINITY, -INFINITY
        if key > t.limit:
            continue
        place = <Py_ssize_t> (key & <uint64_t> t.mask)
        while t.low[place] <= t.high[place]:
            place = (place + 1) & t.mask
        t.keys[place], t.low[place], t.high[place] = key, low, high
        t.n_held += 1
