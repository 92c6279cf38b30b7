"""Sweeps over parameters, weights and labels: parameters given labels, then all labels given those, in parallel.

A sweep of any of these kernels is `UncollapsedState.draw_parameters`, a label for every datum, and
`UncollapsedState.move_labels`. They differ in how labels are drawn: exactly, by a dense pass over all clusters or by
branch and bound over a tree of them, or by Metropolis steps. What the chain converges to depends on `theta` alone:
drawn parameters leave the posterior invariant; modes or means of them make stochastic EM.
"""

import numpy as np

from expfam.errors import CapabilityError
from expfam.params import refuse_unused
from expfam.samplers.chain.kernel import Kernel
from expfam.samplers.states.collapsed import UncollapsedState
from expfam.samplers.uncollapsed import dense as dense_draw
from expfam.samplers.uncollapsed.tree import draw_labels, preferred_tree

_ABILITY = {"draw": "draw", "map": "map", "mean": "variational"}  # of the family, by what `theta` needs
_DRAWS = ("auto", "dense", "tree", "rejection")


class UncollapsedKernel(Kernel):
    """Base of the kernels over an `UncollapsedState`: subclasses write ``draw_labels(state)``.

    Parameters
    ----------
    theta : {"draw", "map", "mean"}
        Parameters and weights given labels: drawn from their posterior (a Gibbs step), its mode in natural
        coordinates, or its mean.
    truncation : int
        Number of sticks kept under a Dirichlet process or Pitman-Yor prior; a symmetric Dirichlet has its own number.
    n_threads : int or None
        Threads for the labels; the result does not depend on it.

    Examples
    --------
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedKernel
    >>> class HardEM(UncollapsedKernel):
    ...     def draw_labels(self, state):
    ...         phi = state.data.phi(0, state.data.n_rows)
    ...         scores = state.log_pi + state.model.family.log_likelihood(phi, state.Theta, state.G)
    ...         return scores.argmax(axis=1).astype("int32"), {}
    >>> kernel = HardEM(theta="map")
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(3)), [[0], [1], [40]], seed=0, start=[0, 2, 2])
    >>> kernel.step(state).accepted
    1

    Notes
    -----
    ``draw_labels(state)`` returns new labels, (N,) int32, and a dict for `Info.extra`; it reads the labels and
    parameters of the state and changes neither.
    """

    state_type = UncollapsedState

    def __init__(self, *, theta="draw", truncation=100, n_threads=None):
        self.theta, self.truncation, self.n_threads = theta, truncation, n_threads

    def check(self, model, data):
        """Needs a family that makes parameters from statistics."""
        if self.theta not in _ABILITY:
            raise ValueError(f"theta must be one of {list(_ABILITY)}; got {self.theta!r}")
        model.family.require(_ABILITY[self.theta], type(self).__name__)
        if model.weights.max_components is None and (self.truncation is None or self.truncation < 1):
            raise CapabilityError(f"truncation must be at least 1 for {model.weights!r}; got {self.truncation!r}")

    def max_clusters(self, model):
        """The components of finite weights, or the truncation."""
        return model.weights.max_components or self.truncation

    def init_state(self, model, data, labels, *, seed):
        """State with the labels put into 0..K-1; parameters are made by the first step."""
        K = self.max_clusters(model)
        return UncollapsedState(model, data, fitted_labels(labels, K, self), n_clusters=K, seed=seed)

    def memory(self, model, data, n_clusters):
        """Parameters in double with the dense statistics they are made of, and in single precision for the scores."""
        return 20 * n_clusters * (data.n_statistics + 1)

    def draw_labels(self, state):
        """New labels of all data and what there is to say of them: (N,) int32, dict."""
        raise NotImplementedError(f"{type(self).__name__} must write draw_labels(state)")

    def move(self, state):
        """Parameters and weights given labels, then all labels given those."""
        state.draw_parameters(self.theta)
        labels, extra = self.draw_labels(state)
        return state.data.n_rows, state.move_labels(labels), extra


def fitted_labels(labels, n_components, kernel):
    """Labels within 0..n_components-1, renumbered only where some lie beyond."""
    values = np.unique(labels)
    if values.size > n_components:
        raise CapabilityError(
            f"{values.size} starting clusters, but {type(kernel).__name__} keeps {n_components} components here"
        )
    return np.searchsorted(values, labels) if values.max() >= n_components else labels


class UncollapsedGibbs(UncollapsedKernel):
    """Exact Gibbs sweep over parameters, weights and labels; the labels are drawn in parallel.

    Parameters
    ----------
    draw : {"auto", "dense", "tree", "rejection"}
        How labels are drawn from their exact law: all clusters scored; branch and bound over a tree of the clusters;
        or rejection from the bounds of such a tree. "auto" is dense below 512 clusters and otherwise goes by how many
        clusters the tree would score for a few data.
    tau : float
        Nats below the best cluster at which branch and bound leaves a cell to its exact tail; it changes the cost only.
    theta : {"draw", "map", "mean"}
        Parameters and weights given labels: only "draw" leaves the posterior invariant, the others are stochastic EM.
    truncation : int
        Number of sticks kept under a Dirichlet process or Pitman-Yor prior; a symmetric Dirichlet has its own number.
    n_threads : int or None
        Threads for the labels; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = UncollapsedGibbs()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)

    Notes
    -----
    The model with a truncated stick-breaking prior: Ishwaran and James 2001, "Gibbs sampling methods for
    stick-breaking priors". Mixing is slower than that of the collapsed sweep, by far on short documents.
    """

    def __init__(self, *, draw="auto", tau=12.0, theta="draw", truncation=100, n_threads=None):
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.draw, self.tau = draw, tau

    def check(self, model, data):
        """Refuse unknown ways to draw."""
        super().check(model, data)
        if self.draw not in _DRAWS:
            raise ValueError(f"draw must be one of {list(_DRAWS)}; got {self.draw!r}")
        if not self.tau > 0:
            raise ValueError(f"tau must be positive; got {self.tau!r}")
        if self.draw == "dense":
            refuse_unused(self, ["tau"], why="draw='dense'", remedy="take draw='tree'")

    def draw_labels(self, state):
        """New labels of all data from their exact law given the state's parameters."""
        method, tree = self.draw, None
        if method == "auto":
            tree = preferred_tree(state, n_threads=self.n_threads)
            method = "dense" if tree is None else "tree"
        if method == "dense":
            return dense_draw.draw_labels(state, self.n_threads), {}
        return draw_labels(state, self.n_threads, tau=self.tau, method=method, tree=tree)
