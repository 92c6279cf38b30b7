"""k-means on one thread, beside scikit-learn's: seeds, passes from the same seeds, and a whole run.

Ratios inside one run are what counts. Shapes with a million entries and more run with EXPFAM_BENCH_LARGE=1.
"""

import os
import warnings

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from expfam.structures import RowTiles, nearest_centres

from . import data

SHAPES = {"150x4 K=3": (150, 4, 3), "10000x16 K=20": (10_000, 16, 20), "20400x16 K=20": (20_400, 16, 20)}
if os.environ.get("EXPFAM_BENCH_LARGE") == "1":
    SHAPES |= {"100000x16 K=20": (100_000, 16, 20), "25000x64 K=256": (25_000, 64, 256)}
N_PASSES = 10


class Lloyd:
    """Rows of float32 around Gaussian centres that overlap a little."""

    params = (list(SHAPES), ["ours", "sklearn"])
    param_names = ("shape", "method")

    def setup(self, shape, method):
        n, d, self.K = SHAPES[shape]
        self.limit = threadpool_limits(1)  # set once: setting it takes longer than a run on few rows
        self.X = data.gaussians(n, self.K, n_features=d, separation=1.5, exponent=0.0)[0].astype(np.float32)
        self.tiles = RowTiles(self.X)
        self.centres = self.X[self.tiles.seeds(self.K, np.random.default_rng(1))]

    def teardown(self, shape, method):
        self.limit.restore_original_limits()

    def time_seeds(self, shape, method):
        if method == "ours":
            self.tiles.seeds(self.K, np.random.default_rng(1))
        else:
            kmeans_plusplus(self.X, self.K, random_state=1)

    def time_passes(self, shape, method):
        """Ten passes; both stop earlier where no label changes."""
        if method == "ours":
            RowTiles(self.X).lloyd(self.centres, max_passes=N_PASSES, tol=0.0)
        else:
            self._sklearn(init=self.centres, max_iter=N_PASSES, tol=0.0)

    def time_run(self, shape, method):
        if method == "ours":
            RowTiles(self.X).kmeans(self.K, np.random.default_rng(1))
        else:
            self._sklearn(max_iter=30)

    def time_nearest(self, shape, method):
        if method == "ours":
            nearest_centres(self.X, self.centres)
        else:
            self.X @ self.centres.T  # the product alone, without the norms and the minimum

    def track_inertia(self, shape, method):
        """Mean sum of squared distances of a run over twenty seeds, for each row."""
        total = 0.0
        for seed in range(20):
            if method == "ours":
                labels, centres = self.tiles.kmeans(self.K, np.random.default_rng(seed))
                total += ((self.X - centres[labels]) ** 2).sum()
            else:
                total += self._sklearn(random_state=seed).inertia_
        return total / (20 * len(self.X))

    def _sklearn(self, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return KMeans(self.K, n_init=1, **{"random_state": 1, **settings}).fit(self.X)
