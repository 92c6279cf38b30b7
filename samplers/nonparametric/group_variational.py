"""Variational inference of rows in groups that share clusters whose number is unknown.

A pass is that of a given number of clusters at the pseudo-counts alpha E beta_k. Then the posterior of the weights that
all groups share is set, and clusters are merged, left out and divided where that raises the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.errors import CapabilityError
from expfam.model.admixture import AdmixtureModel
from expfam.model.hierarchical import HierarchicalProcess
from expfam.params import Integer, check_settings
from expfam.samplers.grouped.local_step import GroupedPass
from expfam.samplers.grouped.variational import GroupedVariational, GroupedVariationalState
from expfam.samplers.nonparametric.group_allocation import GroupAllocation
from expfam.samplers.nonparametric.groups import (
    check_process_of_rows,
    default_n_rows_clusters,
    first_labels_of_rows,
)
from expfam.samplers.nonparametric.process_posterior import UPDATE_STEPS
from expfam.samplers.nonparametric.stick_posterior import StickPosterior, Tables
from expfam.samplers.nonparametric.variational_moves import Moves, try_moves
from expfam.samplers.states.large import count_large
from expfam.samplers.variational.alpha_bound import rising_slopes
from expfam.samplers.variational.schedules import Full, Schedule
from expfam.samplers.variational.state import held_clusters
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import TINY, integers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.grouped.local_step import GroupedLocalStep
    from expfam.samplers.variational.held_rows import Batch

_QUIET = 3  # steps without an accepted move and without gain, after which a run has converged


class GroupedProcessVariational(GroupedVariational):
    """Variational inference of rows in groups, the number of clusters unknown.

    One step is one pass over the rows, and then trials: pairs of clusters are merged, and clusters left out and
    divided, where this raises the bound. The bound never falls. Any family that variational inference takes.
    Rows of known classes stay in their clusters, which no move joins or leaves out.

    Parameters
    ----------
    n_active : int or None
        L, the largest number of clusters that a row keeps; None for all.
    merge : bool
        Join pairs of near clusters.
    n_deletions : int
        Clusters that a step tries to do without: their rows go to others. Small clusters are drawn more often.
    n_births : int
        Clusters that a step tries to divide, drawn with probability proportional to their rows.
    max_iterations, tol, bound_tol, dtype, n_threads
        As in `GroupedVariational`.
    learn_alpha : bool
        Raise the bound also by both concentrations, which have Gamma(1, 1) priors.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, HierarchicalProcess, Poisson
    >>> from expfam.samplers import GroupedProcessVariational, sample
    >>> X = np.repeat([[0, 90], [90, 0]], 20, axis=0)
    >>> data = Dataset(X, Poisson(shape=1.0, rate=0.02), groups=np.arange(40) % 4)
    >>> kernel = GroupedProcessVariational()
    >>> state = kernel.init(HierarchicalProcess(data.family), data, seed=0, n_clusters=6)
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    The bound is that of `TopicProcessVariational`, with the evidence of clusters of any family in place of that of
    words.
    """

    takes_known = frozenset({"clusters"})
    schedule = Full()
    n_restarts, restart_iterations = 1, 2
    n_candidates, full_every = None, 10
    _constraints: ClassVar = {"n_deletions": Integer(0), "n_births": Integer(0)}

    def __init__(
        self,
        n_active: int | None = 4,
        *,
        merge: bool = True,
        n_deletions: int = 2,
        n_births: int = 5,
        max_iterations: int = 20,
        tol: float = 0.05,
        bound_tol: float = 1e-5,
        learn_alpha: bool = True,
        dtype: Literal["float32", "float64"] = "float32",
        n_threads: int | None = None,
    ) -> None:
        self.n_active, self.merge, self.n_deletions, self.n_births = n_active, merge, n_deletions, n_births
        self.max_iterations, self.tol, self.bound_tol = max_iterations, tol, bound_tol
        self.learn_alpha, self.dtype, self.n_threads = learn_alpha, dtype, n_threads

    # ---- settings ----------------------------------------------------------------------------------------------------

    def check(self, model: Any, data: Any) -> None:
        """Raise for settings out of range, models of another kind, and data without groups."""
        check_settings(self)
        name = type(self).__name__
        check_process_of_rows(model, data, name)
        self._check_settings(AdmixtureModel(model.family, 1), data)

    def schedule_of(self, n_clusters: int, data: Any) -> Schedule:
        """Return the schedule: an update after each pass over all rows."""
        return self.schedule

    def stream(self, model: Any, data: Dataset, **settings: Any) -> NoReturn:
        """Raise CapabilityError: merges and births need the rows."""
        raise CapabilityError(
            f"{type(self).__name__} needs all rows at once; chunks are learned with a given number of clusters: write"
            " GroupedVariational().stream(AdmixtureModel(data.family, 10), data)"
        )

    def memory(self, model: Any, data: Any, n_clusters: int | None) -> int:
        """Return the bytes of a run of a given number, and of all responsibilities."""
        K = default_n_rows_clusters(data.n_rows) if n_clusters is None else int(n_clusters)
        return super().memory(AdmixtureModel(model.family, K), data, K) + 40 * data.n_rows * self.n_active_of(K)

    # ---- kernel ------------------------------------------------------------------------------------------------------

    def first_labels(
        self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None
    ) -> npt.NDArray[np.int32]:
        """Return the clusters that a start gives the rows: (N,) int32.

        `n_clusters` is the number of clusters to begin with.
        """
        return first_labels_of_rows(start, model, data, seed, n_clusters, n_threads=self.n_threads)

    def init_state(  # type: ignore[override]
        self, model: HierarchicalProcess, data: Dataset, labels: Any, *, seed: int
    ) -> GroupedProcessVariationalState:
        """Return the state in which each row has only the cluster of its label, or of its class."""
        if data.known is not None:
            labels = data.known.numbered_by_class(labels)
        return GroupedProcessVariationalState(model, data, labels, settings=self, seed=seed)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Make one pass over the rows, then try merges, deletions and births."""
        before = state.log_joint
        state.make_pass()
        n_tried, n_accepted, kinds = self._moves(state)
        gain = (state.log_joint - before) / max(abs(before), 1.0)
        state.n_quiet = state.n_quiet + 1 if not n_accepted and gain < self.bound_tol else 0
        state.converged = state.n_quiet >= _QUIET
        return n_tried, n_accepted, {"n_large": count_large(state.n), **kinds}

    def _moves(self, state):
        """Try all moves; return how many were tried and accepted, and of which kind."""
        if not (self.merge or self.n_deletions or self.n_births):
            state.kept_rows = None
            return Moves(0, 0, {})
        allocation, rng = GroupAllocation(state), generator(state.seed, "choice", unit=1, step=state.n_steps)
        found = try_moves(allocation, self, rng)
        if found.n_accepted:
            state.take_moves(allocation)
        state.kept_rows = None
        return found


