"""Exact draws of labels where integers of eight bits tell which clusters matter.

Products of integers bound the scores of all clusters, see `expfam.structures.rows.byte_codes`. Where several are left,
products in single precision leave fewer. Scores that may lie less than DEPTH nats below the best one are computed in
double precision, and the weight of all others is below K exp(-DEPTH) of that of the best. A row whose uniform number
falls so near the end of an interval that these weights, or rounding, might change its label is scored whole. So the
label of each row is that of its uniform number among all weights in double precision: no bound changes a label.
"""

import numpy as np

from libc.math cimport INFINITY, exp
from libc.stdint cimport int32_t, int64_t, uint64_t

from expfam.samplers.uncollapsed.dense cimport DENSE_HOPELESS, DenseScores
from expfam.samplers.uncollapsed.kept_lists cimport KEPT_MOST, KeptLists, Needs
from expfam.structures.ground.arrays cimport in_lines
from expfam.structures.ground.rng cimport MOVE, philox_aim, philox_double, philox_init, philox_stream
from expfam.structures.rows.byte_codes cimport CodedRows, ScoredPoints
from expfam.structures.simd.dense_scores cimport expfam_narrow
from expfam.structures.simd.float_dots cimport EXPFAM_FLOAT_CHUNK, expfam_float_dots

from expfam.samplers.uncollapsed.dense import draw_rows
from expfam.samplers.uncollapsed.kept_lists import NEEDS_PASS
from expfam.samplers.uncollapsed.tree import sample_blocks
from expfam.structures.ground.threads import run
from expfam.structures.rows.byte_codes import column_scales

cdef enum:
    DEPTH = 16
    ROWS = 64               # that are multiplied together
    FEW = 2                 # clusters that are scored in double precision at once
cdef double UNIT = 2.0 ** -24       # rounding of single precision
cdef double ROUNDING = 1e-12        # more than rounding in double precision can move the place of a uniform number

_TASK_ROWS = 2048
_SAMPLED_ROWS = 128
_LEFT_ROWS = 512            # whose statistics are computed together
_BLOCK_ENTRIES = 1 << 17    # of parameters that are coded together


