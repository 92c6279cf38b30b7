"""Plugins: finding them, loading one, its checks, and steps with a NumPy family beside the built-in one of its law."""

from expfam import MixtureModel, Poisson, SymmetricDirichlet, list_plugins, load_family
from expfam.plugins.conformance import check_family
from expfam.samplers import CollapsedGibbs, SparseVariational, StochasticEM

from . import data
from .numpy_family import NumpyPoisson


class Registry:
    """What a user waits for before any work."""

    timeout = 300

    def time_list(self):
        list_plugins()

    def time_load(self):
        load_family("geometric")

    def time_check_family(self):
        check_family(load_family("geometric"))


class Step:
    """A step on counts by who wrote the family."""

    params = (["built in", "NumPy"], ["collapsed", "stochastic_em", "variational"])
    param_names = ("family", "kernel")
    timeout = 300

    def setup(self, family, kernel):
        X = data.counts(300 if kernel == "collapsed" else 5000, 20)[0]
        model = MixtureModel(Poisson() if family == "built in" else NumpyPoisson(), SymmetricDirichlet(20))
        kernels = {"collapsed": CollapsedGibbs, "stochastic_em": StochasticEM, "variational": SparseVariational}
        self.kernel = kernels[kernel]()
        self.state = self.kernel.init(model, X, seed=0, start="random", n_clusters=20)
        self.kernel.step(self.state)

    def time_step(self, family, kernel):
        self.kernel.step(self.state)
