"""Samplers by name: compositions of kernels with recommended settings, no mathematics.

The rule of ``"auto"``: exact collapsed Gibbs, for every family, weights and size.
"""

from expfam.plugins.registry import load_proposal
from expfam.samplers.em import ExpectationMaximization
from expfam.samplers.gibbs import CollapsedGibbs
from expfam.samplers.kernel import Kernel
from expfam.samplers.metropolis import CollapsedMetropolis
from expfam.samplers.starts import default_n_clusters
from expfam.samplers.uncollapsed import StochasticEM, UncollapsedGibbs, UncollapsedKernel
from expfam.samplers.uncollapsed_metropolis import UncollapsedMetropolis
from expfam.samplers.variational import SparseVariational

TABLE_BYTES = 1 << 30  # largest table of counts that is chosen unasked
WIDEST_INT8 = 1024  # statistics a row up to which codes of one byte each are chosen


class FastEx(CollapsedMetropolis):
    """Fast collapsed sweeps over many clusters: cheap proposals over all of them, corrected to be exact.

    Parameters
    ----------
    proposal : str or Proposal
        ``"auto"``, the name of a registered proposal, or one with its settings.
    mode, n_blocks, n_threads
        As of `CollapsedMetropolis`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import FastEx, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = FastEx()
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> state.n_clusters
    2

    Notes
    -----
    Ahmed, Ravi, Narayanamurthy and Smola 2012, "FastEx: hash clustering with exponential families". The rule of
    ``proposal="auto"``, by family and sizes alone: multinomial and Poisson clusters whose table of logarithms takes at
    most 1 GiB get `TableProposal`; else up to 1024 statistics a row `Int8Proposal`; else `HashProposal`, whose codes
    do not grow with the number of columns. The published proposal is ``HashProposal(n_bits=64, screen=0)``.
    """

    def __init__(self, *, proposal="auto", mode="auto", n_blocks="auto", n_threads=None):
        super().__init__(proposal, mode=mode, n_blocks=n_blocks, n_threads=n_threads)

    def choose_proposal(self, model, data):
        """The proposal of a name, or what the rule of "auto" picks."""
        if not isinstance(self.proposal, str):
            return self.proposal
        return load_proposal(self.proposal if self.proposal != "auto" else proposal_for(model, data))


def proposal_for(model, data):
    """Name of the proposal that suits a model and its data, by family and sizes alone.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset

    Returns
    -------
    str
    """
    if getattr(model.family, "count_model", None) in ("multinomial", "poisson"):
        n_clusters = model.weights.max_components or 2 * default_n_clusters(model, data.n_rows)
        if load_proposal("table").memory(model, data, n_clusters) <= TABLE_BYTES:
            return "table"
    return "int8" if data.n_statistics <= WIDEST_INT8 else "hash"


class Canopy(UncollapsedKernel):
    """All labels in parallel given parameters, by trees: exact over a tree of clusters, or by groups of data.

    Parameters
    ----------
    variant : {2, 1}
        2: exact draws of the labels by branch and bound over a tree of the clusters, `UncollapsedGibbs` with
        ``draw="tree"``. 1: Metropolis steps with a law for each group of neighbouring data, `UncollapsedMetropolis`;
        sweeps are far cheaper and mix slower.
    proposal : str or Proposal
        Of variant 1: "prototype", the name of a registered proposal, or one with its settings.
    steps : int
        Of variant 1: Metropolis steps of each datum in a sweep, before its exact draw among the clusters that its
        group lists.
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
    >>> from expfam.samplers import Canopy, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> kernel = Canopy(variant=1)
    >>> state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(5)), X, seed=0)
    >>> trace = sample(kernel, state, 30)
    >>> len(set(state.labels[:20])), len(set(state.labels[20:]))
    (1, 1)

    Notes
    -----
    Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling with cover trees", whose two samplers these
    replace. As published they are ``UncollapsedMetropolis(PrototypeProposal(grouping="tree", n_anchors=0), steps=2,
    redraw=False, theta="map")`` and ``UncollapsedGibbs(draw="rejection", theta="map")``.
    """

    def __init__(self, *, variant=2, proposal="prototype", steps=2, theta="draw", truncation=100, n_threads=None):
        super().__init__(theta=theta, truncation=truncation, n_threads=n_threads)
        self.variant, self.proposal, self.steps = variant, proposal, steps

    def kernel(self):
        """The kernel that the variant stands for."""
        settings = {"theta": self.theta, "truncation": self.truncation, "n_threads": self.n_threads}
        if self.variant == 2:
            return UncollapsedGibbs(draw="tree", **settings)
        if self.variant != 1:
            raise ValueError(f"variant must be 1 or 2; got {self.variant!r}")
        proposal = load_proposal(self.proposal) if isinstance(self.proposal, str) else self.proposal
        return UncollapsedMetropolis(proposal, steps=self.steps, **settings)

    def check(self, model, data):
        """That of the variant's kernel."""
        self.kernel().check(model, data)

    def memory(self, model, data, n_clusters):
        """That of the variant's kernel."""
        return self.kernel().memory(model, data, n_clusters)

    def draw_labels(self, state):
        """New labels of all data, by the variant's kernel."""
        return self.kernel().draw_labels(state)

    def move(self, state):
        """A sweep of the variant's kernel."""
        return self.kernel().move(state)


_BY_NAME = {
    "collapsed_gibbs": CollapsedGibbs,
    "uncollapsed_gibbs": UncollapsedGibbs,
    "stochastic_em": StochasticEM,
    "expectation_maximization": ExpectationMaximization,
    "fast_ex": FastEx,
    "fastex": FastEx,
    "canopy": Canopy,  # variant 2, the exact one
    "uncollapsed_metropolis": UncollapsedMetropolis,
    "sparse_variational": SparseVariational,
}


def load_sampler(sampler="auto", *, n_threads=None):
    """Kernel of a name; a kernel is returned as it is.

    Parameters
    ----------
    sampler : str or Kernel
        ``"auto"``, a class name in snake case, or a kernel.
    n_threads : int or None
        For the kernels that can use several threads.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from expfam.samplers import load_sampler
    >>> load_sampler("auto")
    CollapsedGibbs(order='sequential')
    """
    if isinstance(sampler, Kernel):
        return sampler
    name = "collapsed_gibbs" if sampler == "auto" else sampler
    if name not in _BY_NAME:
        raise ValueError(f"sampler must be 'auto', a kernel, or one of {sorted(_BY_NAME)}; got {sampler!r}")
    kind = _BY_NAME[name]
    return kind(n_threads=n_threads) if "n_threads" in kind._parameter_names() else kind()
