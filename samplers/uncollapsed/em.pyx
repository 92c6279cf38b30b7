"""Expectation maximisation (EM) for mixtures.

A step reads the data once, in tiles. Scores are computed in single precision, as for dense draws; responsibilities
replace them; a second matrix product gives the soft statistics, which are summed over tiles in double precision. Log
likelihoods use the best cluster's score in double precision. Few rows of dense statistics are weighed in double
precision alone. Sums run over segments of the rows that depend only on the sizes of the data, so the results do not
depend on the number of threads. No array of size N x K is held.
"""

import copy

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from expfam.samplers.uncollapsed.dense cimport (
    DENSE_DEPTH,
    DENSE_HOPELESS,
    DENSE_NEVER,
    DENSE_REACH,
    DenseScores,
    Tile,
    best_of,
)
from expfam.structures.simd.dense_scores cimport expfam_add_near, expfam_near_scale, expfam_near_weights, expfam_tops
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows
from expfam.model.partitions import fitted_labels
from expfam.model.statistics import weighted_statistics
from expfam.params import Real
from expfam.samplers.uncollapsed.dense import sparse_arrays
from expfam.samplers.uncollapsed.em_few_rows import expectation_of_few_rows, has_few_rows
from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.samplers.uncollapsed.kernel import UncollapsedKernel
from expfam.samplers.uncollapsed.known import known_rows_expected, linked_rows_expected
from expfam.structures.ground.stored import numbers
from expfam.structures.ground.threads import resolve_n_threads, run, segments

_SEGMENT_ROWS = 512     # least number of rows of a segment


