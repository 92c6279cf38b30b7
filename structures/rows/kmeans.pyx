"""k-means on dense rows: greedy k-means++ seeds, Lloyd passes, nearest centres.

Rows are kept in single precision, less an origin near their middle, in tiles of 32 rows (see simd/row_tiles.h): vectors
of the machine run over rows, so few clusters or few columns cost no idle lanes, and the products need no BLAS. Sums of
rows are kept in double for segments of rows that depend on sizes alone, and are added in the order of the segments; so
results are bitwise the same for any number of threads. Instances for AVX2 and AVX-512 give the same bits as well. The
baseline rounds products before it adds them: rows that lie within rounding of two centres can get another label there.

A pass costs O(N K C). A label that changes moves a row from one sum to another, so late passes hardly touch the sums.
"""

import math
from contextlib import nullcontext
from itertools import pairwise

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.structures.ground.arrays cimport aligned
from expfam.structures.ground.team cimport Team
from expfam.structures.ground.threads import N_SEGMENTS, run, segments, team_of
from expfam.structures.rows.byte_codes import has_byte_products, suits_codes
from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints
from expfam.structures.simd.row_tiles cimport (
    EXPFAM_PACK, EXPFAM_TILE_ROWS, expfam_rows_listed, expfam_rows_nearest, expfam_rows_reach,
)

cdef enum:
    LANES = 8                                       # sums that hide the latency of an addition; divides a tile
    GROUP_TILES = 8                                 # tiles that are compared with a block of centres together
    GROUP_ROWS = GROUP_TILES * EXPFAM_TILE_ROWS
    READ_CELLS = 1 << 16            # of rows that are made together: Python makes them, and other threads wait for it
    BLOCK_BYTES = 1 << 16                           # centres that stay in a near cache meanwhile
    MOST_PRODUCTS = 1 << 33         # of a loop without Python: a Ctrl-C waits for its end
    LEAST_SHARED = 1 << 20                          # products of a comparison with drawn rows that threads share
    DEAR = 48                                       # a score alone takes the time that integers save in so many
cdef double UNIT = 2.0 ** -24                       # rounding of single precision
_TASK_GROUPS = 16                                   # least work of a task
_ORIGIN_ROWS = 1024                                 # rows whose mean is the origin

ctypedef fused real_t:
    float
    double


