"""Exact posteriors of tiny data by enumeration of all set partitions, from the model's plain definition."""

import numpy as np

from expfam.plugins.laws.kernel_case import canonical, exact_posterior, set_partitions
from expfam.samplers.collapsed.laws import update_law
from expfam.samplers.states.collapsed import CollapsedState

__all__ = [
    "canonical",
    "exact_posterior",
    "move_matrix",
    "moves_of_law",
    "set_partitions",
    "total_variation",
    "update_matrix",
    "visit_frequencies",
]


def move_matrix(partitions, conditional):
    """Transition matrix between partitions; ``conditional(p)`` lists (partition, probability) pairs."""
    place = {p: row for row, p in enumerate(partitions)}
    P = np.zeros((len(partitions), len(partitions)))
    for p, row in place.items():
        for q, probability in conditional(p):
            P[row, place[q]] += probability
    return P


def update_matrix(kernel, model, data, partitions, i, rows=None):
    """Transition matrix of the update of datum i, by the code of the sweep."""

    def moves(p):
        state = CollapsedState(model, data, np.array(p), seed=0)
        for slot, probability in update_law(kernel, state, i, rows=rows).items():
            labels = state.labels.copy()
            labels[i] = slot
            yield canonical(labels), probability

    return move_matrix(partitions, moves)


def moves_of_law(model, data, p, law, unit, rows):
    """Partitions to which rows move from p by a law of their slots, and the probabilities."""
    state = CollapsedState(model, data, np.array(p), seed=0)
    for slot, probability in enumerate(law(state, unit)):
        if probability > 0:
            labels = state.labels.copy()
            labels[rows] = slot
            yield canonical(labels), probability


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
