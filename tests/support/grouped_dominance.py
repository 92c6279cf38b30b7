"""How many nats a fit of rows in groups is below simple partitions, under the model that the fit has learned."""

from itertools import permutations

import numpy as np
from dominance import Judgement
from simple_partitions import by_first_row, simple_partitions

from expfam import AdmixtureModel, Dataset
from expfam.families.columns.roles import Roles
from expfam.samplers.grouped.ascent import ascend_groups

MOST_PERMUTED = 4  # clusters


def judge_groups(mixture, X, groups, *, truth, seed=0):
    """Compare a fitted `GroupedMixture` with simple partitions and with the truth.

    Each is moved to its own mode. Clusters have a prior each, so they are numbered in the best way where there are few,
    and by their sizes where there are many.
    """
    roles = getattr(mixture.family_, "roles", None)
    data = Dataset(Roles(roles).encode(X) if roles else X, mixture.family_, groups=groups)
    K, numbers = mixture.n_components, {mixture.n_components, len(np.unique(mixture.labels_)), len(np.unique(truth))}
    model = AdmixtureModel(mixture.family_, K, mixture.alpha_)
    found = model.log_joint(data, mixture.labels_)
    candidates = [*simple_partitions(data, numbers, seed=seed), ("truth", by_first_row(truth))]
    reached = {
        name: model.log_joint(data, ascend_groups(model, data, best_numbered(model, data, labels)))
        for name, labels in candidates
        if labels.max() < K
    }
    best = max(reached, key=reached.get)
    return Judgement(float(reached[best] - found), best, np.nan)


def best_numbered(model, data, labels):
    """The labels with the numbers that have the highest log joint, as far as they are tried."""
    K = model.n_components
    if K <= MOST_PERMUTED:
        every = [np.array(numbers)[labels] for numbers in permutations(range(K))]
        return max(every, key=lambda numbered: model.log_joint(data, numbered))
    slots = np.empty(labels.max() + 1, dtype=np.int64)
    slots[np.argsort(-np.bincount(labels), kind="stable")] = np.argsort(-model.pseudocounts)[: len(slots)]
    return slots[labels]
