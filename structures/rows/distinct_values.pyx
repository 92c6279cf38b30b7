"""Number of distinct values of columns, and their smallest gap, in one pass.

Values are rounded to a grid of 1e9 steps between the least and the largest value of the column, so that 0.3 and 0.1 * 3
are one value, and hashed. The hashes below a threshold are kept; the threshold is halved whenever too many are held, so
the number of all distinct values is about the number held divided by the share of the range below the threshold
(Wegman's adaptive sampling, Flajolet 1990). What is kept depends on the set of values alone: never on the order of the
rows, or on parts that are merged.
"""

import numpy as np

cimport cython
from libc.math cimport sqrt
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from expfam.amounts import counted
from expfam.structures.ground.arrays cimport address, aligned
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.value_hashes cimport expfam_double_hashes, expfam_float_hashes, expfam_low_cells

MOST_HELD = 2048        # values of a column: the estimate of more has a standard error of 3 %
STEPS = 1e9
EVERY_HASH = ~np.uint64(0)

cdef enum:
    LANES = 256             # narrow rows are hashed together up to this number of cells
    GROUP = 64              # columns of a pass over the rows: their tables stay in the cache
    ITEM_CELLS = 1 << 17    # of the rows that a thread takes at a time
    FIRST_ROWS = 1 << 16    # most rows that it takes first: with many distinct values they find limits near the last

ctypedef fused real:
    float
    double

cdef uint64_t EVERY = <uint64_t> -1

# Steps of the grid, which are below 2^30, do not have this hash: see the test.
cdef uint64_t FREE = <uint64_t> -1

ctypedef struct table:
    uint64_t *keys          # (mask + 1,) hashes of values, FREE in the other places
    double *low             # the least and the largest value with each hash, while all hashes are held
    double *high
    uint64_t *kept          # (most_held + 2,) scratch
    Py_ssize_t mask, n_held, most_held
    uint64_t limit


