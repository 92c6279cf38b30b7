"""Fits from data to labels: time, memory, and the quality reached in a fixed number of steps."""

from expfam import Mixture

from . import data

CASES = {
    "documents": {"family": "multinomial", "n_components": 40},
    "counts": {"family": "poisson", "n_components": 20},
    "gaussians": {"family": "gaussian_diag", "n_components": 20},
    "gaussians_process": {"family": "gaussian_diag", "n_components": None},
}


def make(case):
    if case == "documents":
        return data.documents(3000, 40, seed=5)
    return (data.counts if case == "counts" else data.gaussians)(3000, 20, seed=5)


def mixture(case, n_steps=10):
    return Mixture(**CASES[case], n_steps=n_steps, n_warmup=n_steps, random_state=0)


class Fit:
    """Twenty steps on three thousand rows."""

    params = list(CASES)  # noqa: RUF012
    param_names = ("case",)
    timeout = 300

    def setup_cache(self):
        cache = {}
        for case in CASES:
            X, labels = make(case)
            fitted = mixture(case).fit(X)
            nmi = data.normalized_mutual_information(labels, fitted.labels_)
            cache[case] = {"X": X, "nmi": nmi, "log_joint": fitted.log_joint_ / X.shape[0], "K": fitted.n_components_}
        return cache

    setup_cache.timeout = 600

    def time_fit(self, cache, case):
        mixture(case).fit(cache[case]["X"])

    def peakmem_fit(self, cache, case):
        mixture(case).fit(cache[case]["X"])

    def track_nmi(self, cache, case):
        return cache[case]["nmi"]

    def track_log_joint(self, cache, case):
        return cache[case]["log_joint"]

    def track_n_clusters(self, cache, case):
        return cache[case]["K"]

    track_nmi.unit = "normalised mutual information with the truth"
    track_log_joint.unit = "nats per datum, without log-base"
    track_n_clusters.unit = "clusters"


class LargeFit:
    """A million rows in a thousand clusters: minutes. Left out with ``asv run --bench '^(?!.*Large)'``."""

    params = ([1_000_000], [1000])
    param_names = ("n_rows", "n_clusters")
    timeout = 3600
    number = repeat = rounds = 1
    warmup_time = 0.0

    def setup_cache(self):
        return data.sparse_counts(1_000_000, 1000, seed=6)[0]

    setup_cache.timeout = 600

    def fit(self, X, n_rows, n_clusters):
        sampler = "gibbs"
        return Mixture(
            "multinomial",
            n_clusters,
            sampler=sampler,
            n_steps=1,
            n_warmup=0,
            start="random",
            partition="last",
            random_state=0,
        ).fit(X[:n_rows])

    def peakmem_fit(self, X, n_rows, n_clusters):
        self.fit(X, n_rows, n_clusters)

    def time_fit(self, X, n_rows, n_clusters):
        self.fit(X, n_rows, n_clusters)
