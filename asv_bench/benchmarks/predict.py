"""Predictions from a fitted mixture: labels, the largest probabilities, and densities of new rows, one and many."""

from sklearn.mixture import GaussianMixture

from expfam import Mixture

from . import data

N_ROWS = 20_000


class Predict:
    """Twenty thousand new rows under a mixture fitted to two thousand."""

    params = (["multinomial", "gaussian_diag"], [1, 2])
    param_names = ("family", "n_threads")
    timeout = 300

    def setup_cache(self):
        made = {
            "multinomial": data.documents(N_ROWS, 50, seed=8)[0],
            "gaussian_diag": data.gaussians(N_ROWS, 50, seed=8)[0],
        }
        fitted = {
            family: Mixture(family, 50, n_steps=5, n_warmup=5, random_state=0).fit(X[:2000])
            for family, X in made.items()
        }
        return made, fitted

    setup_cache.timeout = 600

    def setup(self, cache, family, n_threads):
        made, fitted = cache
        self.X, self.mixture = made[family], fitted[family].set_params(n_threads=n_threads)

    def time_predict(self, cache, family, n_threads):
        self.mixture.predict(self.X)

    def time_score_samples(self, cache, family, n_threads):
        self.mixture.score_samples(self.X)

    def time_predict_proba_top(self, cache, family, n_threads):
        self.mixture.predict_proba(self.X, n_top=5)

    def peakmem_predict_proba_top(self, cache, family, n_threads):
        self.mixture.predict_proba(self.X, n_top=5)


class PredictOneRow:
    """One row a call, as a service asks: the statistics are loaded by the first call and kept."""

    params = ("multinomial", "gaussian_diag", "gaussian")
    param_names = ("family",)
    timeout = 300

    def setup_cache(self):
        text, real = data.documents(2000, 50, seed=8)[0], data.gaussians(2000, 50, seed=8)[0]
        made = {"multinomial": text, "gaussian_diag": real, "gaussian": real}
        return {
            family: (Mixture(family, 50, n_steps=5, n_warmup=5, random_state=0).fit(X), X[7:8])
            for family, X in made.items()
        }

    setup_cache.timeout = 600

    def setup(self, cache, family):
        self.mixture, self.row = cache[family]
        self.mixture.predict(self.row)

    def time_predict(self, cache, family):
        self.mixture.predict(self.row)

    def time_predict_proba(self, cache, family):
        self.mixture.predict_proba(self.row)

    def time_score_samples(self, cache, family):
        self.mixture.score_samples(self.row)


class PredictBesidePeer:
    """Ten thousand rows under twenty clusters, beside scikit-learn's mixture of as many."""

    params = (["gaussian_diag", "gaussian"], ["expfam", "scikit-learn"])
    param_names = ("family", "package")
    timeout = 300

    def setup_cache(self):
        X = data.gaussians(10_000, 20, seed=9)[0]
        fitted = {}
        for family, kind in (("gaussian_diag", "diag"), ("gaussian", "full")):
            fitted[family, "expfam"] = Mixture(family, 20, n_steps=5, n_warmup=5, random_state=0).fit(X[:2000])
            fitted[family, "scikit-learn"] = GaussianMixture(20, covariance_type=kind, random_state=0).fit(X[:2000])
        return X, fitted

    setup_cache.timeout = 600

    def setup(self, cache, family, package):
        self.X, fitted = cache
        self.mixture = fitted[family, package]

    def time_predict(self, cache, family, package):
        self.mixture.predict(self.X)
