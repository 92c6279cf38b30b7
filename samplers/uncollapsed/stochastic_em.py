"""Stochastic EM: labels are drawn, parameters are set to their mode or mean. A chain around a maximum, not exact."""

from expfam.params import refuse_unused
from expfam.samplers.uncollapsed.kernel import UncollapsedGibbs
from expfam.samplers.uncollapsed.metropolis import UncollapsedMetropolis


class StochasticEM(UncollapsedGibbs):
    """Labels drawn given parameters, parameters set to their mode given labels: a chain around a maximum, not exact.

    Parameters
    ----------
    proposal : str or Proposal, optional
        Metropolis steps with this proposal, a registered name or an object, in place of exact draws of the labels.
    draw, tau
        As of `UncollapsedGibbs`.
    theta : {"map", "mean"}
        The mode of the posterior in natural coordinates, or its mean.
    truncation, n_threads
        As of `UncollapsedGibbs`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import StochasticEM, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = StochasticEM()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)

    Notes
    -----
    Celeux and Diebolt 1985, "The SEM algorithm"; with all labels in parallel Zaheer et al. 2016, "Exponential
    stochastic cellular automata for massively parallel inference". The stationary law is a neighbourhood of a maximum
    of width O(N^{-1/2}), not the posterior.
    """

    def __init__(self, proposal=None, *, draw="auto", tau=12.0, theta="map", truncation=100, n_threads=None):
        super().__init__(draw=draw, tau=tau, theta=theta, truncation=truncation, n_threads=n_threads)
        self.proposal = proposal

    def _walk(self):
        """The Metropolis kernel that a proposal stands for."""
        settings = {"theta": self.theta, "truncation": self.truncation, "n_threads": self.n_threads}
        return UncollapsedMetropolis(self.proposal, **settings)

    def check(self, model, data):
        """Refuse drawn parameters, which would be `UncollapsedGibbs`."""
        if self.theta == "draw":
            raise ValueError("StochasticEM has theta='map' or 'mean'; UncollapsedGibbs draws parameters")
        super().check(model, data)
        if self.proposal is not None:
            why = "a proposal, which stands in place of exact draws,"
            refuse_unused(self, ["draw", "tau"], why=why, remedy="leave out the proposal")
            self._walk().check(model, data)

    def memory(self, model, data, n_clusters):
        """That of the dense draw or of the proposal."""
        return (super() if self.proposal is None else self._walk()).memory(model, data, n_clusters)

    def move(self, state):
        """Parameters and weights at their mode or mean given labels, then labels given those."""
        return super().move(state) if self.proposal is None else self._walk().move(state)
