"""State of a variational run that holds its data.

A state has soft statistics of K clusters, their posterior, the most probable cluster of each row, and for incremental
schedules the contribution of each batch. Invariant: the posterior is the optimum for the statistics (n, S), and under
exact schedules the statistics are the sums over the rows; `check` recomputes them. Nothing is N x K; kept
responsibilities need N L numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.samplers.states.storage import memory_arrays, model_arrays, stored_memory, with_model_arrays
from expfam.samplers.variational.held_rows import Batch, HeldSoft
from expfam.samplers.variational.linked_rows import has_links, linked_rows, tie_labels
from expfam.samplers.variational.local_step import LocalStep, Sums
from expfam.samplers.variational.soft_state import HELD
from expfam.samplers.variational.wide_counts import WidePass, WidePhi, WideSums, has_wide_counts
from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.variational.mixture import SparseVariational


class VariationalState(HeldSoft):
    """Expected statistics of K clusters, their posterior, and the likeliest cluster of each row.

    Parameters
    ----------
    model : MixtureModel
        With a bound family.
    data : Dataset
    labels : (N,) array_like of int in 0..K-1
        First responsibilities: all of a row's responsibility is in its cluster.
    n_clusters : int
        K; the truncation where the weights allow any number.
    settings : SparseVariational
    seed : int
    n_steps : int
        Steps that were made before.
    whiten : bool, optional
        Whether to whiten the rows where the family allows it; if not given, only in float32.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Cluster of the largest responsibility.
    n : (K,) float64 ndarray
        Soft counts; they sum to the number (or weight) of the data.
    S : (K, F) float64 ndarray, or CSR
        Soft sums of statistics. CSR only for counts in very many columns.
    entropy : float
        Sum over the rows of -sum r log r, nats.
    posterior : Posterior
        Posterior of parameters and weights, in the coordinates of the passes.
    log_joint : float
        Lower bound of the log evidence of the data, nats, without log-base. Under a stochastic schedule it is a noisy
        estimate of the bound; for ``objective="map"`` it is a bound of the penalised log likelihood.
    converged : bool
        Whether the last pass over all clusters gained less than the tolerance.

    Examples
    --------
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import SparseVariational
    >>> kernel = SparseVariational(n_active=2)
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(2)), [[0], [1], [40]], seed=0, start=[0, 0, 1])
    >>> state.n
    array([2., 1.])
    """

    way_on = "state.partition"
    values: Any
    batch_entropy: Any

    def __init__(
        self,
        model: MixtureModel,
        data: Dataset,
        labels: npt.ArrayLike,
        *,
        n_clusters: int,
        settings: SparseVariational,
        seed: int,
        n_steps: int = 0,
        whiten: bool | None = None,
    ) -> None:
        super().__init__(model, data, n_clusters=n_clusters, settings=settings, seed=seed, whiten=whiten)
        self.hold(data, settings.schedule_of(self.K, data.n_rows), n_steps=n_steps)
        self.labels = np.array(labels, dtype=np.int32)
        if self.labels.min() < 0 or self.labels.max() >= self.K:
            raise ExpFamError(f"labels must lie in 0..{self.K - 1}; got {self.labels.min()}..{self.labels.max()}")
        if has_wide_counts(settings, data, self.K):
            self.sums_type, self.pass_type = WideSums, WidePass
            self.phi = WidePhi(self.phi.family, dtype=self.phi.dtype, data=data)
        self.passes = self.passes_over(linked_rows(self.phi, data), data.weight, held_clusters(data))
        self._begin_memo()
        self.update()
        self.log_joint = self.compute_log_joint()

    # ---- statistics --------------------------------------------------------------------------------------------------

    def _begin_memo(self):
        """Set statistics and memo of rows that are each in one cluster, by their labels."""
        N, settings = self.data.n_rows, self.settings
        kind = settings.memo_of(self.K, self.data)
        hard, ones = self.labels[:, None], np.ones((N, 1), dtype=self.phi.dtype)
        self.indices = self.values = self.batch_sums = self.batch_entropy = None
        if kind == "rows" or settings.has_candidates(self.K):
            self.indices = self.first_indices()
        if kind is not None:
            self.batch_entropy = np.zeros(len(self.batches))
        if kind == "rows":
            self.values = np.zeros((N, self.passes.L), dtype=self.phi.dtype)
            self.values[:, 0] = 1.0
        if kind != "statistics":
            self.sums = self.passes.sums_of(slice(0, N), hard, ones)
            return
        self.batch_sums = [self.passes.sums_of(rows, hard[rows], ones[rows]) for rows in self.batches]
        self.sums = self.total_of_batches()

    # ---- batches -----------------------------------------------------------------------------------------------------

    def all_units(self) -> slice:
        """Return a slice of all rows; to index with it is faster than with their numbers."""
        return slice(0, self.n_units)

    def step_of(self, batch: Batch, *, all_clusters: bool) -> tuple[LocalStep, bool]:
        """Return the local step of a batch, and whether it scored all clusters."""
        rows, near, indices = batch.rows, self.near, self.indices
        last = None if near is None else indices[rows]
        remembered = None if self.values is None else (indices[rows], self.values[rows])
        keep = indices is not None
        options: dict[str, Any] = {"candidates": near, "last": last, "remembered": remembered, "keep": keep}
        options["is_last"] = True
        return self.passes.local_step(rows, self.tables(), **options), near is None

    def weight_of(self, batch: Batch) -> float:
        """Return the number of rows of a batch, or the sum of their weights."""
        weight = self.data.weight
        return float(len(batch.rows) if weight is None else weight[batch.rows].sum())

    def last_sums(self, batch: Batch, local: LocalStep) -> Sums:
        """Return the sums of a batch before this local step."""
        old: Any = local.replaced if self.values is not None else self.batch_sums[batch.place]
        old.entropy = float(self.batch_entropy[batch.place])
        return old

    def _replace(self, old, batch, new):
        if isinstance(self.sums, WideSums):  # the sums before the step are freed while those after it are made
            sums, self.sums, self.posterior = self.sums.copy(), None, None
            self.sums = sums.add(new) if old is None else sums.replace(old, new)
            return
        super()._replace(old, batch, new)

    def remember(self, batch: Batch, local: LocalStep, *, scores_all: bool) -> None:
        """Keep the labels of the rows, and what a later pass needs of them."""
        self.labels[batch.rows] = local.labels
        if self.indices is not None:
            self.indices[batch.rows] = local.indices
        if self.values is not None:
            self.values[batch.rows] = local.values
        if self.batch_entropy is not None:
            self.batch_entropy[batch.place] = local.sums.entropy
        if self.batch_sums is not None:
            self.batch_sums[batch.place] = local.sums

    def end_pass(self) -> None:
        """Give linked rows one label."""
        tie_labels(self.labels, self.data)

    # ---- results -----------------------------------------------------------------------------------------------------

    def soft_partition(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], Any]:
        """Return the labels with the soft statistics of their clusters.

        Returns
        -------
        labels : (N,) int32 ndarray
            As `partition`; where classes are known cluster j is that of class j.
        n : (B,) float64 ndarray
            First the clusters of the labels, in the order of the labels. Then the clusters that hold at least half a
            datum although they are the most probable cluster of no row.
        S : (B, F) float64 ndarray, or CSR where the statistics of the data are CSR
        """
        labels, known = self.partition, self.data.known
        labels = labels if known is None else known.numbered_by_class(labels)
        first = np.unique(labels, return_index=True)[1]
        used = self.labels[first]
        others = np.setdiff1d(np.flatnonzero(self.n >= HELD), used)
        chosen = np.concatenate([used, others])
        S = self.S[chosen]
        return labels, self.n[chosen], sparse.csr_array(S) if self.phi.is_sparse else S

    def rows(self) -> sparse.csr_array:
        """Return the responsibilities under the present posterior: CSR (N, K), up to L in a row.

        Raises
        ------
        CapabilityError
            If each row keeps all K clusters: the matrix would be dense.
        """
        if self.passes.is_dense:
            raise CapabilityError(
                f"responsibilities of all {counted(self.K, 'cluster')} are not kept; use n_active below {self.K}"
            )
        N, _L = self.data.n_rows, self.passes.L
        local: Any = self.passes.local_step(slice(0, N), self.tables(), keep=True)
        kept = local.indices >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        rows = sparse.csr_array((local.values[kept], local.indices[kept], indptr), shape=(N, self.K))
        rows.sort_indices()
        return rows

    def set_rows(self, indices: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> None:
        """Set the responsibilities of all rows, and all that follows from them.

        Parameters
        ----------
        indices : (N, L) int32 ndarray
            Clusters of each row.
        values : (N, L) ndarray
            Its responsibilities; the largest comes first.
        """
        N, passes = self.data.n_rows, self.passes
        self.labels = indices[:, 0].copy()
        self.indices = None if self.indices is None else indices
        self.values = None if self.values is None else values
        row_entropy = entropy_of(values, self.passes.phi.shares if has_links(self.data) else self.data.weight)
        if self.batch_entropy is not None:
            self.batch_entropy = np.array([row_entropy[rows].sum() for rows in self.batches])
        if self.batch_sums is None:
            self.sums = passes.sums_of(slice(0, N), indices, values)
        else:
            self.batch_sums = [passes.sums_of(rows, indices[rows], values[rows]) for rows in self.batches]
            self.sums = self.total_of_batches()
        self.sums.entropy = float(row_entropy.sum())
        self.since_all, self.converged = 0, False
        self.stamp += 1
        self.update()
        self.log_joint = self.compute_log_joint()

    def check(self) -> None:
        """Compare the statistics with the remembered rows; an AssertionError names what differs."""
        assert abs(self.n.sum() - self.total_weight) <= 1e-6 * self.total_weight, "counts do not sum to the data"
        if self.values is not None:
            sums = self.passes.sums_of(slice(0, self.data.n_rows), self.indices, self.values)
        elif self.batch_sums is not None:
            sums = self.total_of_batches()
        else:
            return
        slack = 1e-9 if self.phi.dtype == np.float64 else 1e-4
        assert abs(sums.n - self.n).max() <= slack * self.total_weight, "counts differ from the remembered rows"
        scale = 1.0 + abs(self.sums.S).max()
        assert abs(sums.S - self.sums.S).max() <= slack * scale, "sums differ from the remembered rows"

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return all that later steps read, to the bit, as a dict of arrays."""
        counters = [self.n_steps, self.stamp, self.since_all, self.n_updates, self.must_score_all, self.converged]
        arrays = {
            "model": model_arrays(self.model),
            "labels": self.labels.copy(),
            **self.sums.to_arrays(),
            "order": self.order.copy(),
            "scalars": np.array([self.entropy, self.log_joint, self.share_moved]),
            "counters": np.array(counters, dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }
        for name in ("indices", "values", "batch_entropy"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name).copy()
        if self.batch_sums is not None:
            arrays |= self.batch_arrays()
        return arrays

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Restore the state that `to_arrays` stored; later steps give the same bits."""
        if len(arrays["n"]) != self.K or ("batch_n" in arrays) != (self.batch_sums is not None):
            raise ExpFamError(
                f"the checkpoint has {counted(len(arrays['n']), 'cluster')}, this state {self.K}, or their memos "
                "differ: make it with the same kernel"
            )
        N, K = self.data.n_rows, self.K
        model = with_model_arrays(self.model, arrays["model"])
        labels = integers(arrays, "labels", (N,), 0, K, dtype=np.int32)
        entropy, log_joint, share_moved = numbers(arrays, "scalars", (3,), finite=False).tolist()
        sums = self.sums_type.from_arrays(arrays, entropy, self.sums.S.shape)
        order = stored_order(arrays, K)
        if self.indices is not None:
            self.indices = stored_rows(arrays, "indices", self.indices, K)
        if self.values is not None:
            self.values = numbers(arrays, "values", self.values.shape, low=0.0, dtype=self.values.dtype)
        if self.batch_entropy is not None:
            self.batch_entropy = numbers(arrays, "batch_entropy", self.batch_entropy.shape)
        if self.batch_sums is not None:
            self.batch_sums = self.batches_of_arrays(arrays)
        *counters, widen, done = integers(arrays, "counters", (6,)).tolist()
        self.n_steps, self.stamp, self.since_all, self.n_updates = counters
        self.must_score_all, self.converged = bool(widen), bool(done)
        self.memory = stored_memory(arrays)
        self.phi.with_family(model.family)
        self.model, self.labels, self.sums, self.order = model, labels, sums, order
        self.log_joint, self.share_moved = log_joint, share_moved
        self.update(keep_order=True)


def held_clusters(data: Dataset) -> npt.NDArray[np.int32] | None:
    """Return the component of each row of a known class c, which is c, and -1 for other rows."""
    return None if data.known is None or data.known.classes is None else data.known.classes


def stored_order(arrays: dict[str, Any], K: int) -> npt.NDArray[np.int64]:
    """Return the order of the sticks from a file: (K,) int64, a permutation."""
    order = integers(arrays, "order", (K,), 0, K)
    if not np.array_equal(np.sort(order), np.arange(K)):
        raise ArchiveError("'order' is no permutation of the clusters: the file was altered")
    return order


def stored_rows(arrays: dict[str, Any], name: str, like: npt.NDArray[np.int32], K: int) -> npt.NDArray[np.int32]:
    """Return the clusters of rows from a file, with the shape and the dtype of `like`.

    Parameters
    ----------
    arrays : dict of ndarrays
    name : str
        Name of the array: (N, L), -1 for no cluster. The first entry of each row is a cluster.
    like : (N, L) int32 ndarray
    K : int
        Number of clusters.

    Raises
    ------
    ArchiveError
        A row has no cluster, or one cluster twice.
    """
    rows = integers(arrays, name, like.shape, -1, K, dtype=like.dtype)
    if rows.size and rows[:, 0].min() < 0:
        raise ArchiveError(f"{name!r} holds rows without a cluster: the file was altered")
    ordered = np.sort(rows, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise ArchiveError(f"{name!r} holds a cluster twice in a row: the file was altered")
    return rows


def entropy_of(values: npt.NDArray[Any], weight: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """Return -sum r log r of each row of responsibilities, times its weight: (N,) nats."""
    r = values.astype(np.float64)
    entropy = -(r * np.log(np.where(r > 0, r, 1.0))).sum(axis=1)
    return entropy if weight is None else entropy * weight
