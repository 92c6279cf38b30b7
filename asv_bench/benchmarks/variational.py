"""A pass of sparse variational inference by responsibilities kept, precision and candidates, with its parts."""

import numpy as np

from expfam import Dataset, DirichletProcess, Gaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import ClusterMoves, Full, Memoized, SparseVariational, Stochastic

from . import data

N_ROWS = 5000
K = 150
SETTINGS = {
    "dense": {"n_active": None},
    "L=4": {"n_active": 4, "n_candidates": None},
    "L=4, float64": {"n_active": 4, "n_candidates": None, "dtype": "float64"},
    "L=4, G=32": {"n_active": 4, "n_candidates": 32},
}


class Pass:
    """One pass over all data after three from a common start."""

    params = (list(SETTINGS), ["multinomial", "gaussian"])
    param_names = ("settings", "family")
    timeout = 300

    def setup_cache(self):
        return {
            "multinomial": data.documents(N_ROWS, 100, seed=3)[0],
            "gaussian": data.gaussians(N_ROWS, 100, seed=3)[0],
        }

    def setup(self, cache, settings, family):
        kind = Multinomial if family == "multinomial" else Gaussian
        self.kernel = SparseVariational(schedule=Full(), tol=0.0, full_every=10**6, **SETTINGS[settings])
        model = MixtureModel(kind(), SymmetricDirichlet(K))
        self.state = self.kernel.init(model, cache[family], seed=0, start="kmeans++")
        for _ in range(3):
            self.kernel.step(self.state)
        self.state.share_moved = 0.0  # candidates from now on, where there are any

    def time_pass(self, cache, settings, family):
        self.kernel.step(self.state)

    def track_parts(self, cache, settings, family):
        info = min((self.kernel.step(self.state) for _ in range(3)), key=lambda info: info.seconds)
        return float(np.sum([value for name, value in info.extra.items() if name.startswith("seconds")])) / info.seconds

    track_parts.unit = "share of the pass that its parts account for"

    def track_weights(self, cache, settings, family):
        infos = [self.kernel.step(self.state) for _ in range(3)]
        return min(info.extra["seconds_weights"] for info in infos) * 1e6 / N_ROWS

    track_weights.unit = "us per datum"

    def track_summary(self, cache, settings, family):
        infos = [self.kernel.step(self.state) for _ in range(3)]
        return min(info.extra["seconds_summary"] for info in infos) * 1e6 / N_ROWS

    track_summary.unit = "us per datum"


class Chunk:
    """One chunk learned again, of ten that are not held."""

    params = (["memoized, rows", "memoized, statistics", "stochastic"],)
    param_names = ("schedule",)

    def setup(self, schedule):
        X = data.gaussians(N_ROWS, 100, seed=3)[0]
        first = Dataset(X[: N_ROWS // 10], Gaussian())
        step = N_ROWS // 10
        self.chunks = [Dataset(X[a : a + step], first.family) for a in range(0, N_ROWS, step)]
        memo = "auto" if schedule == "stochastic" else schedule.split(", ")[1]
        kind = Stochastic(step) if schedule == "stochastic" else Memoized()
        kernel = SparseVariational(schedule=kind, memo=memo, n_candidates=None)
        self.stream = kernel.stream(MixtureModel(first.family, SymmetricDirichlet(100)), first, seed=0)
        self.batch = None if schedule == "stochastic" else 0
        for place, chunk in enumerate(self.chunks):
            self.stream.learn(chunk, batch=None if self.batch is None else place)

    def time_learn(self, schedule):
        self.stream.learn(self.chunks[0], batch=self.batch)


class Moves:
    """Merges, deletions and births after a few passes from one cluster."""

    params = (["merge", "delete", "birth"],)
    param_names = ("kind",)

    def setup(self, kind):
        X = data.gaussians(N_ROWS, 30, seed=3)[0]
        passes = SparseVariational(truncation=60, schedule=Full())
        self.state = passes.init(MixtureModel(Gaussian(), DirichletProcess()), X, seed=0, start="kmeans++")
        for _ in range(3):
            passes.step(self.state)
        self.moves = ClusterMoves(**{name: name == kind for name in self.params[0]})

    def time_step(self, kind):
        self.moves.step(self.state)
