"""Building and searching a cover tree beside scikit-learn's trees on the same rows.

Ratios inside one run are what counts. The large shapes, a million rows and pure noise at full size, run with
EXPFAM_BENCH_LARGE=1.
"""

import os
import warnings

import numpy as np

from expfam.structures import CoverTree, CoverTreeWarning

N_QUERIES = 200
SHAPES = {
    "clusters 20000x64": (20_000, 64, 256),
    "clusters 20000x32": (20_000, 32, 200),
    "noise 20000x64": (20_000, 64, 0),
}
if os.environ.get("EXPFAM_BENCH_LARGE") == "1":
    SHAPES = {
        "clusters 1e5x64": (100_000, 64, 256),
        "clusters 1e6x32": (1_000_000, 32, 1000),
        "noise 1e5x64": (100_000, 64, 0),
    }
MAKERS = ("cover 1.3", "cover 2", "ball", "kd")


def rows(n_rows, n_features, n_clusters):
    """Spherical clusters of unit scale around centres of scale 3, or noise without any; float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    if n_clusters:
        X += 3 * rng.normal(size=(n_clusters, n_features))[rng.integers(n_clusters, size=n_rows)]
    return X.astype(np.float32)


def make(maker, X, n_threads=1):
    if maker.startswith("cover"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverTreeWarning)
            return CoverTree(X, base=float(maker.split()[1]), n_threads=n_threads)
    from sklearn.neighbors import BallTree, KDTree

    return (BallTree if maker == "ball" else KDTree)(X, leaf_size=40)


class Build:
    """Building a tree; two threads where the maker has them."""

    params = (list(MAKERS), list(SHAPES))
    param_names = ("tree", "data")
    timeout = 600

    def setup(self, maker, shape):
        self.X = rows(*SHAPES[shape])

    def time_build(self, maker, shape):
        make(maker, self.X, n_threads=2)

    def peakmem_build(self, maker, shape):
        make(maker, self.X, n_threads=2)


class Search:
    """Ten nearest neighbours of 200 new rows, one thread."""

    params = Build.params
    param_names = Build.param_names
    timeout = 600

    def setup(self, maker, shape):
        n_rows, n_features, n_clusters = SHAPES[shape]
        X = rows(n_rows + N_QUERIES, n_features, n_clusters)
        self.tree, self.Q = make(maker, X[:-N_QUERIES]), X[-N_QUERIES:]

    def time_neighbours(self, maker, shape):
        if maker.startswith("cover"):
            self.tree.knn(self.Q, 10)
        else:
            self.tree.query(self.Q, 10)


class Update:
    """One insert and one removal in a tree of clustered rows."""

    def setup(self):
        X = rows(20_000, 16, 100)
        self.tree, self.row = make("cover 1.3", X[:-1]), X[-1:]
        self.tree.remove(self.tree.insert(self.row))  # the index of data is made on the first update

    def time_insert_and_remove(self):
        self.tree.remove(self.tree.insert(self.row))