class ExpectationState(UncollapsedState):
    """Soft statistics of the data, and the parameters and weights from which they follow.

    Parameters
    ----------
    model : MixtureModel
        Its family must be bound to the data.
    data : Dataset
        Weights of the rows multiply their statistics.
    labels : (N,) array_like of int in 0..K-1
        The first statistics are those of these labels.
    n_clusters : int
        Number K of components; the truncation if the weights allow any number of clusters.
    seed : int
        Not used: EM is not random.
    n_steps : int
        Number of steps that were made.

    Attributes
    ----------
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray
        Expected statistics of the components, dense.
    Theta, G, log_pi : (K, F), (K,) and (K,) float64 ndarray or None
        Natural parameters, log partition function and log weight of each component.
    labels : (N,) int32 ndarray
        Most probable component of each datum.
    log_likelihood : float
        Log density of the data under the parameters, nats, without log-base; -inf before the first step.
    log_joint : float
        The log likelihood plus the log prior densities of the parameters and of the weights in natural coordinates, up
        to a constant. Steps increase it.
    converged : bool
        Whether the last step has increased `log_joint` by no more than the tolerance.

    Examples
    --------
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ExpectationMaximization
    >>> kernel = ExpectationMaximization()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(2)), [[0], [1], [40]], seed=0, start=[0, 0, 1])
    >>> info = kernel.step(state)
    >>> state.n.round(3)
    array([2., 1.])
    """

    def set_labels(self, labels):
        """Start again from labels."""
        self.labels = labels
        n, S = weighted_statistics(self.data, labels, self.K)
        self.n, self.S = n, dense_rows(S)
        self.log_likelihood, self.converged = -np.inf, False
        self._log_joint = -np.inf
        self.stamp += 1

    @property
    def n_clusters(self):
        """Number of components that are the most probable one for at least one datum."""
        return int(np.unique(self.labels).size)

    def statistics(self):
        """Return counts (B,) and sums (B, F) of the most probable labels.

        Rows are weighted, and clusters are in the order of `partition`.
        """
        labels = self.partition
        return weighted_statistics(self.data, labels, int(labels.max()) + 1)

    def compute_log_joint(self):
        """Compute the log likelihood plus the log prior densities for the present parameters."""
        if self.Theta is None:
            return -np.inf
        prior = float(np.sum(self.model.family.log_prior(self.Theta, self.G)))
        return self.log_likelihood + prior + float(self.model.weights.log_density(self.log_pi))

    def move_labels(self, labels):
        """Raise a `CapabilityError`: labels follow from the parameters and cannot be moved."""
        raise CapabilityError("the labels of an ExpectationState are not moved; set_labels begins anew from others")

    def expect(self, n_threads=None):
        """Compute soft statistics, labels and log likelihood under the present parameters.

        Parameters
        ----------
        n_threads : int or None

        Returns
        -------
        int
            Number of labels that changed.
        """
        self.n, self.S, self.log_likelihood, labels = self._expected(n_threads)
        n_moved = int(np.count_nonzero(labels != self.labels))
        self.labels, self._log_joint = labels, None
        self.stamp += 1
        return n_moved

    def _expected(self, n_threads):
        """Return soft statistics, log likelihood and labels.

        Known rows keep their component, and the rows of a link group have one.
        """
        known, data = self.data.known, self.data
        if known is None:
            return self._expected_free(data, n_threads)
        others = copy.copy(data)
        others.weight = np.ones(data.n_rows) if data.weight is None else data.weight.copy()
        others.weight[np.setdiff1d(np.arange(data.n_rows), known.free)] = 0.0
        n, S, log_likelihood, labels = self._expected_free(others, n_threads)
        for part in (known_rows_expected, linked_rows_expected):
            part_n, part_S, part_likelihood = part(self, labels)
            n, S, log_likelihood = n + part_n, S + part_S, log_likelihood + part_likelihood
        return n, S, log_likelihood, labels

    def _expected_free(self, data, n_threads):
        if has_few_rows(data, self.K):
            return expectation_of_few_rows(data, self.Theta, self.G, self.log_pi)
        return expectation(DenseScores(data, self.Theta, self.G, self.log_pi, self.n, self.S), n_threads)

    def set_model(self, model):
        """Replace the model by one of the same kind; steps then start again after convergence."""
        super().set_model(model)
        self.converged = False

    def check(self):
        """Recompute the soft statistics and compare; raise AssertionError if they differ."""
        if self.Theta is None:
            n, S = weighted_statistics(self.data, self.labels, self.K)
            S = dense_rows(S)
            log_likelihood, labels = self.log_likelihood, self.labels
        else:
            n, S, log_likelihood, labels = self._expected(None)
        assert np.allclose(n, self.n, rtol=1e-5, atol=1e-5), "soft counts differ from those of the parameters"
        assert abs(S - self.S).max() <= 1e-5 * (1.0 + abs(S).max()), "statistics differ from those of the parameters"
        assert np.isclose(log_likelihood, self.log_likelihood, rtol=1e-6), "log likelihood differs"

    def to_arrays(self):
        """Return everything that a later step reads as a dict of arrays."""
        return super().to_arrays() | {
            "scalars": np.array([self.log_likelihood, self.log_joint, float(self.converged)])
        }

    def _checked_sums(self, sums_of_labels, n, S):
        """Return None: soft statistics follow from the parameters, not from labels."""

    def from_arrays(self, arrays):
        """Restore the state from the arrays of `to_arrays`."""
        log_likelihood, log_joint, converged = numbers(arrays, "scalars", (3,), finite=False).tolist()
        super().from_arrays(arrays)
        self.log_likelihood, self._log_joint, self.converged = log_likelihood, log_joint, bool(converged)

    def as_type(self, state_type):
        """Return the state itself; refuse other types, because EM is not part of a chain."""
        if state_type is ExpectationState:
            return self
        raise CapabilityError(f"an ExpectationState cannot become a {state_type.__name__}: start that from its labels")


