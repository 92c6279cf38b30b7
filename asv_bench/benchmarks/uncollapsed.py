"""Sweeps over drawn parameters and EM steps, in ns for each datum and cluster, beside scikit-learn's EM step."""

import warnings

from expfam import DiagonalGaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import ExpectationMaximization, StochasticEM, UncollapsedGibbs

from . import data

N_ROWS = 20_000
N_FEATURES = 32
KERNELS = {
    "gibbs": UncollapsedGibbs(draw="dense"),
    "stochastic_em": StochasticEM(draw="dense"),
    "em": ExpectationMaximization(tol=0.0),
}


class Step:
    """A step of each kernel after two of them, one thread."""

    params = (list(KERNELS), ["gaussian_diag", "multinomial"], [256, 1024])
    param_names = ("kernel", "family", "n_clusters")
    timeout = 300

    def setup_cache(self):
        return {
            "multinomial": data.documents(N_ROWS // 4, 200, seed=3)[0],
            "gaussian_diag": data.gaussians(N_ROWS, 200, n_features=N_FEATURES, seed=3)[0],
        }

    def setup(self, cache, kernel, family, n_clusters):
        X = cache[family]
        model = MixtureModel(
            DiagonalGaussian() if family == "gaussian_diag" else Multinomial(), SymmetricDirichlet(n_clusters)
        )
        self.kernel, self.n_pairs = KERNELS[kernel], X.shape[0] * n_clusters
        self.state = self.kernel.init(model, X, seed=0, start="random")
        for _ in range(2):
            self.kernel.step(self.state)

    def time_step(self, cache, kernel, family, n_clusters):
        self.kernel.step(self.state)

    def track_step(self, cache, kernel, family, n_clusters):
        return data.nanoseconds_per_pair(lambda: self.kernel.step(self.state), self.n_pairs)

    track_step.unit = "ns per datum x cluster"


class ScikitLearnEM:
    """One iteration of scikit-learn's EM on the dense data of `Step`, one thread of BLAS."""

    params = ([256, 1024],)
    param_names = ("n_clusters",)
    timeout = 600

    def setup(self, n_clusters):
        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits

        self.X, self.limit = data.gaussians(N_ROWS, 200, n_features=N_FEATURES, seed=3)[0], threadpool_limits(1)
        self.mixture = GaussianMixture(
            n_clusters, covariance_type="diag", max_iter=1, init_params="random_from_data", warm_start=True
        )
        self.n_pairs = N_ROWS * n_clusters
        self.step()

    def step(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one iteration does not converge
            self.mixture.fit(self.X)

    def teardown(self, n_clusters):
        self.limit.restore_original_limits()

    def track_step(self, n_clusters):
        return data.nanoseconds_per_pair(self.step, self.n_pairs)

    track_step.unit = "ns per datum x cluster"
