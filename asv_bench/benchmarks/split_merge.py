"""Starts and moves for an unknown number of clusters: time to the log joint of the true labels, moves of each kind."""

from time import perf_counter

import numpy as np

from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
from expfam.samplers import CollapsedGibbs, merged_labels, starting_labels

from . import data


def problem(n_rows, n_clusters):
    """Bound model and data, with the true labels."""
    X, labels = data.gaussians(n_rows, n_clusters, separation=1.5, exponent=0.0)
    rows = Dataset(X, DiagonalGaussian())
    return MixtureModel(rows.family, DirichletProcess()).bind(rows), rows, labels


class Start:
    """The variational start, and greedy merges of shattered clusters."""

    timeout = 300

    def setup(self):
        self.model, self.data, self.labels = problem(10_000, 50)
        self.pieces = data.shattered(self.labels, 8)

    def time_variational(self):
        starting_labels("variational", self.model, self.data, seed=0)

    def time_merges(self):
        merged_labels(self.model, self.data, self.pieces)

    def peakmem_variational(self):
        starting_labels("variational", self.model, self.data, seed=0)

    def track_seconds_to_truth(self):
        begin, kernel = perf_counter(), CollapsedGibbs()
        state = kernel.init(self.model, self.data, seed=0, start="variational")
        spent = perf_counter() - begin
        truth = self.model.log_joint(self.data, self.labels)
        for _ in range(50):
            if state.log_joint >= truth:
                return spent
            begin = perf_counter()
            kernel.step(state)
            spent += perf_counter() - begin
        return np.nan

    track_seconds_to_truth.unit = "s until the log joint of the true labels is passed"


class Moves:
    """A step of each preset at the truth: refusals of splits and merges, which is what most moves are."""

    params = ("auto", "rgsm", "sdds", "lshsm", "minsm", "mondrian", "random")
    param_names = ("preset",)
    timeout = 300

    def setup(self, preset):
        try:
            from expfam.samplers import SplitMerge
        except (AttributeError, ImportError) as error:
            raise NotImplementedError(f"no SplitMerge: {error}") from error  # asv then skips
        self.kernel = SplitMerge(preset)
        model, rows, labels = problem(10_000, 200)  # published presets take minutes of a step at ten times the size
        self.state = self.kernel.init(model, rows, seed=0, start=labels)
        self.kernel.step(self.state)

    def time_step(self, preset):
        self.kernel.step(self.state)
