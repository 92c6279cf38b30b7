"""Exact Gibbs sampling of rows in groups that lie in parts.

A step draws the parameters of the clusters and the weights of each group given all labels, then the labels given these.
Given them rows do not depend on each other, so the rows of one group may lie on many machines. Sums of statistics are
exact and counts are whole numbers, so the labels are the same bits for any parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from expfam.errors import CapabilityError
from expfam.families.independent_columns import draw_log_gamma
from expfam.families.support import dense_rows
from expfam.model.admixture import AdmixtureModel
from expfam.model.finite_process import (
    law_arrays,
    log_shared_density,
    redrawn_pseudocounts,
    stored_law,
    with_first_weights,
)
from expfam.model.pseudo_counts import CountTable
from expfam.params import Integer
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.shards.grouped import GroupedParts, GroupedRows
from expfam.samplers.shards.state import ShardedState
from expfam.samplers.states.large import count_large
from expfam.samplers.states.storage import family_arrays, with_family_arrays
from expfam.samplers.uncollapsed.dense import DenseScores, draw_rows, grid
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run

_TILE = 1024  # rows whose scores a thread holds


class GroupedPartsState(ShardedState):
    """Drawn parameters of K clusters and weights of all groups; the labels stay with the rows.

    Parameters
    ----------
    model, data : AdmixtureModel with a bound family, and GroupedParts with labels in 0..K-1
    sums : LabelSums
        Exact statistics of these labels.
    n_clusters, seed : int

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Fetched from the parts at each use.
    n, S : (K,) and (K, F) ndarray
        Statistics of the clusters.
    log_weights : (G, K) float64 ndarray or None
        Log weights of the groups that were drawn last.
    log_joint : float
        Log probability of labels and rows, nats; parameters and weights are integrated out.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Poisson
    >>> from expfam.samplers.shards.grouped import GroupedParts, GroupedRows
    >>> from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
    >>> data = GroupedParts(GroupedRows(np.array([[0], [1], [40]]), [0, 0, 1]), Poisson())
    >>> model = AdmixtureModel(data.family, 2, alpha=0.5)
    >>> state = GroupedUncollapsedGibbs().init(model, data, seed=0, start=[0, 0, 1])
    >>> state.group_counts().toarray().tolist()
    [[2, 0], [0, 1]]
    """

    def __init__(self, model: Any, data: GroupedParts, sums: Any, *, n_clusters: int, seed: int) -> None:
        self.log_weights: npt.NDArray[np.float64] | None = None
        self._counts: Any = None
        super().__init__(model, data, sums, n_clusters=n_clusters, seed=seed)

    def _take(self, sums: Any) -> None:
        """Make `sums` the statistics of the labels; counts of groups are asked for later."""
        self._counts = None
        super()._take(sums)

    def group_counts(self) -> Any:
        """Return the number of rows of each group in each cluster: (G, K) CSR array of int64."""
        if self._counts is None:
            self._counts = self.data.engine.total("group_counts", self.data.n_groups, self.K)
        return self._counts

    def table(self) -> CountTable:
        """Return how often each cluster has each number of rows in a group."""
        counts = self.group_counts().tocoo()
        return CountTable.of_counts(counts.coords[1], counts.data, self.K)

    def group_sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group: (G,) int64."""
        return np.asarray(self.group_counts().sum(axis=1)).ravel()

    def compute_log_joint(self) -> float:
        """Compute the log joint of labels and rows: nats, without log-base."""
        alpha, live = self.model.pseudocounts, np.flatnonzero(self.n > 0)
        sizes = CountTable.of_histogram(np.bincount(self.group_sizes()))
        prior = self.table().log_rising(alpha) - sizes.log_rising(np.array([alpha.sum()]))
        shared = log_shared_density(self.model, self.n)
        return float(prior + shared + self.model.family.total_log_marginal(self.n[live], self.S[live]))

    def draw_parameters(self, theta: str = "draw") -> None:
        """Draw parameters of the clusters and weights of the groups given the labels."""
        rng = generator(self.seed, "posterior", unit=0, step=self.n_steps)
        self.Theta, self.G = self.model.family.draw_natural(self.n, dense_rows(self.S), rng)
        self.log_pi = np.zeros(self.K)  # the weights are those of the groups
        rng = generator(self.seed, "posterior", unit=1, step=self.n_steps)
        logs = draw_log_gamma(self.group_counts().toarray() + self.model.pseudocounts, rng)
        self.log_weights = logs - logsumexp(logs, axis=1, keepdims=True)

    def redraw(self, kernel: Any) -> tuple[int, dict[str, Any]]:
        """Have the parts draw all labels; return how many changed, and mean diagnostics."""
        assert self.log_weights is not None
        own = [self.log_weights[groups] for groups in self.data.own_groups]
        values = (kernel.of_parts(), self.parameters(), self.data.n_groups)
        reply = self.data.engine.change("redraw_in_groups", *values, by_part=own)
        self._take(self.sums + reply.sums)
        self._counts = reply.counts
        return reply.n_moved, reply.means()

    def _model_arrays(self) -> dict[str, Any]:
        return {**family_arrays(self.model.family), **law_arrays(self.model)}

    def _stored_model(self, arrays: dict[str, Any]) -> Any:
        family = with_family_arrays(self.model.family, arrays)
        return stored_law(self.model.with_family(family), arrays)

    def restore(self, arrays: dict[str, Any], sums_of_labels: Callable[[], Any]) -> None:
        """Restore the state from the arrays of `arrays_without_labels`."""
        super().restore(arrays, sums_of_labels)
        self.log_weights = self._counts = None  # drawn, and asked for, when they are needed

    def check(self) -> None:
        """Recompute statistics and counts from the labels; raise AssertionError if any bit differs."""
        super().check()
        counts = self.data.engine.total("group_counts", self.data.n_groups, self.K)
        assert abs(counts - self.group_counts()).nnz == 0, "counts of groups differ from the labels"

    def as_type(self, state_type: type) -> Any:
        """Return the state itself; refuse other types, which have no groups."""
        if state_type is GroupedPartsState:
            return self
        raise CapabilityError(
            f"rows in groups have no {state_type.__name__}: write GroupedUncollapsedGibbs().init(model, data)"
        )


