"""Exact posteriors of tiny data by enumeration of all set partitions, from the model's plain definition."""

import numpy as np

from expfam import Dataset


def set_partitions(n):
    """All set partitions of n items as label tuples in first-appearance form; 1, 2, 5, 15, 52, 203, 877 of them."""
    partitions = [(0,)]
    for _ in range(n - 1):
        partitions = [(*p, k) for p in partitions for k in range(max(p) + 2)]
    return partitions


def canonical(labels):
    """Labels renumbered by first appearance, as a tuple."""
    names = {}
    return tuple(names.setdefault(int(k), len(names)) for k in labels)


def exact_posterior(model, X):
    """Partitions with positive probability and their posterior probabilities."""
    data = Dataset(X, model.family)
    model = model.with_family(data.family)
    partitions = [p for p in set_partitions(data.n_rows) if max(p) < (model.weights.max_components or data.n_rows)]
    log_joint = np.array([model.log_joint(data, np.array(p)) for p in partitions])
    pi = np.exp(log_joint - log_joint.max())
    return partitions, pi / pi.sum()


def move_matrix(partitions, conditional):
    """Transition matrix between partitions; ``conditional(p)`` lists (partition, probability) pairs."""
    place = {p: row for row, p in enumerate(partitions)}
    P = np.zeros((len(partitions), len(partitions)))
    for p, row in place.items():
        for q, probability in conditional(p):
            P[row, place[q]] += probability
    return P


def total_variation(p, q):
    """Half the sum of absolute differences."""
    return 0.5 * np.abs(np.asarray(p) - np.asarray(q)).sum()


def visit_frequencies(kernel, state, partitions, n_steps):
    """How often each partition is visited over so many steps."""
    place = {p: row for row, p in enumerate(partitions)}
    counts = np.zeros(len(partitions))
    for _ in range(n_steps):
        kernel.step(state)
        counts[place[canonical(state.labels)]] += 1
    return counts / n_steps
