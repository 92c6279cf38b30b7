"""Labels drawn over a tree of clusters beside a dense pass, groups with one table beside exact sweeps, and starts.

The speed of a sweep has its quality beside it: one that moves nothing is fast.
"""

from statistics import median
from time import perf_counter

import numpy as np

from expfam import Dataset, MixtureModel, SphericalGaussian, SymmetricDirichlet, purity
from expfam.samplers import Canopy, PrototypeProposal, StochasticEM, UncollapsedMetropolis, starting_labels

from . import data

SHAPES = {"K 1024, d 32": (1024, 32), "K 2048, d 64": (2048, 64)}
N_TEST = 2000


def made(shape):
    """Model, data, their true clusters and held-out rows of a mixture in three scales."""
    K, d = SHAPES[shape]
    X, labels = data.nested_gaussians(10 * K + N_TEST, K, n_features=d, separation=0.7)
    rows = Dataset(X[N_TEST:], SphericalGaussian(variance=1.0))
    model = MixtureModel(rows.family, SymmetricDirichlet(K, alpha=1.0)).bind(rows)
    return model, rows, labels[N_TEST:], Dataset(X[:N_TEST], rows.family)


def log_likelihood(state, test):
    """Mean log density of held-out rows: nats."""
    return float(data.mixture_scores(test, state.log_pi, state.Theta, state.G)[0].mean())


def ratio_of_turns(slow, fast, n_turns=5):
    """Median of how many times longer one call takes than the other, in turns: a busy machine slows both."""
    ratios = []
    for _ in range(n_turns):
        begin = perf_counter()
        slow()
        middle = perf_counter()
        fast()
        ratios.append((middle - begin) / (perf_counter() - middle))
    return median(ratios)


class Draw:
    """A label for each datum from its exact law, parameters at the mode given the true clusters."""

    params = (list(SHAPES), ["dense", "tree"])
    param_names = ("shape", "draw")
    timeout = 600

    def setup(self, shape, draw):
        model, rows, labels, self.test = made(shape)
        self.kernel = StochasticEM(draw=draw)
        self.state = self.kernel.init(model, rows, seed=0, start=labels)
        self.state.draw_parameters("map")

    def draw(self):
        return self.kernel.draw_labels(self.state)

    def time_draws(self, shape, draw):
        self.draw()

    def track_visits(self, shape, draw):
        return self.draw()[1].get("visits", SHAPES[shape][0])

    track_visits.unit = "clusters scored for a datum"

    def track_ratio_to_dense(self, shape, draw):
        dense = StochasticEM(draw="dense")
        return ratio_of_turns(lambda: dense.draw_labels(self.state), self.draw)

    track_ratio_to_dense.unit = "dense pass / this draw, wall"


class Sweep:
    """Sweeps of Canopy I by default and as printed, beside dense stochastic EM: time, and where five of them lead."""

    params = (list(SHAPES), ["sem", "canopy", "printed"])
    param_names = ("shape", "kernel")
    timeout = 600

    def setup(self, shape, kernel):
        self.model, self.rows, self.labels, self.test = made(shape)
        self.kernel = {
            "sem": StochasticEM(draw="dense"),
            "canopy": Canopy(variant=1, theta="map"),
            "printed": UncollapsedMetropolis(
                PrototypeProposal(data_cells="tree", n_anchors=0), steps=2, redraw=False, theta="map"
            ),
        }[kernel]
        self.state = self.warm(self.kernel)

    def warm(self, kernel):
        state = kernel.init(self.model, self.rows, seed=0, start=self.labels)
        kernel.step(state)
        return state

    def time_sweep(self, shape, kernel):
        self.kernel.step(self.state)

    def track_ratio_to_dense(self, shape, kernel):
        dense = StochasticEM(draw="dense")
        exact = self.warm(dense)
        return ratio_of_turns(lambda: dense.step(exact), lambda: self.kernel.step(self.state))

    track_ratio_to_dense.unit = "dense sweep / this sweep, wall, at convergence"

    def track_log_likelihood(self, shape, kernel):
        start = starting_labels("kmeans++", self.model, self.rows, seed=0)
        state = self.kernel.init(self.model, self.rows, seed=0, start=start)
        for _ in range(5):
            self.kernel.step(state)
        return log_likelihood(state, self.test)

    track_log_likelihood.unit = "nats a held-out row after five sweeps from k-means++"


class Start:
    """Starting labels by rule: time, and purity."""

    params = ["random", "kmeans++", "tree", "tree_point"]  # noqa: RUF012
    param_names = ("start",)
    timeout = 600

    def setup(self, start):
        self.model, self.rows, self.labels, _ = made("K 1024, d 32")

    def start(self, start):
        return starting_labels(start, self.model, self.rows, seed=0)

    def time_start(self, start):
        self.start(start)

    def track_purity(self, start):
        return purity(self.labels, self.start(start))

    track_purity.unit = "purity of the starting labels"


class Memory:
    """Peak of two sweeps with what the data need."""

    params = ["dense", "tree", "groups"]  # noqa: RUF012
    param_names = ("draw",)
    timeout = 600

    def peakmem_sweeps(self, draw):
        model, rows, labels, _ = made("K 1024, d 32")
        kernel = Canopy(variant=1) if draw == "groups" else StochasticEM(draw=draw)
        state = kernel.init(model, rows, seed=0, start=labels)
        for _ in range(2):
            kernel.step(state)
        assert np.isfinite(state.log_joint)