cdef inline Py_ssize_t ceiling(Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    return (n + size - 1) // size


cdef void fill(const real_t[:, ::1] X, Py_ssize_t first, Py_ssize_t last, const double[::1] origin,
               float *tiles) noexcept nogil:
    """Write rows [first, last) as tiles from `tiles` on; what is left of the last one is 0."""
    cdef Py_ssize_t C = X.shape[1], i, j, r
    cdef float *tile
    for i in range(first, first + ceiling(last - first, EXPFAM_TILE_ROWS) * EXPFAM_TILE_ROWS):
        r = (i - first) % EXPFAM_TILE_ROWS
        tile = tiles + (i - first - r) * C + r
        if i < last:
            for j in range(C):
                tile[j * EXPFAM_TILE_ROWS] = <float> (X[i, j] - origin[j])
        else:
            for j in range(C):
                tile[j * EXPFAM_TILE_ROWS] = 0.0


cdef void fill_standardised(const float[:, ::1] X, Py_ssize_t first, Py_ssize_t last, const double[::1] centre,
                            const double[::1] scale, const double[::1] origin, float *tiles) noexcept nogil:
    """Do as `fill` with the rows ``(X - centre) * scale``."""
    cdef Py_ssize_t C = X.shape[1], i, j
    cdef float *tile
    for i in range(first, first + ceiling(last - first, EXPFAM_TILE_ROWS) * EXPFAM_TILE_ROWS):
        tile = tiles + (i - first - (i - first) % EXPFAM_TILE_ROWS) * C + (i - first) % EXPFAM_TILE_ROWS
        for j in range(C):
            tile[j * EXPFAM_TILE_ROWS] = 0.0 if i >= last else <float> ((X[i, j] - centre[j]) * scale[j] - origin[j])


cdef double weighted_squares(const float *tiles, Py_ssize_t n_rows, Py_ssize_t C, const double *weight,
                             double total) noexcept nogil:
    """Return a total plus the weighted sum of the squares of rows in tiles."""
    cdef double square
    cdef const float *x
    cdef Py_ssize_t i, j
    for i in range(n_rows):
        x = tiles + (i - i % EXPFAM_TILE_ROWS) * C + i % EXPFAM_TILE_ROWS
        square = 0.0
        for j in range(C):
            square += <double> x[j * EXPFAM_TILE_ROWS] * x[j * EXPFAM_TILE_ROWS]
        total += weight[i] * square
    return total


cdef void add_squares(const float *tiles, Py_ssize_t n, double *lanes) noexcept nogil:
    """Add the squares of n entries of tiles to LANES sums."""
    cdef Py_ssize_t i = 0, r
    while i < n:
        for r in range(LANES):
            lanes[r] += <double> tiles[i + r] * tiles[i + r]
        i += LANES


@final
cdef class _Centres:
    """Centres in packs, in which the nearest one of each row is found.

    Of many centres in many columns, integers of eight bits tell which ones may be nearest, where the machine has
    products of bytes: the others lie farther away even by their bounds, see `expfam.structures.rows.byte_codes`. Where
    several are left, they are compared by the scores of a pack. So labels are those of all scores.
    """

    cdef Py_ssize_t K, C, n_packs
    cdef float[::1] packs, norms
    cdef float[:, ::1] entries              # (K, C) -2 c of each centre, where integers are used
    cdef ScoredPoints points

    def __init__(self, Py_ssize_t K, Py_ssize_t C):
        self.K, self.C, self.n_packs = K, C, ceiling(K, EXPFAM_PACK)
        self.packs = aligned(self.n_packs * EXPFAM_PACK * C, np.float32)
        self.norms = aligned(self.n_packs * EXPFAM_PACK, np.float32)
        if has_byte_products() and suits_codes(K, C):
            self.points, self.entries = ScoredPoints(K, C), np.empty((K, C), dtype=np.float32)

    cdef void pack(self, const double[:, ::1] centres, const double[::1] origin) noexcept nogil:
        """Take centres: write -2 c and |c|^2 in packs; places without a centre are never nearest."""
        cdef Py_ssize_t k, j
        cdef float x
        cdef double square
        for k in range(self.n_packs * EXPFAM_PACK):
            square = 0.0 if k < self.K else INFINITY
            for j in range(self.C):
                x = <float> (centres[k, j] - origin[j]) if k < self.K else 0.0
                self.packs[(k // EXPFAM_PACK * self.C + j) * EXPFAM_PACK + k % EXPFAM_PACK] = -2.0 * x
                square += <double> x * x
            self.norms[k] = <float> square
        if self.points is not None:
            self.code()

    cdef void code(self) noexcept nogil:
        """Code the centres, whose scores are <x, c> - |c|^2 / 2."""
        cdef Py_ssize_t k, j
        for k in range(self.K):
            for j in range(self.C):
                self.entries[k, j] = -0.5 * self.packs[(k // EXPFAM_PACK * self.C + j) * EXPFAM_PACK + k % EXPFAM_PACK]
            self.points.put_scored(k, &self.entries[k, 0], -0.5 * self.norms[k], self.norms[k] * (self.C + 8) * UNIT)
            for j in range(self.C):
                self.entries[k, j] *= -2.0

    cdef void nearest(self, _Near w, const float *tiles, Py_ssize_t n_tiles, int32_t *owner) noexcept nogil:
        """Write the nearest centre of each row of a group of tiles, the first of equally near ones."""
        cdef Py_ssize_t t = 0
        if self.points is not None:
            while t < n_tiles and w.pays(self.K, self.C):
                self.nearest_by_codes(w, tiles + t * EXPFAM_TILE_ROWS * self.C, owner + t * EXPFAM_TILE_ROWS)
                t += 1
        if t < n_tiles:
            nearest_of_group(tiles + t * EXPFAM_TILE_ROWS * self.C, n_tiles - t, self.C, &self.packs[0],
                             &self.norms[0], self.n_packs, owner + t * EXPFAM_TILE_ROWS)

    cdef void nearest_read(self, _Near w, RowTiles rows, Py_ssize_t group, int32_t *owner) noexcept nogil:
        """Do the same for a group of rows that are read where they lie."""
        cdef Py_ssize_t i, t = 0, n_tiles = rows.tiles_of(group), first = group * GROUP_ROWS
        if self.points is not None:
            while t < n_tiles and w.pays(self.K, self.C):
                for i in range(EXPFAM_TILE_ROWS):
                    rows.read_row(first + t * EXPFAM_TILE_ROWS + i, &w.rows[i, 0])
                self.nearest_of_coded(w, owner + t * EXPFAM_TILE_ROWS)
                t += 1
        if t < n_tiles:
            rows.read_tiles(group * GROUP_TILES + t, n_tiles - t, &w.tiles[0])
            nearest_of_group(&w.tiles[0], n_tiles - t, self.C, &self.packs[0], &self.norms[0], self.n_packs,
                             owner + t * EXPFAM_TILE_ROWS)

    cdef void nearest_by_codes(self, _Near w, const float *tile, int32_t *owner) noexcept nogil:
        """Do the same for the rows of one tile, by bounds."""
        cdef Py_ssize_t i, j
        for i in range(EXPFAM_TILE_ROWS):
            for j in range(self.C):
                w.rows[i, j] = tile[j * EXPFAM_TILE_ROWS + i]
        self.nearest_of_coded(w, owner)

    cdef void nearest_of_coded(self, _Near w, int32_t *owner) noexcept nogil:
        """Do the same for the rows in `w.rows`."""
        cdef Py_ssize_t i, n
        for i in range(EXPFAM_TILE_ROWS):
            w.coded.put(i, &w.rows[i, 0])
        self.points.multiply(w.coded, EXPFAM_TILE_ROWS, &w.products[0, 0], self.points.width)
        for i in range(EXPFAM_TILE_ROWS):
            # scores of a pack round, too: each operation
            n = self.points.near(w.coded, i, &w.products[i, 0], 0.0, (self.C + 8) * UNIT, &w.places[0])
            w.n_rows += 1
            owner[i] = w.places[0]
            if n != 1:
                w.n_scored += n
                owner[i] = self.nearest_of(w, i, n)

    cdef int32_t nearest_of(self, _Near w, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
        """Return the nearest of n listed centres to row i of a tile; if n is 0, of all."""
        cdef float *scores = &w.products[i, 0]
        cdef float best = INFINITY
        cdef int32_t owner = 0
        cdef Py_ssize_t j
        if n == 0:
            n = self.K
            for j in range(n):
                w.places[j] = <int32_t> j
        expfam_rows_listed(&w.rows[i, 0], &self.entries[0, 0], self.C, &self.norms[0], &w.places[0], n, scores)
        for j in range(n):
            if scores[j] < best:
                best, owner = scores[j], w.places[j]
        return owner


@final
cdef class _Near:
    """Working memory of one thread, and how many scores it has computed for how many rows."""

    cdef float[:, ::1] rows, products
    cdef float[::1] tiles, row             # of rows that are read where they lie
    cdef CodedRows coded
    cdef int32_t[::1] places
    cdef Py_ssize_t n_rows, n_scored

    def __init__(self, _Centres centres, *, bint is_read=False):
        self.n_rows = self.n_scored = 0
        self.tiles = self.row = None
        if is_read:
            self.tiles, self.row = aligned(GROUP_ROWS * centres.C, np.float32), aligned(centres.C, np.float32)
        if centres.points is not None:
            width = centres.points.width
            self.coded = CodedRows(EXPFAM_TILE_ROWS, centres.C)
            self.rows = np.empty((EXPFAM_TILE_ROWS, centres.C), dtype=np.float32)
            self.products = np.empty((EXPFAM_TILE_ROWS, width), dtype=np.float32)
            self.places = np.empty(width + 1, dtype=np.int32)

    cdef bint pays(self, Py_ssize_t K, Py_ssize_t C) noexcept nogil:
        """Tell whether bounds still take less time than all scores; the first tile is always tried."""
        return self.n_scored * DEAR <= self.n_rows * K


cdef void nearest_of_group(const float *tiles, Py_ssize_t n_tiles, Py_ssize_t C, const float *packs, const float *norms,
                           Py_ssize_t n_packs, int32_t *owner) noexcept nogil:
    """Write the nearest centre of each row of a group of tiles, the first of equally near ones."""
    cdef float best[GROUP_ROWS]
    cdef Py_ssize_t i, p = 0, step = max(1, BLOCK_BYTES // (EXPFAM_PACK * <Py_ssize_t> sizeof(float) * C))
    for i in range(n_tiles * EXPFAM_TILE_ROWS):
        best[i], owner[i] = INFINITY, 0
    while p < n_packs:
        expfam_rows_nearest(tiles, n_tiles, C, packs + p * EXPFAM_PACK * C, norms + p * EXPFAM_PACK,
                            min(step, n_packs - p), <int32_t> (p * EXPFAM_PACK), best, owner)
        p += step


class RowBlocks:
    """Rows for `RowTiles` that are made when they are read; few are held at a time.

    Parameters
    ----------
    read : callable
        ``read(part)`` returns the rows of a slice: (m, C) ndarray of float. They do not depend on the other rows.
    n_rows : int
        At least 1.

    Attributes
    ----------
    shape : (int, int)
    """

    def __init__(self, read, n_rows):
        self.read, self.shape = read, (n_rows, read(slice(0, 1)).shape[1])

    def __getitem__(self, part):
        return _matrix(self.read(part), "X")


class RowsInPlace(RowBlocks):
    """Rows for `RowTiles` that are read where they lie, in each pass: no copy of them is held.

    Parameters
    ----------
    read, n_rows
        As of `RowBlocks`.
    X : (N, C) float32 ndarray, contiguous
    centre, scale : (C,) float64 ndarray
        The rows are ``(X - centre) * scale`` in double precision.
    """

    def __init__(self, read, n_rows, X, centre, scale):
        super().__init__(read, n_rows)
        self.X, self.centre, self.scale = X, centre, scale


@final
cdef class RowTiles:
    """Dense rows, stored for k-means; several runs on the same rows share them.

    Parameters
    ----------
    X : (N, C) array_like of float, RowBlocks or RowsInPlace
        float32 stays float32; all other types are read as float64, and rounded to float32 after the subtraction of an
        origin near the middle of the rows. Entries are finite, and their squares are in the range of float32.
    weight : (N,) array_like of positive float, optional
        Multiplicity of each row: seeds and centres are those of the rows repeated.
    n_threads : int or None

    Attributes
    ----------
    n_rows, n_columns : int

    Raises
    ------
    DataError
        X is no matrix with at least one row and one column, or a weight is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.structures import RowTiles
    >>> tiles = RowTiles([[0.0, 0.0], [9.0, 9.0], [0.0, 1.0], [9.0, 8.0]])
    >>> labels, centres = tiles.kmeans(2, np.random.default_rng(0))
    >>> labels[0] == labels[2] != labels[1] == labels[3]
    np.True_
    >>> centres[labels[0]]
    array([0. , 0.5])
    """

    cdef readonly Py_ssize_t n_rows, n_columns
    cdef Py_ssize_t n_tiles, n_groups
    cdef double[::1] origin
    cdef float[::1] tiles           # None where rows are read where they lie
    cdef const float[:, ::1] source
    cdef const double[::1] centre, scale
    cdef double square      # sum of the squared lengths of the rows
    cdef const double[::1] weight     # None where each row counts once
    cdef object X
    cdef dict free          # of few rows: working memory of runs that have ended, by the sizes of the run

    def __init__(self, X, *, weight=None, n_threads=None):
        self.X = X = X if isinstance(X, RowBlocks) else _matrix(X, "X")
        if 0 in X.shape:
            raise DataError(f"X must have at least one row and one column; got shape {X.shape}")
        self.n_rows, self.n_columns = X.shape
        self.weight = None if weight is None else _positive(weight, self.n_rows)
        self.n_tiles = ceiling(self.n_rows, EXPFAM_TILE_ROWS)
        self.n_groups = ceiling(self.n_tiles, GROUP_TILES)
        self.origin = X[:: ceiling(self.n_rows, _ORIGIN_ROWS)].mean(axis=0, dtype=np.float64)
        if isinstance(X, RowsInPlace):
            self.source, self.centre, self.scale = X.X, X.centre, X.scale
            self.tiles = None
        else:
            self.tiles = aligned(self.n_tiles * EXPFAM_TILE_ROWS * self.n_columns, np.float32)
        self.square = math.fsum(run(self._fill, self._tasks(_TASK_GROUPS), n_threads, uses_blas=False))
        self.X, self.free = None, {}

    def _fill(self, Py_ssize_t first, Py_ssize_t last):
        """Write the tiles of some groups, if they are stored; return the sum of their squares."""
        cdef double lanes[LANES]
        cdef double total = 0.0
        cdef Py_ssize_t g, r, n_rows, C = self.n_columns, n_read = max(1, READ_CELLS // (GROUP_ROWS * max(C, 1)))
        cdef float[::1] room = self.room()
        cdef const float *tiles
        for r in range(LANES):
            lanes[r] = 0.0
        for g in range(first, last):
            n_rows = self.stop_of(g) - g * GROUP_ROWS
            if self.tiles is not None and (g - first) % n_read == 0:
                self._store(g, min(g + n_read, last))
            tiles = self.group(g, NULL if room is None else &room[0])
            if self.weight is None:
                add_squares(tiles, self.tiles_of(g) * EXPFAM_TILE_ROWS * C, lanes)
            else:
                total = weighted_squares(tiles, n_rows, C, &self.weight[g * GROUP_ROWS], total)
        for r in range(LANES):
            total += lanes[r]
        return total

    cdef int _store(self, Py_ssize_t g, Py_ssize_t last) except -1:
        """Write the tiles of groups g..last-1; rows that are made when read take little memory."""
        cdef const float[:, ::1] single
        cdef const double[:, ::1] double_
        cdef Py_ssize_t start = g * GROUP_ROWS, stop = self.stop_of(last - 1)
        X = self.X[start:stop]
        if X.dtype == np.float32:
            single = X
            with nogil:
                fill(single, 0, stop - start, self.origin, self.tile(g * GROUP_TILES))
        else:
            double_ = X
            with nogil:
                fill(double_, 0, stop - start, self.origin, self.tile(g * GROUP_TILES))
        return 0

    cdef float[::1] room(self):
        """Return memory for the tiles of a group of rows that are read where they lie, else None."""
        return aligned(GROUP_ROWS * self.n_columns, np.float32) if self.tiles is None else None

    cdef void read_row(self, Py_ssize_t i, float *out) noexcept nogil:
        """Read a row where it lies; one beyond the last is 0."""
        cdef Py_ssize_t j
        if i >= self.n_rows:
            memset(out, 0, self.n_columns * sizeof(float))
            return
        for j in range(self.n_columns):
            out[j] = <float> ((self.source[i, j] - self.centre[j]) * self.scale[j] - self.origin[j])

    cdef void read_tiles(self, Py_ssize_t first, Py_ssize_t n, float *out) noexcept nogil:
        """Write `n` tiles from `first` on, of rows that are read where they lie."""
        cdef Py_ssize_t i, j
        cdef float *to
        memset(out, 0, n * EXPFAM_TILE_ROWS * self.n_columns * sizeof(float))
        for i in range(first * EXPFAM_TILE_ROWS, min((first + n) * EXPFAM_TILE_ROWS, self.n_rows)):
            to = out + (i // EXPFAM_TILE_ROWS - first) * EXPFAM_TILE_ROWS * self.n_columns + i % EXPFAM_TILE_ROWS
            for j in range(self.n_columns):
                to[j * EXPFAM_TILE_ROWS] = <float> (
                    (self.source[i, j] - self.centre[j]) * self.scale[j] - self.origin[j]
                )

    cdef const float *group(self, Py_ssize_t g, float *room) noexcept nogil:
        """Return the tiles of a group; those that are not stored are written to `room`."""
        if self.tiles is not None:
            return self.tile(g * GROUP_TILES)
        self.read_tiles(g * GROUP_TILES, self.tiles_of(g), room)
        return room

    cdef const float *row(self, Py_ssize_t i, float[::1] room, Py_ssize_t *stride) noexcept nogil:
        """Return where the entries of a row are, and how far apart; `room` is for one not stored."""
        if self.tiles is not None:
            stride[0] = EXPFAM_TILE_ROWS
            return self.tile(i // EXPFAM_TILE_ROWS) + i % EXPFAM_TILE_ROWS
        stride[0] = 1
        self.read_row(i, &room[0])
        return &room[0]

    def _tasks(self, Py_ssize_t step):
        """Return bounds of runs of about `step` groups; they depend on sizes only.

        They are one, or an even number of nearly equal runs: else one thread waits for the last run of another.
        """
        n_tasks = ceiling(self.n_groups, step)
        n_tasks += n_tasks > 1 and n_tasks % 2
        return list(pairwise(self.n_groups * task // n_tasks for task in range(n_tasks + 1)))

    cdef inline float *tile(self, Py_ssize_t t) noexcept nogil:
        return &self.tiles[t * EXPFAM_TILE_ROWS * self.n_columns]

    cdef inline Py_ssize_t tiles_of(self, Py_ssize_t group) noexcept nogil:
        """Return the number of tiles of a group."""
        return min(GROUP_TILES, self.n_tiles - group * GROUP_TILES)

    cdef inline Py_ssize_t stop_of(self, Py_ssize_t group) noexcept nogil:
        """Return the first row after a group."""
        return min(self.n_rows, (group + 1) * GROUP_ROWS)

    cdef inline double weight_of(self, Py_ssize_t i) noexcept nogil:
        return 1.0 if self.weight is None else self.weight[i]

    cdef void copy_row(self, Py_ssize_t i, float *out) noexcept nogil:
        cdef const float *x
        cdef Py_ssize_t j
        if self.tiles is None:
            self.read_row(i, out)
            return
        x = self.tile(i // EXPFAM_TILE_ROWS) + i % EXPFAM_TILE_ROWS
        for j in range(self.n_columns):
            out[j] = x[j * EXPFAM_TILE_ROWS]

    def take(self, rows):
        """Return some rows as they are stored, with the origin added again.

        Parameters
        ----------
        rows : (m,) array_like of int

        Returns
        -------
        (m, C) float64 ndarray
        """
        rows = np.ascontiguousarray(rows, dtype=np.intp)
        out = np.empty((len(rows), self.n_columns), dtype=np.float32)
        cdef float[:, ::1] to = out
        cdef const Py_ssize_t[::1] which = rows if rows.ndim == 1 else rows[:0].ravel()
        cdef Py_ssize_t t
        cdef bint is_right = rows.ndim == 1
        for t in range(which.shape[0]):
            is_right = is_right and 0 <= which[t] < self.n_rows
        if not is_right:
            raise ValueError(f"rows must be numbers from 0 to {self.n_rows - 1}; got {rows!r}")
        for t in range(which.shape[0]):
            self.copy_row(which[t], &to[t, 0])
        return out + np.asarray(self.origin)

    def seeds(self, K, rng, *, n_trials=None, n_threads=None):
        """Pick rows as seeds by greedy k-means++.

        The first seed is uniform. For each further one, `n_trials` rows are drawn with probability proportional to
        the squared distance to the nearest seed. The one that leaves the smallest sum of these distances becomes a
        seed; if several leave the same sum, it is the first of them. Weights multiply probabilities and distances.

        Parameters
        ----------
        K : int
            Number of seeds, from 1 to N.
        rng : numpy.random.Generator or UniformStream
            1 + (K - 1) n_trials uniform numbers are read.
        n_trials : int, optional
            2 + floor(log K) if not given.
        n_threads : int or None

        Returns
        -------
        (k,) intp ndarray
            Numbers of different rows; k < K where there are only k distinct ones.

        Notes
        -----
        Arthur and Vassilvitskii 2007, "k-means++: the advantages of careful seeding"; the greedy variant is the one of
        their experiments. The cost is O(N K C n_trials).
        """
        K = _n_clusters(K, self.n_rows)
        n_trials = 2 + int(math.log(K)) if n_trials is None else n_trials
        if n_trials != int(n_trials) or n_trials < 1:
            raise ValueError(f"n_trials must be a whole number of at least 1; got {n_trials!r}")
        cdef const double[::1] uniform = rng.random(1 + (K - 1) * n_trials)
        cdef _Seeding seeding = self._lent((n_trials,)) or _Seeding(self, n_trials)
        is_short = self.n_rows * self.n_columns * n_trials < LEAST_SHARED
        seeding.rows = self
        seeding.begin()
        picked = [seeding.first(uniform[0])]
        with nullcontext(Team()) if is_short else team_of(n_threads) as team:
            seeding.measure(team)
            seeding.keep()
            while len(picked) < K and seeding.draw(uniform, 1 + (len(picked) - 1) * n_trials):
                seeding.measure(team)
                picked.append(seeding.keep())
        seeding.rows = None     # else it and these rows would hold each other
        self._give_back((n_trials,), seeding)
        return np.array(picked, dtype=np.intp)

    def _lent(self, sizes):
        """Return working memory of an earlier run with the same sizes, or None.

        Threads may ask at once: each gets memory of its own.
        """
        try:
            return self.free[sizes].pop()
        except (KeyError, IndexError):
            return None

    def _give_back(self, sizes, memory):
        """Keep the working memory of a run for the next one, if rows are few.

        To make it takes as long as the run.
        """
        if self.n_groups <= _TASK_GROUPS:
            self.free.setdefault(sizes, []).append(memory)

    def lloyd(self, centres, *, max_passes=30, tol=1e-4, n_threads=None):
        """Move centres to the means of the rows that are nearest to them, until little changes.

        A centre that gets no row is replaced by the row farthest from its own centre, where some row is not equal to
        it; else it is dropped.

        Parameters
        ----------
        centres : (K, C) array_like of float
        max_passes : int
            Largest number of times that the centres are moved.
        tol : float
            Ends when the sum of squared distances falls by no more than this share of it. The passes also end when no
            label changes.
        n_threads : int or None
            The result does not depend on it.

        Returns
        -------
        labels : (N,) int32 ndarray
            Nearest of the returned centres, the first of equally near ones. Every centre has a row: where the last pass
            leaves one without, it gets the farthest row, and the labels are the nearest of the centres before that.
        centres : (k, C) float64 ndarray
            k <= K.

        Notes
        -----
        Lloyd 1982, "Least squares quantization in PCM". A row that lies nearer to two centres than about 1e-7 of its
        distance from the origin may get either.
        """
        centres = np.ascontiguousarray(_matrix(centres, "centres"), dtype=np.float64)
        if not centres.size or centres.shape[1] != self.n_columns:
            raise DataError(f"centres must have shape (K, {self.n_columns}) with K >= 1; got {centres.shape}")
        sizes = "lloyd", len(centres)
        cdef _Lloyd state = self._lent(sizes) or _Lloyd(self, len(centres))
        state.rows = self
        state.begin(centres.copy())
        # one segment needs no other thread, whose call takes as long as a pass over few rows
        with nullcontext(Team()) if state.n_segments == 1 else team_of(n_threads) as team:
            found = self._moved(state, max_passes, tol, team)
        state.rows = None
        self._give_back(sizes, state)
        return found

    def _moved(self, _Lloyd state, max_passes, tol, Team team):
        """Make the passes of `lloyd`; return labels and centres."""
        inertia = math.inf
        for _ in range(max_passes):
            state.assign_all(team)
            if not state.n_changed():
                return state.result()
            before, inertia = inertia, state.update()
            if not inertia < (1.0 - tol) * before and not state.n_refilled:
                break
        state.assign_all(team)
        if state.has_empty():
            state.update()
        return state.result()

    def kmeans(self, K, rng, *, max_passes=30, tol=1e-4, n_threads=None):
        """Run Lloyd passes from greedy k-means++ seeds.

        Parameters
        ----------
        K : int
        rng : numpy.random.Generator or UniformStream
        max_passes, tol, n_threads
            As in `lloyd`.

        Returns
        -------
        labels : (N,) int32 ndarray
        centres : (k, C) float64 ndarray
            k is at most K and at most the number of distinct rows.
        """
        seeds = self.seeds(K, rng, n_threads=n_threads)
        return self.lloyd(self.take(seeds), max_passes=max_passes, tol=tol, n_threads=n_threads)


cdef void measure_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<_Seeding> job).measure_group(item, thread)


@final
cdef class _Seeding:
    """Squared distance of each row to the nearest seed, and to that or a drawn row.

    `near` is 0 for the rows that fill up the last tile: they are never drawn. `left` has the weighted sums of `near` by
    groups.
    """

    cdef RowTiles rows
    cdef Py_ssize_t n_trials
    cdef float[::1] near
    cdef float[:, ::1] trial, points
    cdef float[::1] room        # of each thread, for rows that are read where they lie
    cdef double[:, ::1] sums
    cdef double[::1] left
    cdef Py_ssize_t[::1] drawn

    def __init__(self, RowTiles rows, Py_ssize_t n_trials):
        cdef Py_ssize_t n = rows.n_tiles * EXPFAM_TILE_ROWS
        self.rows, self.n_trials = rows, n_trials
        self.near, self.left = aligned(n, np.float32), np.empty(rows.n_groups)
        self.trial = aligned(n_trials * n, np.float32).reshape(n_trials, n)
        self.points = np.empty((n_trials, rows.n_columns), dtype=np.float32)
        self.sums, self.drawn = np.empty((n_trials, rows.n_groups)), np.empty(n_trials, dtype=np.intp)

    cdef void begin(self) noexcept nogil:
        """Forget all seeds."""
        cdef Py_ssize_t i
        for i in range(self.near.shape[0]):
            self.near[i] = INFINITY if i < self.rows.n_rows else 0.0

    def first(self, double uniform):
        """Draw the first row, in proportion to its weight; return its number."""
        if self.rows.weight is None:
            self.drawn[:] = min(<Py_ssize_t> (uniform * self.rows.n_rows), self.rows.n_rows - 1)
        else:
            total = np.cumsum(self.rows.weight)
            place = int(np.searchsorted(total, uniform * total[total.shape[0] - 1], side="right"))
            self.drawn[:] = min(place, self.rows.n_rows - 1)
        for t in range(self.n_trials):
            self.rows.copy_row(self.drawn[t], &self.points[t, 0])
        return self.drawn[0]

    cdef bint draw(self, const double[::1] uniform, Py_ssize_t start) noexcept nogil:
        """Draw rows by squared distance, with the uniform numbers from a place on.

        Return False if no row is left that differs from all seeds.
        """
        cdef double total = 0.0
        cdef Py_ssize_t t, g
        for g in range(self.rows.n_groups):
            total += self.left[g]
        if not 0.0 < total < INFINITY:
            return False
        for t in range(self.n_trials):
            self.drawn[t] = self.row_at(uniform[start + t] * total)
            self.rows.copy_row(self.drawn[t], &self.points[t, 0])
        return True

    cdef Py_ssize_t row_at(self, double target) noexcept nogil:
        """Return the row at which the running sum of distances passes the target.

        If rounding hides it, that is the last row with a distance above 0.
        """
        cdef Py_ssize_t g, i, group = 0, row = 0
        cdef double mass
        for g in range(self.rows.n_groups):
            if self.left[g] > 0.0:
                group = g
                if target < self.left[g]:
                    break
                target -= self.left[g]
        for i in range(group * GROUP_ROWS, self.rows.stop_of(group)):
            if self.near[i] > 0.0:
                row = i
                mass = self.rows.weight_of(i) * self.near[i]
                if target < mass:
                    break
                target -= mass
        return row

    def measure(self, Team team):
        """Compute for all groups what each drawn row would leave."""
        cdef bint is_stored = self.rows.tiles is not None
        self.room = None if is_stored else aligned(team.n_threads * GROUP_ROWS * self.rows.n_columns, np.float32)
        with nogil:
            team.share(measure_item, <void *> self, self.rows.n_groups)

    cdef void measure_group(self, Py_ssize_t g, Py_ssize_t thread) noexcept nogil:
        """Compute for one group what each drawn row would leave."""
        cdef Py_ssize_t t, i
        cdef float *room = NULL if self.room is None else &self.room[thread * GROUP_ROWS * self.rows.n_columns]
        expfam_rows_reach(self.rows.group(g, room), self.rows.tiles_of(g), self.rows.n_columns, &self.points[0, 0],
                          self.n_trials, &self.near[g * GROUP_ROWS], &self.trial[0, g * GROUP_ROWS],
                          self.trial.shape[1], &self.sums[0, g], self.sums.shape[1])
        if self.rows.weight is not None:
            for t in range(self.n_trials):
                self.sums[t, g] = 0.0
                for i in range(g * GROUP_ROWS, self.rows.stop_of(g)):
                    self.sums[t, g] += self.rows.weight[i] * self.trial[t, i]

    def keep(self):
        """Keep the drawn row that leaves least as a seed; return its number."""
        cdef Py_ssize_t t, g, best = 0
        cdef double total, least = INFINITY
        for t in range(self.n_trials):
            total = 0.0
            for g in range(self.rows.n_groups):
                total += self.sums[t, g]
            if total < least:
                best, least = t, total
        for t in range(self.near.shape[0]):
            self.near[t] = self.trial[best, t]
        for g in range(self.rows.n_groups):
            self.left[g] = self.sums[best, g]
        return self.drawn[best]


cdef void assign_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<_Lloyd> job).assign((<_Lloyd> job).first + item, <_Near> <void *> (<_Lloyd> job).nears[thread])


@final
cdef class _Lloyd:
    """Centres, labels, and the sums, weights and numbers of rows of each segment and cluster."""

    cdef RowTiles rows
    cdef Py_ssize_t K, n_segments, n_refilled, first
    cdef Py_ssize_t[::1] bounds     # (n_segments + 1,) groups
    cdef size_t *nears              # working memory of each thread
    cdef double[:, ::1] centres, total, masses
    cdef double[:, :, ::1] sums
    cdef double[::1] mass
    cdef int64_t[:, ::1] counts
    cdef int64_t[::1] count, changed
    cdef int32_t[::1] labels
    cdef _Centres packed

    def __init__(self, RowTiles rows, Py_ssize_t K):
        cdef Py_ssize_t C = rows.n_columns
        # at least four rows for each sum of a segment: the sums of all segments are smaller than the rows
        cdef Py_ssize_t step = max(<Py_ssize_t> _TASK_GROUPS, ceiling(4 * K, GROUP_ROWS))
        self.rows, self.K = rows, K
        tasks = rows._tasks(step)
        self.bounds, self.n_segments = np.array([0, *(last for _, last in tasks)], dtype=np.intp), len(tasks)
        self.sums, self.counts = np.empty((self.n_segments, K, C)), np.empty((self.n_segments, K), dtype=np.int64)
        self.masses, self.mass = np.empty((self.n_segments, K)), np.empty(K)
        self.total, self.count = np.empty((K, C)), np.empty(K, dtype=np.int64)
        self.changed = np.zeros(self.n_segments, dtype=np.int64)
        self.packed = _Centres(K, C)

    def begin(self, centres):
        """Take centres, which move in place; no row has a label yet, and labels are a new array."""
        self.centres, self.n_refilled = centres, 0
        self.labels = np.empty(self.rows.n_rows, dtype=np.int32)
        with nogil:
            self.labels[:] = -1
            self.sums[:] = 0.0
            self.counts[:] = 0
            self.masses[:] = 0.0
        self.packed.pack(self.centres, self.rows.origin)

    def assign_all(self, Team team):
        """Move all rows to their nearest centres, with the threads of a team."""
        cdef bint is_read = self.rows.tiles is None
        cdef Py_ssize_t each = max(1, self.rows.n_rows * self.rows.n_columns * self.K // self.n_segments)
        cdef Py_ssize_t step = max(<Py_ssize_t> (MOST_PRODUCTS // each), 4 * team.n_threads)
        cdef size_t[::1] places = np.empty(team.n_threads, dtype=np.uintp)
        cdef Py_ssize_t thread
        nears = [_Near(self.packed, is_read=is_read) for _ in range(team.n_threads)]
        for thread in range(team.n_threads):
            places[thread] = <size_t> <void *> nears[thread]
        self.nears = &places[0]
        for self.first in range(0, self.n_segments, step):
            with nogil:
                team.share(assign_item, <void *> self, min(step, self.n_segments - self.first))
            PyErr_CheckSignals()

    cdef void assign(self, Py_ssize_t segment, _Near near) noexcept nogil:
        """Move the rows of a segment to their nearest centres."""
        cdef int32_t owner[GROUP_ROWS]
        cdef bint is_read = self.rows.tiles is None
        cdef Py_ssize_t g, i
        cdef int64_t changed = 0
        for g in range(self.bounds[segment], self.bounds[segment + 1]):
            if is_read:
                self.packed.nearest_read(near, self.rows, g, owner)
            else:
                self.packed.nearest(near, self.rows.tile(g * GROUP_TILES), self.rows.tiles_of(g), owner)
            for i in range(g * GROUP_ROWS, self.rows.stop_of(g)):
                if owner[i - g * GROUP_ROWS] != self.labels[i]:
                    self.move(segment, i, owner[i - g * GROUP_ROWS], near.row)
                    changed += 1
        self.changed[segment] = changed

    cdef void move(self, Py_ssize_t segment, Py_ssize_t i, int32_t label, float[::1] room) noexcept nogil:
        """Give a row another label; `room` is for one that is not stored."""
        cdef Py_ssize_t j, stride, C = self.rows.n_columns
        cdef const float *x = self.rows.row(i, room, &stride)
        cdef int32_t old = self.labels[i]
        cdef double *to = &self.sums[segment, label, 0]
        cdef double *source
        cdef double weight = self.rows.weight_of(i)
        for j in range(C):
            to[j] += weight * x[j * stride]
        self.counts[segment, label] += 1
        self.masses[segment, label] += weight
        if old >= 0:
            source = &self.sums[segment, old, 0]
            for j in range(C):
                source[j] -= weight * x[j * stride]
            self.counts[segment, old] -= 1
            self.masses[segment, old] -= weight
        self.labels[i] = label

    cdef int64_t n_changed(self) noexcept:
        """Return the number of labels that the last pass changed."""
        cdef int64_t total = 0
        cdef Py_ssize_t s
        for s in range(self.n_segments):
            total += self.changed[s]
        return total

    cdef bint has_empty(self) noexcept:
        """Tell whether a cluster has no row, now that rows have moved."""
        cdef Py_ssize_t k
        for k in range(self.K):
            if not self.size(k):
                return True
        return False

    cdef int64_t size(self, Py_ssize_t k) noexcept:
        """Return the number of rows of a cluster."""
        cdef int64_t total = 0
        cdef Py_ssize_t s
        for s in range(self.n_segments):
            total += self.counts[s, k]
        return total

    def update(self):
        """Move the centres to the means of their rows; return the sum of squared distances to them.

        Clusters without rows get some first; `n_refilled` tells how many.
        """
        self.n_refilled = 0
        cdef double within = self.means()
        if self.has_empty():
            self.n_refilled = self.refill()
            within = self.means()
        self.packed.pack(self.centres, self.rows.origin)
        return max(within, 0.0)

    cdef double means(self) noexcept nogil:
        """Compute the means; return the squared lengths of all rows less what the means explain."""
        cdef Py_ssize_t s, k, j
        cdef double within = self.rows.square
        for k in range(self.K):
            self.count[k], self.mass[k] = 0, 0.0
            for j in range(self.rows.n_columns):
                self.total[k, j] = 0.0
            for s in range(self.n_segments):
                if self.counts[s, k]:
                    self.count[k] += self.counts[s, k]
                    self.mass[k] += self.masses[s, k]
                    for j in range(self.rows.n_columns):
                        self.total[k, j] += self.sums[s, k, j]
            if self.count[k]:
                for j in range(self.rows.n_columns):
                    within -= self.total[k, j] * self.total[k, j] / self.mass[k]
                    self.centres[k, j] = self.rows.origin[j] + self.total[k, j] / self.mass[k]
        return within

    cdef Py_ssize_t refill(self):
        """Give clusters without rows the rows farthest from their means; return how many got one.

        Of equally far rows the first one moves. The only row of a cluster, and rows that are equal to the mean of their
        cluster, do not move.
        """
        distance = np.empty(self.rows.n_rows)
        cdef double[::1] to = distance
        cdef int64_t i
        cdef Py_ssize_t n = 0
        segment = np.searchsorted(np.asarray(self.bounds), np.arange(self.rows.n_groups), side="right") - 1
        cdef float[::1] room = aligned(self.rows.n_columns, np.float32)
        with nogil:
            self.own_distances(to, room)
        empty = np.flatnonzero(np.asarray(self.count) == 0)
        for i in np.argsort(-distance, kind="stable"):
            if n == len(empty) or not distance[i] > 0.0:
                break
            if self.count[self.labels[i]] > 1:
                self.count[self.labels[i]] -= 1
                self.move(segment[i // GROUP_ROWS], i, empty[n], room)
                n += 1
        return n

    cdef void own_distances(self, double[::1] out, float[::1] room) noexcept nogil:
        """Compute the squared distance of each row to the mean of its cluster, in single precision."""
        cdef Py_ssize_t i, j, k, stride
        cdef const float *x
        cdef float gap
        for i in range(self.rows.n_rows):
            x = self.rows.row(i, room, &stride)
            k = self.labels[i]
            out[i] = 0.0
            for j in range(self.rows.n_columns):
                gap = x[j * stride] - <float> (self.total[k, j] / self.mass[k])
                out[i] += <double> gap * gap

    def result(self):
        """Return labels and centres, without clusters that have no row."""
        labels, centres = np.asarray(self.labels), np.asarray(self.centres)
        if not self.has_empty():
            return labels, centres
        used = np.asarray(self.counts).sum(axis=0) > 0
        return (np.cumsum(used, dtype=np.int32) - 1)[labels], centres[used]


def nearest_centres(X, centres, *, n_threads=None):
    """Find the nearest centre of each row, in single precision.

    Parameters
    ----------
    X : (N, C) array_like of float, or RowsInPlace
    centres : (K, C) array_like of float
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        The first of equally near centres.

    Examples
    --------
    >>> from expfam.structures import nearest_centres
    >>> nearest_centres([[1.0], [8.0]], [[0.0], [9.0]])
    array([0, 1], dtype=int32)
    """
    laid = (X.centre, X.scale) if isinstance(X, RowsInPlace) else None
    X = _matrix(X, "X") if laid is None else X.X
    centres = np.ascontiguousarray(_matrix(centres, "centres"), dtype=np.float64)
    if not centres.size or centres.shape[1] != X.shape[1]:
        raise DataError(f"centres must have shape (K, {X.shape[1]}) with K >= 1; got {centres.shape}")
    cdef double[::1] origin = centres.mean(axis=0)
    cdef _Centres packed = _Centres(len(centres), X.shape[1])
    packed.pack(centres, origin)
    labels = np.empty(len(X), dtype=np.int32)
    n_tasks = max(1, min(N_SEGMENTS, len(X) // (_TASK_GROUPS * GROUP_ROWS)))
    tasks = [(X[a:b], laid, origin, packed, labels[a:b]) for a, b in segments(len(X), n_tasks)]
    run(_nearest_of, tasks, n_threads, uses_blas=False)
    return labels


def _nearest_of(X, laid, const double[::1] origin, _Centres packed, int32_t[::1] labels):
    cdef int32_t owner[GROUP_ROWS]
    cdef float[::1] tiles = aligned(GROUP_ROWS * X.shape[1], np.float32)
    cdef _Near near = _Near(packed)
    cdef const float[:, ::1] single
    cdef const double[:, ::1] double_
    cdef const double[::1] centre = None, scale = None
    cdef bint is_single = X.dtype == np.float32
    if is_single:
        single = X
    else:
        double_ = X
    if laid is not None:
        centre, scale = laid
    cdef Py_ssize_t start = 0, stop, i, N = X.shape[0]
    with nogil:
        while start < N:
            stop = min(start + GROUP_ROWS, N)
            if centre is not None:
                fill_standardised(single, start, stop, centre, scale, origin, &tiles[0])
            elif is_single:
                fill(single, start, stop, origin, &tiles[0])
            else:
                fill(double_, start, stop, origin, &tiles[0])
            packed.nearest(near, &tiles[0], ceiling(stop - start, EXPFAM_TILE_ROWS), owner)
            for i in range(start, stop):
                labels[i] = owner[i - start]
            start = stop


def _matrix(X, name):
    X = np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"{name} must be a matrix; got shape {X.shape}")
    return np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)


def _positive(weight, n_rows):
    weight = np.ascontiguousarray(weight, dtype=np.float64)
    if weight.shape != (n_rows,) or not ((weight > 0.0) & np.isfinite(weight)).all():
        raise DataError(
            f"weight must be {counted(n_rows, 'positive number')}: leave out rows of weight 0; got "
            f"{counted(np.size(weight), 'number')} of which "
            f"{np.count_nonzero(~((weight > 0.0) & np.isfinite(weight)))} are not positive"
        )
    return weight


def _n_clusters(K, n_rows):
    if K != int(K) or not 1 <= K <= n_rows:
        raise ValueError(f"K must be a whole number from 1 to the {counted(n_rows, 'row')}; got {K!r}")
    return int(K)
