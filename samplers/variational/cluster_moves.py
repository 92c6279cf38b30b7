"""Merges, deletions and births of clusters in a variational run.

A move replaces the responsibilities of the rows that it touches. It is accepted when the bound, at the optimum for the
new statistics, is higher. The bound consists of a sum over clusters, a function of the counts, and the entropy of the
rows, so a move computes anew only the clusters whose statistics change. The moves need the kept rows of all data, N L
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError, SupportError
from expfam.params import Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.geometry.coordinates import Rows, nearest
from expfam.samplers.starts.rules import distant_rows
from expfam.samplers.variational.local_step import Sums, Tables
from expfam.samplers.variational.posterior import cluster_values
from expfam.samplers.variational.state import VariationalState, entropy_of
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.variational.posterior import Posterior

_EMPTY = 1e-6  # a component with less data counts as empty: a birth may use it
_GAIN = 1e-9  # share of itself by which the bound must rise: less may be rounding
_SEEDING_ROWS = 5000


class ClusterMoves(Kernel):
    """Merges, deletions and births of clusters, for a `Cycle` with `SparseVariational`.

    A step makes a pass over all data, tries several moves, and keeps those that raise the bound: the bound never falls.
    Births need empty components: a Dirichlet process whose truncation is larger than the number of clusters found.

    Parameters
    ----------
    merge : bool
        Join pairs of near clusters.
    delete : bool
        Give the data of the smallest clusters to the others.
    birth : bool
        Divide clusters, drawn with probability proportional to their data, into two.
    n_trials : int
        Number of deletions, and of births, that a step tries. It tries the merges of all near pairs.
    n_refinements : int
        Number of local steps that the rows of a divided cluster make before the birth is judged.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import ClusterMoves, Cycle, SparseVariational, sample
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [20.0], [90.0]], 50, axis=0))
    >>> kernel = Cycle(SparseVariational(2, truncation=10), ClusterMoves())
    >>> model = MixtureModel(Poisson(shape=1.0, rate=0.1), DirichletProcess())
    >>> state = kernel.init(model, X, seed=0, start="one")
    >>> trace = sample(kernel, state, 10)
    >>> state.n_clusters
    3

    Notes
    -----
    Births and merges are from Hughes and Sudderth 2013, "Memoized online variational inference for Dirichlet process
    mixture models", deletions from Hughes, Kim and Sudderth 2015. Unlike there, a move is judged by the bound of the
    rows that it touches, so no sums of pairs are prepared.
    """

    state_type = VariationalState
    takes_weight = True
    _constraints: ClassVar = {"n_trials": Integer(0), "n_refinements": Integer(0)}

    def __init__(
        self,
        *,
        merge: bool = True,
        delete: bool = True,
        birth: bool = True,
        n_trials: int = 5,
        n_refinements: int = 3,
    ) -> None:
        self.merge, self.delete, self.birth = merge, delete, birth
        self.n_trials, self.n_refinements = n_trials, n_refinements

    def init_state(self, model: MixtureModel, data: Dataset, labels: Any, *, seed: int) -> NoReturn:
        """Raise CapabilityError: the kernel of the passes makes the state."""
        raise CapabilityError("ClusterMoves cannot begin a state: use Cycle(SparseVariational(), ClusterMoves())")

    def move(self, state: VariationalState) -> tuple[int, int, dict[str, Any]]:
        """Make one pass and all trials; return (trials, accepted, accepted of each kind)."""
        if state.passes.is_dense:
            raise CapabilityError(
                "ClusterMoves needs kept rows: SparseVariational with n_active below the "
                f"{counted(state.K, 'component')}"
            )
        rng = generator(state.seed, "choice", unit=1, step=state.n_steps)
        allocation = _Allocation(state)
        tried, accepted = 0, 0
        kinds: dict[str, Any] = {}
        for name, moves in (("merge", _merges), ("delete", _deletions), ("birth", _births)):
            if getattr(self, name):
                n_tried, n_accepted = moves(allocation, self, rng)
                tried, accepted = tried + n_tried, accepted + n_accepted
                kinds[f"n_{name}"] = n_accepted
        state.set_rows(allocation.indices, allocation.values)
        return tried, accepted, kinds


@dataclass
class _Trial:
    """New responsibilities of some rows, and what follows from them for all rows.

    What follows are the statistics, the order of the sticks, the bound, and what each cluster adds to the bound.
    """

    rows: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    sums: Sums
    of_cluster: np.ndarray
    order: np.ndarray
    bound: float


class _Allocation:
    """Responsibilities of all rows with their statistics and bound, changed by accepted trials."""

    def __init__(self, state):
        self.state, self.passes, self.family = state, state.passes, state.phi.family
        self.objective, self.proportions = state.settings.objective, state.proportions()
        local = self.passes.local_step(slice(0, state.data.n_rows), state.tables(), keep=True)
        self.indices, self.values, self.sums, self.order = local.indices, local.values, local.sums, state.order
        self.of_cluster = self._cluster_values(self.sums, np.arange(state.K))
        self.order, self.bound = self._judged(self.sums, self.of_cluster)

    def _cluster_values(self, sums, ks):
        return cluster_values(self.family, sums.n[ks], sums.S[ks], objective=self.objective)

    def _judged(self, sums, of_cluster):
        order = self.proportions.better_order(sums.n, self.order)
        return order, self.proportions.optimum(sums.n, order) + float(of_cluster.sum()) + sums.entropy

    def posterior(self, sums: Sums | None = None, order: npt.NDArray[np.int64] | None = None) -> Posterior:
        """Return the posterior of the present statistics, or of given ones."""
        return self.state.posterior_of(self.sums if sums is None else sums, self.order if order is None else order)

    def trial(self, rows, indices, values, sums):
        """Return the trial of other responsibilities of some rows; `sums` then are the sums of all."""
        self.state.phi.mend_sums(sums.n, sums.S)
        changed = np.flatnonzero(sums.n != self.sums.n)
        of_cluster = self.of_cluster.copy()
        of_cluster[changed] = self._cluster_values(sums, changed)
        return _Trial(rows, indices, values, sums, of_cluster, *self._judged(sums, of_cluster))

    def accept_if_better(self, trial):
        """Accept a trial if it raises the bound; return whether it did."""
        if trial is None or not trial.bound > self.bound + _GAIN * abs(self.bound):
            return False
        self.indices[trial.rows], self.values[trial.rows] = trial.indices, trial.values
        self.sums, self.of_cluster = trial.sums, trial.of_cluster
        self.order, self.bound = trial.order, trial.bound
        return True

    def revisited(self, rows, indices, values, sums, tables):
        """Return new responsibilities of some rows under given tables, and the sums of all rows."""
        local = self.passes.local_step(rows, tables, remembered=(indices, values), keep=True)
        local.replaced.entropy = self._entropy(rows, values)
        return local.indices, local.values, sums.copy().replace(local.replaced, local.sums)

    def _entropy(self, rows, values):
        weight = self.state.data.weight
        return float(entropy_of(values, None if weight is None else weight[rows]).sum())

    def sums_with(self, rows, indices, values):
        """Return the sums of all rows if some rows had these responsibilities."""
        old = self.passes.sums_of(rows, self.indices[rows], self.values[rows])
        new = self.passes.sums_of(rows, indices, values)
        old.entropy, new.entropy = self._entropy(rows, self.values[rows]), self._entropy(rows, values)
        return self.sums.copy().replace(old, new)

    def rows_of(self, k):
        """Return the rows, ascending, that have a positive responsibility of a cluster."""
        return np.flatnonzero(((self.indices == k) & (self.values > 0)).any(axis=1))

    def live(self):
        """Return the clusters that hold data."""
        return np.flatnonzero(self.sums.n > _EMPTY)


# ---- merges ----------------------------------------------------------------------------------------------------------


def _merges(allocation, kernel, rng):
    """Try merges of near pairs, the most promising first; each cluster joins at most once."""
    pairs = _near_pairs(allocation)
    n, S = allocation.sums.n, allocation.sums.S
    if not len(pairs):
        return 0, 0
    joined = np.concatenate(
        [
            cluster_values(allocation.family, n[a] + n[b], S[a] + S[b], objective=allocation.objective)
            for a, b in (part.T for part in np.array_split(pairs, -(-len(pairs) // 256)))
        ]
    )
    promise = joined - allocation.of_cluster[pairs].sum(axis=1)
    used, n_tried, n_accepted = set(), 0, 0
    for place in np.argsort(-promise, kind="stable"):
        a, b = pairs[place]
        if used & {a, b} or promise[place] < -np.log(len(allocation.indices)) - n[b] * np.log(4.0):
            continue  # weights and entropy cannot add enough
        n_tried += 1
        if allocation.accept_if_better(_merged(allocation, a, b)):
            used |= {a, b}
            n_accepted += 1
            n = allocation.sums.n
    return n_tried, n_accepted


def _near_pairs(allocation, n_near=4):
    """Return pairs (P, 2) of near clusters, the larger one first.

    Two clusters that hold data are near if one is among the nearest of the other.
    """
    live = allocation.live()
    if live.size < 2:
        return np.empty((0, 2), dtype=np.int64)
    graph = allocation.posterior().cluster_graph(min(n_near, allocation.state.K))[live]
    first, second = np.repeat(live, graph.shape[1]), graph.ravel().astype(np.int64)
    keep = (first != second) & (allocation.sums.n[second] > _EMPTY)
    pairs = np.unique(np.sort(np.stack([first[keep], second[keep]], axis=1), axis=1), axis=0)
    swap = allocation.sums.n[pairs[:, 0]] < allocation.sums.n[pairs[:, 1]]
    pairs[swap] = pairs[swap][:, ::-1]
    return pairs


def _merged(allocation, a, b):
    """Return the trial in which cluster a takes all responsibilities of b."""
    rows = allocation.rows_of(b)
    indices, values = allocation.indices[rows], allocation.values[rows]
    of_b = indices == b
    share = np.where(of_b, values, 0).sum(axis=1)
    has_a = (indices == a) & (values > 0)
    both = has_a.any(axis=1)
    values[has_a] += share[both]
    gone = of_b & both[:, None]
    indices[of_b & ~both[:, None]] = a
    indices[gone], values[gone] = -1, 0
    indices, values = _largest_first(indices, values)
    return allocation.trial(rows, indices, values, allocation.sums_with(rows, indices, values))


def _largest_first(indices, values):
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(values, order, axis=1)


# ---- deletions -------------------------------------------------------------------------------------------------------


def _deletions(allocation, kernel, rng):
    """Try to give the rows of the smallest clusters to the others."""
    live = allocation.live()
    smallest = live[np.argsort(allocation.sums.n[live], kind="stable")][: min(kernel.n_trials, live.size - 1)]
    n_accepted = 0
    for k in smallest:
        n_accepted += allocation.accept_if_better(_without(allocation, k))
    return len(smallest), n_accepted


def _without(allocation, k):
    """Return the trial without cluster k, or None where a row is impossible under all others."""
    rows = allocation.rows_of(k)
    tables = Tables(allocation.posterior(), allocation.state.phi)
    tables.c[k] = -np.inf
    before = allocation.indices[rows], allocation.values[rows]
    try:
        indices, values, sums = allocation.revisited(rows, *before, allocation.sums, tables)
    except SupportError:
        return None
    return allocation.trial(rows, indices, values, sums)


# ---- births ----------------------------------------------------------------------------------------------------------


def _births(allocation, kernel, rng):
    """Try to divide clusters, drawn by size, into two."""
    n_tried, n_accepted = 0, 0
    for _ in range(kernel.n_trials):
        empty = np.flatnonzero(allocation.sums.n <= _EMPTY)
        if not empty.size:
            break
        n = np.maximum(allocation.sums.n, 0.0)
        trial = _divided(allocation, int(rng.choice(len(n), p=n / n.sum())), int(empty[0]), kernel.n_refinements, rng)
        n_tried += 1
        n_accepted += allocation.accept_if_better(trial)
    return n_tried, n_accepted


def _divided(allocation, k, new, n_refinements, rng):
    """Return the trial that divides the rows of cluster k between it and the cluster `new`.

    Rows begin with the nearer one of two distant rows and then make local steps. None where all rows are equal.
    """
    rows = np.flatnonzero(allocation.indices[:, 0] == k)
    if rows.size < 2:
        return None
    data = allocation.state.data
    coordinates, chosen = Rows(data), np.sort(rng.permutation(rows)[:_SEEDING_ROWS])
    weight = None if data.weight is None else data.weight[chosen]
    if weight is not None and not weight.any():
        return None
    seeds = distant_rows(coordinates.take(chosen), 2, rng, weight=weight)
    if seeds.shape[0] < 2:
        return None
    sides = [nearest(coordinates.take(part), seeds) for part in np.array_split(rows, -(-rows.size // _SEEDING_ROWS))]
    indices, values = np.full_like(allocation.indices[rows], -1), np.zeros_like(allocation.values[rows])
    indices[:, 0], values[:, 0] = np.where(np.concatenate(sides) == 0, k, new), 1
    sums = allocation.sums_with(rows, indices, values)
    for _ in range(n_refinements):
        order = allocation.proportions.better_order(sums.n, allocation.order)
        allocation.state.phi.mend_sums(sums.n, sums.S)
        tables = Tables(allocation.posterior(sums, order), allocation.state.phi)
        indices, values, sums = allocation.revisited(rows, indices, values, sums, tables)
    return allocation.trial(rows, indices, values, sums)
