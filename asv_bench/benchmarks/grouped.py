"""Rows in groups: a sweep of the Gibbs sampler, a pass of variational inference, and weights of new groups."""

import numpy as np

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, GroupedMixture
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers import CollapsedGibbs, GroupedGibbs, GroupedVariational, SparseVariational

N_ROWS = 50_000
N_COLUMNS = 16


def rows_in_groups(size, n_clusters=50, seed=0):
    """Rows (N, V) of overlapping clusters, of which each group of `size` rows has a few; and the groups."""
    rng = np.random.default_rng(seed)
    n_groups = N_ROWS // size
    shares = rng.dirichlet(np.full(n_clusters, 4.0 / n_clusters), n_groups)
    groups = np.repeat(np.arange(n_groups), size)
    labels = (rng.random((len(groups), 1)) > shares[groups].cumsum(axis=1)).sum(axis=1).clip(0, n_clusters - 1)
    X = rng.normal(size=(n_clusters, N_COLUMNS))[labels] + rng.normal(size=(len(groups), N_COLUMNS))
    return X, groups


def begin(kernel, cache, K, *, grouped=True):
    X, groups = cache
    data = Dataset(X, DiagonalGaussian(), groups=groups if grouped else None)
    family = data.family
    model = AdmixtureModel(family, K, 4.0 / K) if grouped else MixtureModel(family, SymmetricDirichlet(K))
    return kernel.init(model, data, seed=0)


class Sweep:
    """One sweep of the Gibbs sampler, beside that of a mixture without groups."""

    params = ([20, 500], [50, 200], ["grouped", "mixture"])
    param_names = ("rows of a group", "clusters", "model")
    timeout = 300

    def setup_cache(self):
        return {size: rows_in_groups(size) for size in self.params[0]}

    def setup(self, cache, size, K, model):
        self.kernel = GroupedGibbs() if model == "grouped" else CollapsedGibbs()
        self.state = begin(self.kernel, cache[size], K, grouped=model == "grouped")
        self.kernel.step(self.state)

    def track_row(self, cache, size, K, model):
        return min(self.kernel.step(self.state).seconds for _ in range(3)) * 1e9 / N_ROWS

    track_row.unit = "ns per row"


class Pass:
    """One variational pass after three, beside that of a mixture without groups."""

    params = ([20, 500], [50, 200], ["five turns and a restart", "one turn", "mixture"])
    param_names = ("rows of a group", "clusters", "settings")
    timeout = 300

    def setup_cache(self):
        return {size: rows_in_groups(size) for size in self.params[0]}

    def setup(self, cache, size, K, settings):
        if settings == "mixture":
            self.kernel = SparseVariational(tol=0.0, n_candidates=None)
        elif settings == "one turn":
            self.kernel = GroupedVariational(max_iterations=1, n_restarts=0, bound_tol=0.0)
        else:
            self.kernel = GroupedVariational(bound_tol=0.0)
        self.state = begin(self.kernel, cache[size], K, grouped=settings != "mixture")
        for _ in range(3):
            self.kernel.step(self.state)

    def track_row(self, cache, size, K, settings):
        return min(self.kernel.step(self.state).seconds for _ in range(3)) * 1e9 / N_ROWS

    track_row.unit = "ns per row"


class Held:
    """Weights of new groups, and the score of left-out rows after so many steps."""

    params = ("gibbs", "variational")
    param_names = ("sampler",)
    timeout = 300

    def setup_cache(self):
        X, groups = rows_in_groups(50)
        half = N_ROWS // 2
        fits = {
            name: GroupedMixture("gaussian_diag", 50, sampler=name, n_steps=10, random_state=0).fit(
                X[:half], groups=groups[:half]
            )
            for name in self.params
        }
        return fits, X[half:], groups[half:] - groups[half]

    def time_weights(self, cache, name):
        cache[0][name].transform(cache[1], cache[2])

    def time_predict(self, cache, name):
        cache[0][name].predict(cache[1], cache[2])

    def peakmem_fit(self, cache, name):
        _, X, groups = cache
        GroupedMixture("gaussian_diag", 50, sampler=name, n_steps=2, random_state=0).fit(X, groups=groups)

    def track_score(self, cache, name):
        return cache[0][name].score(cache[1], groups=cache[2])

    track_score.unit = "nats per left-out row"
