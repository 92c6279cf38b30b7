"""Expectation maximisation (EM) for mixtures.

A step reads the data once, in tiles. Scores are computed in single precision, as for dense draws; responsibilities
replace them; a second matrix product gives the soft statistics, which are summed over tiles in double precision. Log
likelihoods use the best cluster's score in double precision. Few rows of dense statistics are weighed in double
precision alone. Sums of segments of the rows are added exactly, see `expfam.samplers.uncollapsed.soft_sums`, so the
results depend neither on the number of threads nor on how the data are cut into parts. No array of size N x K is held.
Rows of counts of very many words are summed word by word, see `expfam.samplers.uncollapsed.listed_rows`.
"""

import copy
from fractions import Fraction

import numpy as np

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from expfam.samplers.uncollapsed.dense cimport (
    DENSE_DEPTH, DENSE_HOPELESS, DENSE_NEVER, DENSE_REACH, DenseScores, Tile, best_of,
)
from expfam.samplers.uncollapsed.best_scores cimport BestScores
from expfam.samplers.uncollapsed.listed_rows cimport TileLists
from expfam.samplers.uncollapsed.near_lists cimport NearLists
from expfam.samplers.uncollapsed.near_tiles cimport NearTile
from expfam.structures.ground.arrays cimport aligned, in_lines
from expfam.structures.simd.dense_scores cimport (
    expfam_add_near, expfam_near_floor, expfam_near_scale, expfam_near_weights, expfam_tops,
)
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.errors import CapabilityError
from expfam.families.support import dense_rows
from expfam.model.partitions import fitted_labels
from expfam.model.label_sums import label_sums, phi_bounds, weighted_bounds, weighted_label_sums
from expfam.model.statistics import weighted_statistics
from expfam.params import Real
from expfam.samplers.uncollapsed.dense import grid, sparse_arrays
from expfam.samplers.uncollapsed.em_few_rows import expectation_of_few_rows, has_few_rows
from expfam.samplers.states.uncollapsed import UncollapsedState, cluster_blocks
from expfam.samplers.uncollapsed.kernel import UncollapsedKernel
from expfam.samplers.uncollapsed.known import known_rows_expected, linked_rows_expected
from expfam.samplers.uncollapsed.listed_parameters import ListedParameters, listed_parameters
from expfam.samplers.uncollapsed.listed_rows import ColumnEntries, ListedRows, ScoredColumns
from expfam.samplers.uncollapsed.near_lists import may_list
from expfam.samplers.uncollapsed.near_tiles import near_scores
from expfam.samplers.uncollapsed.soft_sums import (
    Bounds, Pieces, Sizes, SoftSums, bounds_of_terms, exact_log_likelihood, sums_are_by_column, sums_of_few,
)
from expfam.samplers.uncollapsed.word_scores import scores_of
from expfam.structures.ground.stored import numbers
from expfam.structures.ground.threads import resolve_n_threads, run
from expfam.structures.rows.exact_sums import lifts

cdef double NEGLIGIBLE = 9.4e-14    # exp(-30), of the weight of a row


