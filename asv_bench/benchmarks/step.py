"""One sweep of each exact kernel, in ns for each datum and cluster, beside scikit-learn's E-step on the same data."""

from expfam import DiagonalGaussian, Gaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import CollapsedGibbs, UncollapsedGibbs

from . import data

FAMILIES = {"multinomial": Multinomial, "gaussian": Gaussian, "gaussian_diag": DiagonalGaussian}
KERNELS = {"collapsed": CollapsedGibbs, "uncollapsed": UncollapsedGibbs}
N_ROWS = 5000


class Sweep:
    """A sweep over all data after three sweeps from random labels."""

    params = (list(KERNELS), list(FAMILIES), [20, 200])
    param_names = ("kernel", "family", "n_clusters")
    timeout = 300

    def setup_cache(self):
        return {
            "multinomial": data.documents(N_ROWS, 100, seed=3)[0],
            "gaussian": data.gaussians(N_ROWS, 100, seed=3)[0],
        }

    def setup(self, cache, kernel, family, n_clusters):
        X = cache["multinomial" if family == "multinomial" else "gaussian"]
        model = MixtureModel(FAMILIES[family](), SymmetricDirichlet(n_clusters))
        self.kernel = KERNELS[kernel]()
        self.state = self.kernel.init(model, X, seed=0, start="random", n_clusters=n_clusters)
        for _ in range(3):
            self.kernel.step(self.state)

    def time_step(self, cache, kernel, family, n_clusters):
        self.kernel.step(self.state)

    def track_step(self, cache, kernel, family, n_clusters):
        return data.nanoseconds_per_pair(lambda: self.kernel.step(self.state), N_ROWS * n_clusters)

    track_step.unit = "ns per datum x cluster"


class ScikitLearnStep:
    """The E-step of scikit-learn's mixtures on the data of `Sweep`: no draws, no update of parameters."""

    params = (["full", "diag"], [20, 200])
    param_names = ("covariance", "n_clusters")
    timeout = 300

    setup_cache = Sweep.setup_cache

    def setup(self, cache, covariance, n_clusters):
        import warnings

        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits

        self.X, self.limit = cache["gaussian"], threadpool_limits(1)  # our kernels use one thread too
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two iterations do not converge; the cost of a step does not depend on it
            self.mixture = GaussianMixture(
                n_clusters, covariance_type=covariance, max_iter=2, init_params="random_from_data", random_state=0
            ).fit(self.X)

    def teardown(self, cache, covariance, n_clusters):
        self.limit.restore_original_limits()

    def track_step(self, cache, covariance, n_clusters):
        return data.nanoseconds_per_pair(lambda: self.mixture.score_samples(self.X), N_ROWS * n_clusters)

    track_step.unit = "ns per datum x cluster"
