"""New rows under fitted models of each kind: topic weights, and predictions by a tree."""

from expfam import BayesianHierarchy, TopicModel
from expfam.samplers import HierarchicalClustering

from . import data

N_ROWS = 5000


class Topics:
    """Five thousand new documents under a topic model fitted to a thousand."""

    params = ("gibbs", "variational")
    param_names = ("fit",)
    timeout = 300

    def setup_cache(self):
        return data.admixtures(N_ROWS, 50, n_words=4000, mean_length=60)[0]

    setup_cache.timeout = 300

    def setup(self, X, fit):
        n_warmup = 2 if fit == "gibbs" else 0
        self.model = TopicModel(50, sampler=fit, n_steps=5, n_warmup=n_warmup, random_state=0).fit(X[:1000])

    def time_transform(self, X, fit):
        self.model.transform(X)

    def time_transform_top(self, X, fit):
        self.model.transform(X, n_top=5)

    def peakmem_transform(self, X, fit):
        self.model.transform(X)

    def track_score(self, X, fit):
        return self.model.score(X[1000:])

    track_score.unit = "score of held-out documents after a fixed number of steps"


class Tree:
    """Densities and clusters of new rows under a tree."""

    timeout = 300

    def setup(self):
        X, _ = data.gaussians(4000, 20, n_features=10)
        self.tree = BayesianHierarchy("gaussian_diag", sampler=HierarchicalClustering(candidates="knn")).fit(X[:2000])
        self.X = X[2000:]

    def time_score_samples(self):
        self.tree.score_samples(self.X)

    def time_predict(self):
        self.tree.predict(self.X)

    def time_cut(self):
        self.tree.tree_.cut("map")
