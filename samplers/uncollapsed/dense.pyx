"""Exact draws of labels given parameters and weights, with scores of all clusters.

The shared thread pool works on tiles of rows: one matrix product in single precision, then exponentials and a draw in
one pass. The draw in single precision is a proposal that does not depend on the old label. If the two labels differ,
one Metropolis test with scores in double precision makes the draw exact. Data whose scores single precision cannot hold
are drawn in double precision. No array of size N x K is held.

Labels depend neither on the number of threads nor on how the data are cut into parts. Each datum has its own random
stream. The bits of a matrix product depend on the number of its rows, so tiles begin at multiples of their size in the
global numbers of rows, and a tile of which some rows are not there is filled with zeros.
"""

import numpy as np
from scipy import sparse

from cython cimport final
from libc.math cimport INFINITY, fabs, log
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport sgemm

from expfam.families.dense_source cimport write_phi
from expfam.samplers.chain.accept cimport accept
from expfam.structures.ground.arrays cimport aligned, in_lines
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.dense_scores cimport (
    expfam_add_scaled, expfam_narrow, expfam_near_pick, expfam_near_weights, expfam_tops,
)
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.simd.vectors cimport expfam_dot
from expfam.structures.ground.team cimport Team
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.families.dense_source import dense_source
from expfam.structures.ground.threads import resolve_n_threads, run, team_of

# The rounding error of a score is about 2^-24 of the sum of |phi theta|: 1/16 nat at 2^18, so the test rejects rarely.
cdef double DENSE_REACH = 262144.0
cdef double DENSE_HOPELESS = 1e30
cdef float DENSE_DEPTH = 30.0       # the lost weight K e^-30 is below the resolution of single precision
cdef float DENSE_NEVER = -1e30            # log weight of impossible clusters; finite, because BLAS may multiply it by 0
cdef double OUT_OF_QUESTION = 60.0  # nats below another cluster at which a weight is smaller than rounding errors
cdef double NARROW = 1e12           # scales of columns lie within this factor of 1

_TILE_ENTRIES = 1 << 18
_LEAST_TILE, _MOST_TILE = 64, 512       # powers of two, so that parts of whole tiles suit any number of clusters
cdef Py_ssize_t TILES_A_TASK = 8
cdef Py_ssize_t LOOP_PRODUCTS = 1 << 33     # of rows, clusters and statistics in a loop without Python
_SPARSE_ROWS = 1024
_STATISTICS_AT_ONCE, _LEAST_ROWS_AT_ONCE = 1 << 16, 32