cdef class DistinctValues:
    """Distinct values of F columns, exact up to `most_held` of them and estimated beyond.

    Parameters
    ----------
    low, high : arrays of shape (F,)
        The least and the largest value of each column, over all rows that will ever be added or merged.
    n_rows : int
        Largest number of rows; memory is at most 96 bytes for each row and column, and 98 kB a column by default.
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
    cdef object keys, ends                              # (F, P) hashes, (2, F, P) least and largest values
    cdef object held, limits                            # (F,), (F,)
    cdef Py_ssize_t n_places
    cdef bint is_blank                                  # the places were not made free
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
        self.n_places, self.is_blank = 1 << int(min(most_held + 1, 2 * max(n_rows, 1))).bit_length(), True
        self.keys, self.ends = new_places(self.n_columns, self.n_places)
        self.held, self.limits = np.zeros(self.n_columns, dtype=np.intp), np.full(self.n_columns, EVERY_HASH)

    def add(self, rows, Team team=None):
        """Add the values of rows (n, F), float32 or float64; NaN is left out.

        The threads of a team read them.
        """
        if team is None or rows.size < 2 * ITEM_CELLS:
            team = Team(1)
        cdef Reader each
        by_columns = self.n_columns >= GROUP * team.n_threads
        is_single, readers = rows.dtype == np.float32, []
        if by_columns:
            firsts = range(0, self.n_columns, GROUP)
            readers = [Reader(self, is_single, first, min(GROUP, self.n_columns - first)) for first in firsts]
        else:
            readers = [Reader(self, is_single, 0, self.n_columns, thread > 0) for thread in range(team.n_threads)]
        add_rows(readers, rows, by_columns, team)
        for each in readers:
            each.close()

    def merge(self, DistinctValues other):
        """Add the values of another object, made for the same extremes."""
        same = np.array_equal(self.first, other.first, equal_nan=True)
        if not (same and np.array_equal(self.last, other.last, equal_nan=True)):
            raise ValueError("values of other extremes cannot be merged")
        cdef Reader into = Reader(self, False, 0, self.n_columns), source = Reader(other, False, 0, self.n_columns)
        cdef Py_ssize_t j
        with nogil:
            if into.r.is_blank:
                make_free(&into.r)
            if source.r.is_blank:
                make_free(&source.r)
            for j in range(self.n_columns):
                merge_table(into.r.tables + j, source.r.tables + j)
        into.close()

    def __add__(self, DistinctValues other):
        """Return this object, to which the values of the other one were added."""
        self.merge(other)
        return self

    def counts(self):
        """Return the number of distinct values of each column (F,), estimated above `most_held`."""
        return self.held * (2.0**64 / (self.limits.astype(np.float64) + 1.0))

    def gaps(self):
        """Return the smallest gap between distinct values of each column (F,).

        It is inf for a column of one value, and NaN where there are more than `most_held` values.
        """
        out = np.full(self.n_columns, np.nan)
        for j in np.flatnonzero(self.limits == EVERY_HASH):
            low, high = self._values(j)
            order = np.argsort(low)
            gaps = low[order][1:] - high[order][:-1]
            gaps = gaps[gaps > (self.last[j] - self.first[j]) / STEPS]      # else one value on two sides of a step
            out[j] = gaps.min() if gaps.size else np.inf
        return out

    def _values(self, column):
        """Return the least and the largest value with each hash of a column: (2, held)."""
        return self.ends[:, column][:, self.keys[column] != FREE]

    def __reduce__(self):
        keys = np.empty(0, dtype=np.uint64) if self.is_blank else self.keys[self.keys != FREE]
        whole = [np.empty((2, 0))]
        if not self.is_blank:
            whole += [self._values(j) for j in np.flatnonzero(self.limits == EVERY_HASH)]
        state = (keys, np.concatenate(whole, axis=1), self.held, self.limits)
        return DistinctValues, (self.first, self.last, self.n_rows, self.most_held), state

    def __setstate__(self, state):
        cdef Py_ssize_t j, i, first = 0, at = 0
        cdef bint is_whole
        cdef Reader into
        cdef const uint64_t[::1] keys
        cdef const double[:, :] ends
        keys, ends, held, limits = state
        self.limits = np.array(limits)          # what a message held is read-only
        into = Reader(self, False, 0, self.n_columns)
        make_free(&into.r)
        for j in range(self.n_columns):
            is_whole = into.r.tables[j].limit == EVERY
            for i in range(first, first + held[j]):
                insert(into.r.tables + j, keys[i], ends[0, at] if is_whole else 0.0, ends[1, at] if is_whole else 0.0)
                at += is_whole
            first += held[j]
        into.close()


def new_places(Py_ssize_t n_columns, Py_ssize_t n_places):
    """Return room for hashes, and for the values that have them: uninitialised."""
    return np.empty((n_columns, n_places), dtype=np.uint64), np.empty((2, n_columns, n_places))


ctypedef struct reader:
    table *tables               # (F,)
    double *origin              # (fold F,), and so are those below
    double *scale
    uint64_t *limits
    uint64_t *hashes
    uint32_t *columns
    uint32_t *low_cells         # numbers of cells with low hashes
    unsigned char *is_low       # room for a multiple of eight
    char *cells
    Py_ssize_t first, F, fold   # number of the first column, and of columns
    bint is_single
    bint is_new                 # no values were added
    bint is_blank               # neither were the places made free


@cython.final
cdef class Reader:
    """Tables and scratch memory of F columns; `close` notes what the tables hold.

    Where threads read other rows of the same columns, all but the caller have tables that are `apart` from those of the
    values. The places of new tables are made free by the thread that first adds to them.
    """

    cdef DistinctValues values
    cdef object kept
    cdef bint apart
    cdef reader r

    def __init__(self, DistinctValues values, bint is_single, Py_ssize_t first, Py_ssize_t F, bint apart=False):
        cdef Py_ssize_t fold = max(1, LANES // max(F, 1)), n_places = values.n_places
        cdef Py_ssize_t width = (fold * F + 7) // 8 * 8, i, j
        cdef Py_ssize_t[::1] held = values.held
        cdef uint64_t[::1] limits = values.limits
        tables, room = np.empty(F * sizeof(table), np.uint8), aligned(8 * width)
        keys, ends = new_places(F, n_places) if apart else (values.keys, values.ends)
        kept = np.empty(values.most_held + 2, dtype=np.uint64)
        self.values, self.apart, self.kept = values, apart, (keys, ends, tables, room, kept)
        cdef Py_ssize_t skip = 0 if apart else first * n_places
        cdef uint64_t *own = <uint64_t *> address(keys) + skip
        cdef double *low = <double *> address(ends) + skip
        cdef double *high = low + (F if apart else values.n_columns) * n_places
        cdef double *numbers = <double *> address(room)
        self.r.is_blank = apart or values.is_blank
        self.r.tables, self.r.first, self.r.F, self.r.fold = <table *> address(tables), first, F, fold
        self.r.is_single, self.r.is_new = is_single, True
        self.r.origin, self.r.scale, self.r.cells = numbers, numbers + width, <char *> (numbers + 2 * width)
        self.r.limits, self.r.hashes = <uint64_t *> (numbers + 3 * width), <uint64_t *> (numbers + 4 * width)
        self.r.columns, self.r.is_low = <uint32_t *> (numbers + 5 * width), <unsigned char *> (numbers + 6 * width)
        self.r.low_cells = <uint32_t *> (numbers + 7 * width)
        for j in range(F):
            self.r.tables[j] = table(own + j * n_places, low + j * n_places, high + j * n_places,
                                     <uint64_t *> address(kept), n_places - 1, 0 if apart else held[first + j],
                                     values.most_held, 0)
            self.r.is_new = self.r.is_new and (apart or held[first + j] == 0) and limits[first + j] == EVERY
            set_limit(&self.r, j, limits[first + j])
            for i in range(j, fold * F, F):
                self.r.origin[i], self.r.scale[i] = values.origin[first + j], values.scale[first + j]
                self.r.columns[i] = <uint32_t> j

    cdef void close(self):
        """Note the numbers of held values, and their limits."""
        cdef Py_ssize_t j
        if self.apart:
            return
        if self.r.is_blank:         # no rows were added
            make_free(&self.r)
        self.values.is_blank = False
        cdef Py_ssize_t[::1] held = self.values.held
        cdef uint64_t[::1] limits = self.values.limits
        for j in range(self.r.F):
            held[self.r.first + j], limits[self.r.first + j] = self.r.tables[j].n_held, self.r.tables[j].limit


ctypedef struct reading:
    reader **readers
    const char *rows
    Py_ssize_t n, stride            # rows; bytes from one to the next
    Py_ssize_t n_readers, first, step   # number of readers; rows of as many first items; rows of the others


def add_rows(list readers, const real[:, :] rows, bint by_columns, Team team):
    """Add the values of the rows; a reader is that of a thread, or of some columns."""
    cdef Py_ssize_t F = (<Reader> readers[0]).values.n_columns, thread
    cdef size_t[::1] places = np.empty(len(readers), dtype=np.uintp)
    cdef reading job
    if rows.shape[1] != F:
        raise ValueError(f"rows must have {counted(F, 'column')}; got {rows.shape[1]}")
    if rows.shape[0] == 0 or F == 0:
        return
    if F > 1 and rows.strides[1] != sizeof(real):
        raise ValueError("the cells of a row must lie side by side")
    for thread in range(len(readers)):
        places[thread] = <size_t> &(<Reader> readers[thread]).r
    job.readers, job.n_readers = <reader **> &places[0], len(readers)
    job.rows, job.n, job.stride = <const char *> &rows[0, 0], rows.shape[0], rows.strides[0]
    job.first = min(FIRST_ROWS, job.n if job.n_readers == 1 else job.n // (2 * job.n_readers))
    job.step = max(1, ITEM_CELLS // F)
    if by_columns:
        with nogil:
            team.share(add_columns, &job, job.n_readers)
        return
    with nogil:
        team.share(add_item, &job, job.n_readers + (job.n - job.n_readers * job.first + job.step - 1) // job.step)
        if job.readers[0].is_blank:     # the caller came too late to take rows
            make_free(job.readers[0])
        if job.n_readers > 1:
            team.share(merge_column, &job, F)


cdef void add_item(void *work, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Add the values of some rows to the tables of a thread."""
    cdef reading *job = <reading *> work
    cdef Py_ssize_t first = item * job.first, n = job.first
    if item >= job.n_readers:
        first = job.n_readers * job.first + (item - job.n_readers) * job.step
        n = min(job.step, job.n - first)
    add_to(job.readers[thread], job.rows + first * job.stride, n, job.stride)


