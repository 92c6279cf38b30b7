"""Soft statistics of K clusters with the posterior that they imply: what every variational run is made of.

Invariant: the posterior is the optimum for the statistics (n, S). Setting it costs what the family's expected
parameters cost, O(K F) and for full covariances O(K d^3).
"""

import numpy as np

from expfam.samplers.variational.features import phi_blocks
from expfam.samplers.variational.local_step import SparsePass, Tables
from expfam.samplers.variational.posterior import Posterior, Proportions
from expfam.samplers.variational.stream_base import weight_of

HELD = 0.5  # data that a component holds at least to count as a cluster
SETTLED_SHARE = 0.1  # of rows that change their label in a pass: above it clusters still move too far for candidates


class SoftState:
    """Statistics, posterior and passes of a variational run; the base of those that hold their data or do not.

    Parameters
    ----------
    model : MixtureModel
        Its family bound.
    data : Dataset
        Whose coordinates the passes take: whitening and origin are computed from it.
    n_clusters : int
        K; the truncation where the weights allow any number.
    settings : SparseVariational
    seed : int
    whiten : bool, optional
        Whether statistics are taken of whitened rows where the family allows it; if not given, in float32.

    Attributes
    ----------
    sums : Sums
    posterior : Posterior
        Of parameters and weights, in the coordinates of the passes.
    log_joint : float
        Lower bound of the log evidence, nats, without log-base.
    total_weight : float
        Rows, or the sum of their weights.
    """

    def __init__(self, model, data, *, n_clusters, settings, seed, whiten=None):
        self.model, self.seed, self.settings, self.K = model, int(seed), settings, int(n_clusters)
        self.phi = phi_blocks(data, model.family, dtype=settings.dtype, whiten=whiten)
        self.order = np.arange(self.K)
        self.total_weight = weight_of(data)

    def passes_over(self, phi, weight):
        """Passes over the rows of given blocks, with these settings."""
        settings = self.settings
        return SparsePass(phi, self.K, settings.n_active_of(self.K), weight=weight, n_threads=settings.n_threads)

    # ---- statistics --------------------------------------------------------------------------------------------------

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
        return int(np.count_nonzero(self.n >= HELD))

    def statistics(self):
        """Counts (B,) and sums (B, F) of the components that hold at least half a datum."""
        live = np.flatnonzero(self.n >= HELD)
        return self.n[live], self.S[live]

    # ---- posterior ---------------------------------------------------------------------------------------------------

    def update(self, *, keep_order=False):
        """Set the posterior from the statistics: the global step."""
        self.phi.settle(self.sums.S)
        if not keep_order:
            self.order = self.proportions().better_order(self.n, self.order)
        self.posterior = self.posterior_of(self.sums, self.order)

    def proportions(self):
        """Functions of the weights under these settings."""
        settings = self.settings
        return Proportions(self.model.weights, sticks=settings.sticks, objective=settings.objective)

    def posterior_of(self, sums, order):
        """The posterior of any statistics in the coordinates of the passes."""
        n_threads = self.settings.n_threads
        return Posterior(sums.n, sums.S, self.phi.family, self.proportions(), order, n_threads=n_threads)

    def tables(self):
        """The posterior as a pass reads it."""
        return Tables(self.posterior, self.phi)

    def compute_log_joint(self):
        """Bound of the statistics and the entropy, at the posterior that they imply: nats, without log-base."""
        return self.posterior.bound(self.entropy) + self.total_weight * self.phi.log_det
