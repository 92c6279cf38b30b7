"""Tables of mixed columns: collapsed sweeps, passes of other samplers and predictions, with and without holes."""

from statistics import median
from time import process_time

import numpy as np

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, MixtureModel, Poisson, SymmetricDirichlet
from expfam.samplers import CollapsedGibbs, FastEx, SparseVariational, UncollapsedGibbs

N_ROWS = 10_000
KERNELS = {"collapsed": CollapsedGibbs, "uncollapsed": UncollapsedGibbs, "variational": SparseVariational}


def table(share, n_rows=N_ROWS, seed=0):
    """Six real columns, a count and three categories of ten clusters, with a share of the cells missing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n_rows)
    real = rng.normal(2.0 * rng.normal(size=(10, 6))[labels])
    codes = [np.where(rng.random(n_rows) < 0.7, labels % m, rng.integers(0, m, n_rows)) for m in (5, 7, 8)]
    X = np.column_stack([real, rng.poisson(3.0 + labels), *codes]).astype(np.float64)
    X[rng.random(X.shape) < share] = np.nan
    return X


def mixed():
    """The family of such a table."""
    parts = [(DiagonalGaussian(), range(6)), (Poisson(), (6,)), (Categorical(n_levels=[5, 7, 8]), (7, 8, 9))]
    return Columns([(family, tuple(columns)) for family, columns in parts])


class Sweep:
    """One pass over 10,000 rows of ten mixed columns."""

    params = (list(KERNELS), [10, 100], [0.0, 0.1])
    param_names = ("sampler", "K", "missing")
    timeout = 300

    def setup(self, sampler, K, missing):
        X = table(missing)
        data = Dataset(X, mixed())
        self.kernel = KERNELS[sampler]()
        start = np.random.default_rng(1).integers(0, K, N_ROWS)
        self.state = self.kernel.init(MixtureModel(data.family, SymmetricDirichlet(K, 1.0)), data, seed=0, start=start)
        self.kernel.step(self.state)

    def time_pass(self, sampler, K, missing):
        self.kernel.step(self.state)

    def track_ns_per_row_and_cluster(self, sampler, K, missing):
        begin = process_time()
        for _ in range(3):
            self.kernel.step(self.state)
        return (process_time() - begin) / (3 * N_ROWS * K) * 1e9

    track_ns_per_row_and_cluster.unit = "ns"


class FastExBesideFloats:
    """Sweeps of FastEx over real numbers: as a table of one part, and as the plain family."""

    params = ("removed", "crossfit")
    param_names = ("mode",)
    timeout = 300

    def setup(self, mode):
        rng = np.random.default_rng(0)
        X = rng.normal(3.0 * rng.normal(size=(20, 8))[rng.integers(0, 20, 2000)])
        self.kernel = FastEx("int8", mode=mode)
        self.table = self._state(X, Columns([(DiagonalGaussian(), tuple(range(8)))]))
        self.floats = self._state(X, DiagonalGaussian())

    def _state(self, X, family):
        data = Dataset(X, family)
        state = self.kernel.init(MixtureModel(data.family, SymmetricDirichlet(20)), data, seed=0)
        for _ in range(3):
            self.kernel.step(state)
        return state

    def time_table(self, mode):
        self.kernel.step(self.table)

    def time_floats(self, mode):
        self.kernel.step(self.floats)

    def track_ratio(self, mode):
        ratios = []
        for _ in range(5):
            begin = process_time()
            self.kernel.step(self.table)
            middle = process_time()
            self.kernel.step(self.floats)
            ratios.append((middle - begin) / (process_time() - middle))
        return median(ratios)

    track_ratio.unit = "table / floats"


class Binding:
    """Roles are known: patterns of holes are found and parts are bound and copied."""

    params = (0.0, 0.1)
    param_names = ("missing",)

    def setup(self, missing):
        self.X = table(missing, 100_000)

    def time_bind(self, missing):
        mixed().bind(self.X)

    def peakmem_components(self, missing):
        data = Dataset(self.X, mixed())
        data.family.components(data, 10)
