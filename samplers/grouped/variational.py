"""Variational inference of rows in groups, which share clusters and have their own weights.

A pass computes the weights of each group and the responsibilities of its rows at fixed parameters; the posterior of the
parameters follows from the sums. Only the start and the order of the batches are random. The weights of a group are
Dirichlet, and each row keeps its L most probable clusters. The state keeps the counts of each group: the sums of the
responsibilities of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from expfam.errors import ExpFamError
from expfam.model.pseudo_counts import PRIOR_RATE
from expfam.samplers.grouped.local_step import GroupedPass, better_pseudocounts, weights_evidence
from expfam.samplers.grouped.rows import check_grouped, first_clusters
from expfam.samplers.grouped.state import GroupedSoft
from expfam.samplers.grouped.stream import GroupedStream
from expfam.samplers.states.storage import family_arrays, memory_arrays, stored_memory, with_family_arrays
from expfam.samplers.variational.candidate_passes import CandidatePasses
from expfam.samplers.variational.held_rows import Batch, HeldSoft
from expfam.samplers.variational.local_step import PhiSizes
from expfam.samplers.variational.schedules import Schedule, Stochastic, automatic_schedule
from expfam.samplers.variational.soft_stream import warn_of_few
from expfam.samplers.variational.state import stored_rows
from expfam.samplers.variational.stream_kernel import LOCAL_ITERATIONS
from expfam.structures.ground.stored import TINY, integers, matrix, numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.samplers.grouped.local_step import GroupedLocalStep
    from expfam.samplers.variational.learner import Pass
    from expfam.samplers.variational.local_step import Sums

_NARROW = 64  # with more statistics than this a family cannot be differentiated


class GroupedVariational(CandidatePasses):
    """Variational inference of clusters that groups of rows mix; a step is a pass.

    Rows of known classes stay in their clusters, class c in cluster c.

    Parameters
    ----------
    n_active : int or None
        L, the largest number of clusters that a row keeps. None, or K and more, keeps all clusters.
    schedule : "auto", Full, Memoized or Stochastic
        When the parameters are updated; batches are whole groups. "auto" is Memoized with up to 20 batches of at least
        200 K rows each, or Full where that is one batch; for chunks it is Memoized. Stochastic is only for chunks.
    max_iterations : int
        Largest number of iterations between a group's weights and its rows in one pass. A group whose scores need more
        than 64 MB makes one iteration. In float32 that is about 16,000 rows for 1000 clusters, or 300,000 for 50.
    tol : float
        A group has converged when no count changes by more than this, in rows.
    n_restarts, restart_iterations : int
        Number of clusters of each group that a pass tries to remove, the smallest first, and iterations of each trial.
        A trial is kept if the bound rises. Trials find groups with fewer clusters.
    n_candidates : "auto", int or None
        Number of clusters against which a row is scored between passes over all clusters; None for all clusters.
        "auto" is 48, but all clusters if these are fewer than 128, or if there are few rows for each. The candidates
        are the nearest clusters of the cluster that the row had last. The row's last clusters are scored too. Rows of
        chunks are scored against all clusters.
    full_every : int
        Passes from one that scores all clusters to the next. The first passes, until one changes less than a tenth of
        the labels, and the last pass score all clusters too.
    bound_tol : float
        The run has converged when a pass over all clusters gains less than this share of the bound.
    learn_alpha : bool
        Raise the bound over the pseudo-counts of clusters after each pass, under a Gamma(1, 1) prior.
    dtype : {"float32", "float64"}
        Type of scores and responsibilities; sums over blocks are float64.
    n_threads : int or None
        The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers import GroupedVariational, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> data = Dataset(X, Poisson(), groups=np.arange(40) % 4)
    >>> kernel = GroupedVariational()
    >>> state = kernel.init(AdmixtureModel(data.family, 2, alpha=0.5), data, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> state.group_counts().toarray().round(1).tolist() == [[5.0, 5.0]] * 4
    True

    Notes
    -----
    Blei, Ng and Jordan 2003, "Latent Dirichlet allocation", for rows of any family; sparse responsibilities as in
    Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors". A group begins a pass with
    its last weights, and the last clusters of a row are among its scored clusters. So the bound never falls, for any L,
    under Full and Memoized, with and without restarts.
    """

    takes_weight = True
    takes_groups = True
    takes_known = frozenset({"clusters"})
    _constraints: ClassVar = LOCAL_ITERATIONS

    def __init__(
        self,
        n_active: int | None = 4,
        *,
        schedule: Schedule | Literal["auto"] = "auto",
        max_iterations: int = 5,
        tol: float = 0.05,
        n_restarts: int = 1,
        restart_iterations: int = 2,
        n_candidates: int | Literal["auto"] | None = "auto",
        full_every: int = 10,
        bound_tol: float = 1e-5,
        learn_alpha: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        n_threads: int | None = None,
    ) -> None:
        self.n_active, self.schedule, self.max_iterations, self.tol = n_active, schedule, max_iterations, tol
        self.n_restarts, self.restart_iterations = n_restarts, restart_iterations
        self.n_candidates, self.full_every, self.bound_tol = n_candidates, full_every, bound_tol
        self.learn_alpha, self.dtype, self.n_threads = learn_alpha, dtype, n_threads

    # ---- settings ----------------------------------------------------------------------------------------------------

    def check(self, model: Any, data: Any) -> None:
        """Raise for settings out of range, models that are no admixtures, and data without groups."""
        self._check_settings(model, data)
        if isinstance(self.schedule, Stochastic):
            raise ValueError(
                f"GroupedVariational: schedule must be 'auto', Full() or Memoized() for data in memory; got"
                f" {self.schedule!r}: learn them in chunks"
            )
        self.schedule_of(model.n_components, data).check(data.groups.n_groups)

    def _check_settings(self, model, data):
        super()._check_settings(model, data)
        check_grouped(model, data, "GroupedVariational")
        if data.n_statistics > _NARROW:
            model.family.require("variational", "GroupedVariational")

    def schedule_of(self, n_clusters: int, data: Any) -> Any:
        """Return the schedule for `n_clusters` and the rows and groups of the data.

        Parameters
        ----------
        n_clusters : int
        data : Dataset
            With groups, which batches do not divide.

        Returns
        -------
        Full, Memoized or Stochastic
            The setting `schedule`; "auto" is resolved.
        """
        if not self.has_auto_schedule():
            return self.schedule
        return automatic_schedule(n_clusters, data.n_rows, data.groups.n_groups)

    def memory(self, model: AdmixtureModel, data: Any, n_clusters: int) -> int:
        """Return the bytes of tables, sums of batches, counts of groups, and scores of long groups."""
        K = model.n_components
        n_batches = self.schedule_of(K, data).n_batches_of(data.groups.n_groups)
        counts = 12 * min(data.n_rows * self.n_active_of(K), data.groups.n_groups * K)
        kept = 4 * data.n_rows * self.n_active_of(K) if self.has_candidates(K) else 0
        held = self._held_memory(K, data)
        return int(8 * (n_batches + 8) * K * (data.n_statistics + 1) + counts + kept + held + 16 * data.n_rows)

    def _held_memory(self, n_clusters, data):
        phi = PhiSizes(data, np.dtype(self.dtype).itemsize)
        passes = GroupedPass(phi, n_clusters, self.n_active_of(n_clusters), data.groups, self, weight=data.weight)
        if not self.has_candidates(n_clusters):
            return passes.held_memory()
        return max(passes.held_memory(), passes.held_memory(n_near=self.n_candidates_of(n_clusters)))

    # ---- steps -------------------------------------------------------------------------------------------------------

    def first_labels(
        self, start: Any, model: AdmixtureModel, data: Dataset, seed: int, n_clusters: int | None
    ) -> npt.NDArray[np.int32]:
        """Return the clusters that a start gives the rows, as for a mixture: (N,) int32."""
        return first_clusters(start, model, data, seed, n_clusters, self.n_threads)

    def init_state(
        self, model: AdmixtureModel, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int
    ) -> GroupedVariationalState:
        """Return the state in which each row has only the cluster of its label, or of its class."""
        labels = _by_class(labels, model.n_components, data)
        return GroupedVariationalState(model, data, labels, settings=self, seed=seed)

    def _empty_stream(self, model, data, seed):
        return GroupedStream(model, data, settings=self, seed=seed)

    def _stream_start(self, stream, data, start):
        warn_of_few(stream.K, data)
        return _by_class(start, stream.K, data)

    def move(self, state: GroupedVariationalState) -> tuple[int, int, dict[str, Any]]:
        """Make one pass by the schedule; return (rows, changed labels, diagnostics)."""
        n_moved, done = self._make_pass(state, self.bound_tol)
        extra = dict(zip(("iterations", "restarts_tried", "restarts_accepted"), state.counters.tolist()))
        extra["iterations"] /= max(1, state.data.groups.n_groups)
        extra["all_clusters"] = int(done.scores_all)
        return state.data.n_rows, n_moved, done.diagnostics.extra() | extra


def _by_class(labels, n_clusters, data):
    """Return labels with class c in cluster c where classes are known."""
    return labels if data.known is None else data.known.numbered_by_class(labels, n_clusters)


class GroupedVariationalState(HeldSoft, GroupedSoft):
    """Expected statistics of K clusters, their posterior, and the counts of each group.

    Parameters
    ----------
    model, data : bound AdmixtureModel and Dataset with groups
    labels : (N,) array_like of int in 0..K-1
        First responsibilities: all of a row's responsibility is in its cluster.
    settings : GroupedVariational
    seed : int

    Attributes
    ----------
    labels, n, S
        As of `VariationalState`.
    log_joint : float
        Lower bound of the log evidence of the data, nats, without log-base, plus the log prior density of the
        pseudo-counts where these are learned.
    converged : bool
    counters : (3,) int64 ndarray
        Iterations of groups, restarts tried and accepted in the last pass.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers import GroupedVariational
    >>> data = Dataset([[0], [1], [40]], Poisson(), groups=[0, 0, 1])
    >>> kernel = GroupedVariational()
    >>> state = kernel.init(AdmixtureModel(data.family, 2), data, seed=0, start=[0, 0, 1])
    >>> state.n
    array([2., 1.])
    """

    def __init__(
        self, model: AdmixtureModel, data: Any, labels: npt.ArrayLike, *, settings: GroupedVariational, seed: int
    ) -> None:
        super().__init__(model, data, n_clusters=model.n_components, settings=settings, seed=seed)
        self.labels = np.array(labels, dtype=np.int32)
        self.passes = self.group_passes(self.phi, data)
        self.hold(data, settings.schedule_of(self.K, data))
        self.counters = np.zeros(3, dtype=np.int64)
        self._begin()
        self.update()
        self.log_joint = self.compute_log_joint()

    @property
    def n_units(self) -> int:
        """Return the number of groups, which are not divided."""
        return self.data.groups.n_groups

    def _begin(self):
        """Set sums and counts of rows that are each in one cluster, by their labels."""
        groups, weight = self.data.groups, self.data.weight
        self.indices = self.first_indices() if self.settings.has_candidates(self.K) else None
        ones = np.ones(len(self.labels)) if weight is None else weight
        shape = (groups.n_groups, self.K)
        counts = sparse.csr_array((ones, (groups.of_row, self.labels)), shape=shape)
        counts.sum_duplicates()
        self.batch_counts = [counts[chosen] for chosen in self.batches]
        self.batch_sums = []
        for chosen in self.batches:
            rows = self.passes.rows_of(chosen)[0]
            one = np.ones((len(rows), 1), dtype=self.phi.dtype)
            self.batch_sums.append(self.passes.sums_of(rows, self.labels[rows, None], one))
        self.sums = self.total_of_batches()

    def groups_bound(self) -> float:
        """Return the part of the bound that belongs to the groups' weights, nats."""
        return sum(weights_evidence(self.model.pseudocounts, counts) for counts in self.batch_counts)

    def group_counts(self) -> sparse.csr_array:
        """Return the sums of the responsibilities of each group's rows: (G, K) float64 CSR."""
        chosen = np.concatenate(self.batches)
        return sparse.csr_array(sparse.vstack(self.batch_counts, format="csr")[np.argsort(chosen, kind="stable")])

    # ---- passes ------------------------------------------------------------------------------------------------------

    def make_pass(self, *, all_clusters: bool = True) -> Pass:
        """Make one pass over all groups, batch by batch; return its results.

        Without `all_clusters` rows are scored against candidates.
        """
        self.counters = np.zeros(3, dtype=np.int64)
        return super().make_pass(all_clusters=all_clusters)

    def step_of(self, batch: Batch, *, all_clusters: bool) -> tuple[GroupedLocalStep, bool]:
        """Return the local step of the groups of a batch, and whether it scored all clusters."""
        place = (batch.rows, self.tables(), self.model.pseudocounts, self.batch_counts[batch.place])
        local = self.passes.local_step_of_groups(*place, candidates=self.near, last=self.indices)
        return local, self.near is None

    def last_sums(self, batch: Batch, local: GroupedLocalStep) -> Sums:
        """Return the sums of a batch before this local step."""
        return self.batch_sums[batch.place]

    def remember(self, batch: Batch, local: GroupedLocalStep, *, scores_all: bool) -> None:
        """Keep the labels and clusters of the rows, and the sums and counts of a batch."""
        if self.indices is not None:
            self.indices[local.rows] = local.indices
        self.labels[local.rows], self.batch_counts[batch.place] = local.labels, local.counts
        self.batch_sums[batch.place] = local.sums
        self.counters += local.counters

    def set_total(self, done: Pass) -> None:
        """Replace the sums by those of the batches, from which a checkpoint restores the same bits."""
        self.sums = self.total_of_batches()

    def end_pass(self) -> None:
        """Learn the pseudo-counts of clusters, if the settings say so."""
        if self.settings.learn_alpha:
            counts = sparse.vstack(self.batch_counts, format="csr")
            alpha = better_pseudocounts(self.model.pseudocounts, counts, rate=PRIOR_RATE)
            self.model = self.model.with_alpha(alpha)

    # ---- storage -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare statistics with the counts of the groups; an AssertionError names what differs."""
        slack = 1e-9 if self.phi.dtype == np.float64 else 1e-4
        counts = self.group_counts()
        assert abs(counts.sum(axis=0) - self.n).max() <= slack * self.total_weight, "counts differ from the groups'"
        weight = self.data.weight
        sizes = np.bincount(self.data.groups.of_row, weights=weight, minlength=self.data.groups.n_groups)
        assert abs(counts.sum(axis=1) - sizes).max() <= slack * self.total_weight, (
            "groups' counts differ from their rows"
        )
        total = self.total_of_batches()
        scale = 1.0 + abs(self.sums.S).max()
        assert abs(total.S - self.sums.S).max() <= slack * scale, "sums differ from the batches'"

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later steps read, to the bit, as a dict of arrays."""
        counters = [self.n_steps, self.stamp, self.since_all, self.must_score_all, self.converged]
        kept = {} if self.indices is None else {"indices": self.indices.copy()}
        return kept | {
            "model": {**family_arrays(self.model.family), "alpha": self.model.pseudocounts},
            "labels": self.labels.copy(),
            "counts": {str(b): counts.copy() for b, counts in enumerate(self.batch_counts)},
            **self.batch_arrays(),
            "batch_entropy": np.array([sums.entropy for sums in self.batch_sums]),
            "scalars": np.array([self.log_joint, self.share_moved]),
            "counters": np.array(counters, dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore the state that `to_arrays` stored; later steps give the same bits."""
        shape = (len(self.batches), self.K)
        if arrays["batch_n"].shape != shape:
            raise ExpFamError(
                f"the checkpoint has batches and clusters {arrays['batch_n'].shape}, this state {shape}: make it with"
                " the same kernel"
            )
        K = self.K
        family = with_family_arrays(self.model.family, arrays["model"])
        model = self.model.with_family(family).with_alpha(numbers(arrays["model"], "alpha", (K,), low=TINY))
        labels = integers(arrays, "labels", (self.data.n_rows,), 0, K, dtype=np.int32)
        shapes = {str(b): (len(rows), K) for b, rows in enumerate(self.batches)}
        counts = [matrix(arrays["counts"], b, shapes[b], low=0.0, allow_dense=False) for b in shapes]
        batch_sums = self.batches_of_arrays(arrays)
        log_joint, share_moved = numbers(arrays, "scalars", (2,), finite=False).tolist()
        *counters, widen, done = integers(arrays, "counters", (5,)).tolist()
        indices = None if self.indices is None else stored_rows(arrays, "indices", self.indices, K)
        self.memory = stored_memory(arrays)
        self.phi.with_family(family)
        self.model, self.labels, self.batch_counts, self.batch_sums = model, labels, counts, batch_sums
        self.sums = self.total_of_batches()
        self.log_joint, self.share_moved, self.indices = log_joint, share_moved, indices
        self.n_steps, self.stamp, self.since_all = counters
        self.must_score_all, self.converged = bool(widen), bool(done)
        self.update()


def soft_sums(state: Any) -> Any:
    """Return sums of statistics of a variational run: (K, F), CSR where those of the data are."""
    return sparse.csr_array(state.S) if state.phi.is_sparse else state.S
