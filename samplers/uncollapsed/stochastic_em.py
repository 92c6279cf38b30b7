"""Stochastic EM: labels are drawn, and parameters are set to their mode or mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from expfam.params import refuse_unused
from expfam.samplers.states.uncollapsed import BLOCK_BYTES, cluster_blocks
from expfam.samplers.uncollapsed.kernel import GROUPS_OF_ROWS, UncollapsedGibbs
from expfam.samplers.uncollapsed.metropolis import UncollapsedMetropolis

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.proposals.base import Proposal


class StochasticEM(UncollapsedGibbs):
    """Kernel that draws labels given parameters and sets parameters to their mode.

    The chain moves around a maximum; it does not sample the posterior.

    Parameters
    ----------
    proposal : str or Proposal, optional
        Name of a registered proposal, or an object. With it labels are moved by Metropolis steps in place of exact
        draws.
    draw, tau
        See `UncollapsedGibbs`.
    theta : {"map", "mean"}
        Parameters are the mode of the posterior in natural coordinates, or its mean.
    truncation, n_threads
        See `UncollapsedGibbs`.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.samplers import StochasticEM
    >>> X = [[0, 9]] * 20 + [[9, 0]] * 20
    >>> Mixture("poisson", 2, sampler=StochasticEM(theta="mean"), random_state=0).fit(X).cluster_sizes_
    array([20, 20])

    Notes
    -----
    Celeux and Diebolt 1985, "The SEM algorithm"; with all labels in parallel Zaheer et al. 2016, "Exponential
    stochastic cellular automata for massively parallel inference". The stationary law is not the posterior; it
    concentrates around a maximum, with a width of O(N^{-1/2}).
    """

    def __init__(
        self,
        proposal: str | Proposal | None = None,
        *,
        draw: Literal["auto", "dense", "pruned", "tree", "rejection"] = "auto",
        tau: float = 12.0,
        theta: Literal["map", "mean"] = "map",
        truncation: int = 100,
        n_threads: int | None = None,
    ) -> None:
        super().__init__(draw=draw, tau=tau, theta=theta, truncation=truncation, n_threads=n_threads)
        self.proposal = proposal

    def _metropolis(self) -> UncollapsedMetropolis:
        """Make the Metropolis kernel with the proposal."""
        settings: dict[str, Any] = {"theta": self.theta, "truncation": self.truncation, "n_threads": self.n_threads}
        return UncollapsedMetropolis(self.proposal, **settings)

    not_on_shards = GROUPS_OF_ROWS

    @property
    def on_shards(self) -> bool:  # type: ignore[override]
        """Whether the kernel runs on data in parts: only with exact draws, without a proposal."""
        return self.proposal is None

    def check(self, model: Any, data: Dataset) -> None:
        """Refuse ``theta="draw"``, which is `UncollapsedGibbs`, and settings out of range."""
        if self.theta == "draw":
            raise ValueError("StochasticEM has theta='map' or 'mean'; UncollapsedGibbs draws parameters")
        super().check(model, data)
        if self.proposal is not None:
            why = "a proposal, which stands in place of exact draws,"
            refuse_unused(self, ["draw", "tau"], why=why, remedy="leave out the proposal")
            self._metropolis().check(model, data)

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the parameters, and those of the proposal if there is one.

        Of sparse rows and very many columns only the parameters and their table in single precision are dense.
        """
        if self.proposal is not None:
            return self._metropolis().memory(model, data, n_clusters)
        is_dense = self.draw == "dense" or (self.draw == "auto" and n_clusters < self._least_for_tree)
        shape = (n_clusters, data.n_statistics)
        if is_dense and data.has_sparse_phi and len(cluster_blocks(shape)) > 1:
            return 16 * n_clusters * (data.n_statistics + 1) + 96 * data.n_nonzero + BLOCK_BYTES
        return super().memory(model, data, n_clusters)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Set parameters and weights to their mode or mean given labels, then move the labels."""
        return super().move(state) if self.proposal is None else self._metropolis().move(state)