cdef void add_columns(void *work, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    """Add the values of some columns in all rows."""
    cdef reading *job = <reading *> work
    cdef reader *own = job.readers[item]
    add_to(own, job.rows + own.first * (4 if own.is_single else 8), job.n, job.stride)


cdef void add_to(reader *r, const char *rows, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """Add n rows to tables that may be new."""
    if r.is_blank:
        make_free(r)
    if r.is_new:
        begin(r, rows, n, stride)
    else:
        add_cells(r, rows, n, stride)


cdef void make_free(reader *r) noexcept nogil:
    """Make all places free."""
    cdef Py_ssize_t j
    r.is_blank = False
    for j in range(r.F):
        make_table_free(&r.tables[j])


cdef void make_table_free(table *t) noexcept nogil:
    cdef Py_ssize_t h
    for h in range(t.mask + 1):
        t.keys[h] = FREE
    t.n_held = 0


cdef void merge_column(void *work, Py_ssize_t j, Py_ssize_t thread) noexcept nogil:
    """Add the values of a column in the tables of other threads to those of the caller."""
    cdef reading *job = <reading *> work
    cdef table into = job.readers[0].tables[j]
    cdef Py_ssize_t i
    into.kept = job.readers[thread].tables[0].kept      # others merge other columns
    for i in range(1, job.n_readers):
        if not job.readers[i].is_blank:
            merge_table(&into, job.readers[i].tables + j)
    job.readers[0].tables[j] = into


cdef void begin(reader *r, const char *rows, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """Add the first rows, and try whether they halve the limits more than `skipped` times.

    If they do, no value has been held in vain before. The other columns begin again.
    """
    # so many distinct values below a limit are expected; with four standard errors fewer, they are still too many
    cdef Py_ssize_t j, skipped = 0, first = r.tables[0].most_held + 4 * <Py_ssize_t> sqrt(r.tables[0].most_held)
    cdef uint64_t tried
    cdef bint some = False
    r.is_new = False
    while first << (skipped + 1) <= min(n, FIRST_ROWS):
        skipped += 1
    if skipped:
        first, tried = first << skipped, EVERY >> skipped
        for j in range(r.F):
            set_limit(r, j, tried)
        add_cells(r, rows, first, stride)
        for j in range(r.F):
            if r.tables[j].limit == tried:
                make_table_free(&r.tables[j])
                set_limit(r, j, EVERY)
                some = True
        if not some:
            rows, n = rows + first * stride, n - first
    add_cells(r, rows, n, stride)   # hashes of columns that do not begin again are held already, or above their limits


cdef void set_limit(reader *r, Py_ssize_t j, uint64_t limit) noexcept nogil:
    """Set the limit of a column."""
    cdef Py_ssize_t i
    r.tables[j].limit = limit
    for i in range(r.fold):
        r.limits[i * r.F + j] = limit


cdef void add_cells(reader *r, const char *rows, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """Add n rows, `stride` bytes apart, `fold` at a time."""
    cdef Py_ssize_t i = 0, m, at, j, h, F = r.F
    cdef const char *row
    cdef double x
    while i < n:
        m = min(r.fold, n - i)
        row = side_by_side(r, rows + i * stride, m, stride)
        i += m
        if r.is_single:
            if not expfam_float_hashes(<const float *> row, m * F, r.origin, r.scale, r.limits, r.hashes, r.is_low):
                continue
        elif not expfam_double_hashes(<const double *> row, m * F, r.origin, r.scale, r.limits, r.hashes, r.is_low):
            continue
        for h in range(expfam_low_cells(r.is_low, m * F, r.low_cells)):
            at = r.low_cells[h]
            j = r.columns[at]
            x = (<const float *> row)[at] if r.is_single else (<const double *> row)[at]
            if r.hashes[at] <= r.tables[j].limit and x == x:
                insert(&r.tables[j], r.hashes[at], x, x)
                if r.tables[j].limit < r.limits[at]:
                    set_limit(r, j, r.tables[j].limit)


cdef const char *side_by_side(reader *r, const char *rows, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """Return n rows side by side."""
    cdef Py_ssize_t i, size = r.F * (4 if r.is_single else 8)
    if n == 1 or stride == size:
        return rows
    for i in range(n):
        memcpy(r.cells + i * size, rows + i * stride, size)
    return r.cells


cdef void merge_table(table *into, table *source) noexcept nogil:
    """Add the values of another table."""
    cdef Py_ssize_t h
    if source.limit < into.limit:
        into.limit = source.limit
        drop(into)
    for h in range(source.mask + 1):
        if source.keys[h] == FREE or source.keys[h] > into.limit:
            continue
        if into.limit == EVERY:
            insert(into, source.keys[h], source.low[h], source.high[h])
        else:
            insert(into, source.keys[h], 0.0, 0.0)


cdef void insert(table *t, uint64_t key, double low, double high) noexcept nogil:
    """Hold a value whose hash is below the limit; lower the limit if too many are held."""
    cdef Py_ssize_t h = <Py_ssize_t> (key & <uint64_t> t.mask)
    while t.keys[h] != key:
        if t.keys[h] == FREE:
            t.n_held += 1
            t.keys[h] = key
            if t.limit == EVERY:
                t.low[h], t.high[h] = low, high
            break
        h = (h + 1) & t.mask
    if t.limit == EVERY:                # else nobody asks for values
        t.low[h], t.high[h] = min(t.low[h], low), max(t.high[h], high)
    while t.n_held > t.most_held:
        t.limit >>= 1
        drop(t)


cdef void drop(table *t) noexcept nogil:
    """Free the places of hashes above the limit, then find places anew for those that stay."""
    cdef Py_ssize_t h, i, n = 0
    for h in range(t.mask + 1):     # without a branch: any hash is as likely to stay as to go, and FREE goes
        t.kept[n] = t.keys[h]
        n += t.keys[h] <= t.limit
    make_table_free(t)
    t.n_held = n
    for i in range(n):
        h = <Py_ssize_t> (t.kept[i] & <uint64_t> t.mask)
        while t.keys[h] != FREE:
            h = (h + 1) & t.mask
        t.keys[h] = t.kept[i]
