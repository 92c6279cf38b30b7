"""How many nats a fit of rows in groups is below simple partitions, under the model that the fit has learned."""

from itertools import permutations

import numpy as np
from dominance import Judgement
from simple_partitions import by_first_row, simple_partitions

from expfam import AdmixtureModel, Dataset

MOST_PERMUTED = 4  # clusters


def judge_groups(mixture, X, groups, *, truth, seed=0):
    """Compare a fitted `GroupedMixture` with simple partitions and with the truth.

    Partitions are taken as they are: no ascent is made. Clusters have a prior each, so they are numbered in the best
    way, where there are few.
    """
    data, K = Dataset(X, mixture.family_), mixture.n_components
    model = AdmixtureModel(mixture.family_, K, mixture.alpha_)
    found = model.log_joint(data, mixture.labels_, groups)
    candidates = [*simple_partitions(data, {K, len(np.unique(truth))}, seed=seed), ("truth", by_first_row(truth))]
    reached = {
        name: max(model.log_joint(data, numbers[labels], groups) for numbers in numberings(K))
        for name, labels in candidates
        if labels.max() < K
    }
    best = max(reached, key=reached.get)
    return Judgement(float(reached[best] - found), best, np.nan)


def numberings(K):
    """Numbers that the clusters may have."""
    every = permutations(range(K)) if K <= MOST_PERMUTED else [range(K)]
    return [np.array(numbers) for numbers in every]