class ExpectationState(UncollapsedState):
    """Expected statistics of the data, and the parameters and weights from which they follow.

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
    S : (K, F) float64 ndarray, or CSR
        Expected statistics of the components. CSR only for sparse rows of very many columns.
    Theta, G, log_pi : (K, F), (K,) and (K,) float64 ndarray or None
        Natural parameters, log partition function and log weight of each component. Where sums of very many columns
        are sparse, `Theta` is no array but `ListedParameters`, which ``numpy.asarray`` makes one.
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

    _columns = None         # entries by column, where sums are made from them
    _most = None            # largest size of a term of these sums

    def set_labels(self, labels):
        """Start again from labels."""
        self.labels = labels
        if not self._is_by_column() or self.data.weight is not None:
            self._begin(self._weighted_sums(labels))
            return
        # no second copy of wide sums: the counts are not a column of theirs
        bounds = phi_bounds(self.data)
        self._most = max(float(bounds.most.max()), 1.0)
        sums = label_sums(self.data, labels, self.K, bounds.scale(self.data.n_rows))
        self._take_first(*sums.total(in_place=True))

    def _weighted_sums(self, labels):
        """Return the exact sums of labels, counts last."""
        data = self.data
        if self._is_by_column():
            bounds = weighted_bounds(data)
            self._most = float(bounds.most.max())
        else:
            bounds = data.weighted_bounds
        return weighted_label_sums(data, labels, self.K, bounds.scale(data.n_rows))

    def _begin(self, sums):
        """Take the exact sums of labels, counts last, as the first soft statistics."""
        S, F = sums.total()[1], self.data.n_statistics
        if self._is_by_column():
            self._take_first(S[:, [F]].toarray().ravel(), S[:, :F])
        else:
            S = dense_rows(S)
            self._take_first(S[:, F].copy(), np.ascontiguousarray(S[:, :F]))

    def _take_first(self, n, S):
        """Take the first soft statistics: those of labels."""
        self.n, self.S = n, S
        self.log_likelihood, self.converged = -np.inf, False
        self._log_joint = -np.inf
        self.stamp += 1

    def _is_by_column(self):
        """Return whether sums are made column by column, beside which no table of all sums is held."""
        return sums_are_by_column(sizes_of(self.data, self.K), self.K)

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
        return self.log_likelihood + self._log_prior() + float(self.model.weights.log_density(self.log_pi))

    def _log_prior(self):
        """Return the log prior density of the parameters, nats."""
        Theta, G, of_block = self.Theta, self.G, self.model.family.log_prior
        if isinstance(Theta, ListedParameters):
            return float(Theta.log_prior().sum())
        blocks = cluster_blocks(Theta.shape)
        return float(np.sum(np.concatenate([of_block(Theta[block], G[block]) for block in blocks])))

    def draw_parameters(self, theta="map"):
        """Set parameters and weights to their modes; sparse sums of very many columns give lists."""
        if isinstance(self.Theta, ListedParameters):
            self.Theta = None       # with the sums of the step before
        listed = listed_parameters(self.data, self.model.family, self.n, self.S)
        if listed is None:
            super().draw_parameters(theta)
        else:
            self.Theta, self.G, self.log_pi = listed, listed.g, self.model.weights.map_log(self.n)

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
        n, S, log_likelihood, labels = self._expected(n_threads)
        n_moved = int(np.count_nonzero(labels != self.labels))
        self.labels = labels
        self._take_soft(n, S, log_likelihood)
        return n_moved

    def _take_soft(self, n, S, log_likelihood):
        """Take the soft statistics and the log likelihood under the present parameters."""
        self.n, self.S, self.log_likelihood, self._log_joint = n, S, log_likelihood, None
        self.stamp += 1

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
            S = dense_rows(S)
            n, S, log_likelihood = n + part_n, S + part_S, log_likelihood + part_likelihood
        return n, S, log_likelihood, labels

    def _expected_free(self, data, n_threads):
        if has_few_rows(data, self.K):      # no sums of parts of the rows are to be added
            return expectation_of_few_rows(data, self.Theta, self.G, self.log_pi)
        labels = np.empty(data.n_rows, dtype=np.int32)
        sizes = sizes_of(data, self.K)
        if sums_are_by_column(sizes, self.K):
            return *self._expected_by_column(data, sizes, n_threads, labels), labels
        bounds = Bounds.of(data.weighted_bounds)
        sums = expected_rows(data, self, sizes, bounds, n_threads, 0, data.n_rows, labels)
        return *sums.total(), labels

    def _expected_by_column(self, data, sizes, n_threads, labels):
        if self._columns is None:
            self._columns = ColumnEntries(data)
        listed, log_likelihood, tile_rows = listed_rows(data, self, self._columns, sizes, n_threads, labels)
        bounds = bounds_of_terms(sizes, Bounds(np.array([self._largest_term()]), 0.0))
        lift = lifts(bounds.max(keepdims=True), sizes.n_segments)[:, 0]
        rows = {"segment_rows": sizes.segment_rows, "tile_rows": tile_rows}
        n, S = self._columns.sums(listed, self.K, lift, **rows, n_threads=n_threads)
        return n, S, log_likelihood

    def _largest_term(self):
        """Return the largest size of a weighted statistic or weight; no more is held."""
        if self._most is None:
            self._most = float(weighted_bounds(self.data).most.max())
        return self._most

    def set_model(self, model):
        """Replace the model by one of the same kind; steps then start again after convergence."""
        super().set_model(model)
        self.converged = False

    def check(self):
        """Recompute the soft statistics and compare; raise AssertionError if they differ."""
        if self.Theta is None:
            S = dense_rows(self._weighted_sums(self.labels).total()[1])
            n, S, log_likelihood = S[:, self.data.n_statistics], S[:, : self.data.n_statistics], self.log_likelihood
        else:
            n, S, log_likelihood, _ = self._expected(None)
        assert np.allclose(n, self.n, rtol=1e-5, atol=1e-5), "soft counts differ from those of the parameters"
        gap = abs(dense_rows(S) - dense_rows(self.S)).max()
        assert gap <= 1e-5 * (1.0 + abs(S).max()), "statistics differ from those of the parameters"
        assert np.isclose(log_likelihood, self.log_likelihood, rtol=1e-6), "log likelihood differs"

    def arrays_without_labels(self):
        """Return what `to_arrays` returns, but for the labels."""
        return super().arrays_without_labels() | {
            "scalars": np.array([self.log_likelihood, self.log_joint, float(self.converged)])
        }

    def _theta_arrays(self):
        is_listed = isinstance(self.Theta, ListedParameters)
        return self.Theta.to_arrays() if is_listed else super()._theta_arrays()

    def _stored_theta(self, arrays, model):
        if isinstance(arrays["Theta"], dict):
            return ListedParameters.from_arrays(model.family, arrays["Theta"], (self.K, self.data.n_statistics))
        return super()._stored_theta(arrays, model)

    def _checked_sums(self, sums_of_labels, n, S):
        """Return None: soft statistics follow from the parameters, not from labels."""

    def _check_kind(self, S):
        """Accept sparse and dense sums: where they are by column, their number decides."""
        if not self._is_by_column():
            super()._check_kind(S)

    def restore(self, arrays, sums_of_labels):
        """Restore the state from the arrays of `arrays_without_labels`."""
        log_likelihood, log_joint, converged = numbers(arrays, "scalars", (3,), finite=False).tolist()
        super().restore(arrays, sums_of_labels)
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
    takes_weight = True
    takes_known = frozenset({"clusters", "links"})
    _constraints = {"tol": Real(0, ends="[]")}

    @property
    def makes_draws(self):
        """Return False: labels are soft."""
        return False

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

        Each thread has sums in double precision, a part in single precision, and three pieces of the sums of all
        segments; the total needs memory too. Sums that are made column by column need the entries by column and what
        each row gives to the components, beside the parameters and the sums before and after.
        """
        sizes = sizes_of(data, n_clusters)
        if sums_are_by_column(sizes, n_clusters):
            return 32 * n_clusters * (data.n_statistics + 1) + 24 * data.n_nonzero + 24 * data.n_rows * n_clusters
        n_sums = resolve_n_threads(self.n_threads) + 1
        return (20 + 36 * n_sums) * n_clusters * (data.n_statistics + 1)

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


