"""Samplers by name: compositions of kernels with recommended settings, no mathematics.

The rule of ``"auto"``: exact collapsed Gibbs, for every family, weights and size.
"""

from expfam.plugins.registry import load_proposal
from expfam.samplers.gibbs import CollapsedGibbs, UncollapsedGibbs
from expfam.samplers.kernel import Kernel
from expfam.samplers.metropolis import CollapsedMetropolis
from expfam.samplers.starts import default_n_clusters
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


_BY_NAME = {
    "collapsed_gibbs": CollapsedGibbs,
    "uncollapsed_gibbs": UncollapsedGibbs,
    "fast_ex": FastEx,
    "fastex": FastEx,
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
