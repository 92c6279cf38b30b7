"""Sparse variational inference of mixtures: each row keeps its L most probable clusters.

A pass scores the rows against all K clusters, or against few candidates. It keeps the L largest scores of each row and
sums the statistics, weighted by the softmax of these scores. The posterior of weights and parameters follows from the
sums. Only the start and the order of the batches are random. A pass costs O(N K F), or O(N G F) with G candidates, and
O(N L F) for the sums; memory is O(K F + N L).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataWarning
from expfam.families.counts.natural_cells import LIST_SHARE
from expfam.model.partitions import fitted_labels
from expfam.params import NON_NEGATIVE, Integer, refuse_unused
from expfam.samplers.chain.kernel import check_sticks
from expfam.samplers.variational.candidate_passes import CandidatePasses
from expfam.samplers.variational.linked_rows import memory_of_links, tie_labels
from expfam.samplers.variational.local_step import PhiSizes, SparsePass
from expfam.samplers.variational.schedules import Full, Memoized, Schedule, automatic_schedule
from expfam.samplers.variational.soft_stream import warn_of_few
from expfam.samplers.variational.state import VariationalState
from expfam.samplers.variational.stream import VariationalStream
from expfam.samplers.variational.wide_counts import has_wide_counts, most_cells
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_CELL_BYTES = 64  # of a sparse sum: before and after a pass, its parameter, and arrays from which these are made
_COLUMN_BYTES = 64  # of numbers of each column


class SparseVariational(CandidatePasses):
    """Variational inference with at most L responsibilities for each row; a step is a pass.

    Parameters
    ----------
    n_active : int or None
        Number L of clusters that share a row. 1 is hard assignment. None, or K and more, keeps all responsibilities:
        ordinary variational inference.
    schedule : "auto", Full, Memoized or Stochastic
        When the posterior is updated. "auto" is Memoized with up to 20 batches of at least 200 K rows each, or Full
        where that is one batch. More updates gain more in a pass, but each update costs as much as many rows.
    objective : {"vb", "map"}
        "vb" computes the posterior of parameters and weights, "map" their mode, by expectation-maximisation of the
        penalised likelihood.
    n_candidates : "auto", int or None
        Number of clusters against which a row is scored between passes over all clusters; None for all clusters.
        "auto" is 48, but all clusters if these are fewer than 128, or if the data are so few and wide that the graph of
        near clusters and the scores of candidates would cost more than a pass. Where products of integers bound scores
        (dense data in float32, on machines with products of bytes), such a pass costs less, and counts of rows, columns
        and clusters say whether candidates still do. The candidates are the nearest clusters of the cluster that the
        row had last. The row's last clusters are scored too. The candidates may lack a better cluster, and then the
        bound may stay below the one that passes over all clusters reach.
    full_every : int
        Passes from one that scores all clusters to the next. The first passes score all clusters too, until one
        changes less than a tenth of the labels.
    memo : {"auto", "statistics", "rows"}
        What a memoized schedule keeps of a batch: its sums, or the responsibilities of its rows. "auto" keeps the
        smaller one. The results are the same but for rounding.
    tol : float
        The run has converged when a pass over all clusters gains less than this share of the bound.
    dtype : {"float32", "float64"}
        Type of scores and responsibilities; sums over blocks are float64. In float32 the bound has a relative error of
        about 1e-5, and may fall by as much.
    truncation : int
        Number of clusters under a Dirichlet process or Pitman-Yor prior, at most one for each row.
    sticks : {"open", "closed"}
        Whether the last kept stick leaves mass beyond it. With open sticks you can compare bounds of different
        truncations.
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
    Hughes and Sudderth 2016, "Fast learning of clusters and topics via sparse posteriors". If a row may keep L
    clusters, the best ones have the largest expected scores, and the best responsibilities are the softmax of these
    scores. The bound loses -log of the mass that the kept clusters have among all. The bound never falls under Full and
    Memoized, for any L: the last clusters of a row are among its scored clusters, so its new responsibilities cannot be
    worse. (Luecke and Forster 2019, "k-means as a variational EM approximation of Gaussian mixture models", choose
    candidates by distances.) The result is a local optimum and depends on the start.
    """

    state_type = VariationalState
    takes_weight = True
    takes_known = frozenset({"clusters", "links"})
    _constraints: ClassVar = {
        "objective": ("vb", "map"),
        "memo": ("auto", "statistics", "rows"),
        "tol": NON_NEGATIVE,
        "dtype": ("float32", "float64"),
        "truncation": Integer(1),
        "sticks": ("open", "closed"),
    }

    def __init__(
        self,
        n_active: int | None = 4,
        *,
        schedule: Schedule | Literal["auto"] = "auto",
        objective: Literal["vb", "map"] = "vb",
        n_candidates: int | Literal["auto"] | None = "auto",
        full_every: int = 10,
        memo: Literal["auto", "statistics", "rows"] = "auto",
        tol: float = 1e-5,
        dtype: Literal["float32", "float64"] = "float32",
        truncation: int = 100,
        sticks: Literal["open", "closed"] = "open",
        n_threads: int | None = None,
    ) -> None:
        self.n_active, self.schedule, self.objective = n_active, schedule, objective
        self.n_candidates, self.full_every = n_candidates, full_every
        self.memo, self.tol = memo, tol
        self.dtype, self.truncation, self.sticks, self.n_threads = dtype, truncation, sticks, n_threads

    # ---- settings for given sizes ------------------------------------------------------------------------------------

    def check(self, model: MixtureModel, data: Dataset) -> None:
        """Raise for settings out of their ranges, and for families and weights that lack abilities."""
        self._check_settings(model, data)
        K = self.n_clusters_of(model, data)
        self.schedule_of(K, data.n_rows).check(data.n_rows)
        self._check_abilities(model, data, K)

    def _check_abilities(self, model, data, K):
        check_sticks(self, model, data.known)
        if self.memo == "rows" and (n_active := self.n_active_of(K)) >= K:
            raise ValueError(
                f"memo='rows' needs n_active below the number of clusters, {K}; got {n_active}: write"
                " SparseVariational(memo='statistics')"
            )
        if self.objective == "map":
            model.family.require("map", "SparseVariational(objective='map')")
            for owner, method in ((model.family, "log_prior"), (model.weights, "log_density")):
                if not hasattr(owner, method):
                    raise CapabilityError(f"SparseVariational(objective='map') needs {method}(), which {owner!r} lacks")
        elif data.n_statistics > 64:  # families with fewer statistics can be differentiated
            model.family.require("variational", "SparseVariational")

    def _check_settings(self, model, data):
        super()._check_settings(model, data)
        if isinstance(self.schedule, Schedule) and not isinstance(self.schedule, Memoized):
            refuse_unused(self, ["memo"], why=f"the schedule {self.schedule!r}", remedy="use Memoized()")

    def max_clusters(self, model: MixtureModel) -> int:
        """Return the number of components of finite weights, or the truncation."""
        return model.weights.max_components or self.truncation

    def n_clusters_of(self, model: MixtureModel, data: Dataset) -> int:
        """Return K: the components of finite weights, or the truncation, at most one for each row.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        """
        return model.weights.max_components or min(self.truncation, data.n_rows)

    def schedule_of(self, n_clusters: int, n_rows: int) -> Any:
        """Return the schedule for `n_clusters` and `n_rows`.

        Parameters
        ----------
        n_clusters, n_rows : int

        Returns
        -------
        Full, Memoized or Stochastic
            The setting `schedule`; "auto" is resolved.
        """
        return automatic_schedule(n_clusters, n_rows, n_rows) if self.has_auto_schedule() else self.schedule

    def memo_of(self, n_clusters: int, data: Dataset) -> Literal["rows", "statistics"] | None:
        """Return what is kept of each batch: "rows", "statistics" or None.

        None stands for schedules that keep nothing.

        Parameters
        ----------
        n_clusters : int
        data : Dataset
        """
        schedule = self.schedule_of(n_clusters, data.n_rows)
        if not isinstance(schedule, Memoized):
            return None
        n_batches, has_indices = schedule.n_batches_of(data.n_rows), self.has_candidates(n_clusters)
        sizes = (n_clusters, data.n_rows, data.n_statistics)
        return self.memo_of_sizes(*sizes, n_batches=n_batches, has_indices=has_indices)

    def memo_of_sizes(
        self, n_clusters: int, n_rows: int, n_statistics: int, *, n_batches: int = 1, has_indices: bool = False
    ) -> Literal["rows", "statistics"]:
        """Return what a memoized schedule keeps of its batches: "rows" or "statistics".

        Parameters
        ----------
        n_clusters, n_rows, n_statistics, n_batches : int
            Rows are those of all batches together; n_statistics is F, of a row.
        has_indices : bool
            Whether the clusters of each row are stored in any case, so that they do not count.
        """
        L = self.n_active_of(n_clusters)
        if n_clusters <= L:
            return "statistics"
        if self.memo != "auto":
            return self.memo
        as_sums = 8 * n_batches * n_clusters * (n_statistics + 1)
        as_rows = n_rows * L * (np.dtype(self.dtype).itemsize + 4 * (not has_indices))
        return "rows" if as_rows <= as_sums else "statistics"

    def memory(self, model: MixtureModel, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of tables, sums of the parts, and kept rows."""
        K = self.n_clusters_of(model, data)
        L, size, schedule = self.n_active_of(K), np.dtype(self.dtype).itemsize, self.schedule_of(K, data.n_rows)
        kept = data.n_rows * L * (4 + size) if L < K else 0
        if self.memo_of(K, data) == "statistics":
            kept += 8 * schedule.n_batches_of(data.n_rows) * K * (data.n_statistics + 1)
        if not isinstance(schedule, Full):
            kept += 16 * data.n_rows
        if self.has_candidates(K):  # of a batch: last clusters beside new ones, and the order of rows by them
            kept += data.n_rows // schedule.n_batches_of(data.n_rows) * (4 * L + 16)
        if has_wide_counts(self, data, K):
            width = _COLUMN_BYTES * data.n_statistics + (_CELL_BYTES + LIST_SHARE * size) * most_cells(L, data)
        else:
            width = SparsePass(PhiSizes(data, size), K, L).memory()
        return int(kept + width + memory_of_links(data, size))

    # ---- steps -------------------------------------------------------------------------------------------------------

    def init_state(
        self, model: MixtureModel, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int
    ) -> VariationalState:
        """Return the state in which each row has only the cluster of its label."""
        K = self.n_clusters_of(model, data)
        if data.n_rows < K:
            warn(
                f"{counted(K, 'cluster')} for {counted(data.n_rows, 'datum', 'data')}: the rest stay at the prior",
                DataWarning,
            )
        labels = self._on_components(labels, K, data)
        return VariationalState(model, data, labels, n_clusters=K, settings=self, seed=seed)

    def _on_components(self, labels, K, data):
        """Return labels below K, with class c in component c where classes are known."""
        labels = fitted_labels(labels, K, self)
        return labels if data.known is None else data.known.numbered_by_class(labels, K)

    def _empty_stream(self, model, data, seed):
        return VariationalStream(model, data, n_clusters=self.max_clusters(model), settings=self, seed=seed)

    def _stream_start(self, stream, data, start):
        if stream.model.weights.max_components is not None:
            warn_of_few(stream.K, data)
        return self._on_components(start, stream.K, data)

    def check_stream(self, model: MixtureModel, data: Dataset) -> None:
        """Raise as `check` does, for a run that learns chunks; `data` is one of them."""
        super().check_stream(model, data)
        self._check_abilities(model, data, self.max_clusters(model))

    def move(self, state: VariationalState) -> tuple[int, int, dict[str, Any]]:
        """Make one pass by the schedule; return (rows, changed labels, diagnostics)."""
        self._check_owner(state)
        n_moved, done = self._make_pass(state, self.tol)
        extra = {"seconds_global": done.seconds_global, "all_clusters": int(done.scores_all)}
        return state.data.n_rows, n_moved, done.diagnostics.extra() | extra

    def _check_owner(self, state):
        different = state.settings_changed(self)
        if different:
            raise CapabilityError(
                f"the state was made by a kernel with other settings ({', '.join(different)}): use that kernel, or make"
                " a state with start=state.partition"
            )

    def finish(self, state: VariationalState) -> None:
        """Make one more pass where the last one did not score all clusters.

        Under a stochastic schedule the statistics stay as they are, and every row gets its most probable cluster.
        """
        if state.is_noisy:
            state.labels = state.passes.local_step(state.all_units(), state.tables()).labels
            tie_labels(state.labels, state.data)
            state.stamp += 1
        else:
            super().finish(state)