def sizes_of(data, n_components):
    """Return the sizes of all data that decide how sums are made; `data` may be in parts."""
    n_stored = data.n_nonzero if data.has_sparse_phi else None
    return Sizes(data.n_rows, data.n_statistics, n_stored, has_few_rows(data, n_components))


def expected_rows(data, state, sizes, bounds, n_threads, start, stop, labels, *, is_summed=True):
    """Find the most probable component of some rows, and return their soft sums.

    Parameters
    ----------
    data : Dataset
    state : object
        Its `Theta`, `G`, `log_pi`, `n` and `S` are those of all data.
    sizes : Sizes
        Of all data.
    bounds : Bounds
    n_threads : int or None
    start, stop : int
        The rows.
    labels : (N,) int32 ndarray
        Those of these rows are set.
    is_summed : bool
        Whether sums are wanted. The rows are then whole segments, or all rows where these are few.

    Returns
    -------
    SoftSums

    Raises
    ------
    FloatingPointError
        A datum has no finite score.
    """
    if sizes.is_few:
        is_whole = start == 0 and stop == data.n_rows
        # rows that are not summed need no weights
        sums, labels[start:stop] = sums_of_few(data if is_whole else data.rows(start, stop), state)
        return sums
    cdef DenseScores scores = scores_of(data, state)
    offset, spare, near = data.row_offset, [], near_scores(scores, state)

    def expect_segment(start, stop):
        try:
            sums = spare.pop()
        except IndexError:
            sums = _Sums(scores, near, sizes, bounds)
        sums.clear()
        for first, last in grid(offset, start, stop, scores.tile_rows):
            sums.add(first, last, labels)
        if is_summed:
            sums.close()
        spare.append(sums)
        return sums.log_likelihood

    values = run(expect_segment, grid(offset, start, stop, sizes.segment_rows), n_threads)
    return sum((sums.result() for sums in spare), SoftSums({}, exact_log_likelihood(values)))


