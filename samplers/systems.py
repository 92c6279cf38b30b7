"""Samplers by name: compositions of kernels with recommended settings, no mathematics.

The rule of ``"auto"``: exact collapsed Gibbs, for every family, weights and size.
"""

from expfam.samplers.gibbs import CollapsedGibbs, UncollapsedGibbs
from expfam.samplers.kernel import Kernel

_BY_NAME = {"collapsed_gibbs": CollapsedGibbs, "uncollapsed_gibbs": UncollapsedGibbs}


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
