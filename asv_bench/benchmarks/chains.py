"""What a second of each exact sampler is worth: effective samples, acceptance, and the log joint in fixed time."""

from time import perf_counter

import numpy as np

from expfam import DirichletProcess, MixtureModel, SymmetricDirichlet, load_family
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    Cycle,
    FastEx,
    SplitMerge,
    UncollapsedGibbs,
)
from expfam.samplers.chain.diagnostics import bulk_ess

from . import data

KERNELS = {
    "collapsed": CollapsedGibbs,
    "uncollapsed": UncollapsedGibbs,
    "fastex": FastEx,
    "canopy": lambda: Canopy(variant=1),
    "split-merge and gibbs": lambda: Cycle(SplitMerge(), CollapsedGibbs()),
    "split-merge and fastex": lambda: Cycle(SplitMerge(), FastEx()),
}
OPEN = ("collapsed", "fastex", "split-merge and gibbs", "split-merge and fastex")
SECONDS = 1.0


def accepted_share(infos):
    """Accepted moves of those proposed."""
    return sum(info.accepted for info in infos) / max(1, sum(info.proposed for info in infos))


class AtEquilibrium:
    """Chains from the true labels of overlapping clusters, K fixed."""

    params = list(KERNELS)  # noqa: RUF012
    param_names = ("kernel",)
    timeout = 300
    n_steps = 100

    def setup(self, kernel):
        X, labels = data.gaussians(1000, 10, n_features=4, separation=1.5, exponent=0.0)
        model = MixtureModel(load_family("gaussian_diag"), SymmetricDirichlet(10))
        self.kernel = KERNELS[kernel]()
        self.state = self.kernel.init(model, X, seed=0, start=labels)
        for _ in range(20):
            self.kernel.step(self.state)

    def run(self):
        begin = perf_counter()
        infos = [self.kernel.step(self.state) for _ in range(self.n_steps)]
        return infos, perf_counter() - begin

    def track_effective_samples(self, kernel):
        infos, seconds = self.run()
        return bulk_ess([info.objective for info in infos]) / seconds

    track_effective_samples.unit = "effective samples of the log joint a second"

    def track_acceptance(self, kernel):
        return accepted_share(self.run()[0])

    track_acceptance.unit = "accepted of proposed moves"


class ToALevel:
    """From the default start with the number of clusters unknown: log joint after a fixed time."""

    params = (list(OPEN), ["documents", "vectors"])
    param_names = ("kernel", "data")
    timeout = 300

    def setup(self, kernel, kind):
        if kind == "documents":
            self.X, labels = data.documents(3000, 40)
        else:
            self.X, labels = data.gaussians(3000, 40, separation=1.5, exponent=0.0)
        family = load_family("multinomial" if kind == "documents" else "gaussian_diag")
        self.model = MixtureModel(family, DirichletProcess())
        self.truth = CollapsedGibbs().init(self.model, self.X, seed=0, start=labels).log_joint

    def track_gap(self, kernel, kind):
        made = KERNELS[kernel]()
        begin = perf_counter()
        state = made.init(self.model, self.X, seed=0)
        while perf_counter() - begin < SECONDS:
            made.step(state)
        return (self.truth - state.log_joint) / self.X.shape[0]

    track_gap.unit = f"nats a row below the true labels after {SECONDS} s"

    def track_clusters(self, kernel, kind):
        made = KERNELS[kernel]()
        state = made.init(self.model, self.X, seed=0)
        for _ in range(20):
            made.step(state)
        return state.n_clusters

    track_clusters.unit = "clusters after twenty steps, of forty"


class Candidates:
    """Passes that score each row against near clusters only, and the best clusters that they miss."""

    timeout = 300

    def setup(self):
        from expfam.samplers import Full, SparseVariational

        X = data.nested_gaussians(10_000, 400, n_features=16)[0]
        model = MixtureModel(load_family("gaussian_diag"), SymmetricDirichlet(400))
        common = {"schedule": Full(), "tol": 0.0, "full_every": 10**6}
        self.kernel = SparseVariational(n_candidates=32, **common)
        self.state = self.kernel.init(model, X, seed=0, start="kmeans++")
        for _ in range(3):
            self.kernel.step(self.state)
        self.state.share_moved = 0.0  # the graph from now on

    def time_pass(self):
        self.kernel.step(self.state)

    def track_recall(self):
        rows, tables = slice(0, self.state.data.n_rows), self.state.tables()
        best = self.state.passes.local_step(rows, tables).labels
        self.kernel.step(self.state)
        return float(np.mean(best == self.state.labels))

    track_recall.unit = "share of rows whose best cluster of all is found"