def listed_rows(data, state, columns, sizes, n_threads, labels):
    """Find the most probable component of all rows, and what each row gives to the components.

    Parameters
    ----------
    data, state, sizes, n_threads, labels
        As of `expected_rows`; the statistics of the rows are sparse.
    columns : ColumnEntries
        Of the same rows.

    Returns
    -------
    ListedRows
    log_likelihood : float
    tile_rows : int
        Number of rows of a tile.
    """
    cdef DenseScores scores = scores_of(ScoredColumns(data, columns), state, columns.occurring)
    offset, spare = data.row_offset, []

    def expect_segment(start, stop):
        try:
            lists = spare.pop()
        except IndexError:
            lists = _Lists(scores)
        lists.clear()
        for first, last in grid(offset, start, stop, scores.tile_rows):
            lists.add(first, last, labels)
        spare.append(lists)
        return lists.log_likelihood, lists.tiles

    found = run(expect_segment, grid(offset, 0, data.n_rows, sizes.segment_rows), n_threads, uses_blas=False)
    log_likelihood = float(exact_log_likelihood([value for value, _ in found]))
    tiles = [tile for _, of_segment in found for tile in of_segment]
    del found
    spare.clear()
    tile_rows, scores = scores.tile_rows, None     # which take as much memory as the sums of the next step
    return ListedRows(tiles), log_likelihood, tile_rows


cdef class _Weighed:
    """Rows of one segment after the other, weighed under all components.

    Subclasses write `_expect`, which returns the log likelihood of rows in single precision, and `_take_rough`.
    """

    cdef DenseScores scores
    cdef Tile tile
    cdef readonly double log_likelihood

    def add(self, start, stop, labels):
        """Weigh the rows of one tile, or of a part of one."""
        data, tile, n_rows = self.scores.data, self.tile, stop - start
        weight = np.ones(n_rows) if data.weight is None else data.weight[start:stop]
        if self.scores.fits:
            self.log_likelihood += self._expect(start, stop, weight, labels[start:stop])
        else:
            tile.rough[:n_rows] = 1
        rough = np.flatnonzero(tile.rough[:n_rows])
        if rough.size:
            phi = (data.phi_csr(start, stop) if self.scores.sparse else data.phi(start, stop))[rough]
            self._take_rough(phi, self._weigh_rough(phi, weight[rough], start + rough, labels), rough)
        self._end_tile(n_rows)

    def _end_tile(self, n_rows):
        pass

    def _weigh_rough(self, phi, weight, rows, labels):
        """Return the weighted responsibilities (rows, K) by scores in double precision."""
        p = self.scores.exact_scores(phi)
        best = p.max(axis=1)
        bad = np.flatnonzero(~np.isfinite(best))
        if bad.size:
            raise no_finite_score(self.scores.data, rows[bad[0]])
        labels[rows] = p.argmax(axis=1)
        p = np.exp(p - best[:, None])
        total = p.sum(axis=1)
        self.log_likelihood += float(weight @ (best + np.log(total)))
        p *= (weight / total)[:, None]
        return p


