"""How often a chain visits each partition, against the probabilities of these."""

import numpy as np
from enumeration import canonical

N_BATCHES = 40
LIMIT = 5.5  # of |t| with 39 degrees of freedom: p = 2.6e-6, for some tens of partitions a test


def worst_t(visits, partitions, pi):
    """Largest |t| of a partition's frequency against its probability, by batch means."""
    place = {p: row for row, p in enumerate(partitions)}
    size = len(visits) // N_BATCHES
    frequency = np.zeros((N_BATCHES, len(partitions)))
    for step, p in enumerate(visits[: size * N_BATCHES]):
        frequency[step // size, place[p]] += 1.0 / size
    # rarer ones are summed, so that every group has enough visits for a normal approximation
    common = pi * len(visits) > 60
    groups = np.column_stack([frequency[:, common], frequency[:, ~common].sum(axis=1)])
    expected = np.append(pi[common], pi[~common].sum())
    keep = expected * len(visits) > 60
    error = groups.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)
    t = (groups.mean(axis=0) - expected) / np.maximum(error, 1.0 / len(visits))
    return np.abs(t[keep]).max()


def visited(kernel, state, n_steps, *, note=None):
    """Partitions that a chain visits, one for each step; `note` is called with what each step tells."""
    visits = []
    for _ in range(n_steps):
        info = kernel.step(state)
        visits.append(canonical(state.labels))
        if note is not None:
            note(info)
    state.check()
    return visits


def visited_and_accepted(kernel, state, n_steps):
    """Partitions that a cycle visits, and how many moves of its first kernel are accepted."""
    accepted = []
    visits = visited(kernel, state, n_steps, note=lambda info: accepted.append(info.extra["parts"][0].accepted))
    return visits, sum(accepted)


def run_chain(kernel, model, X, n_steps, seed=1):
    return visited(kernel, kernel.init(model, X, seed=seed, start=np.zeros(X.shape[0], dtype=int)), n_steps)
