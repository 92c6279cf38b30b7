"""Soft sums of sparse rows, column by column, without a table of all sums beside the result.

A pass over the rows keeps what each row gives to the components, which are few numbers where most responsibilities are
0. The sums of a column need only these numbers and the entries of the column, in the order of the rows. The result has
the bits of sums that are added row by row, in the segments and pieces of `expfam.samplers.uncollapsed.soft_sums`.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.column_sums cimport expfam_label_terms
from expfam.structures.simd.dense_scores cimport expfam_add_listed

from expfam.model.occurring import OccurringColumns, occurring_columns
from expfam.structures.ground.threads import run

cdef Py_ssize_t COLUMNS_A_TASK = 256
_TASKS_COUNTED = 64     # whose sums are counted together
_CELLS_AT_ONCE = 1 << 17    # sums that are held beside all sums
_FEW_COMPONENTS = 4     # for which there is room in each row of a tile, on average
_COPIED_SHARE = 3       # 12 bytes of a column that occurs are less than 4 of all columns
_SPARSE_SHARE = 3       # of all sums at most a third is not 0: then they are CSR


ctypedef struct column_lists:
    const int32_t *rows             # of the entries
    const double *values            # or NULL
    const unsigned char *small      # the values, where all are whole numbers below 256, or NULL
    const int32_t *components       # of the lists of rows
    const double *weights
    const int64_t *starts
    const int32_t *lengths
    const unsigned char *rough
    double *others                  # (K,) zeros, or NULL
    const int32_t *slots            # (K,) where sums of components are, or NULL: at their numbers
    int32_t *places                 # (K,) scratch of lists whose components have slots
    int64_t offset
    int64_t tile_rows
    Py_ssize_t K


ctypedef fused index_kind:
    int32_t
    int64_t


cdef class TileLists:
    """What the rows of one tile give to the components, without what is 0.

    There is room for `n_rows` rows, and for what a few components of each get; `grow` makes more.
    """

    def __init__(self, Py_ssize_t n_rows, Py_ssize_t width):
        room = _FEW_COMPONENTS * n_rows + width
        self.arrays = (
            np.empty(room, dtype=np.int32), np.empty(room), np.zeros(n_rows, dtype=np.int64),
            np.zeros(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=np.uint8),
        )
        self.components, self.weights, self.starts, self.lengths, self.rough = self.arrays
        self.size, self.n_rows, self.width = 0, n_rows, width

    cdef bint is_full(self) noexcept nogil:
        """Tell whether a row may give more than there is room for."""
        return self.components.shape[0] - self.size < self.width

    def grow(self, Py_ssize_t more):
        """Make room for what is there and `more`, at least twice as much as before."""
        room = max(2 * self.components.shape[0], self.size + more)
        grown = (np.empty(room, dtype=np.int32), np.empty(room))
        for new, old in zip(grown, self.arrays):
            new[: self.size] = old[: self.size]
        self.arrays = (*grown, *self.arrays[2:])
        self.components, self.weights = grown

    cdef void put(self, Py_ssize_t i, const float *x, const double *sums, Py_ssize_t width) noexcept nogil:
        """Keep the responsibilities of row i; a block of components whose sum is 0 has none."""
        cdef Py_ssize_t b, k, n = self.size
        self.starts[i] = n
        for b in range((width + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK):
            if sums[b] == 0.0:
                continue
            for k in range(b * EXPFAM_BLOCK, min(width, (b + 1) * EXPFAM_BLOCK)):
                if x[k] != 0.0:
                    self.components[n] = <int32_t> k
                    self.weights[n] = x[k]
                    n += 1
        self.lengths[i] = <int32_t> (n - self.size)
        self.size = n

    def put_rough(self, const Py_ssize_t[::1] rows, const double[:, ::1] p):
        """Keep the responsibilities (rows, K) of rows that were weighed in double precision."""
        cdef Py_ssize_t j, k, n
        if self.components.shape[0] - self.size < np.count_nonzero(p):
            self.grow(np.count_nonzero(p))
        for j in range(rows.shape[0]):
            n = self.starts[rows[j]] = self.size
            for k in range(p.shape[1]):
                if p[j, k] != 0.0:
                    self.components[n] = <int32_t> k
                    self.weights[n] = p[j, k]
                    n += 1
            self.lengths[rows[j]] = <int32_t> (n - self.size)
            self.rough[rows[j]] = 1
            self.size = n

    def take(self, Py_ssize_t n_rows):
        """Return copies of what the first `n_rows` rows have given, and forget it."""
        components, weights, starts, lengths, rough = self.arrays
        parts = (components[: self.size], weights[: self.size], starts[:n_rows], lengths[:n_rows], rough[:n_rows])
        found = tuple(part.copy() for part in parts)
        self.size = 0
        rough[:n_rows] = 0
        return found


class ListedRows:
    """What each row gives to the components: lists of components and weights.

    Parameters
    ----------
    tiles : list of tuple
        Results of `TileLists.take`, in the order of the rows. The list is emptied.

    Attributes
    ----------
    components : (n,) int32 ndarray
    weights : (n,) float64 ndarray
    starts : (N,) int64 ndarray
        Where the list of each row begins.
    lengths : (N,) int32 ndarray
    rough : (N,) uint8 ndarray
        1 for rows that were weighed in double precision: within a tile they are added last.
    """

    def __init__(self, tiles):
        sizes = [tile[0].size for tile in tiles]
        offsets = np.repeat(np.cumsum([0, *sizes[:-1]]), [tile[2].size for tile in tiles])
        columns = []
        for place in range(5):      # one column after the other: there is never a second copy of all
            columns.append(np.concatenate([tile[place] for tile in tiles]))
            tiles[:] = [(*tile[:place], None, *tile[place + 1 :]) for tile in tiles]
        self.components, self.weights, self.starts, self.lengths, self.rough = columns
        self.starts += offsets
        tiles.clear()


class ScoredColumns:
    """Data whose sparse statistics have only the columns that are scored.

    Parameters
    ----------
    data : Dataset
    entries : ColumnEntries
    """

    has_sparse_phi = True

    def __init__(self, data, entries):
        self.family, self.weight, self.row_offset = data.family, data.weight, data.row_offset
        self._data, self._entries = data, entries

    def phi_csr(self, start, stop):
        """Return the statistics of some rows as CSR, in the columns that are scored."""
        return self._entries.narrow(self._data.phi_csr(start, stop))


class ColumnEntries:
    """Entries of sparse statistics by column, and the sums of their products with lists of rows.

    Parameters
    ----------
    data : Dataset
        Its statistics are sparse.
    """

    def __init__(self, data):
        self.n_columns, self.row_offset, columns = data.n_statistics, data.row_offset, occurring_columns(data)
        # few columns that occur are scored by a copy of their parameters, beside which the table is small
        is_copied = columns.size * _COPIED_SHARE <= data.n_statistics
        self.occurring = OccurringColumns(columns, data.n_statistics) if is_copied else None
        phi = sparse.csc_array(self.narrow(data.phi_csr(0, data.n_rows)))
        self.shape = phi.shape
        self.indptr = phi.indptr
        self.rows = phi.indices.astype(np.int32, copy=False)
        self.values = _small(phi.data)

    def narrow(self, phi):
        """Return rows of CSR statistics with the columns that are scored."""
        return phi if self.occurring is None else self.occurring.narrow(phi)

    def sums(self, listed, n_components, lift, *, segment_rows, tile_rows, n_threads=None):
        """Return soft counts (K,) and sums (K, F): CSR where few of them are not 0, else dense.

        Parameters
        ----------
        listed : ListedRows
        n_components : int
            K.
        lift : (3,) float64 ndarray
            How sums of segments are split into pieces, see `expfam.structures.rows.exact_sums.lifts`.
        segment_rows, tile_rows : int
            Rows of segments and tiles, which begin at multiples of these numbers.
        n_threads : int or None

        Returns
        -------
        n : (K,) float64 ndarray
        S : (K, F) float64 ndarray or CSR
        """
        K, (N, U) = n_components, self.shape
        sizes, n = (self.row_offset, segment_rows, tile_rows), np.empty((1, K))
        every = (np.array([0, N], dtype=np.int64), np.arange(N, dtype=np.int32), np.ones(N, dtype=np.uint8))
        add_columns(*every, 0, listed, *sizes, _wide_lift(lift, K), n, is_count=True)
        tasks = [(first, min(first + COLUMNS_A_TASK, U)) for first in range(0, U, COLUMNS_A_TASK)]
        is_sparse = given_to_columns(self.indptr, self.rows, listed.lengths, K) * _SPARSE_SHARE <= K * self.n_columns
        make = self._sparse_sums if is_sparse else self._dense_sums
        return n[0], make(tasks, (listed, *sizes), lift, K, n_threads)

    # each method has one inner function: functions that name each other would keep the sums of former steps

    def _sparse_sums(self, tasks, rows, lift, K, n_threads):
        def listed_columns(first, last, room):
            columns = (self.indptr, self.rows, self.values, first, last)
            return sparse_columns(*columns, *rows, lift, K, room)

        cells, rooms = self._cells(tasks, rows[0], K, n_threads)
        made = _ByComponent(cells, self.shape[1])
        for first, last in _together(rooms, _CELLS_AT_ONCE):
            of_columns = [(*task, room) for task, room in zip(tasks[first:last], rooms[first:last].tolist())]
            made.put(run(listed_columns, of_columns, n_threads, uses_blas=False))
        S = made.sums()
        return S if self.occurring is None else self.occurring.widen(S, in_place=True)

    def _cells(self, tasks, listed, K, n_threads):
        """Return the largest numbers of sums that are not 0, of each component and of each task."""
        rooms = np.zeros(len(tasks), dtype=np.int64)

        def count(first, last):
            numbers, own = np.zeros(K, dtype=np.int64), rooms[first:last]
            cells_of_columns(self.indptr, self.rows, listed, tasks[first][0], tasks[last - 1][1], own, numbers)
            return numbers

        parts = [(first, min(first + _TASKS_COUNTED, len(tasks))) for first in range(0, len(tasks), _TASKS_COUNTED)]
        return sum(run(count, parts, n_threads, uses_blas=False)), rooms

    def _dense_sums(self, tasks, rows, lift, K, n_threads):
        S, lifts = np.zeros((K, self.n_columns)), _wide_lift(lift, K)

        def fill(first, last):
            table = np.empty((last - first, K))
            add_columns(self.indptr, self.rows, self.values, first, *rows, lifts, table, is_count=False)
            chosen = slice(first, last) if self.occurring is None else self.occurring.columns[first:last]
            S[:, chosen] = table.T

        run(fill, tasks, n_threads, uses_blas=False)
        return S


def _wide_lift(lift, K):
    """Return the numbers that split sums into pieces, (3,), for each of K components: (3, K)."""
    return np.ascontiguousarray(np.broadcast_to(lift[:, None], (3, K)))


def _small(values):
    """Return values in one byte each where all are whole and below 256, else in double."""
    with np.errstate(invalid="ignore"):
        small = values.astype(np.uint8)
    return small if np.array_equal(small, values) else values.astype(np.float64, copy=False)


def _together(sizes, most):
    """Yield bounds of runs of numbers whose sums are at most `most`, or of one number."""
    ends, first = np.cumsum(sizes), 0
    while first < len(sizes):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first = last


class _ByComponent:
    """Sums of columns, which come in their order, put in the order of the components.

    Parameters
    ----------
    cells : (K,) int64 ndarray
        Largest number of sums of each component that are not 0.
    n_columns : int
        U.
    """

    def __init__(self, cells, n_columns):
        self.shape, self.first = (len(cells), n_columns), 0
        self.starts = np.concatenate([[0], np.cumsum(cells)])
        size = int(self.starts[len(cells)])
        self.place, self.values = self.starts[:-1].copy(), np.empty(size)
        self.columns = np.empty(size, dtype=np.int32 if size <= np.iinfo(np.int32).max else np.int64)

    def put(self, parts):
        """Take results of `sparse_columns`."""
        for numbers, components, values in parts:
            put_by_component(numbers, components, values, self.first, self.place, self.columns, self.values)
            self.first += len(numbers)

    def sums(self):
        """Return the sums: (K, U) CSR."""
        if (self.place < self.starts[1:]).any():
            self._close()
        indptr = self.starts.astype(self.columns.dtype, copy=False)
        return sparse.csr_array((self.values, self.columns, indptr), shape=self.shape)

    def _close(self):
        """Leave out the places of sums that are 0 after all."""
        lengths = self.place - self.starts[:-1]
        kept = np.repeat(self.starts[:-1] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        self.values, self.columns = self.values[kept], self.columns[kept]
        self.starts[1:] = np.cumsum(lengths)


def put_by_component(const int32_t[::1] numbers, const int32_t[::1] components, const double[::1] values,
                     Py_ssize_t first, int64_t[::1] place, index_kind[::1] columns, double[::1] sums):
    """Write sums of columns from `first` on to the places of their components, which move on."""
    cdef Py_ssize_t w, e = 0
    cdef int32_t k, _
    with nogil:
        for w in range(numbers.shape[0]):
            for _ in range(numbers[w]):
                k = components[e]
                columns[place[k]], sums[place[k]] = <index_kind> (first + w), values[e]
                place[k] += 1
                e += 1


def given_to_columns(const index_kind[::1] indptr, const int32_t[::1] rows, const int32_t[::1] lengths, int64_t K):
    """Return to how many components the rows of each column give, at most K, over all columns."""
    cdef Py_ssize_t w, e
    cdef int64_t n, total = 0
    with nogil:
        for w in range(indptr.shape[0] - 1):
            n = 0
            for e in range(indptr[w], indptr[w + 1]):
                n += lengths[rows[e]]
            total += min(n, K)
    return total


def cells_of_columns(const index_kind[::1] indptr, const int32_t[::1] rows, listed, Py_ssize_t first, Py_ssize_t last,
                     int64_t[::1] rooms, int64_t[::1] numbers):
    """Count the pairs of a column and a component to which its rows give.

    The columns are those from `first` to `last` - 1.
    `rooms` gets the numbers of the tasks of these columns, `numbers` (K,) those of the components.
    """
    cdef const int32_t[::1] components = listed.components, lengths = listed.lengths
    cdef const int64_t[::1] starts = listed.starts
    cdef int32_t[::1] seen = np.full(numbers.shape[0], -1, dtype=np.int32)     # the column that saw a component last
    cdef Py_ssize_t w, e, t
    cdef int32_t k, n
    with nogil:
        for w in range(first, last):
            n = 0
            for e in range(indptr[w], indptr[w + 1]):
                for t in range(starts[rows[e]], starts[rows[e]] + lengths[rows[e]]):
                    k = components[t]
                    if seen[k] != w - first:
                        seen[k] = <int32_t> (w - first)
                        numbers[k] += 1
                        n += 1
            rooms[(w - first) // COLUMNS_A_TASK] += n


def add_columns(const index_kind[::1] indptr, const int32_t[::1] rows, values, Py_ssize_t first, listed, int64_t offset,
                int64_t segment_rows, int64_t tile_rows, const double[:, ::1] lifts, double[:, ::1] table, *,
                bint is_count):
    """Write the sums of the columns from `first` on to `table` (columns, K).

    With `is_count` the column is that of counts, for which rough rows of a tile are added up apart.
    """
    cdef column_lists lists
    cdef const int32_t[::1] components = listed.components, lengths = listed.lengths
    cdef const double[::1] weights = listed.weights
    cdef const int64_t[::1] starts = listed.starts
    cdef const unsigned char[::1] rough = listed.rough
    cdef Py_ssize_t w, k, K = table.shape[1], e, stop
    cdef int64_t segment
    cdef int32_t label = 0
    scratch = np.zeros((5, K))
    cdef double[:, ::1] work = scratch
    cdef double *pieces = &work[2, 0]
    if not components.shape[0]:
        table[:, :] = 0.0
        return
    point_at_entries(&lists, rows, values)
    lists.components, lists.weights, lists.starts = &components[0], &weights[0], &starts[0]
    lists.lengths, lists.rough = &lengths[0], &rough[0]
    lists.offset, lists.tile_rows, lists.K = offset, tile_rows, K
    lists.others = &work[1, 0] if is_count else NULL
    lists.slots = lists.places = NULL
    with nogil:
        for w in range(table.shape[0]):
            memset(pieces, 0, 3 * K * sizeof(double))
            e, stop = indptr[first + w], indptr[first + w + 1]
            while e < stop:
                segment = (offset + rows[e]) // segment_rows
                while e < stop and (offset + rows[e]) // segment_rows == segment:
                    e = add_tile(&lists, e, stop, &work[0, 0])
                expfam_label_terms(&work[0, 0], 1, K, NULL, &label, &lifts[0, 0], pieces)
                memset(&work[0, 0], 0, K * sizeof(double))
            for k in range(K):
                table[w, k] = pieces[k] + (pieces[K + k] + pieces[2 * K + k])


def sparse_columns(const index_kind[::1] indptr, const int32_t[::1] rows, values, Py_ssize_t first, Py_ssize_t last,
                   listed, int64_t offset, int64_t segment_rows, int64_t tile_rows, const double[::1] lift,
                   Py_ssize_t K, Py_ssize_t room):
    """Return the sums of the columns first..last-1 that are not 0: how many, components, values.

    They have the bits of `add_columns`. A column costs what its rows give; `room` is the largest number of sums.
    """
    cdef column_lists lists
    cdef const int32_t[::1] components = listed.components, lengths = listed.lengths
    cdef const double[::1] weights = listed.weights
    cdef const int64_t[::1] starts = listed.starts
    cdef const unsigned char[::1] rough = listed.rough
    cdef Py_ssize_t w, k, m, e, t, stop, n_kept, at = 0
    cdef int64_t segment
    cdef int32_t label = 0
    cdef double total
    numbers, found = np.zeros(last - first, dtype=np.int32), (np.empty(room + 1, dtype=np.int32), np.empty(room + 1))
    cdef int32_t[::1] number = numbers
    cdef int32_t[::1] names
    cdef double[::1] sums
    names, sums = found
    cdef int32_t[::1] slots = np.full(K, -1, dtype=np.int32), places = np.empty(K, dtype=np.int32)
    cdef double[:, ::1] work = np.zeros((7, K))
    cdef double *pieces = &work[1, 0]
    cdef double *lifts = &work[4, 0]
    if not components.shape[0] or not rows.shape[0]:
        return numbers, *(part[:0] for part in found)
    point_at_entries(&lists, rows, values)
    lists.components, lists.weights, lists.starts = &components[0], &weights[0], &starts[0]
    lists.lengths, lists.rough = &lengths[0], &rough[0]
    lists.offset, lists.tile_rows, lists.K, lists.others = offset, tile_rows, K, NULL
    lists.slots, lists.places = &slots[0], &places[0]
    with nogil:
        for w in range(last - first):
            m, stop = 0, indptr[first + w + 1]
            for e in range(indptr[first + w], stop):
                for t in range(starts[rows[e]], starts[rows[e]] + lengths[rows[e]]):
                    if slots[components[t]] < 0:
                        slots[components[t]] = <int32_t> m
                        names[at + m] = components[t]
                        m += 1
            memset(pieces, 0, 3 * m * sizeof(double))
            for k in range(3 * m):
                lifts[k] = lift[k // m]
            e = indptr[first + w]
            while e < stop:
                segment = (offset + rows[e]) // segment_rows
                while e < stop and (offset + rows[e]) // segment_rows == segment:
                    e = add_tile(&lists, e, stop, &work[0, 0])
                expfam_label_terms(&work[0, 0], 1, m, NULL, &label, lifts, pieces)
                memset(&work[0, 0], 0, m * sizeof(double))
            n_kept = 0
            for k in range(m):
                total = pieces[k] + (pieces[m + k] + pieces[2 * m + k])
                slots[names[at + k]] = -1
                if total != 0.0:
                    names[at + n_kept], sums[at + n_kept] = names[at + k], total
                    n_kept += 1
            number[w] = <int32_t> n_kept
            at += n_kept
    return numbers, *(part[:at].copy() for part in found)


cdef int point_at_entries(column_lists *lists, const int32_t[::1] rows, values) except -1:
    """Point at the rows of the entries and at their values, in one byte or in double precision."""
    cdef const double[::1] wide
    cdef const unsigned char[::1] small
    lists.rows, lists.values, lists.small = NULL, NULL, NULL
    if not rows.shape[0]:
        return 0
    lists.rows = &rows[0]
    if values.dtype == np.uint8:
        small = values
        lists.small = &small[0]
    else:
        wide = values
        lists.values = &wide[0]
    return 0


cdef Py_ssize_t add_tile(const column_lists *lists, Py_ssize_t e, Py_ssize_t stop, double *sums) noexcept nogil:
    """Add the entries of a column from `e` on that lie in one tile; return the next entry."""
    # rough rows are added last, as in sums row by row
    cdef int64_t tile = (lists.offset + lists.rows[e]) // lists.tile_rows
    cdef Py_ssize_t t = e, k
    cdef bint has_rough = False
    while t < stop and (lists.offset + lists.rows[t]) // lists.tile_rows == tile:
        if lists.rough[lists.rows[t]]:
            has_rough = True
        else:
            add_entry(lists, t, sums)
        t += 1
    if not has_rough:
        return t
    for k in range(e, t):
        if lists.rough[lists.rows[k]]:
            add_entry(lists, k, sums if lists.others == NULL else lists.others)
    if lists.others != NULL:
        for k in range(lists.K):
            sums[k] += lists.others[k]
            lists.others[k] = 0.0
    return t


cdef inline void add_entry(const column_lists *lists, Py_ssize_t e, double *sums) noexcept nogil:
    cdef Py_ssize_t i = lists.rows[e], n = lists.lengths[i], j
    cdef int64_t start = lists.starts[i]
    cdef const int32_t *places = lists.components + start
    if lists.slots != NULL:
        for j in range(n):
            lists.places[j] = lists.slots[places[j]]
        places = lists.places
    expfam_add_listed(sums, places, lists.weights + start,
                      lists.values[e] if lists.small == NULL else <double> lists.small[e], n)
