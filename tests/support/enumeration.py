"""Exact posteriors of tiny data by enumeration of all set partitions, from the model's plain definition."""

import numpy as np

from expfam.plugins.laws.kernel_case import canonical, exact_posterior, set_partitions

__all__ = ["canonical", "exact_posterior", "move_matrix", "set_partitions", "total_variation", "visit_frequencies"]


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
