"""Scores of one datum against K clusters, and moves of a datum, for each built-in family."""

import numpy as np

from expfam import (
    Categorical,
    Dataset,
    DiagonalGaussian,
    Gaussian,
    Multinomial,
    Poisson,
    SphericalGaussian,
    ZeroMeanGaussian,
)
from expfam.families.components import Components

from . import data

FAMILIES = {
    "multinomial": (Multinomial, "documents"),
    "poisson": (Poisson, "counts"),
    "poisson_sparse": (Poisson, "documents"),
    "categorical": (Categorical, "levels"),
    "gaussian": (Gaussian, "gaussians"),
    "gaussian_diag": (DiagonalGaussian, "gaussians"),
    "gaussian_spherical": (SphericalGaussian, "gaussians"),
    "gaussian_zero": (ZeroMeanGaussian, "gaussians"),
}
N_ROWS = 2000


class Scores:
    """Nanoseconds for each datum and cluster; `seconds` of a block of fixed size for comparisons of commits."""

    params = (list(FAMILIES), [10, 100, 1000])
    param_names = ("family", "n_clusters")
    timeout = 120

    def setup_cache(self):
        return {
            name: getattr(data, name)(N_ROWS, 50, seed=1)[0] for name in ("documents", "counts", "levels", "gaussians")
        }

    def setup(self, cache, family, n_clusters):
        kind, source = FAMILIES[family]
        dataset = Dataset(cache[source], kind())
        self.components = Components(dataset.family, dataset, n_clusters)
        self.components.refresh(np.random.default_rng(2).integers(n_clusters, size=N_ROWS))
        self.n_clusters = n_clusters
        self.n_rows = max(1, min(N_ROWS, 200_000 // n_clusters))
        self.out = np.empty((self.n_rows, n_clusters))

    def score(self):
        self.components.log_predictive_block(0, self.n_rows, self.n_clusters, self.out)

    def time_scores(self, cache, family, n_clusters):
        for _ in range(5):
            self.score()

    def track_scores(self, cache, family, n_clusters):
        return data.nanoseconds_per_pair(self.score, self.n_rows * n_clusters)

    track_scores.unit = "ns per datum x cluster"


class Moves:
    """Taking a datum out of a cluster and putting it back."""

    params = list(FAMILIES)  # noqa: RUF012
    param_names = ("family",)
    timeout = 120

    setup_cache = Scores.setup_cache

    def setup(self, cache, family):
        kind, source = FAMILIES[family]
        dataset = Dataset(cache[source], kind())
        self.labels = np.random.default_rng(2).integers(100, size=N_ROWS).astype(np.int32)
        self.components = Components(dataset.family, dataset, 100)
        self.components.refresh(self.labels)
        self.pairs = list(enumerate(self.labels.tolist()))

    def time_remove_and_add(self, cache, family):
        remove, add = self.components.remove, self.components.add
        for _ in range(5):
            for i, k in self.pairs:
                remove(i, k)
                add(i, k)