class ExpectationMaximization(UncollapsedKernel):
    """Kernel that maximises the posterior density of parameters and weights by EM.

    Labels are summed out. A step is one iteration.

    Parameters
    ----------
    tol : float
        The kernel has converged if a step increases the objective by no more than this, in nats for each unit of data
        weight. Further steps then do nothing until the model changes.
    truncation : int
        Number of sticks under a Dirichlet process or Pitman-Yor prior. A symmetric Dirichlet prior has its own number
        of components.
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ExpectationMaximization, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = ExpectationMaximization(tol=1e-6)
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(2)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> state.converged, state.n.round(2)
    (True, array([20., 20.]))

    Notes
    -----
    Dempster, Laird and Rubin 1977, "Maximum likelihood from incomplete data via the EM algorithm". The objective, also
    `Info.objective`, is the penalised log likelihood ``sum_i w_i log sum_k pi_k p(x_i | theta_k)`` + ``sum_k log
    p(theta_k)`` + ``log p(pi)``. Densities are in natural coordinates of the family and in log-ratio (or stick)
    coordinates of the weights, in which modes are posterior means. The objective grows at each step, up to rounding
    errors of the responsibilities in single precision. For a Gaussian family whose `map_natural` is cut off for almost
    empty components (``dof <= d + 2``, ``shape <= 1.5``) it may decrease a little. `Info.extra` holds ``converged`` and
    ``log_likelihood``.
    """

    state_type = ExpectationState
    on_shards = False
    not_on_shards = "its sums of responsibilities would depend on the parts"
    takes_weight = True
    takes_known = frozenset({"clusters", "links"})
    _constraints = {"tol": Real(0, ends="[]")}

    def __init__(self, *, tol=1e-3, truncation=100, n_threads=None):
        super().__init__(theta="map", truncation=truncation, n_threads=n_threads)
        self.tol = tol

    def check(self, model, data):
        """Refuse settings out of range, and families without a mode or a prior density."""
        super().check(model, data)
        if not hasattr(model.family, "log_prior"):
            raise CapabilityError(
                f"{type(self).__name__} needs log_prior(), which family {model.family.name!r} does not implement"
            )

    def init_state(self, model, data, labels, *, seed):
        """Make a state with the statistics of labels; the first step makes its parameters."""
        K = self.max_clusters(model)
        return ExpectationState(model, data, fitted_labels(labels, K, self), n_clusters=K, seed=seed)

    def memory(self, model, data, n_clusters):
        """Return the bytes of parameters and sums.

        Each thread has sums in double precision and a part in single precision; the total needs memory too.
        """
        n_sums = resolve_n_threads(self.n_threads) + 1
        return (20 + 12 * n_sums) * n_clusters * (data.n_statistics + 1)

    def is_done(self, state):
        """Return whether the last step has increased the objective by no more than the tolerance."""
        return state.converged

    def move(self, state):
        """Set parameters to their mode given the statistics, then compute statistics given them."""
        n_moved = 0
        if not state.converged:
            before = state.log_joint
            state.draw_parameters("map")
            n_moved = state.expect(self.n_threads)
            state.converged = bool(state.log_joint - before <= self.tol * state.n.sum())
        return state.data.n_rows, n_moved, {"converged": state.converged, "log_likelihood": state.log_likelihood}


def expectation(DenseScores scores, n_threads):
    """Compute the soft statistics of all data under the parameters of `scores`.

    Return n (K,) and S (K, F), the sum of the log likelihoods of the weighted rows in nats without log-base, and the
    most probable component of each datum (N,). A datum without a finite score raises FloatingPointError.
    """
    data, labels, spare = scores.data, np.empty(scores.data.n_rows, dtype=np.int32), []

    def expect_rows(start, stop):
        try:
            sums = spare.pop()
        except IndexError:
            sums = _Sums(scores)
        sums.clear()
        for first in range(start, stop, scores.tile_rows):
            sums.add(first, min(first + scores.tile_rows, stop), labels)
        return sums

    total, n_threads = _Total(scores), resolve_n_threads(n_threads)
    parts = segments(data.n_rows, _number_of_segments(data))
    for first in range(0, len(parts), n_threads):   # by rounds: the sums of all segments may need too much memory
        for sums in run(expect_rows, parts[first : first + n_threads], n_threads):
            total.add(sums)
            spare.append(sums)
    return *total.result(), labels