cdef class DenseScores:
    """Scores <phi, theta_k> - g_k + log pi_k of data in tiles, in single precision.

    `Theta` (K, F), `G` and `log_pi` (K,) are parameters, log partition functions and log weights of the clusters. `n`
    (K,) and `S` (K, F) are statistics of any labels of the data; their mean is subtracted from dense phi.

    `table` (F + 1, width) or (F, width) holds the parameters by feature; for dense phi the last row is the bias. `fits`
    tells whether single precision can hold the parameters.

    Parameters and statistics are taken about common origins. With theta' = theta - o and phi' = phi - c, <phi, theta_k>
    is <phi', theta'_k> + <c, theta'_k> + <phi, o>. The second term is added to the bias in double precision, and the
    third is the same for all clusters. For sparse phi c = 0, and o is the largest parameter of each feature: if phi is
    not negative, the terms of a score then do not cancel.
    """

    def __init__(self, data, Theta, G, log_pi, n, S):
        cdef const double[:, ::1] theta
        cdef const double[::1] vector
        self.data, self.sparse = data, data.has_sparse_phi
        self.Theta = np.ascontiguousarray(Theta, dtype=np.float64)
        self.bias = np.ascontiguousarray(log_pi - G, dtype=np.float64)
        self.source = None if self.sparse or data.holds_phi else dense_source(data.family, data.X, None)
        self.K, self.F = self.Theta.shape
        self.width = (self.K + DENSE_LANES - 1) // DENSE_LANES * DENSE_LANES
        theta, vector = self.Theta, self.bias
        self.theta_at, self.bias_at = &theta[0, 0], &vector[0]
        self.fits = self._narrow(np.asarray(n), S)

    def _narrow(self, n, S):
        """Make the table; return False if single precision cannot hold parameters or weights."""
        cdef const double[::1] vector
        cdef const float[:, ::1] table
        cdef const float[::1] narrow
        if np.isnan(self.bias).any() or self.bias.max() == np.inf or self.bias.max() == -np.inf:
            return False
        if self.sparse:
            self.centre = np.zeros(self.F)
            self.origin = self.Theta.max(axis=0)
            if np.isnan(self.origin).any() or self.origin.max() == np.inf:
                return False
            self.origin[self.origin == -np.inf] = 0.0
            shown = self.Theta.min(axis=0, where=self.Theta > -np.inf, initial=np.inf)
            self.reach = np.where(shown < np.inf, self.origin - shown, 0.0)
            self.scale, self.shifted = np.ones(self.F), self.bias
        else:
            if not np.isfinite(self.Theta).all():
                return False
            total = n.sum() if n.sum() > 0 else 1.0
            self.centre = np.asarray(S.sum(axis=0), dtype=np.float64).ravel() / total
            self.origin = n @ self.Theta / total
            self.reach = np.maximum(self.Theta.max(axis=0) - self.origin, self.origin - self.Theta.min(axis=0))
            self.scale = np.where(self.reach > 0, np.clip(self.reach, 1.0 / NARROW, NARROW), 1.0)
            self.shifted = self.bias + (self.Theta - self.origin) @ self.centre
        with np.errstate(over="ignore"):
            self._fill(self.shifted - self.shifted.max())
        if not self.sparse and not np.isfinite(self.table).all():
            return False
        table, narrow = self.table, self.row_bias
        self.table_at, self.row_bias_at = &table[0, 0], &narrow[0]
        vector = self.shifted
        self.shifted_at = &vector[0]
        vector = self.centre
        self.centre_at = &vector[0]
        vector = self.scale
        self.scale_at = &vector[0]
        vector = self.reach
        self.reach_at = &vector[0]
        vector = self.origin
        self.origin_at = &vector[0]
        return True

    def _fill(self, bias):
        """Fill the table and the row of biases; pad both by clusters that are never drawn."""
        self.table = aligned((self.F + (not self.sparse), self.width), np.float32)
        rows = max(1, (1 << 20) // self.F)
        for start in range(0, self.K, rows):    # by blocks, to avoid a copy of Theta in double precision
            part = self.Theta[start : start + rows] - self.origin
            part /= self.scale
            self.table[: self.F, start : start + part.shape[0]] = part.T
        self.row_bias = np.full(self.width, DENSE_NEVER, dtype=np.float32)
        self.row_bias[: self.K] = np.maximum(bias, DENSE_NEVER)
        if not self.sparse:
            self.table[self.F] = self.row_bias

    @property
    def tile_rows(self):
        """Number of rows of a tile: a power of two that depends only on the number of clusters."""
        if self.sparse:
            return _SPARSE_ROWS
        most = max(_LEAST_TILE, min(_MOST_TILE, _TILE_ENTRIES // self.width))
        return 1 << (int(most).bit_length() - 1)

    def tile(self):
        """Allocate the scratch memory of one thread."""
        return Tile(self, 1 if self.sparse else self.tile_rows)

    def score_tile(self, Tile tile, const double[:, ::1] phi):
        """Write the scores of dense statistics to the first rows of a tile."""
        self.score_whole_tile(tile, &phi[0, 0], phi.shape[0], 0)

    cdef void score_whole_tile(self, Tile tile, const double *phi, Py_ssize_t n, Py_ssize_t place) noexcept nogil:
        """Write the scores of dense statistics (n, F) to the rows of a tile from `place` on.

        The other rows are zeros. The product always has all rows of the tile.
        """
        cdef int m = <int> self.width, rows = <int> tile.phi_view.shape[0], k = <int> (self.F + 1)
        cdef char plain = b"N"
        cdef float one = 1.0, zero = 0.0
        cdef Py_ssize_t i
        if n < rows:
            memset(&tile.phi_view[0, 0], 0, rows * (self.F + 1) * sizeof(float))
        for i in range(n):
            self._narrow_row(tile, phi + i * self.F, place, i)
        sgemm(&plain, &plain, &m, &rows, &k, &one, <float *> self.table_at, &m, &tile.phi_view[0, 0], &k, &zero,
              &tile.score_view[0, 0], &m)

    def narrow_tile(self, Tile tile, start, stop, Py_ssize_t place):
        """Write the rows start..stop-1 to a tile from `place` on, and their products with `origin`.

        The other rows are zeros. Few statistics in double precision are held at a time, so that they stay in the cache.
        """
        cdef Py_ssize_t first, i, begin = start, end = stop
        cdef Py_ssize_t rows = max(_LEAST_ROWS_AT_ONCE, _STATISTICS_AT_ONCE // self.F)
        cdef const double[:, ::1] phi
        if stop - begin < self.tile_rows:
            tile.phi[:] = 0.0
        if self.source is not None:
            with nogil:
                for i in range(end - begin):
                    write_phi[double](self.source, begin + i, NULL, 1, &tile.row[0], &tile.row[0] + self.F)
                    self._narrow_row(tile, &tile.row[0] + self.F, place, i)
                    tile.offsets[i] = expfam_dot(&tile.row[0] + self.F, self.origin_at, self.F)
            return
        for first in range(begin, stop, rows):
            phi = self.data.phi(first, min(first + rows, stop))
            with nogil:
                for i in range(phi.shape[0]):
                    self._narrow_row(tile, &phi[i, 0], place, first - begin + i)
                    tile.offsets[first - begin + i] = expfam_dot(&phi[i, 0], self.origin_at, self.F)

    cdef void _narrow_row(self, Tile tile, const double *phi, Py_ssize_t place, Py_ssize_t i) noexcept nogil:
        """Write the statistics of row i in single precision, and its bound; row 0 is at `place`."""
        cdef Py_ssize_t f
        cdef float *to = &tile.phi_view[place + i, 0]
        tile.bounds[i] = expfam_narrow(phi, self.centre_at, self.scale_at, self.reach_at, to, self.F)
        if not tile.bounds[i] < DENSE_HOPELESS:
            for f in range(self.F):
                to[f] = 0.0
        to[self.F] = 1.0

    def exact_scores(self, phi):
        """Compute the scores of dense or CSR statistics in double precision: (rows, K)."""
        return self._sparse_scores(phi) if sparse.issparse(phi) else self._dense_scores(np.ascontiguousarray(phi))

    def _dense_scores(self, const double[:, ::1] phi):
        # one row at a time: the bits of a matrix product depend on the number of its rows
        cdef Py_ssize_t i, k
        scores = np.empty((phi.shape[0], self.K))
        cdef double[:, ::1] out = scores
        with nogil:
            for i in range(phi.shape[0]):
                for k in range(self.K):
                    out[i, k] = self.score(&phi[i, 0], k)
        return scores

    def _sparse_scores(self, phi):
        cdef Py_ssize_t i, k, n_rows = phi.shape[0]
        cdef const int64_t[::1] indptr, columns
        cdef const double[::1] values
        indptr, columns, values = sparse_arrays(phi)
        scores = np.empty((n_rows, self.K))
        cdef double[:, ::1] out = scores
        with nogil:
            for i in range(n_rows):
                for k in range(self.K):
                    out[i, k] = self.sparse_score(&columns[0] + indptr[i], &values[0] + indptr[i],
                                                  indptr[i + 1] - indptr[i], k)
        return scores

    cdef double size(self, const double *phi, Py_ssize_t k) noexcept nogil:
        """Sum the absolute values of the terms of the score of cluster k.

        The rounding error of the score is relative to it.
        """
        cdef const double *theta = self.theta_at + k * self.F
        cdef double total = fabs(self.row_bias_at[k])
        cdef Py_ssize_t j
        for j in range(self.F):
            total += fabs((phi[j] - self.centre_at[j]) * (theta[j] - self.origin_at[j]))
        return total

    cdef double narrow_size(self, Tile tile, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Compute `size` of a row of a tile, from its statistics in single precision."""
        cdef const double *theta = self.theta_at + k * self.F
        cdef double total = fabs(self.row_bias_at[k])
        cdef Py_ssize_t j
        for j in range(self.F):
            total += fabs(tile.phi_view[row, j] * (theta[j] - self.origin_at[j]) / self.scale_at[j])
        return total

    cdef double sparse_size(self, const int64_t *columns, const double *values, Py_ssize_t n,
                            Py_ssize_t k) noexcept nogil:
        """Compute `size` of sparse statistics."""
        cdef const double *theta = self.theta_at + k * self.F
        cdef double total = fabs(self.row_bias_at[k])
        cdef Py_ssize_t t
        for t in range(n):
            if values[t] != 0.0:
                total += fabs(values[t] * (theta[columns[t]] - self.origin_at[columns[t]]))
        return total

    cdef double score(self, const double *phi, Py_ssize_t k) noexcept nogil:
        """Compute the log weight of cluster k in double precision."""
        return expfam_dot(phi, self.theta_at + k * self.F, self.F) + self.bias_at[k]

    cdef double sparse_score(self, const int64_t *columns, const double *values, Py_ssize_t n,
                             Py_ssize_t k) noexcept nogil:
        """Compute `score` of sparse statistics."""
        cdef const double *theta = self.theta_at + k * self.F
        cdef double total = self.bias_at[k]
        cdef Py_ssize_t t
        for t in range(n):
            if values[t] != 0.0:
                total += values[t] * theta[columns[t]]
        return total

    cdef double sparse_row(self, const int64_t *columns, const double *values, Py_ssize_t n, const float **rows,
                           float *factors, float *out) noexcept nogil:
        """Score one sparse datum in single precision; return a bound on |<phi, theta>|."""
        cdef Py_ssize_t t, m = 0
        cdef double bound = 0.0
        for t in range(n):
            if values[t] != 0.0:
                rows[m] = self.table_at + columns[t] * self.width
                factors[m] = <float> values[t]
                bound += fabs(values[t]) * self.reach_at[columns[t]]
                m += 1
        memcpy(out, self.row_bias_at, self.width * sizeof(float))
        if bound < DENSE_HOPELESS:
            expfam_add_scaled(out, rows, factors, m, self.width)
        return bound


cdef class Tile:
    """Scratch memory of one thread: statistics, scores and sums of blocks of a tile."""

    def __init__(self, DenseScores scores, Py_ssize_t rows):
        n_blocks = (scores.width + EXPFAM_BLOCK - 1) // EXPFAM_BLOCK
        self.phi = in_lines((rows, scores.F + 1 if not scores.sparse else 1), np.float32)
        self.scores = in_lines((rows, scores.width), np.float32)
        self.bounds_array, self.rough = in_lines(rows), aligned(max(rows, scores.tile_rows), np.uint8)
        self.offsets_array, self.row_array = in_lines(rows), in_lines(0 if scores.sparse else 2 * scores.F)
        self.tops_array, self.sums_array = in_lines(n_blocks, np.float32), in_lines(n_blocks)
        self.phi_view, self.score_view, self.bounds = self.phi, self.scores, self.bounds_array
        self.offsets, self.row = self.offsets_array, self.row_array
        self.tops, self.sums, self.rough_view = self.tops_array, self.sums_array, self.rough


cdef Py_ssize_t best_of(const float *x, float best, const float *tops, Py_ssize_t n) noexcept nogil:
    """Return the place of the first of the largest scores."""
    cdef Py_ssize_t b = 0, k
    while tops[b] != best:
        b += 1
    k = b * EXPFAM_BLOCK
    while x[k] != best and k < n - 1:
        k += 1
    return k


def draw_labels(state, n_threads, limits=None):
    """Draw labels (N,) int32 of all data from their exact law given Theta, G and log pi.

    With `limits`, (N,) int32, datum i is drawn among the first limits[i] clusters, of which its old one is one.

    The step of each datum leaves its law given the parameters invariant, up to rounding errors in double precision.
    From any other label it reaches this law up to rounding errors in single precision. A datum without a finite score
    raises FloatingPointError.
    """
    data = state.data
    cdef DenseScores scores = DenseScores(data, state.Theta, state.G, state.log_pi, state.n, state.S)
    old = np.ascontiguousarray(state.labels, dtype=np.int32)
    labels = np.empty(data.n_rows, dtype=np.int32)
    spare, stamp, offset = [], (state.seed, state.n_steps), data.row_offset

    # one function that names no other: a cycle of references would keep the tables of former steps
    def draw_tiles(start, stop):
        try:
            tile = spare.pop()
        except IndexError:
            tile = scores.tile()
        for first, last in grid(offset, start, stop, scores.tile_rows):
            draw_tile(scores, tile, old[first:last], labels[first:last], limits, first, stamp)
        spare.append(tile)

    if scores.fits and not scores.sparse and (data.holds_phi or scores.source is not None):
        TileDraws(scores, old, labels, limits, *stamp).run(n_threads)
        return labels
    tasks = grid(offset, 0, data.n_rows, scores.tile_rows * TILES_A_TASK)
    run(draw_tiles, tasks, n_threads, uses_blas=not scores.sparse)
    return labels


def draw_tile(DenseScores scores, Tile tile, old, labels, limits, start, stamp):
    """Draw the labels of a tile of rows from `start` on; `stamp` is (seed, number of the step)."""
    stop, data = start + len(labels), scores.data
    phi = data.phi_csr(start, stop) if scores.sparse else data.phi(start, stop)
    own = None if limits is None else limits[start:stop]
    tile.rough[: stop - start] = not scores.fits
    if scores.fits:
        draw = draw_sparse if scores.sparse else draw_dense
        draw(scores, tile, phi, old, labels, *stamp, data.row_offset + start, own)
    draw_in_double(scores, phi, np.flatnonzero(tile.rough[: stop - start]), own, labels, start, stamp)


def draw_in_double(DenseScores scores, phi, rough, limits, labels, start, stamp):
    """Draw the labels of the rows `rough` of a tile of rows from `start` on in double precision."""
    if not rough.size:
        return
    first_row, weights = scores.data.row_offset + start, scores.exact_scores(phi[rough])
    if limits is not None:
        weights[np.arange(scores.K) >= limits[rough, None]] = -np.inf
    bad = draw_rows(weights, rough, labels, *stamp, first_row)
    if bad >= 0:
        raise FloatingPointError(
            f"family {scores.data.family.name!r}, datum {first_row + bad}: no component has a finite score under the"
            " drawn parameters"
        )


cdef void draw_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<TileDraws> job).draw(item, <Tile> (<TileDraws> job).tile_at[thread], thread)


@final
cdef class TileDraws:
    """Draws of dense rows whose statistics need no Python.

    Threads meet once in a sweep, not at the gil for each tile.

    Parameters
    ----------
    scores : DenseScores
        It has a source, or its data hold their statistics.
    old, labels : (N,) int32 ndarrays
        Labels before, and the new ones, which are written.
    limits : (N,) int32 ndarray or None
        As in `draw_labels`.
    seed, step : int
        Of the chain.
    """

    cdef DenseScores scores
    cdef object tiles
    cdef void **tile_at                     # (threads,)
    cdef double[:, ::1] made                # (threads, rows of a tile times F), where statistics are not held
    cdef const double[:, ::1] held
    cdef const int32_t[::1] old, limits
    cdef int32_t[::1] labels
    cdef const Py_ssize_t[::1] cuts         # first row of each tile, and last the number of rows
    cdef Py_ssize_t tile_rows
    cdef uint64_t seed, step, offset

    def __init__(self, DenseScores scores not None, old, labels, limits, seed, step):
        self.scores, self.old, self.labels, self.limits = scores, old, labels, limits
        self.seed, self.step, self.offset, self.tile_rows = seed, step, scores.data.row_offset, scores.tile_rows
        self.held = scores.data.phi(0, len(old)) if scores.source is None else None
        tiles = grid(self.offset, 0, len(old), self.tile_rows)
        self.cuts = np.array([*(first for first, _ in tiles), len(old)], dtype=np.intp)

    def __dealloc__(self):
        free(self.tile_at)

    def run(self, n_threads):
        """Draw all labels."""
        cdef Py_ssize_t T = resolve_n_threads(n_threads), n_tiles = self.cuts.shape[0] - 1, thread
        self.tiles = [self.scores.tile() for _ in range(T)]
        self.tile_at = <void **> calloc(T, sizeof(void *))
        if self.tile_at == NULL:
            raise MemoryError("there is no memory to draw labels")
        for thread in range(T):
            self.tile_at[thread] = <void *> self.tiles[thread]
        if self.held is None:
            self.made = in_lines((T, self.tile_rows * self.scores.F))
        with team_of(n_threads, uses_blas=True) as team:
            self._share(team, (n_tiles + TILES_A_TASK - 1) // TILES_A_TASK)
        self._finish(n_threads)

    cdef int _share(self, Team team, Py_ssize_t n_items) except -1:
        cdef Py_ssize_t products = TILES_A_TASK * self.tile_rows * self.scores.width * (self.scores.F + 1)
        return team.share_in_loops(draw_item, <void *> self, n_items, max(LOOP_PRODUCTS // products, 8))

    cdef void draw(self, Py_ssize_t item, Tile tile, Py_ssize_t thread) noexcept nogil:
        """Draw the labels of some tiles; those that need double precision become -1."""
        cdef Py_ssize_t t, i, first, n
        cdef const double *phi
        cdef row_stream stream
        for t in range(item * TILES_A_TASK, min((item + 1) * TILES_A_TASK, self.cuts.shape[0] - 1)):
            first, n = self.cuts[t], self.cuts[t + 1] - self.cuts[t]
            phi = self.statistics(tile, first, n, thread)
            open_stream(&stream, self.seed, self.step, self.offset + <uint64_t> first)
            draw_rows_densely(self.scores, tile, phi, n, &self.old[first], &self.labels[first],
                              NULL if self.limits is None else &self.limits[first], &stream)
            for i in range(n):
                if tile.rough_view[i]:
                    self.labels[first + i] = -1

    cdef const double *statistics(self, Tile tile, Py_ssize_t first, Py_ssize_t n, Py_ssize_t thread) noexcept nogil:
        """Return the statistics of n rows from `first` on."""
        if self.held is not None:
            return &self.held[first, 0]
        write_phi[double](self.scores.source, first, NULL, n, &tile.row[0], &self.made[thread, 0])
        return &self.made[thread, 0]

    def _finish(self, n_threads):
        """Draw the labels of rows that need double precision."""
        labels, limits, cuts = np.asarray(self.labels), self.limits, np.asarray(self.cuts)
        rough = np.flatnonzero(labels < 0)
        if not rough.size:
            return
        scores, stamp = self.scores, (self.seed, self.step)
        own_limits = None if limits is None else np.asarray(limits)

        def draw(t):
            first, last = cuts[t], cuts[t + 1]
            chosen = rough[np.searchsorted(rough, first) : np.searchsorted(rough, last)] - first
            own = None if own_limits is None else own_limits[first:last]
            draw_in_double(scores, scores.data.phi(first, last), chosen, own, labels[first:last], first, stamp)

        run(draw, [(t,) for t in np.unique(np.searchsorted(cuts, rough, side="right") - 1)], n_threads)


def grid(Py_ssize_t offset, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t size):
    """Cut the rows start..stop-1 where their global number is a multiple of `size`.

    The global number of a row is `offset` plus its number.

    >>> from expfam.samplers.uncollapsed.dense import grid
    >>> grid(1022, 0, 600, 512)
    [(0, 2), (2, 514), (514, 600)]
    """
    cuts = [start, *range(start + size - (offset + start) % size, stop, size), stop]
    return [(first, last) for first, last in zip(cuts, cuts[1:]) if last > first]


ctypedef struct row_stream:     # random numbers of the rows of a tile
    philox_stream rng
    uint64_t first_row
    uint64_t step


cdef inline void open_stream(row_stream *stream, uint64_t seed, uint64_t step, uint64_t first_row) noexcept nogil:
    philox_init(&stream.rng, seed, MOVE)
    stream.first_row, stream.step = first_row, step


cdef Py_ssize_t propose(row_stream *draw, Py_ssize_t i, float *x, float best, const float *tops, double *sums,
                        Py_ssize_t width, Py_ssize_t old, double *log_ratio) noexcept nogil:
    """Draw a label in single precision; return -1 if this fails.

    `log_ratio` is set to log q(old) - log q(new), which is inf if the old label has the weight 0.
    """
    cdef float old_score = x[old]
    cdef double log_old, total = expfam_near_weights(x, best, DENSE_DEPTH, tops, sums, width)
    cdef Py_ssize_t new
    if not 0.5 <= total < INFINITY:
        return -1
    philox_aim(&draw.rng, draw.first_row + <uint64_t> i, draw.step)
    new = expfam_near_pick(x, sums, total, philox_double(&draw.rng), width)
    if new != old:
        # weights that were dropped, or rounded to 0, are replaced by those of the scores
        log_old = log(x[old]) if sums[old // EXPFAM_BLOCK] > 0 and x[old] > 0 else old_score - <double> best
        log_ratio[0] = log_old - log(x[new])
    return new


cdef bint moves(row_stream *draw, double gap, double log_ratio) noexcept nogil:
    """Return whether to accept a proposed label.

    `gap` is its exact log weight minus the exact log weight of the old label.
    """
    # single precision may underrate a cluster of negligible weight; a datum must not be kept there
    return gap > OUT_OF_QUESTION or accept(gap + log_ratio, &draw.rng)


cdef inline void leave_out(float *x, Py_ssize_t first, Py_ssize_t width) noexcept nogil:
    """Make clusters from `first` on impossible."""
    cdef Py_ssize_t k
    for k in range(first, width):
        x[k] = DENSE_NEVER


def draw_dense(DenseScores s, Tile tile, const double[:, ::1] phi, const int32_t[::1] old, int32_t[::1] labels,
               seed, step, first_row, const int32_t[::1] limits):
    """Draw the labels of a tile of dense statistics.

    Rows that need double precision are marked in `tile.rough`.
    """
    cdef row_stream stream
    open_stream(&stream, seed, step, first_row)
    with nogil:
        draw_rows_densely(s, tile, &phi[0, 0], phi.shape[0], &old[0], &labels[0],
                          NULL if limits is None else &limits[0], &stream)


cdef void draw_rows_densely(DenseScores s, Tile tile, const double *phi, Py_ssize_t n, const int32_t *old,
                            int32_t *labels, const int32_t *limits, row_stream *stream) noexcept nogil:
    """Draw the labels of n rows with statistics `phi` (n, F); see `draw_dense`."""
    cdef Py_ssize_t i, new, was, place = <Py_ssize_t> (stream.first_row % <uint64_t> tile.phi_view.shape[0])
    cdef float best
    cdef float *x
    cdef const double *own
    cdef double log_ratio = 0.0
    s.score_whole_tile(tile, phi, n, place)
    for i in range(n):
        x, own = &tile.score_view[place + i, 0], phi + i * s.F
        if limits != NULL:
            leave_out(x, limits[i], s.width)
        best = expfam_tops(x, &tile.tops[0], s.width)
        tile.rough_view[i] = not (tile.bounds[i] < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
        if not tile.rough_view[i] and tile.bounds[i] > DENSE_REACH:
            tile.rough_view[i] = s.size(own, best_of(x, best, &tile.tops[0], s.K)) > DENSE_REACH
        if tile.rough_view[i]:
            continue
        was = old[i]
        new = propose(stream, i, x, best, &tile.tops[0], &tile.sums[0], s.width, was, &log_ratio)
        if new < 0:
            tile.rough_view[i] = True
        elif new == was or moves(stream, s.score(own, new) - s.score(own, was), log_ratio):
            labels[i] = <int32_t> new
        else:
            labels[i] = <int32_t> was


def draw_sparse(DenseScores s, Tile tile, phi, const int32_t[::1] old, int32_t[::1] labels, seed, step, first_row,
                const int32_t[::1] limits):
    """Draw the labels of CSR rows; rows that need double precision are marked in `tile.rough`."""
    cdef Py_ssize_t i, n, new, was, n_rows = phi.shape[0]
    cdef const int64_t[::1] indptr, columns
    cdef const double[::1] values
    indptr, columns, values = sparse_arrays(phi)
    cdef const int64_t *first_column = &columns[0]
    cdef const double *first_value = &values[0]
    most = int(np.diff(phi.indptr).max()) + 1
    cdef size_t[::1] rows = np.empty(most, dtype=np.uintp)
    cdef float[::1] factors = np.empty(most, dtype=np.float32)
    cdef float *x = &tile.score_view[0, 0]
    cdef float best
    cdef double bound, gap, log_ratio = 0.0
    cdef const int64_t *where
    cdef const double *what
    cdef row_stream draw
    open_stream(&draw, seed, step, first_row)
    with nogil:
        for i in range(n_rows):
            where, what, n = first_column + indptr[i], first_value + indptr[i], indptr[i + 1] - indptr[i]
            bound = s.sparse_row(where, what, n, <const float **> &rows[0], &factors[0], x)
            if limits is not None:
                leave_out(x, limits[i], s.width)
            best = expfam_tops(x, &tile.tops[0], s.width)
            tile.rough_view[i] = not (bound < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
            if not tile.rough_view[i] and bound > DENSE_REACH:
                tile.rough_view[i] = s.sparse_size(where, what, n, best_of(x, best, &tile.tops[0], s.K)) > DENSE_REACH
            if tile.rough_view[i]:
                continue
            was = old[i]
            new = propose(&draw, i, x, best, &tile.tops[0], &tile.sums[0], s.width, was, &log_ratio)
            if new < 0:
                tile.rough_view[i] = True
                continue
            labels[i] = <int32_t> new
            if new != was:
                gap = s.sparse_score(where, what, n, new) - s.sparse_score(where, what, n, was)
                if not moves(&draw, gap, log_ratio):
                    labels[i] = <int32_t> was


def sparse_arrays(phi):
    """Return row starts, columns and values of CSR as int64, int64 and float64, none empty."""
    if not phi.nnz:
        return phi.indptr.astype(np.int64), np.zeros(1, dtype=np.int64), np.zeros(1)
    return (
        phi.indptr.astype(np.int64, copy=False),
        phi.indices.astype(np.int64, copy=False),
        phi.data.astype(np.float64, copy=False),
    )


def draw_rows(double[:, ::1] scores, const Py_ssize_t[::1] rows, int32_t[::1] labels, uint64_t seed, uint64_t step,
              uint64_t first_row):
    """Draw labels[rows] from rows of log weights in double precision, which are overwritten.

    Returns -1, or the first row that has no finite maximum.
    """
    cdef Py_ssize_t i, bad = -1, n_rows = scores.shape[0], K = scores.shape[1]
    cdef double best, total
    cdef philox_stream rng
    block_sums = in_lines(K // EXPFAM_BLOCK + 1)
    cdef double[::1] sums = block_sums
    with nogil:
        philox_init(&rng, seed, MOVE)
        for i in range(n_rows):
            best = expfam_max(&scores[i, 0], K)
            if not -INFINITY < best < INFINITY:
                bad = rows[i]
                break
            total = expfam_exp_blocks(&scores[i, 0], best, &sums[0], K)
            if not 0.5 <= total < INFINITY:
                bad = rows[i]
                break
            philox_aim(&rng, first_row + <uint64_t> rows[i], step)
            labels[rows[i]] = <int32_t> expfam_pick(&scores[i, 0], &sums[0], total, philox_double(&rng), K)
    return bad