cdef class _Lists(_Weighed):
    """What the rows of one segment after the other give to the components."""

    cdef TileLists lists
    cdef readonly list tiles

    def __init__(self, DenseScores scores):
        self.scores, self.tile = scores, scores.tile()
        self.lists = TileLists(scores.tile_rows, scores.width)

    def clear(self):
        """Begin with a segment."""
        self.tiles, self.log_likelihood = [], 0.0

    def _expect(self, start, stop, weight, labels):
        phi = self.scores.data.phi_csr(start, stop)
        return expect_sparse(self.scores, self.tile, phi, weight, labels, None, self.lists)

    def _take_rough(self, phi, p, rough):
        self.lists.put_rough(rough, p)

    def _end_tile(self, n_rows):
        self.tiles.append(self.lists.take(n_rows))


cdef class _Sums(_Weighed):
    """Sums of one segment after the other, and the pieces of those that were closed.

    `near` is made in single precision, `rough` in double precision.
    """

    cdef object sizes, bounds, near, rough, part, pieces
    cdef BestScores best
    cdef NearLists lists                    # None where a product is always as fast
    cdef NearTile near_tile                 # None where all scores are computed

    def __init__(self, DenseScores scores, near, sizes, bounds):
        self.scores, self.tile, self.sizes, self.bounds = scores, scores.tile(), sizes, bounds
        shape = (scores.F + 1, scores.width) if scores.sparse else (scores.width, scores.F + 1)
        self.near, self.rough, self.part, self.pieces = aligned(shape), None, None, {}
        if not scores.sparse:
            self.part, self.best = in_lines(shape, np.float32), BestScores(scores)
            self.near_tile = None if near is None else NearTile(scores, near)
            if may_list(scores.width, scores.F + 1):
                self.lists = NearLists(scores.tile_rows, scores.width, scores.F + 1)

    def clear(self):
        """Set all sums to 0 before a segment."""
        self.near[:] = 0.0
        self.rough, self.log_likelihood = None, 0.0

    def close(self):
        """Add the sums of a segment to the pieces of those before."""
        scores = self.scores
        if scores.sparse:
            bound = bounds_of_terms(self.sizes, self.bounds).max()     # rows of the table are statistics
            self._add("near", self.near, np.full(scores.width, bound))
        elif scores.fits:
            terms = bounds_of_terms(self.sizes, self.bounds, scores.scale, scores.centre)
            self._add("near", self.near[: scores.K], terms)
        if self.rough is not None:
            self._add("rough", self.rough, bounds_of_terms(self.sizes, self.bounds))

    def _add(self, kind, sums, bounds):
        if kind not in self.pieces:
            self.pieces[kind] = Pieces(sums.shape, bounds, self.sizes.n_segments)
        self.pieces[kind].add(sums)

    def result(self):
        """Return the sums of the segments that were closed, without their log likelihood."""
        scores, tables = self.scores, {kind: pieces.table for kind, pieces in self.pieces.items()}
        if scores.sparse:
            tables = {kind: np.ascontiguousarray(table[:, :, : scores.K]) for kind, table in tables.items()}
            return SoftSums(tables, Fraction(0))
        return SoftSums(tables, Fraction(0), scores.scale, scores.centre)

    def _expect(self, start, stop, weight, labels):
        data, tile = self.scores.data, self.tile
        if self.scores.sparse:
            return expect_sparse(self.scores, tile, data.phi_csr(start, stop), weight, labels, self.near, None)
        place = (data.row_offset + start) % self.scores.tile_rows
        if self.lists is not None:
            self.lists.clear()
        self.scores.narrow_tile(tile, start, stop, place)
        if self.near_tile is None:
            np.matmul(tile.phi, self.scores.table, out=tile.scores)
        else:
            self.near_tile.write(tile, place, stop - start)
        log_likelihood = self._weigh(weight, labels, place)
        if self.lists is not None and self.lists.size >= 0:
            self.lists.add_to(tile, self.near)
            return log_likelihood
        rows = slice(place, place + stop - start)
        np.matmul(tile.scores[rows].T, tile.phi[rows], out=self.part)
        self.near += self.part
        return log_likelihood

    def _weigh(self, const double[::1] weight, int32_t[::1] labels, Py_ssize_t place):
        """Replace scores of the tile by weighted responsibilities; return the log likelihood."""
        cdef DenseScores s = self.scores
        cdef Tile tile = self.tile
        cdef double log_likelihood
        with nogil:
            log_likelihood = weigh_dense(s, tile, weight, labels, place, self.lists)
            log_likelihood += self.best.total(tile, weight, labels, place)
        return log_likelihood

    def _take_rough(self, phi, p, rough):
        K, F = self.scores.K, self.scores.F
        if self.scores.sparse:
            self.near[F, :K] += p.sum(axis=0)
            add_responsibilities(phi, p, self.near)
            return
        if self.rough is None:
            self.rough = np.zeros((K, F + 1))
        self.rough[:, :F] += p.T @ phi
        self.rough[:, F] += p.sum(axis=0)


