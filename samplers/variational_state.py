"""State of a variational run: soft statistics of K clusters with the posterior they imply, and what is remembered of
the rows: their clusters, and for incremental schedules what each batch contributed.

Invariant: the posterior is the optimum for the statistics (n, S), which for exact schedules are those of the rows;
`check` recomputes what can be recomputed. Nothing is N x K; kept rows take N L numbers.
"""

from itertools import count

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, ExpFamError
from expfam.samplers.phi_blocks import phi_blocks
from expfam.samplers.posterior import Posterior, Proportions
from expfam.samplers.sparse_pass import SparsePass, Sums, Tables
from expfam.samplers.state import memory_arrays, model_arrays, with_model_arrays

_HELD = 0.5  # data that a component holds at least to count as a cluster


class VariationalState:
    """Soft statistics of K clusters, their posterior, and the most probable cluster of each datum.

    Parameters
    ----------
    model : MixtureModel
        Its family bound.
    data : Dataset
    labels : (N,) array_like of int in 0..K-1
        First responsibilities: each row wholly in its cluster.
    n_clusters : int
        K; the truncation where the weights allow any number.
    settings : SparseVariational
    seed : int
    n_steps : int
    whiten : bool, optional
        Whether statistics are taken of whitened rows where the family allows it; if not given, in float32.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Cluster of the largest responsibility.
    n : (K,) float64 ndarray
        Soft counts; they sum to the number (or weight) of the data.
    S : (K, F) float64 ndarray
        Soft sums of statistics.
    entropy : float
        Sum over the rows of -sum r log r, nats.
    posterior : Posterior
        Of parameters and weights, in the coordinates of the passes.
    log_joint : float
        The lower bound of the log evidence of the data, nats, without log-base; a noisy estimate of it under a
        stochastic schedule, the penalised log likelihood's bound for ``objective="map"``.
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

    def __init__(self, model, data, labels, *, n_clusters, settings, seed, n_steps=0, whiten=None):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp, self.memory, self.settings = 0, {}, settings
        self.K = int(n_clusters)
        self.schedule = settings.schedule_of(self.K, data.n_rows)
        self.labels = np.array(labels, dtype=np.int32)
        if self.labels.min() < 0 or self.labels.max() >= self.K:
            raise ExpFamError(f"labels must lie in 0..{self.K - 1}; got {self.labels.min()}..{self.labels.max()}")
        self.phi = phi_blocks(data, model.family, dtype=settings.dtype, whiten=whiten)
        self.passes = SparsePass(
            self.phi,
            self.K,
            settings.n_active_of(self.K),
            weight=data.weight,
            n_threads=settings.n_threads,
        )
        self.total_weight = float(data.n_rows if data.weight is None else data.weight.sum())
        self.order = np.arange(self.K)
        self.since_wide, self.n_updates, self.must_widen, self.converged = 0, 0, False, False
        self.share_moved = np.inf  # rows whose label the last pass over all clusters changed
        self._begin_memo()
        self.update()
        self.log_joint = self.compute_log_joint()

    # ---- statistics --------------------------------------------------------------------------------------------------

    def _begin_memo(self):
        """Statistics of the labels, and the memo of rows that are each wholly in one cluster."""
        N, L, settings = self.data.n_rows, self.passes.L, self.settings
        kind = settings.memo_of(self.K, self.data)
        hard, ones = self.labels[:, None], np.ones((N, 1), dtype=self.phi.dtype)
        self.indices = self.values = self.batches = self.batch_sums = self.batch_entropy = None
        if kind == "rows" or settings.has_candidates(self.K):
            self.indices = np.full((N, L), -1, dtype=np.int32)
            self.indices[:, 0] = self.labels
        if kind is not None:
            self.batches = self.schedule.partition(N, self.seed)
            self.batch_entropy = np.zeros(len(self.batches))
        if kind == "rows":
            self.values = np.zeros((N, L), dtype=self.phi.dtype)
            self.values[:, 0] = 1.0
        if kind != "statistics":
            self.sums = self.passes.sums_of(slice(0, N), hard, ones)
            return
        self.batch_sums = [self.passes.sums_of(rows, hard[rows], ones[rows]) for rows in self.batches]
        self.sums = Sums.zeros(self.K, self.phi.n_statistics)
        for sums in self.batch_sums:
            self.sums.add(sums)

    @property
    def n(self):
        """Soft counts: (K,)."""
        return self.sums.n

    @property
    def S(self):
        """Soft sums of statistics in the coordinates of the data: (K, F)."""
        return self.phi.to_data(self.sums.S)

    @property
    def entropy(self):
        """Entropy of the responsibilities, nats."""
        return self.sums.entropy

    @property
    def n_clusters(self):
        """Number of components that hold at least half a datum."""
        return int(np.count_nonzero(self.n >= _HELD))

    @property
    def partition(self):
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray, a copy."""
        _, first, labels = np.unique(self.labels, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.int32)
        rank[np.argsort(first)] = np.arange(first.size)
        return rank[labels]

    def statistics(self):
        """Counts (B,) and sums (B, F) of the components that hold at least half a datum."""
        live = np.flatnonzero(self.n >= _HELD)
        return self.n[live], self.S[live]

    def soft_partition(self):
        """Labels with the soft statistics of their clusters.

        Returns
        -------
        labels : (N,) int32 ndarray
            As `partition`.
        n : (B,) float64 ndarray
            First of the clusters of the labels, in their order; then of those that hold at least half a datum without
            being the most probable cluster of any.
        S : (B, F) float64 ndarray, or CSR where the statistics of the data are
        """
        labels = self.partition
        first = np.unique(labels, return_index=True)[1]
        used = self.labels[first]
        others = np.setdiff1d(np.flatnonzero(self.n >= _HELD), used)
        chosen = np.concatenate([used, others])
        S = self.S[chosen]
        return labels, self.n[chosen], sparse.csr_array(S) if self.phi.is_sparse else S

    # ---- posterior ---------------------------------------------------------------------------------------------------

    def update(self, *, keep_order=False):
        """Set the posterior from the statistics: the global step."""
        settings = self.settings
        proportions = Proportions(self.model.weights, sticks=settings.sticks, objective=settings.objective)
        if not keep_order:
            self.order = proportions.better_order(self.n, self.order)
        self.posterior = Posterior(
            self.n, self.sums.S, self.phi.family, proportions, self.order, n_threads=settings.n_threads
        )

    def tables(self):
        """The posterior as a pass reads it."""
        return Tables(self.posterior, self.phi)

    def compute_log_joint(self):
        """Bound of the statistics and the entropy, at the posterior that they imply: nats, without log-base."""
        return self.posterior.bound(self.entropy) + self.total_weight * self.phi.log_det

    def rows(self):
        """Responsibilities under the posterior as it stands: CSR (N, K), L entries a row.

        Raises
        ------
        CapabilityError
            For dense rows, which would be N x K.
        """
        if self.passes.is_dense:
            raise CapabilityError(f"all {self.K} responsibilities of each row are not kept; use a smaller n_active")
        N, _L = self.data.n_rows, self.passes.L
        visit = self.passes.visit(slice(0, N), self.tables(), keep=True)
        kept = visit.indices >= 0
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        rows = sparse.csr_array((visit.values[kept], visit.indices[kept], indptr), shape=(N, self.K))
        rows.sort_indices()
        return rows

    def set_model(self, model):
        """Use other hyper-parameters or weights of the same kind with the same statistics."""
        self.model = model
        self.phi.with_family(model.family)
        self.converged = False
        self.update()
        self.log_joint = self.compute_log_joint()

    def take(self, other):
        """Refused: no other state has what this one holds."""
        raise CapabilityError("a VariationalState cannot be combined with states of other types in one chain")

    def as_type(self, state_type):
        """This state; to go on with another kernel give it `partition` as its start."""
        if state_type is VariationalState:
            return self
        raise CapabilityError(
            f"a VariationalState cannot become a {state_type.__name__}: begin one with start=state.partition"
        )

    def check(self):
        """Compare statistics with what is remembered of the rows; AssertionError names what differs."""
        assert abs(self.n.sum() - self.total_weight) <= 1e-6 * self.total_weight, "counts do not sum to the data"
        if self.values is not None:
            sums = self.passes.sums_of(slice(0, self.data.n_rows), self.indices, self.values)
        elif self.batch_sums is not None:
            sums = Sums.zeros(self.K, self.phi.n_statistics)
            for part in self.batch_sums:
                sums.add(part)
        else:
            return
        slack = 1e-9 if self.phi.dtype == np.float64 else 1e-4
        assert abs(sums.n - self.n).max() <= slack * self.total_weight, "counts differ from the remembered rows"
        scale = 1.0 + abs(self.sums.S).max()
        assert abs(sums.S - self.sums.S).max() <= slack * scale, "sums differ from the remembered rows"

    # ---- storage -----------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """Every bit that a later step reads, as a dict of arrays."""
        counters = [self.n_steps, self.stamp, self.since_wide, self.n_updates, self.must_widen, self.converged]
        arrays = {
            "model": model_arrays(self.model),
            "labels": self.labels.copy(),
            "n": self.n.copy(),
            "S": self.sums.S.copy(),
            "order": self.order.copy(),
            "scalars": np.array([self.entropy, self.log_joint, self.share_moved]),
            "counters": np.array(counters, dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }
        for name in ("indices", "values", "batch_entropy"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name).copy()
        if self.batch_sums is not None:
            arrays["batch_n"] = np.stack([sums.n for sums in self.batch_sums])
            arrays["batch_S"] = np.stack([sums.S for sums in self.batch_sums])
        return arrays

    def from_arrays(self, arrays):
        """Restore what `to_arrays` gave; later steps give the same bits as if nothing had happened."""
        if len(arrays["n"]) != self.K or ("batch_n" in arrays) != (self.batch_sums is not None):
            raise ExpFamError(
                f"the checkpoint has {len(arrays['n'])} clusters, this state {self.K}, or their memos differ:"
                " make it with the same kernel"
            )
        self.model = with_model_arrays(self.model, arrays["model"])
        self.phi.with_family(self.model.family)
        self.labels = np.array(arrays["labels"], dtype=np.int32)
        entropy, self.log_joint, self.share_moved = (float(v) for v in arrays["scalars"])
        self.sums = Sums(np.array(arrays["n"]), np.array(arrays["S"]), entropy)
        self.order = np.array(arrays["order"], dtype=np.int64)
        for name in ("indices", "values", "batch_entropy"):
            setattr(self, name, np.array(arrays[name]) if name in arrays else None)
        if self.batch_sums is not None:
            entropies = self.batch_entropy
            parts = zip(count(), arrays["batch_n"], arrays["batch_S"])
            self.batch_sums = [Sums(np.array(n), np.array(S), float(entropies[b])) for b, n, S in parts]
        self.n_steps, self.stamp, self.since_wide, self.n_updates, widen, done = (int(v) for v in arrays["counters"])
        self.must_widen, self.converged = bool(widen), bool(done)
        self.memory = dict(arrays.get("memory", {}))
        self.update(keep_order=True)