def _number_of_segments(data):
    """Return the number of segments, from the sizes of the data only.

    With more segments, adding up their sums would cost more than computing them.
    """
    by_rows = data.n_rows // _SEGMENT_ROWS
    if data.has_sparse_phi:
        by_rows = min(by_rows, data.phi_csr(0, data.n_rows).nnz // (4 * data.n_statistics))
    return max(1, min(64, by_rows))


class _Total:
    """Sums over segments, added in the order of the segments."""

    def __init__(self, scores):
        self.scores, self.log_likelihood = scores, 0.0
        self.near = self.n = self.S = None

    def add(self, sums):
        self.log_likelihood += sums.log_likelihood
        if self.near is None:
            self.near, self.n, self.S = sums.near.copy(), sums.n.copy(), None if sums.S is None else sums.S.copy()
            return
        self.near += sums.near
        self.n += sums.n
        if sums.S is not None:
            self.S = sums.S.copy() if self.S is None else self.S + sums.S

    def result(self):
        """Return counts, sums and log likelihood in the coordinates of phi."""
        scores, K, F = self.scores, self.scores.K, self.scores.F
        if scores.sparse:
            S, n = np.ascontiguousarray(self.near[:, :K].T), self.n[:K]
        else:
            near = self.near[:K, F]
            S, n = self.near[:K, :F] / scores.scale + near[:, None] * scores.centre, self.n[:K] + near
        return n, S if self.S is None else S + self.S, self.log_likelihood


cdef class _Sums:
    """Sums of one segment: `near` is made in single precision, `S` from rough rows."""

    cdef DenseScores scores
    cdef Tile tile
    cdef readonly object near, n, S, part
    cdef readonly double log_likelihood

    def __init__(self, DenseScores scores):
        self.scores, self.tile = scores, scores.tile()
        shape = (scores.F, scores.width) if scores.sparse else (scores.width, scores.F + 1)
        self.near, self.n, self.part = np.zeros(shape), np.zeros(scores.width), None
        if not scores.sparse:
            self.part = np.empty(shape, dtype=np.float32)

    def clear(self):
        """Set all sums to 0 before a segment."""
        self.near[:] = 0.0
        self.n[:] = 0.0
        self.S, self.log_likelihood = None, 0.0

    def add(self, start, stop, labels):
        """Add the rows of one tile."""
        data, tile = self.scores.data, self.tile
        phi = data.phi_csr(start, stop) if self.scores.sparse else data.phi(start, stop)
        weight = np.ones(stop - start) if data.weight is None else data.weight[start:stop]
        if not self.scores.fits:
            tile.rough[: stop - start] = 1
        elif self.scores.sparse:
            self.log_likelihood += expect_sparse(self.scores, tile, phi, weight, labels[start:stop], self.near, self.n)
        else:
            self.log_likelihood += expect_dense(self.scores, tile, phi, weight, labels[start:stop])
            np.matmul(tile.scores[: stop - start].T, tile.phi[: stop - start], out=self.part)
            self.near += self.part
        rough = np.flatnonzero(tile.rough[: stop - start])
        if rough.size:
            self.add_rough(phi[rough], weight[rough], rough, start, labels)

    def add_rough(self, phi, weight, rows, start, labels):
        """Add rows by scores in double precision."""
        K = self.scores.K
        p = self.scores.exact_scores(phi)
        best = p.max(axis=1)
        bad = np.flatnonzero(~np.isfinite(best))
        if bad.size:
            raise FloatingPointError(
                f"family {self.scores.data.family.name!r}, datum {start + rows[bad[0]]}: no component has a finite"
                " score under the parameters"
            )
        labels[start + rows] = p.argmax(axis=1)
        p = np.exp(p - best[:, None])
        total = p.sum(axis=1)
        self.log_likelihood += float(weight @ (best + np.log(total)))
        p *= (weight / total)[:, None]
        self.n[:K] += p.sum(axis=0)
        if self.scores.sparse:
            add_responsibilities(phi, p, self.near)
        else:
            self.S = p.T @ phi if self.S is None else self.S + p.T @ phi


def add_responsibilities(phi, const double[:, ::1] p, double[:, ::1] near):
    """Add phi[i, f] p[i, :] to near[f, :] for each stored entry of CSR rows."""
    cdef Py_ssize_t i, t, n_rows = phi.shape[0]
    cdef const int64_t[::1] indptr, columns
    cdef const double[::1] values
    indptr, columns, values = sparse_arrays(phi)
    with nogil:
        for i in range(n_rows):
            for t in range(indptr[i], indptr[i + 1]):
                expfam_add_row(&near[columns[t], 0], &p[i, 0], values[t], p.shape[1])


def expect_dense(DenseScores s, Tile tile, const double[:, ::1] phi, const double[::1] weight, int32_t[::1] labels):
    """Replace the scores of a tile by weighted responsibilities; return the log likelihood.

    Rough rows get zeros.
    """
    cdef Py_ssize_t i, k
    cdef float best
    cdef float *x
    cdef double total, log_likelihood = 0.0
    s.score_tile(tile, phi)
    with nogil:
        for i in range(phi.shape[0]):
            x = &tile.score_view[i, 0]
            best = expfam_tops(x, &tile.tops[0], s.width)
            tile.rough_view[i] = not (tile.bounds[i] < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
            if not tile.rough_view[i]:
                k = best_of(x, best, &tile.tops[0], s.K)
                labels[i] = <int32_t> k
                tile.rough_view[i] = tile.bounds[i] > DENSE_REACH and s.size(&phi[i, 0], k) > DENSE_REACH
            if tile.rough_view[i]:
                memset(x, 0, s.width * sizeof(float))
                continue
            total = expfam_near_weights(x, best, DENSE_DEPTH, &tile.tops[0], &tile.sums[0], s.width)
            expfam_near_scale(x, <float> (weight[i] / total), &tile.sums[0], s.width)
            log_likelihood += weight[i] * (s.score(&phi[i, 0], k) + log(total))
    return log_likelihood


def expect_sparse(DenseScores s, Tile tile, phi, const double[::1] weight, int32_t[::1] labels, double[:, ::1] near,
                  double[::1] n):
    """Add soft statistics of CSR rows to `near` (F, width) and `n`; return the log likelihood."""
    cdef Py_ssize_t i, t, k, length, n_rows = phi.shape[0]
    cdef const int64_t[::1] indptr, columns
    cdef const double[::1] values
    indptr, columns, values = sparse_arrays(phi)
    most = int(np.diff(phi.indptr).max()) + 1
    cdef size_t[::1] rows = np.empty(most, dtype=np.uintp)
    cdef float[::1] factors = np.empty(most, dtype=np.float32)
    cdef float *x = &tile.score_view[0, 0]
    cdef float best
    cdef double bound, total, log_likelihood = 0.0
    cdef const int64_t *where
    cdef const double *what
    with nogil:
        for i in range(n_rows):
            where, what, length = &columns[0] + indptr[i], &values[0] + indptr[i], indptr[i + 1] - indptr[i]
            bound = s.sparse_row(where, what, length, <const float **> &rows[0], &factors[0], x)
            best = expfam_tops(x, &tile.tops[0], s.width)
            tile.rough_view[i] = not (bound < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
            if not tile.rough_view[i]:
                k = best_of(x, best, &tile.tops[0], s.K)
                labels[i] = <int32_t> k
                tile.rough_view[i] = bound > DENSE_REACH and s.sparse_size(where, what, length, k) > DENSE_REACH
            if tile.rough_view[i]:
                continue
            total = expfam_near_weights(x, best, DENSE_DEPTH, &tile.tops[0], &tile.sums[0], s.width)
            expfam_near_scale(x, <float> (weight[i] / total), &tile.sums[0], s.width)
            log_likelihood += weight[i] * (s.sparse_score(where, what, length, k) + log(total))
            expfam_add_near(&n[0], x, 1.0, &tile.sums[0], s.width)
            for t in range(length):
                expfam_add_near(&near[where[t], 0], x, what[t], &tile.sums[0], s.width)
    return log_likelihood
