"""Sparse variational inference of mixtures: each datum keeps responsibilities for its L most probable clusters.

A pass scores the data against all K clusters, or against few candidates, keeps the L largest scores of each and sums
statistics with their softmax; the posterior of weights and parameters follows from the sums. Deterministic but for the
start and the order of batches. O(N K F) a pass, O(N G F) with G candidates, and O(N L F) for the sums; memory
O(K F + N L).
"""

import warnings
from time import perf_counter

import numpy as np

from expfam.errors import CapabilityError, DataWarning
from expfam.params import refuse_unused
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.variational.candidate_passes import CandidatePasses, graph_pays
from expfam.samplers.variational.candidates import GraphCandidates
from expfam.samplers.variational.local_step import PassDiagnostics, PhiSizes, SparsePass, Sums
from expfam.samplers.variational.schedules import Full, Memoized, Schedule, Stochastic
from expfam.samplers.variational.soft_state import SETTLED_SHARE
from expfam.samplers.variational.soft_stream import warn_of_few
from expfam.samplers.variational.state import VariationalState
from expfam.samplers.variational.stream import VariationalStream

_MOST_BATCHES = 20
_BATCH_ROWS = 200  # rows of a batch for each cluster


class SparseVariational(CandidatePasses, Kernel):
    """Variational inference with at most L responsibilities for each datum; one step is one pass over the data.

    Parameters
    ----------
    n_active : int or None
        L. 1 is hard assignment, None (or K and more) keeps all: ordinary variational inference.
    schedule : "auto", Full, Memoized or Stochastic
        When the posterior is updated. "auto" is Memoized with batches of at least 200 K rows and up to 20 of them, Full
        where that is one: updating more often gains more in a pass, but each update costs as much as many rows.
    objective : {"vb", "map"}
        Posterior of parameters and weights, or their mode: "map" is expectation-maximisation of the penalised
        likelihood.
    n_candidates : "auto", int or None
        Clusters against which a datum is scored between full passes; None for all of them, "auto" for all of up to
        127, and where data are so few and wide that the graph would cost more than a pass, else 48. They are the
        nearest clusters of the one that the datum had last, and its last clusters. They may miss a better one, and
        the bound may then stay below what passes over all clusters reach.
    full_every : int
        Passes from one that scores all clusters to the next. The first passes score all clusters too, until one
        changes less than a tenth of the labels.
    memo : {"auto", "statistics", "rows"}
        What a memoized schedule remembers of a batch, sums or rows; "auto" takes what is smaller. For the exact
        result they are the same.
    tol : float
        Converged is a gain of less than this share of the bound in a pass over all clusters.
    dtype : {"float32", "float64"}
        Of scores and responsibilities; sums over blocks are float64. In float32 the bound is exact to about 1e-5 of it,
        and may fall by so much.
    truncation : int
        Number of clusters kept under a Dirichlet process or Pitman-Yor prior, at most one for each datum.
    sticks : {"open", "closed"}
        Whether the last kept stick leaves mass beyond it. With open sticks bounds of different truncations compare.
    n_threads : int or None
        The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import SparseVariational, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = SparseVariational(n_active=2)
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 50)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)

    Notes
    -----
    Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors". For responsibilities
    restricted to L clusters the best ones are the L with the largest expected scores, under a softmax; what the bound
    loses by it is -log of the dense mass they have. The bound never falls, for any L, under Full and Memoized: a
    datum's candidates contain its last clusters, so its new responsibilities cannot be worse (Luecke and Forster
    2019, "k-means as a variational EM approximation of Gaussian mixture models", have such sets by distances).
    Results are those of a local optimum: the start matters.
    """

    state_type = VariationalState
    takes_weight = True

    def __init__(
        self,
        n_active=4,
        *,
        schedule="auto",
        objective="vb",
        n_candidates="auto",
        full_every=10,
        memo="auto",
        tol=1e-5,
        dtype="float32",
        truncation=100,
        sticks="open",
        n_threads=None,
    ):
        self.n_active, self.schedule, self.objective = n_active, schedule, objective
        self.n_candidates, self.full_every = n_candidates, full_every
        self.memo, self.tol = memo, tol
        self.dtype, self.truncation, self.sticks, self.n_threads = dtype, truncation, sticks, n_threads

    # ---- settings for given sizes ------------------------------------------------------------------------------------

    def check(self, model, data):
        """Refuse settings out of their ranges, families and weights without what is needed."""
        self._check_settings()
        K = self.n_clusters_of(model, data)
        self.schedule_of(K, data.n_rows).check(data.n_rows)
        self._check_abilities(model, data, K)

    def _check_abilities(self, model, data, K):
        if self.memo == "rows" and self.n_active_of(K) >= K:
            raise ValueError("memo='rows' needs n_active below the number of clusters; use memo='statistics'")
        if self.objective == "map":
            model.family.require("map", "SparseVariational(objective='map')")
            for owner, method in ((model.family, "log_prior"), (model.weights, "log_density")):
                if not hasattr(owner, method):
                    raise CapabilityError(f"SparseVariational(objective='map') needs {method}(), which {owner!r} lacks")
        elif data.n_statistics > 64:  # narrower ones can be differentiated
            model.family.require("variational", "SparseVariational")

    def _check_settings(self):
        for name in ("n_active", "n_candidates", "full_every", "truncation"):
            value = getattr(self, name)
            if value is None and name in ("n_active", "n_candidates"):
                continue
            if isinstance(value, str) and value == "auto" and name == "n_candidates":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"SparseVariational: {name} must be an integer of at least 1; got {value!r}")
        choices = {
            "objective": ("vb", "map"),
            "memo": ("auto", "statistics", "rows"),
            "dtype": ("float64", "float32"),
            "sticks": ("open", "closed"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"SparseVariational: {name} must be one of {allowed}; got {getattr(self, name)!r}")
        if not (isinstance(self.schedule, Schedule) or self.has_auto_schedule()):
            raise ValueError(
                f"SparseVariational: schedule must be 'auto', Full(), Memoized() or Stochastic(); got {self.schedule!r}"
            )
        if not 0 <= self.tol < np.inf:
            raise ValueError(f"SparseVariational: tol must be finite and non-negative; got {self.tol!r}")
        self._refuse_unused()

    def _refuse_unused(self):
        if isinstance(self.schedule, Schedule) and not isinstance(self.schedule, Memoized):
            refuse_unused(self, ["memo"], why=f"the schedule {self.schedule!r}", remedy="take Memoized()")

    def max_clusters(self, model):
        """The components of finite weights, or the truncation."""
        return model.weights.max_components or self.truncation

    def n_clusters_of(self, model, data):
        """K: the components of finite weights, or as many sticks as there can be data for."""
        return model.weights.max_components or min(self.truncation, data.n_rows)

    def has_auto_schedule(self):
        """Whether the schedule is chosen by the sizes."""
        return isinstance(self.schedule, str) and self.schedule == "auto"

    def schedule_of(self, n_clusters, n_rows):
        """The schedule for so many clusters and rows."""
        if not self.has_auto_schedule():
            return self.schedule
        n_batches = min(_MOST_BATCHES, n_rows // (_BATCH_ROWS * n_clusters))
        return Memoized(n_batches) if n_batches > 1 else Full()

    def stream_schedule(self):
        """The schedule of a run that learns chunks."""
        return Memoized() if self.has_auto_schedule() else self.schedule

    def n_active_of(self, n_clusters):
        """L among so many clusters."""
        return n_clusters if self.n_active is None else min(int(self.n_active), n_clusters)

    def memo_of(self, n_clusters, data):
        """What is remembered of each batch: "rows", "statistics", or None for schedules without memory."""
        schedule = self.schedule_of(n_clusters, data.n_rows)
        if not isinstance(schedule, Memoized):
            return None
        L = self.n_active_of(n_clusters)
        if n_clusters <= L:
            return "statistics"
        if self.memo != "auto":
            return self.memo
        n_batches = schedule.n_batches_of(data.n_rows)
        as_sums = 8 * n_batches * n_clusters * (data.n_statistics + 1)
        as_rows = data.n_rows * L * (np.dtype(self.dtype).itemsize + 4 * (not self.has_candidates(n_clusters)))
        return "rows" if as_rows <= as_sums else "statistics"

    def memory(self, model, data, n_clusters):
        """Bytes of tables, sums of the parts, and kept rows."""
        K = self.n_clusters_of(model, data)
        L, size, schedule = self.n_active_of(K), np.dtype(self.dtype).itemsize, self.schedule_of(K, data.n_rows)
        kept = data.n_rows * L * (4 + size) if L < K else 0
        if self.memo_of(K, data) == "statistics":
            kept += 8 * schedule.n_batches_of(data.n_rows) * K * (data.n_statistics + 1)
        if not isinstance(schedule, Full):
            kept += 16 * data.n_rows
        width = SparsePass(PhiSizes(data, size), K, L).memory()
        return int(kept + width)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def init_state(self, model, data, labels, *, seed):
        """State of the labels, each row wholly in its cluster."""
        K = self.n_clusters_of(model, data)
        if data.n_rows < K:
            warnings.warn(f"{K} clusters for {data.n_rows} data: the rest stay at the prior", DataWarning, stacklevel=3)
        return VariationalState(model, data, _fitted(labels, K), n_clusters=K, settings=self, seed=seed)

    def stream(self, model, data, *, seed=None, start="auto", n_clusters=None):
        """State of a run that learns chunks of data and keeps none of them; the first one is only looked at here.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
            The first chunk: binds the family, draws the start and fixes the coordinates of the passes.
        seed, start, n_clusters
            As of `init`.

        Returns
        -------
        VariationalStream
        """
        model, data, seed, labels = self.prepare(
            model, data, seed=seed, start=start, n_clusters=n_clusters, check=self.check_stream
        )
        stream = self._empty_stream(model, data, seed)
        if model.weights.max_components is not None:
            warn_of_few(stream.K, data)
        stream.begin(data, _fitted(labels, stream.K))
        return stream

    def resumed_stream(self, model, data, n, S, *, seed):
        """`stream` that goes on from the statistics of a finished fit, with a first further chunk."""
        self.check_stream(model, data)
        stream = self._empty_stream(model, data, seed)
        stream.resume(n, S)
        return stream

    def _empty_stream(self, model, data, seed):
        K = self.max_clusters(model)
        return VariationalStream(model, data, n_clusters=K, settings=self, seed=seed)

    def check_stream(self, model, data):
        """`check` for a run that learns chunks, of which this is one."""
        self._check_settings()
        if isinstance(self.schedule, Schedule):
            self.schedule.check_settings()
        self._check_abilities(model, data, self.max_clusters(model))

    def move(self, state):
        """One pass by the schedule; returns (data, changed labels, what it took)."""
        self._check_owner(state)
        before, labels = state.log_joint, state.labels.copy()
        scores_all = self._scores_all(state)
        diagnostics, seconds = PassDiagnostics(), _Clock()
        candidates = None if scores_all else self._candidates(state)
        seconds.lap()
        state.log_joint = _pass_of(state.schedule)(state, candidates, diagnostics, seconds)
        state.stamp += 1
        n_moved = int(np.count_nonzero(labels != state.labels))
        self._note_pass(state, n_moved, scores_all=scores_all)
        if not isinstance(state.schedule, Stochastic):
            self._look_for_convergence(state, before, self.tol, scores_all=scores_all)
        extra = diagnostics.extra() | {"seconds_global": seconds.total, "all_clusters": int(scores_all)}
        return state.data.n_rows, n_moved, extra

    def _scores_all(self, state):
        if not self.has_candidates(state.K):
            return True
        if isinstance(self.n_candidates, str) and not graph_pays(state):
            return True
        return state.share_moved >= SETTLED_SHARE or self._is_due(state)

    def _candidates(self, state):
        """Return the candidates of a pass: the graph of the clusters is made once a pass."""
        return GraphCandidates(state.posterior.cluster_graph(self.n_candidates_of(state.K)))

    def _check_owner(self, state):
        mine, its = self.get_params(), state.settings.get_params()
        different = [name for name in mine if name != "n_threads" and mine[name] != its[name]]
        if different:
            raise CapabilityError(
                f"the state was made by a kernel with other settings ({', '.join(different)}): use that kernel, or make"
                " a state with start=state.partition"
            )

    def is_done(self, state):
        """Whether the bound has settled."""
        return state.converged

    def finish(self, state):
        """A last look at all clusters: one more pass where the last one did not score them all.

        Under a stochastic schedule the statistics stay as they are, and every row gets its label under them.
        """
        if isinstance(state.schedule, Stochastic):
            rows = slice(0, state.data.n_rows)
            state.labels = state.passes.local_step(rows, state.tables()).labels
            state.stamp += 1
        else:
            self._finish_with_all(state)


def _fitted(labels, K):
    """Labels below K: renumbered where they are not."""
    values = np.unique(labels)
    if values.size > K:
        raise CapabilityError(f"{values.size} starting clusters, but SparseVariational keeps {K} components here")
    return labels if values.max() < K else np.searchsorted(values, labels)


class _Clock:
    """Seconds of the global steps."""

    def __init__(self):
        self.total, self._began = 0.0, perf_counter()

    def start(self):
        self._began = perf_counter()

    def lap(self):
        self.total += perf_counter() - self._began


# ---- passes ----------------------------------------------------------------------------------------------------------


def _pass_of(schedule):
    if isinstance(schedule, Memoized):
        return _memoized_pass
    return _stochastic_pass if isinstance(schedule, Stochastic) else _full_pass


def _local_step(state, rows, candidates, **options):
    if candidates is not None:
        options |= {"candidates": candidates, "last": state.indices[rows]}
    return state.passes.local_step(rows, state.tables(), **options)


def _remember(state, rows, local):
    state.labels[rows] = local.labels
    if state.indices is not None:
        state.indices[rows] = local.indices
    if state.values is not None:
        state.values[rows] = local.values


def _full_pass(state, candidates, diagnostics, clock):
    """All rows, then the posterior; returns the bound."""
    rows = slice(0, state.data.n_rows)
    local = _local_step(state, rows, candidates, keep=state.indices is not None)
    diagnostics.add(local.diagnostics)
    clock.start()
    _remember(state, rows, local)
    state.sums = local.sums
    state.update()
    bound = state.compute_log_joint()
    clock.lap()
    return bound


def _memoized_pass(state, candidates, diagnostics, clock):
    """Each batch in turn: its new sums replace its old ones, then the posterior; returns the bound.

    The last batch completes the sums of this pass, which replace the running ones: rounding does not pile up.
    """
    order = state.schedule.order(state.data.n_rows, state.seed, state.n_steps)
    fresh = Sums.zeros(state.K, state.phi.n_statistics)
    for place, b in enumerate(order):
        rows = state.batches[b]
        remembered = None if state.values is None else (state.indices[rows], state.values[rows])
        local = _local_step(state, rows, candidates, remembered=remembered, keep=state.indices is not None)
        diagnostics.add(local.diagnostics)
        clock.start()
        old = local.replaced if state.values is not None else state.batch_sums[b]
        old.entropy = float(state.batch_entropy[b])
        fresh.add(local.sums)
        sums = state.sums.copy().replace(old, local.sums) if place < len(order) - 1 else fresh
        _remember(state, rows, local)
        state.batch_entropy[b] = local.sums.entropy
        if state.batch_sums is not None:
            state.batch_sums[b] = local.sums
        state.sums = sums
        state.update()
        clock.lap()
    clock.start()
    bound = state.compute_log_joint()
    clock.lap()
    return bound


def _stochastic_pass(state, candidates, diagnostics, clock):
    """Each batch in turn: a step of the sums towards its own, scaled up; returns the mean of the noisy bounds."""
    schedule, bounds = state.schedule, []
    weight = state.data.weight
    for rows in schedule.batches(state.data.n_rows, state.seed, state.n_steps):
        local = _local_step(state, rows, candidates, keep=state.indices is not None)
        diagnostics.add(local.diagnostics)
        clock.start()
        share = len(rows) if weight is None else float(weight[rows].sum())
        scale = state.total_weight / share if share else 0.0
        bounds.append(scale * local.value - state.posterior.divergence() + state.total_weight * state.phi.log_det)
        state.n_updates += 1
        step = schedule.step_size(state.n_updates) if share else 0.0
        sums = state.sums.copy().scale(1.0 - step)
        state.sums = sums.add(local.sums, step * scale)
        _remember(state, rows, local)
        state.update()
        clock.lap()
    return float(np.mean(bounds))
