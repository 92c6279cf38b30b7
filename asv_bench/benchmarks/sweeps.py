"""A collapsed Gibbs sweep over 10,000 rows of ten columns, by family, with and without missing cells."""

from time import process_time

import numpy as np

from expfam import DiagonalGaussian, LogNormal, MixtureModel, SymmetricDirichlet
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.samplers import CollapsedGibbs

N_ROWS, N_COLUMNS, MISSING = 10_000, 10, 0.1


def real(labels, rng):
    return 2.0 * rng.normal(size=(labels.max() + 1, N_COLUMNS))[labels] + rng.normal(size=(len(labels), N_COLUMNS))


def with_holes(X, rng):
    return np.where(rng.random(X.shape) < MISSING, np.nan, X)


def binary(labels, rng):
    return rng.random((len(labels), N_COLUMNS)) < rng.beta(0.5, 0.5, (labels.max() + 1, N_COLUMNS))[labels]


def counts(labels, rng):
    means = rng.gamma(0.5, 4.0, (labels.max() + 1, N_COLUMNS))[labels]
    return rng.poisson(means * rng.gamma(2.0, 0.5, means.shape))


CASES = {
    "gaussian_diag": (DiagonalGaussian(), real),
    "gaussian_diag, no cell missing": (DiagonalGaussian(missing=True), real),
    "gaussian_diag, a tenth missing": (DiagonalGaussian(missing=True), lambda z, rng: with_holes(real(z, rng), rng)),
    "lognormal": (LogNormal(), lambda z, rng: np.exp(real(z, rng) / 3.0)),
    "bernoulli": (Bernoulli(), lambda z, rng: binary(z, rng).astype(np.float64)),
    "negative_binomial": (NegativeBinomial(r=2.0), lambda z, rng: counts(z, rng).astype(np.float64)),
}


class Sweeps:
    """Nanoseconds for each row and cluster, CPU time, labels at their true values before the first sweep."""

    params = (list(CASES), [10, 100])
    param_names = ("family", "n_clusters")
    timeout = 120

    def setup(self, family, n_clusters):
        labels = (np.arange(N_ROWS) % n_clusters).astype(np.int32)
        law, make = CASES[family]
        self.kernel = CollapsedGibbs()
        model = MixtureModel(law, SymmetricDirichlet(n_clusters, 1.0))
        self.state = self.kernel.init(model, make(labels, np.random.default_rng(0)), seed=0, start=labels)
        self.kernel.step(self.state)

    def time_sweep(self, family, n_clusters):
        self.kernel.step(self.state)

    def track_sweep(self, family, n_clusters):
        seconds = []
        for _ in range(7):
            begin = process_time()
            self.kernel.step(self.state)
            seconds.append(process_time() - begin)
        return 1e9 * min(seconds) / (N_ROWS * n_clusters)

    track_sweep.unit = "ns per row x cluster"
