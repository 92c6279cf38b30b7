"""What is known of rows: a sweep where a share of the rows is known, and draws of groups of linked rows."""

import numpy as np

from expfam import Dataset, DiagonalGaussian
from expfam.model.known import Known
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers import CollapsedGibbs, LinkedGibbs

N_COLUMNS = 16


def planted(n_rows, n_clusters, seed=0):
    """Rows of overlapping clusters, and their clusters."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, n_clusters, n_rows)
    return 2.0 * rng.normal(size=(n_clusters, N_COLUMNS))[z] + rng.normal(size=(n_rows, N_COLUMNS)), z


def begin(kernel, X, z, known, n_clusters):
    data = Dataset(X, DiagonalGaussian(), known=known)
    model = MixtureModel(data.family, SymmetricDirichlet(n_clusters, 1.0))
    state = kernel.init(model, data, seed=0, start=z)
    kernel.step(state)
    return state


class Sweep:
    """A sweep of collapsed Gibbs over rows of which a share is known."""

    params = (0.0, 0.05, 0.5, 0.95)
    param_names = ("share known",)
    timeout = 300

    def setup(self, share):
        X, z = planted(20_000, 50)
        known = Known(np.where(np.random.default_rng(1).random(len(z)) < share, z, -1)) if share else None
        self.kernel = CollapsedGibbs()
        self.state = begin(self.kernel, X, z, known, 50)

    def time_sweep(self, share):
        self.kernel.step(self.state)


class Linked:
    """Draws of groups of five linked rows, beside a sweep over as many single rows as there are groups."""

    params = ("linked", "single")
    param_names = ("rows",)
    timeout = 300

    def setup(self, rows):
        n_groups, n_clusters = 20_000, 100
        X, z = planted(n_groups, n_clusters)
        if rows == "single":
            self.kernel, known = CollapsedGibbs(), None
        else:
            X = X[np.repeat(np.arange(n_groups), 5)] + 0.1 * np.random.default_rng(1).normal(
                size=(5 * n_groups, N_COLUMNS)
            )
            self.kernel, known, z = LinkedGibbs(), Known(links=np.repeat(np.arange(n_groups), 5)), np.repeat(z, 5)
        self.state = begin(self.kernel, X, z, known, n_clusters)

    def time_linked(self, rows):
        self.kernel.step(self.state)