class GroupedUncollapsedGibbs(Kernel):
    """Exact Gibbs sweeps over parameters, weights of groups and labels of rows in parts.

    The rows of one group may lie on several parts. The results are the same bits for any number of parts, engines and
    workers. A step costs O(K F) a row.
    `GroupedGibbs`, which integrates parameters and weights out, moves further in a step; it runs on one machine.

    Parameters
    ----------
    learn_alpha : bool
        Draw the pseudo-counts of clusters in groups from their conditional law, or the concentrations of a
        `FiniteProcess`, whose weights are drawn in any case. Their priors are Gamma(1, 1).
    learn_every : int
        Sweeps from one draw of the pseudo-counts to the next.
    n_threads : int, optional
        Threads of each worker.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Poisson
    >>> from expfam.samplers import GroupedUncollapsedGibbs, sample
    >>> from expfam.samplers.shards.grouped import GroupedParts, GroupedRows
    >>> rows = GroupedRows(np.repeat([[0, 9], [9, 0]], 600, axis=0), np.arange(1200) % 7)
    >>> def labels_of(n_parts):
    ...     data, kernel = GroupedParts(rows, Poisson(), n_parts=n_parts), GroupedUncollapsedGibbs()
    ...     state = kernel.init(AdmixtureModel(data.family, 3, alpha=0.5), data, seed=0)
    ...     trace = sample(kernel, state, 10)
    ...     return state.labels
    >>> bool((labels_of(1) == labels_of(2)).all())
    True
    """

    state_type = GroupedPartsState
    on_shards = True
    takes_groups = True
    _constraints: ClassVar = {"learn_every": Integer(1)}

    def __init__(self, *, learn_alpha: bool = True, learn_every: int = 1, n_threads: int | None = None) -> None:
        self.learn_alpha, self.learn_every, self.n_threads = learn_alpha, learn_every, n_threads

    def check(self, model: Any, data: Any) -> None:
        """Refuse models that are no admixtures, and families that cannot draw parameters."""
        super().check(model, data)
        if not isinstance(model, AdmixtureModel):
            raise CapabilityError(
                f"GroupedUncollapsedGibbs needs groups with weights of their own, not {type(model).__name__}: write"
                " AdmixtureModel(family, n_components=10)"
            )
        model.family.require("draw", type(self).__name__)

    def init(
        self, model: Any, data: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> Any:
        """Make the first state of a chain, see `GroupedParts.first_state`.

        A Dataset with groups is one part.
        """
        if not isinstance(data, GroupedParts):
            if getattr(data, "groups", None) is None:
                raise CapabilityError(
                    "GroupedUncollapsedGibbs needs the group of each row: write Dataset(X, family, groups=groups)"
                )
            data = GroupedParts(GroupedRows(data.X, data.groups.of_row), data.family)
            state = data.first_state(self, model, seed=seed, start=start, n_clusters=n_clusters)
            state.set_model(with_first_weights(state.model, state.n))
            return state
        return data.first_state(self, model, seed=seed, start=start, n_clusters=n_clusters)

    def max_clusters(self, model: Any) -> int:
        """Return the number of clusters of the model."""
        return int(model.n_components)

    def of_parts(self) -> GroupedUncollapsedGibbs:
        """Return the kernel that draws labels of data in parts: itself."""
        return self

    def new_labels(self, state: Any) -> tuple[npt.NDArray[np.int32], dict[str, Any]]:
        """Draw the labels of a part given parameters and weights of its groups.

        Scores are made row by row in double precision: the bits of a matrix product depend on the number of its rows.
        """
        data, K = state.data, state.K
        scores = DenseScores(data, state.Theta, state.G, np.zeros(K), state.n, state.S)
        labels = np.empty(data.n_rows, dtype=np.int32)

        def draw(start, stop):
            phi = data.phi_csr(start, stop) if data.has_sparse_phi else data.phi(start, stop)
            masses = scores.exact_scores(phi) + state.log_weights[state.of_row[start:stop]]
            rows, first = np.arange(stop - start), data.row_offset + start
            bad = draw_rows(masses, rows, labels[start:stop], state.seed, state.n_steps, first)
            if bad >= 0:
                raise FloatingPointError(
                    f"family {data.family.name!r}, row {first + bad}: no cluster has a finite score under the drawn"
                    " parameters"
                )

        run(draw, grid(data.row_offset, 0, data.n_rows, _TILE), self.n_threads)
        return labels, {}

    def move(self, state: GroupedPartsState) -> tuple[int, int, dict[str, Any]]:
        """Draw parameters, weights and labels, and in every `learn_every`-th step the pseudo-counts."""
        state.draw_parameters()
        n_moved, extra = state.redraw(self)
        if (state.n_steps + 1) % self.learn_every == 0:
            rng = generator(state.seed, "hyper", unit=2, step=state.n_steps)
            counts = (state.table(), state.group_sizes())
            state.set_model(redrawn_pseudocounts(state.model, *counts, rng, learn=self.learn_alpha))
        return state.data.n_rows, n_moved, extra | {"n_large": count_large(state.n)}
