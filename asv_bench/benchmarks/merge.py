"""One model from models of disjoint rows: clusters side by side, joined by evidence, topics paired."""

from expfam import DiagonalGaussian, DirichletProcess, Mixture, TopicModel, merge
from expfam.samplers import TopicVariational

from . import data

N_PARTS = 4


class Mixtures:
    """Four mixtures of fifty clusters each."""

    params = ["apart", "merged"]  # noqa: RUF012
    param_names = ("clusters",)
    timeout = 300

    def setup(self, clusters):
        X, labels = data.gaussians(8000, 50)
        family, step = DiagonalGaussian().bind(X), len(X) // N_PARTS
        settings = {"weights": DirichletProcess(), "n_steps": 0, "n_warmup": 0}
        self.parts = [
            Mixture(family, start=labels[a : a + step], **settings).fit(X[a : a + step]) for a in range(0, len(X), step)
        ]

    def time_merge(self, clusters):
        merge(self.parts, clusters=clusters)

    def track_clusters(self, clusters):
        return merge(self.parts, clusters=clusters).n_components_

    track_clusters.unit = "clusters, of fifty"


class Topics:
    """Four topic models of a vocabulary of four thousand words."""

    timeout = 300

    def setup(self):
        X, _ = data.admixtures(2000, 50, n_words=4000)
        sampler = TopicVariational(local="active", n_restarts=0)
        settings = {"alpha": 0.1, "sampler": sampler, "n_steps": 3, "random_state": 0}
        step = X.shape[0] // N_PARTS
        self.parts = [TopicModel(50, **settings).fit(X[a : a + step]) for a in range(0, X.shape[0], step)]

    def time_pair(self):
        merge(self.parts, clusters="merged")

    def track_bound(self):
        return merge(self.parts, clusters="merged").log_joint_

    track_bound.unit = "nats"