def no_finite_score(data, row):
    """Make the error of a row whose scores are all infinite or NaN."""
    return FloatingPointError(
        f"family {data.family.name!r}, datum {data.row_offset + row}: no component has a finite score under the"
        " parameters"
    )


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


cdef double weigh_dense(DenseScores s, Tile tile, const double[::1] weight, int32_t[::1] labels, Py_ssize_t place,
                        NearLists lists) noexcept nogil:
    """Replace scores of a tile by weighted responsibilities.

    Return the log likelihood above the best scores, which `BestScores` adds. The rows begin at `place`. Rough rows get
    zeros. Unless it is None, `lists` gets those that are not negligible.
    """
    cdef Py_ssize_t i, k
    cdef float best
    cdef float *x
    cdef double total, log_likelihood = 0.0
    cdef bint is_listed = lists is not None
    for i in range(labels.shape[0]):
        x = &tile.score_view[place + i, 0]
        best = expfam_tops(x, &tile.tops[0], s.width)
        tile.rough_view[i] = not (tile.bounds[i] < DENSE_HOPELESS and DENSE_NEVER < best < INFINITY)
        if not tile.rough_view[i]:
            k = best_of(x, best, &tile.tops[0], s.K)
            labels[i] = <int32_t> k
            tile.rough_view[i] = tile.bounds[i] > DENSE_REACH and s.narrow_size(tile, place + i, k) > DENSE_REACH
        if tile.rough_view[i]:
            memset(x, 0, s.width * sizeof(float))
            continue
        total = expfam_near_weights(x, best, DENSE_DEPTH, &tile.tops[0], &tile.sums[0], s.width)
        expfam_near_scale(x, <float> (weight[i] / total), &tile.sums[0], s.width)
        if is_listed:
            lists.put(place + i, x, &tile.sums[0], <float> (weight[i] * NEGLIGIBLE))
        log_likelihood += weight[i] * log(total)
    return log_likelihood


def expect_sparse(DenseScores s, Tile tile, phi, const double[::1] weight, int32_t[::1] labels, double[:, ::1] near,
                  TileLists lists):
    """Add soft statistics of CSR rows, or list responsibilities; return the log likelihood.

    `near` is (F + 1, width), with counts last. One of `near` and `lists` is None.
    """
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
            expfam_near_floor(x, <float> (weight[i] * NEGLIGIBLE), &tile.sums[0], s.width)  # lists stay short
            log_likelihood += weight[i] * (s.sparse_score(where, what, length, k) + log(total))
            if lists is not None:
                if lists.is_full():
                    with gil:
                        lists.grow(lists.width)
                lists.put(i, x, &tile.sums[0], s.width)
                continue
            expfam_add_near(&near[s.F, 0], x, 1.0, &tile.sums[0], s.width)
            for t in range(length):
                expfam_add_near(&near[where[t], 0], x, what[t], &tile.sums[0], s.width)
    return log_likelihood