class GroupedProcessVariationalState(GroupedVariationalState):
    """Expected statistics of an unknown number of clusters, and the law of their weights.

    Parameters
    ----------
    process : HierarchicalProcess
        With a bound family.
    data : Dataset
        With groups.
    labels : (N,) array_like of int
        First cluster of each row, which has all of its responsibility.
    settings : GroupedProcessVariational
    seed : int

    Attributes
    ----------
    process : HierarchicalProcess
        With the present concentrations.
    model : AdmixtureModel
        The present number of clusters, and alpha E beta_k as their pseudo-counts.
    sticks : StickPosterior
        Posterior of the weights that all groups share.
    labels, n, S, log_joint, converged, counters
        As in `GroupedVariationalState`; `log_joint` is a lower bound of the log density of rows and concentrations.

    Examples
    --------
    >>> from expfam import Dataset, HierarchicalProcess, Poisson
    >>> from expfam.samplers import GroupedProcessVariational
    >>> data = Dataset([[0], [1], [40]], Poisson(), groups=[0, 0, 1])
    >>> kernel = GroupedProcessVariational()
    >>> state = kernel.init(HierarchicalProcess(data.family), data, seed=0, start=[0, 0, 1])
    >>> state.n
    array([2., 1.])
    """

    def __init__(
        self,
        process: HierarchicalProcess,
        data: Dataset,
        labels: npt.ArrayLike,
        *,
        settings: GroupedProcessVariational,
        seed: int,
    ) -> None:
        K, labels = _numbered(labels, process.n_known)
        groups: Any = data.groups
        self.group_sizes = np.bincount(groups.of_row, weights=data.weight, minlength=groups.n_groups)
        self.n_groups = float(np.count_nonzero(self.group_sizes))
        sizes = np.bincount(labels, weights=data.weight, minlength=K) + (np.arange(K) < process.n_known)
        shares = (sizes + TINY) / sizes.sum() * K / (K + 1.0)
        weights = (process.alpha, process.gamma, process.n_known)
        self.sticks = StickPosterior.around(shares, self.n_groups, *weights)
        self.kept_rows: Any = None
        finite = AdmixtureModel(process.family, K, np.maximum(self.sticks.pseudocounts, TINY))
        super().__init__(finite, data, labels, settings=settings, seed=seed)
        self.n_quiet = 0

    @property
    def process(self) -> HierarchicalProcess:
        """Return the model with the present concentrations."""
        return HierarchicalProcess(self.model.family, *self.sticks[2:])

    # ---- the bound ---------------------------------------------------------------------------------------------------

    def tables_of_groups(self) -> Tables:
        """Return what all groups say of the shared weights."""
        M, (counts,) = self.model.pseudocounts, self.batch_counts
        slopes = rising_slopes(M[counts.indices], counts.data)
        rising: npt.NDArray[Any] = np.stack([np.bincount(counts.indices, x, minlength=self.K) for x in slopes])
        alpha, sizes = self.sticks.alpha, self.group_sizes
        return Tables(rising, float((psi(alpha + sizes) - psi(alpha)).sum()), self.n_groups)

    def groups_bound(self) -> float:
        """Return the part of the bound that belongs to weights of groups and shared ones, nats."""
        M, (counts,), alpha = self.model.pseudocounts, self.batch_counts, self.sticks.alpha
        a = M[counts.indices]
        value = float((gammaln(a + counts.data) - gammaln(a)).sum())
        value += float((gammaln(alpha) - gammaln(alpha + self.group_sizes)).sum())
        return value + self.sticks.value(Tables(np.zeros((2, self.K)), 0.0, self.n_groups))

    def prior_of_alpha(self) -> float:
        """Return 0: the value of the sticks holds the prior of the concentrations."""
        return 0.0

    # ---- passes ------------------------------------------------------------------------------------------------------

    def step_of(self, batch: Batch, *, all_clusters: bool) -> tuple[GroupedLocalStep, bool]:
        """Return the local step of all groups, and True: it scores all clusters."""
        last = np.empty((0, self.passes.L), dtype=np.int32)  # asks for the responsibilities
        place = (batch.rows, self.tables(), self.model.pseudocounts, self.batch_counts[batch.place])
        return self.passes.local_step_of_groups(*place, last=last), True

    def remember(self, batch: Batch, local: GroupedLocalStep, *, scores_all: bool) -> None:
        """Keep labels, sums and counts, and until the next pass the responsibilities."""
        self.labels[local.rows], self.batch_counts[batch.place] = local.labels, local.counts
        self.batch_sums[batch.place] = local.sums
        self.counters += local.counters
        self.kept_rows = (local.rows, local.indices, local.values)

    def end_pass(self) -> None:
        """Raise the bound by the posterior of the shared weights, in a few steps."""
        learn = self.settings.learn_alpha
        self.set_sticks(self.sticks.best(self.tables_of_groups(), learn=learn, n_steps=UPDATE_STEPS))

    def set_sticks(self, sticks: StickPosterior) -> None:
        """Use another posterior of the shared weights."""
        self.sticks = sticks
        self.model = self.model.with_alpha(np.maximum(sticks.pseudocounts, TINY))

    # ---- moves -------------------------------------------------------------------------------------------------------

    def take_moves(self, allocation: GroupAllocation) -> None:
        """Take responsibilities that moves have changed, with their number of clusters."""
        self.resize(len(allocation.columns))
        self.set_sticks(allocation.sticks)
        R, groups = allocation.by_row(), self.data.groups
        indices, values = _kept_of_rows(R, self.passes.L, self.phi.dtype)
        rows = np.arange(self.data.n_rows)
        sums = self.passes.sums_of(rows, indices, values)
        sums.entropy = allocation.sums().entropy
        ones = np.ones(len(rows)) if self.data.weight is None else self.data.weight
        of_group = sparse.csr_array((ones, (groups.of_row, rows)), shape=(groups.n_groups, len(rows)))
        self.labels = indices[:, 0].copy()
        self.batch_counts, self.batch_sums = [sparse.csr_array(of_group @ R)], [sums]
        self.sums = self.total_of_batches()
        self.stamp += 1
        self.update()
        self.log_joint = self.compute_log_joint()

    def resize(self, n_clusters: int) -> None:
        """Make room for another number of clusters."""
        self.K, self.order = n_clusters, np.arange(n_clusters)
        self.model = AdmixtureModel(self.model.family, n_clusters)
        self.passes = self.passes_of(n_clusters)

    def passes_of(self, n_clusters: int) -> GroupedPass:
        """Return passes over the groups with some number of clusters."""
        L = self.settings.n_active_of(n_clusters)
        groups: Any = self.data.groups
        of_rows = {"weight": self.data.weight, "held": held_clusters(self.data)}
        return GroupedPass(self.phi, n_clusters, L, groups, self.settings, **of_rows)

    # ---- chains ------------------------------------------------------------------------------------------------------

    def set_model(self, model: HierarchicalProcess) -> None:
        """Use other hyper-parameters or concentrations; the statistics stay."""
        self.set_sticks(self.sticks._replace(alpha=model.alpha, gamma=model.gamma))
        super().set_model(self.model.with_family(model.family))

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later steps read, to the bit, as a dict of arrays."""
        return super().to_arrays() | self.sticks.to_arrays() | {"n_quiet": np.array(self.n_quiet)}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore what `to_arrays` returned; later steps give the same bits as without a break."""
        sticks = StickPosterior.from_arrays(arrays)._replace(n_known=self.sticks.n_known)
        self.resize(len(sticks.mean))
        self.sums = self.empty_sums()
        super().from_arrays(arrays)
        self.sticks = sticks
        self.n_quiet = int(integers(arrays, "n_quiet", ()))


GroupedProcessVariational.state_type = GroupedProcessVariationalState


def _numbered(labels, n_known):
    """Return the number of clusters, and labels without gaps; known ones keep their numbers."""
    labels = np.asarray(labels)
    is_other = labels >= n_known
    others, places = np.unique(labels[is_other], return_inverse=True)
    found = labels.astype(np.int32)
    found[is_other] = n_known + places
    return n_known + len(others), found


def _kept_of_rows(R, n_kept, dtype):
    """Return clusters and responsibilities of rows, (N, L) each, the largest first."""
    row = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr))
    order = np.lexsort((-R.data, row))
    place = np.arange(len(order)) - R.indptr[row]
    indices = np.full((R.shape[0], n_kept), -1, dtype=np.int32)
    values = np.zeros((R.shape[0], n_kept), dtype=dtype)
    indices[row, place], values[row, place] = R.indices[order], R.data[order]
    return indices, values
