"""Invariance and detailed balance of a move by frequencies, from starts that are exact draws of the posterior."""

import numpy as np
from enumeration import canonical
from scipy import stats

from expfam.samplers.split_merge.laws import moved_partitions

FEWEST = 8  # expected visits of a cell of its own


def transitions(kernel, model, X, partitions, pi, *, n_starts, seed):
    """Numbers of moves from each partition to each, one move from each start; and the largest error of a gain."""
    rng = np.random.default_rng([seed, 11])
    start = rng.choice(len(partitions), size=n_starts, p=pi)
    state = kernel.init(model, X, seed=seed)
    labels, gains = moved_partitions(kernel, state, np.array(partitions, dtype=np.int32)[start])
    state.check()
    place, known = {p: row for row, p in enumerate(partitions)}, {}
    end = np.array([known.setdefault(z.tobytes(), place[canonical(z)]) for z in labels])
    counts = np.zeros((len(partitions), len(partitions)))
    np.add.at(counts, (start, end), 1)
    with np.errstate(divide="ignore"):
        log_pi = np.log(pi)
    return counts, np.abs(gains - (log_pi[end] - log_pi[start])).max()


def invariance_p(counts, pi):
    """Chi-square p of the ends against the posterior."""
    return _p(counts.sum(axis=0), pi * counts.sum())


def symmetry_p(counts):
    """Chi-square p of the flows against those of the opposite direction."""
    upper = np.triu_indices(len(counts), 1)
    there, back = counts[upper], counts.T[upper]
    often = there + back > FEWEST
    there, back = there[often], back[often]
    return stats.chi2.sf(((there - back) ** 2 / (there + back)).sum(), len(there)) if len(there) else 1.0


def matrix_p(counts, P, pi):
    """Chi-square p of all flows against a transition matrix."""
    return _p(counts.ravel(), (pi[:, None] * P).ravel() * counts.sum())


def _p(seen, expected):
    rare = expected < FEWEST
    if seen[expected <= 1e-13 * seen.sum()].any():
        return 0.0  # what cannot happen has happened
    seen, expected = np.append(seen[~rare], seen[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    keep = expected >= 1.0
    return stats.chi2.sf(((seen - expected)[keep] ** 2 / expected[keep]).sum(), max(keep.sum() - 1, 1))
