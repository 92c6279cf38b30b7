"""Predictions from a fitted mixture: labels, the largest probabilities, and densities of new rows."""

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
