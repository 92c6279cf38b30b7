"""Expected statistics of K clusters and their posterior: base of variational states.

Invariant: the posterior is the optimum for the statistics (n, S). Setting it costs O(K F), and O(K d^3) for full
covariances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.variational.features import PhiBlocks, phi_blocks
from expfam.samplers.variational.learner import Learner, weight_of
from expfam.samplers.variational.local_step import PassDiagnostics, SparsePass, Sums, Tables
from expfam.samplers.variational.posterior import Posterior, Proportions
from expfam.samplers.variational.wide_counts import WidePhi, WidePosterior, WideSums, WideTables

if TYPE_CHECKING:
    from expfam.model.data import Dataset

HELD = 0.5  # a component with less data does not count as a cluster
SETTLED_SHARE = 0.1  # if a pass changes more of the labels, clusters still move too far for candidates


class SoftState(Learner):
    """Statistics, posterior and passes of a variational run, with or without its data.

    The model's family is bound. `data` determine the coordinates of the passes, whitening and origin. `n_clusters` is
    K; the truncation where the weights allow any number. `whiten` says whether to whiten the rows where the family
    allows it; if not given, only in float32.

    Attributes
    ----------
    sums_type : type
        Class of the sums.
    sums : Sums
    posterior : Posterior
        Posterior of parameters and weights, in the coordinates of the passes.
    log_joint : float
        Lower bound of the log evidence, nats, without log-base.
    total_weight : float
        Number of rows, or the sum of their weights.
    """

    sums_type: type[Sums] = Sums
    pass_type: type[SparsePass] = SparsePass
    empty_diagnostics = PassDiagnostics
    posterior: Posterior
    phi: PhiBlocks
    order: npt.NDArray[np.int64]

    def __init__(
        self, model: Any, data: Dataset, *, n_clusters: int, settings: Any, seed: int, whiten: bool | None = None
    ) -> None:
        self.model, self.seed, self.settings, self.K = model, int(seed), settings, int(n_clusters)
        self.phi = phi_blocks(data, model.family, dtype=settings.dtype, whiten=whiten)
        self.order = np.arange(self.K)
        self.total_weight = weight_of(data)

    def passes_over(
        self, phi: PhiBlocks, weight: npt.NDArray[np.float64] | None, held: npt.NDArray[np.int32] | None = None
    ) -> SparsePass:
        """Return passes over the rows of given blocks, with these settings.

        Parameters
        ----------
        phi : PhiBlocks
            Blocks of the statistics of the rows.
        weight : (N,) float64 ndarray or None
            Multiplicity of each row; None for rows that count once.
        held : (N,) int32 ndarray, optional
            Cluster of each row whose cluster is known, and -1 for the other rows.
        """
        L, n_threads = self.settings.n_active_of(self.K), self.settings.n_threads
        return self.pass_type(phi, self.K, L, weight=weight, held=held, n_threads=n_threads)

    # ---- statistics --------------------------------------------------------------------------------------------------

    def empty_sums(self) -> Sums:
        """Return the sums of no rows."""
        return self.sums_type.zeros(self.K, self.phi.n_statistics)

    @property
    def n(self) -> npt.NDArray[np.float64]:
        """Return the soft counts: (K,)."""
        return self.sums.n

    @property
    def S(self) -> npt.NDArray[np.float64]:
        """Return the soft sums of statistics in the coordinates of the data: (K, F)."""
        return self.phi.to_data(self.sums.S)

    @property
    def entropy(self) -> float:
        """Return the entropy of the responsibilities, nats."""
        return self.sums.entropy

    @property
    def n_clusters(self) -> int:
        """Return the number of components that hold at least half a datum."""
        return int(np.count_nonzero(self.n >= HELD))

    def statistics(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return counts (B,) and sums (B, F) of the components that hold at least half a datum."""
        live = np.flatnonzero(self.n >= HELD)
        return self.n[live], self.S[live]

    # ---- posterior ---------------------------------------------------------------------------------------------------

    def update(self, *, keep_order: bool = False) -> None:
        """Set the posterior from the statistics: the global step."""
        self.phi.mend_sums(self.sums.n, self.sums.S)
        if not keep_order:
            self.order = self.proportions().better_order(self.n, self.order)
        self.posterior = self.posterior_of(self.sums, self.order)

    def proportions(self) -> Any:
        """Return the functions of the weights under these settings."""
        settings = self.settings
        return Proportions(self.model.weights, sticks=settings.sticks, objective=settings.objective)

    def posterior_of(self, sums: Sums, order: npt.NDArray[np.int64]) -> Posterior:
        """Return the posterior of any statistics in the coordinates of the passes.

        Parameters
        ----------
        sums : Sums
            With `n` (K,) and `S` (K, F), in the coordinates of the passes.
        order : (K,) int64 ndarray
            Clusters in the order of their sticks.
        """
        n_threads = self.settings.n_threads
        if isinstance(sums, WideSums):
            return WidePosterior(sums, self.phi.family, self.proportions(), order, n_threads=n_threads)
        return Posterior(sums.n, sums.S, self.phi.family, self.proportions(), order, n_threads=n_threads)

    def tables(self) -> Tables:
        """Return the posterior in the precision and layout of a pass."""
        posterior, phi = self.posterior, self.phi
        if isinstance(posterior, WidePosterior) and isinstance(phi, WidePhi):
            return WideTables(posterior, phi)
        return Tables(posterior, phi)

    def noisy_bound(self, local: Any, scale: float, total: float) -> float:
        """Return an estimate of the bound from one local step, before its update, nats."""
        return scale * local.value - self.posterior.divergence() + total * self.phi.log_det

    def compute_log_joint(self) -> float:
        """Return the bound of the statistics and entropy at their posterior, nats, without log-base."""
        return self.posterior.bound(self.entropy) + self.total_weight * self.phi.log_det
