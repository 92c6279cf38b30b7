"""Trees by posterior odds: documents by the index, real columns by all pairs and by neighbours, rescoring."""

import numpy as np

from expfam import BayesianHierarchy, DiagonalGaussian, Gaussian, Multinomial
from expfam.samplers import HierarchicalClustering

from . import data


class Fit:
    """A whole tree, one thread."""

    params = (["documents", "documents, all pairs", "diagonal", "diagonal, neighbours", "full"],)
    param_names = ("tree",)
    timeout = 300

    def setup_cache(self):
        return data.short_documents(4000, 100)[0], data.gaussians(3000, 30, n_features=10)[0]

    def setup(self, cache, tree):
        documents, rows = cache
        self.X = documents if "documents" in tree else rows
        if "documents" in tree:
            index = None if "pairs" in tree else "exact"
            kernel = HierarchicalClustering(order="odds", index=index)
            self.model = BayesianHierarchy(Multinomial(concentration=0.01), sampler=kernel, leaves="rows")
        else:
            family = Gaussian() if tree == "full" else DiagonalGaussian()
            self.model = BayesianHierarchy(
                family, sampler=HierarchicalClustering(candidates="knn" if "neighbours" in tree else None)
            )

    def time_fit(self, cache, tree):
        self.model.fit(self.X)

    def peakmem_fit(self, cache, tree):
        self.model.fit(self.X)

    def track_scores(self, cache, tree):
        return self.model.fit(self.X).n_scores_ / (self.X.shape[0] - 1) ** 2

    track_scores.unit = "scores per pair of data, twice"

    def track_evidence(self, cache, tree):
        return self.model.fit(self.X).log_evidence_ / self.X.shape[0]

    track_evidence.unit = "nats a datum"


class Rescoring:
    """Odds of a given linkage."""

    def setup(self):
        n = 20_000
        self.X = data.gaussians(n, 30, n_features=10)[0]
        older = np.concatenate([[0], np.arange(n, 2 * n - 2)])
        self.Z = np.column_stack([older, np.arange(1, n), np.arange(1.0, n), np.arange(2, n + 1)])

    def time_from_linkage(self):
        BayesianHierarchy.from_linkage(self.Z, self.X, DiagonalGaussian())
