"""Exact Gibbs sweeps over documents whose rare words have lists of clusters, beside a table of all words."""

from statistics import median
from time import process_time
from unittest import mock

import numpy as np

from expfam import Dataset, MixtureModel, Multinomial, SymmetricDirichlet
from expfam.families.counts import word_lists
from expfam.samplers import CollapsedGibbs

from . import data

N_CLUSTERS = 1000
LEAST_CELLS = {"lists of rare words": 0, "table": 1 << 60}


class RareWords:
    """A sweep over 10,000 documents of 20,000 words, labels at their true topics."""

    params = (14, 100)
    param_names = ("mean_length",)
    timeout = 300

    def setup(self, mean_length):
        X, topics = data.zipf_documents(10_000, N_CLUSTERS, mean_length=mean_length, mass=30)
        self.kernel, self.states = CollapsedGibbs(), {}
        for name, least in LEAST_CELLS.items():
            with mock.patch.object(word_lists, "LEAST_CELLS", least):
                rows = Dataset(X, Multinomial(concentration=0.01))
                model = MixtureModel(rows.family, SymmetricDirichlet(N_CLUSTERS, alpha=0.1))
                self.states[name] = self.kernel.init(model, rows, seed=0, start=topics)
                self.kernel.step(self.states[name])
        assert [state.components.owner.is_by_word for state in self.states.values()] == [True, False]

    def time_sweep(self, mean_length):
        self.kernel.step(self.states["lists of rare words"])

    def track_ratio_to_table(self, mean_length):
        ratios = []
        for _ in range(5):  # in turns: a busy machine slows both
            times = [self.seconds(name) for name in LEAST_CELLS]
            ratios.append(np.divide(*times))
        return median(ratios)

    track_ratio_to_table.unit = "sweep with lists / sweep with a table, CPU"

    def seconds(self, name):
        """CPU seconds of a sweep."""
        begin = process_time()
        self.kernel.step(self.states[name])
        return process_time() - begin