cdef class CodedScores:
    """Parameters as integers, and what bounds of the scores of clusters are made from.

    Parameters
    ----------
    scores : DenseScores
        Of dense statistics; single precision can hold the parameters.
    spread : (F,) float64 ndarray
        Size of the centred statistics in each column.
    """

    cdef readonly DenseScores scores
    cdef ScoredPoints points
    cdef float[:, ::1] theta        # (K, F) of narrowed rows
    cdef const double[::1] scale
    cdef readonly object column_scale   # (F,)
    cdef double rounding            # of products in single precision, for each unit of |x| |theta|

    def __init__(self, DenseScores scores, spread):
        cdef Py_ssize_t k
        cdef const float[::1] bias = scores.row_bias
        self.scores, self.points = scores, ScoredPoints(scores.K, scores.F)
        scale = column_scales(scores.reach, spread)
        theta, rows = np.empty((scores.K, scores.F), dtype=np.float32), max(1, _BLOCK_ENTRIES // scores.F)
        for start in range(0, scores.K, rows):
            part = slice(start, start + rows)
            theta[part] = (scores.Theta[part] - scores.origin) / scale
        self.theta, self.scale, self.column_scale = theta, scale, scale
        self.rounding = (EXPFAM_FLOAT_CHUNK + scores.F / EXPFAM_FLOAT_CHUNK + 16.0) * UNIT
        for k in range(scores.K):
            self.points.put_scored(k, &self.theta[k, 0], bias[k], 0.0)


cdef class Scratch:
    """Working memory of one thread."""

    cdef CodedRows rows
    cdef float[:, ::1] narrow, products
    cdef int32_t[::1] near, found
    cdef double[::1] weights
    cdef float[::1] dots
    cdef unsigned char[::1] undecided
    cdef readonly object is_undecided
    cdef object arrays
    cdef readonly Py_ssize_t n_near, n_exact    # scores that bounds left, and those computed in double precision

    def __init__(self, CodedScores coded):
        width, F = coded.points.width, coded.scores.F
        self.rows, self.n_near, self.n_exact = CodedRows(ROWS, F), 0, 0
        self.arrays = (
            in_lines((ROWS, F), np.float32), in_lines((ROWS, width), np.float32), in_lines(width + KEPT_MOST, np.int32),
            in_lines(width + KEPT_MOST), in_lines(ROWS, np.uint8), in_lines(width, np.float32),
            in_lines(width + 1, np.int32),
        )
        self.narrow, self.products, self.near, self.weights, self.undecided, self.dots, self.found = \
            self.arrays
        self.is_undecided = self.arrays[4]


cdef Py_ssize_t nearer(CodedScores coded, Scratch w, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Keep those of n listed clusters that may lie near by products in single precision."""
    cdef double low = -INFINITY, length = w.rows.errors[i] + w.rows.lengths[i], error
    cdef Py_ssize_t j, k, n_kept = 0
    expfam_float_dots(&w.narrow[i, 0], coded.theta.shape[1], &coded.theta[0, 0], &w.near[0], n, &w.dots[0])
    for j in range(n):
        k = w.near[j]
        error = coded.rounding * length * coded.points.lengths[k] + coded.points.terms[3, k]
        w.weights[j] = <double> w.dots[j] + coded.points.terms[0, k] + error       # an upper bound
        low = max(low, w.weights[j] - 2.0 * error)
    for j in range(n):
        if w.weights[j] > low - DEPTH:
            w.near[n_kept] = w.near[j]
            n_kept += 1
    return n_kept


cdef Py_ssize_t drawn(DenseScores s, Scratch w, const double *phi, Py_ssize_t n, double uniform) noexcept nogil:
    """Return the label of a row among n listed clusters; -1 if others might change it."""
    cdef double best = -INFINITY, total = 0.0, before = 0.0, after, rest
    cdef Py_ssize_t j, n_kept = 0
    for j in range(n):
        w.weights[j] = s.score(phi, w.near[j])
        best = max(best, w.weights[j])
    if not -INFINITY < best < INFINITY:
        return -1
    for j in range(n):
        if w.weights[j] > best - DEPTH:
            w.weights[j] = exp(w.weights[j] - best)
            total += w.weights[j]
            n_kept += 1
        else:
            w.weights[j] = 0.0
    rest = (s.K - n_kept) * exp(-DEPTH) + ROUNDING * total
    for j in range(n):
        after = before + w.weights[j]
        if uniform * (total + rest) <= after - ROUNDING * total:
            return w.near[j] if uniform * total > before + rest or before == 0.0 and n_kept == s.K else -1
        before = after
    return -1


cdef Py_ssize_t draw_block(CodedScores coded, DenseScores s, Scratch w, const double[:, ::1] phi,
                           const int64_t[::1] rows, int32_t[::1] labels, uint64_t seed, uint64_t step,
                           uint64_t first_row, KeptLists lists) noexcept nogil:
    """Draw labels of at most ROWS rows; keep lists, mark and count rows that are open."""
    cdef Py_ssize_t i, n, label, n_open = 0
    cdef philox_stream rng
    philox_init(&rng, seed, MOVE)
    for i in range(phi.shape[0]):
        w.undecided[i] = not expfam_narrow(&phi[i, 0], s.centre_at, &coded.scale[0], s.reach_at, &w.narrow[i, 0],
                                           s.F) < DENSE_HOPELESS
        if w.undecided[i]:
            w.narrow[i, :] = 0.0
        w.rows.put(i, &w.narrow[i, 0])
    coded.points.multiply(w.rows, phi.shape[0], &w.products[0, 0], coded.points.width)
    for i in range(phi.shape[0]):
        if not w.undecided[i]:
            n = coded.points.near(w.rows, i, &w.products[i, 0], DEPTH, 0.0, &w.near[0])
            w.n_near += n
            if lists is not None:
                lists.write(rows[i], w.rows, i, coded.points, &w.products[i, 0], &w.narrow[i, 0], &coded.theta[0, 0],
                            coded.rounding, &w.near[0], n, &w.found[0])
            if n > FEW:
                n = nearer(coded, w, i, n)
            w.n_exact += n
            philox_aim(&rng, first_row + <uint64_t> rows[i], step)
            label = drawn(s, w, &phi[i, 0], n, philox_double(&rng))
            w.undecided[i] = label < 0
            labels[rows[i]] = <int32_t> label
        n_open += w.undecided[i]
    return n_open


cdef Py_ssize_t draw_listed(DenseScores s, Scratch w, const double[:, ::1] phi, const int64_t[::1] rows,
                            int32_t[::1] labels, uint64_t seed, uint64_t step, uint64_t first_row, KeptLists lists,
                            Needs needs) noexcept nogil:
    """Draw labels of at most ROWS rows from their lists; mark and count rows that are open."""
    cdef Py_ssize_t i, n, label, n_open = 0
    cdef philox_stream rng
    philox_init(&rng, seed, MOVE)
    for i in range(phi.shape[0]):
        n = lists.candidates(rows[i], needs, &w.near[0])
        philox_aim(&rng, first_row + <uint64_t> rows[i], step)
        label = drawn(s, w, &phi[i, 0], n, philox_double(&rng))
        w.undecided[i] = label < 0
        labels[rows[i]] = <int32_t> label
        n_open += w.undecided[i]
    return n_open


cdef class _Pass:
    """One draw of the labels of rows; `lists` receives what a later pass may use."""

    cdef CodedScores coded
    cdef KeptLists lists
    cdef object data, labels, spare
    cdef uint64_t seed, step

    def __init__(self, coded, state, labels, lists=None):
        self.coded, self.data, self.labels, self.lists = coded, state.data, labels, lists
        self.seed, self.step, self.spare = state.seed, state.n_steps, []

    def draw(self, start, stop):
        """Draw the labels of rows start..stop-1; return the numbers of scores, see `Scratch`."""
        cdef Scratch w = self.scratch()
        for first in range(start, stop, ROWS):
            last = min(first + ROWS, stop)
            self.draw_few(w, self.data.phi(first, last), np.arange(first, last, dtype=np.int64))
        return self.finish(w)

    def draw_some(self, rows):
        """Draw the labels of some rows in the same way."""
        cdef Scratch w = self.scratch()
        phi = statistics_of(self.data, rows)
        for first in range(0, len(rows), ROWS):
            self.draw_few(w, phi[first : first + ROWS], rows[first : first + ROWS])
        return self.finish(w)

    def draw_from_lists(self, rows, Needs needs):
        """Draw the labels of rows whose lists tell enough."""
        cdef Scratch w = self.scratch()
        cdef const double[:, ::1] phi
        cdef const int64_t[::1] some
        cdef int32_t[::1] labels = self.labels
        cdef Py_ssize_t n_open
        cdef uint64_t offset = self.data.row_offset
        whole = statistics_of(self.data, rows)
        for first in range(0, len(rows), ROWS):
            phi, some = whole[first : first + ROWS], rows[first : first + ROWS]
            with nogil:
                n_open = draw_listed(self.coded.scores, w, phi, some, labels, self.seed, self.step, offset, self.lists,
                                     needs)
            if n_open:
                self.draw_whole(w, np.asarray(phi), np.asarray(some))
        return self.finish(w)

    cdef Scratch scratch(self):
        cdef Scratch w
        try:
            w = self.spare.pop()
        except IndexError:
            w = Scratch(self.coded)
        w.n_near = w.n_exact = 0
        return w

    cdef finish(self, Scratch w):
        counts = w.n_near, w.n_exact
        self.spare.append(w)
        return counts

    cdef draw_few(self, Scratch w, const double[:, ::1] phi, const int64_t[::1] rows):
        """Draw the labels of at most ROWS rows from bounds of all scores."""
        cdef int32_t[::1] labels = self.labels
        cdef Py_ssize_t n_open
        cdef uint64_t offset = self.data.row_offset
        with nogil:
            n_open = draw_block(self.coded, self.coded.scores, w, phi, rows, labels, self.seed, self.step, offset,
                                self.lists)
        if n_open:
            self.draw_whole(w, np.asarray(phi), np.asarray(rows))

    def draw_whole(self, Scratch w, phi, rows):
        """Draw the labels of rows that are not decided from all weights in double precision."""
        open_rows = np.flatnonzero(w.is_undecided[: len(rows)])
        first_row = self.data.row_offset
        bad = draw_rows(self.coded.scores.exact_scores(phi[open_rows]), rows[open_rows], self.labels, self.seed,
                        self.step, first_row)
        if bad >= 0:
            raise FloatingPointError(
                f"family {self.data.family.name!r}, datum {first_row + bad}: no component has a finite score under"
                " the drawn parameters"
            )


def statistics_of(data, rows):
    """Compute the statistics of some rows: (n, F) float64."""
    return data.without_known().take(rows).phi(0, len(rows))


def coded_scores(state):
    """Code the parameters of a state; return None where single precision cannot hold them."""
    scores = DenseScores(state.data, state.Theta, state.G, state.log_pi, state.n, state.S)
    if not scores.fits:
        return None
    blocks = sample_blocks(state.data.n_rows, _SAMPLED_ROWS, block=_SAMPLED_ROWS // 8)
    squares = [np.square(state.data.phi(start, stop) - scores.centre).sum(axis=0) for start, stop in blocks]
    return CodedScores(scores, np.sqrt(sum(squares) / sum(stop - start for start, stop in blocks)))


def draw_labels(state, n_threads, CodedScores coded, lists=None, share=1):
    """Draw labels (N,) int32 of all data from their exact law given Theta, G and log pi.

    The label of a datum is the one that its uniform number picks among all weights in double precision. A datum without
    a finite score raises FloatingPointError.

    Parameters
    ----------
    state : UncollapsedState
        Its statistics are dense.
    n_threads : int or None
        Number of threads; the labels do not depend on it.
    coded : CodedScores
        Of the state, see `coded_scores`.
    lists : KeptLists, optional
        Receives the lists of rows.
    share : int
        Of so many tasks one has lists.

    Returns
    -------
    labels : (N,) int32 ndarray
    extra : dict
        ``visits``, the mean number of clusters that were scored for a datum.
    """
    N = state.data.n_rows
    labels = np.empty(N, dtype=np.int32)
    with_lists, without = _Pass(coded, state, labels, lists), _Pass(coded, state, labels)
    tasks = [(with_lists if place % share == 0 else without, *rows) for place, rows in enumerate(task_rows(N))]
    counts = run(_Pass.draw, tasks, n_threads, uses_blas=False)
    return labels, {"visits": sum(n_near for n_near, _ in counts) / N}


def task_rows(N):
    """Return the first and last rows of the tasks of a pass."""
    return [(start, min(start + _TASK_ROWS, N)) for start in range(0, N, _TASK_ROWS)]


def draw_left(state, n_threads, CodedScores coded, lists, needs, labels, left):
    """Draw the labels that lists did not decide; return the number of near clusters.

    Parameters
    ----------
    lists : KeptLists
    needs : Needs
    labels : (N,) int32 ndarray
    left : (N,) uint8 ndarray
    """
    listed, others = np.flatnonzero((left > 0) & (left < NEEDS_PASS)), np.flatnonzero(left == NEEDS_PASS)
    tasks = [(listed[start : start + _LEFT_ROWS], needs) for start in range(0, len(listed), _LEFT_ROWS)]
    run(_Pass(coded, state, labels, lists).draw_from_lists, tasks, n_threads, uses_blas=False)
    tasks = [(others[start : start + _LEFT_ROWS],) for start in range(0, len(others), _LEFT_ROWS)]
    counts = run(_Pass(coded, state, labels).draw_some, tasks, n_threads, uses_blas=False)
    return sum(n_near for n_near, _ in counts)


SCORED_DEPTH = float(DEPTH)     # nats below the best cluster down to which scores are computed


def others_weight(K):
    """Return a bound on the weight of all clusters below the depth, beside the best one."""
    return K * exp(-DEPTH) + 2.0 * ROUNDING


def mean_visits(state, CodedScores coded, blocks):
    """Return how many clusters bounds leave of a row, and how many are scored exactly."""
    trial = _Pass(coded, state, np.empty(state.data.n_rows, dtype=np.int32))
    counts = np.sum([trial.draw(start, stop) for start, stop in blocks], axis=0)
    return counts / sum(stop - start for start, stop in blocks)
