"""A pass of sparse variational inference by responsibilities kept, precision and candidates, with its parts."""

import numpy as np

from expfam import Gaussian, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.samplers import Full, SparseVariational

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
