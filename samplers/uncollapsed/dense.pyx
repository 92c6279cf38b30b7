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

from libc.math cimport INFINITY, fabs, log
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from expfam.families.dense_source cimport write_phi
from expfam.samplers.chain.accept cimport accept
from expfam.structures.ground.arrays cimport aligned, in_lines
from expfam.structures.simd.blocks cimport EXPFAM_BLOCK
from expfam.structures.simd.dense_scores cimport (
    expfam_add_scaled, expfam_narrow, expfam_near_pick, expfam_near_weights, expfam_tops,
)
from expfam.structures.simd.softmax cimport expfam_exp_blocks, expfam_max, expfam_pick
from expfam.structures.simd.vectors cimport expfam_dot
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream

from expfam.families.dense_source import dense_source
from expfam.structures.ground.threads import run

# The rounding error of a score is about 2^-24 of the sum of |phi theta|: 1/16 nat at 2^18, so the test rejects rarely.
cdef double DENSE_REACH = 262144.0
cdef double DENSE_HOPELESS = 1e30
cdef float DENSE_DEPTH = 30.0       # the lost weight K e^-30 is below the resolution of single precision
cdef float DENSE_NEVER = -1e30            # log weight of impossible clusters; finite, because BLAS may multiply it by 0
cdef double OUT_OF_QUESTION = 60.0  # nats below another cluster at which a weight is smaller than rounding errors
cdef double NARROW = 1e12           # scales of columns lie within this factor of 1

_TILE_ENTRIES = 1 << 18
_LEAST_TILE, _MOST_TILE = 64, 512       # powers of two, so that parts of whole tiles suit any number of clusters
_TILES_A_TASK = 8
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
        self._narrow_rows(tile, phi, 0)
        np.matmul(tile.phi[: phi.shape[0]], self.table, out=tile.scores[: phi.shape[0]])

    def score_whole_tile(self, Tile tile, const double[:, ::1] phi, Py_ssize_t place):
        """Write the scores of dense statistics to the rows of a tile from `place` on.

        The other rows are zeros. The product always has all rows of the tile.
        """
        if phi.shape[0] < self.tile_rows:
            tile.phi[:] = 0.0
        self._narrow_rows(tile, phi, place)
        np.matmul(tile.phi, self.table, out=tile.scores)

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

    cdef void _narrow_rows(self, Tile tile, const double[:, ::1] phi, Py_ssize_t place) noexcept:
        """Write statistics in single precision to rows from `place` on, and their bounds."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(phi.shape[0]):
                self._narrow_row(tile, &phi[i, 0], place, i)

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
        self.offsets_array, self.row_array = in_lines(rows), in_lines(2 * scores.F)
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

    tasks = grid(offset, 0, data.n_rows, scores.tile_rows * _TILES_A_TASK)
    run(draw_tiles, tasks, n_threads, uses_blas=not scores.sparse)
    return labels


def draw_tile(DenseScores scores, Tile tile, old, labels, limits, start, stamp):
    """Draw the labels of a tile of rows from `start` on; `stamp` is (seed, number of the step)."""
    stop, data = start + len(labels), scores.data
    first_row = data.row_offset + start
    phi = data.phi_csr(start, stop) if scores.sparse else data.phi(start, stop)
    own = None if limits is None else limits[start:stop]
    tile.rough[: stop - start] = not scores.fits
    if scores.fits:
        draw = draw_sparse if scores.sparse else draw_dense
        draw(scores, tile, phi, old, labels, *stamp, first_row, own)
    rough = np.flatnonzero(tile.rough[: stop - start])
    if rough.size:
        weights = scores.exact_scores(phi[rough])
        if own is not None:
            weights[np.arange(scores.K) >= own[rough, None]] = -np.inf
        bad = draw_rows(weights, rough, labels, *stamp, first_row)
        if bad >= 0:
            raise FloatingPointError(
                f"family {data.family.name!r}, datum {first_row + bad}: no component has a finite score under"
                " the drawn parameters"
            )


def grid(Py_ssize_t offset, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t size):
    """Cut the rows start..stop-1 where their global number is a multiple of `size`.

    The global number of a row is `offset` plus its number.

    >>> from expfam.samplers.uncollapsed.dense import grid
    >>> grid(1022, 0, 600, 512)
    [(0, 2), (2, 514), (514, 600)]
    """
    cuts = [start, *range(start + size - (offset + start) % size, stop, size), stop]
    return [(first, last) for first, last in zip(cuts, cuts[1:]) if last > first]


cdef class Draw:
    """Random stream and counters of the rows of one tile."""

    cdef philox_stream rng
    cdef uint64_t first_row, step

    def __init__(self, seed, step, first_row):
        philox_init(&self.rng, seed, MOVE)
        self.step, self.first_row = step, first_row


cdef Py_ssize_t propose(Draw draw, Py_ssize_t i, float *x, float best, const float *tops, double *sums,
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


cdef bint moves(Draw draw, double gap, double log_ratio) noexcept nogil:
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
    cdef Py_ssize_t i, new, was, place = first_row % s.tile_rows
    cdef float best
    cdef float *x
    cdef double log_ratio = 0.0
    cdef Draw draw = Draw(seed, step, first_row)
    s.score_whole_tile(tile, phi, place)
    with nogil:
        for i in range(phi.shape[0]):
            x = &tile.score_view[place + i, 0]
            if limits is not None:
                leave_out(x, limits[i], s.width)
            best = expfam_tops(x, &tile.tops[0], s.width)
            tile.rough_view[i] = not (tile.bounds[i] < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
            if not tile.rough_view[i] and tile.bounds[i] > DENSE_REACH:
                tile.rough_view[i] = s.size(&phi[i, 0], best_of(x, best, &tile.tops[0], s.K)) > DENSE_REACH
            if tile.rough_view[i]:
                continue
            was = old[i]
            new = propose(draw, i, x, best, &tile.tops[0], &tile.sums[0], s.width, was, &log_ratio)
            if new < 0:
                tile.rough_view[i] = True
            elif new == was or moves(draw, s.score(&phi[i, 0], new) - s.score(&phi[i, 0], was), log_ratio):
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
    cdef Draw draw = Draw(seed, step, first_row)
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
            new = propose(draw, i, x, best, &tile.tops[0], &tile.sums[0], s.width, was, &log_ratio)
            if new < 0:
                tile.rough_view[i] = True
                continue
            labels[i] = <int32_t> new
            if new != was:
                gap = s.sparse_score(where, what, n, new) - s.sparse_score(where, what, n, was)
                if not moves(draw, gap, log_ratio):
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
