"""Readings of a posterior of partitions by N x N arrays and by enumeration, which compiled ones must equal."""

import numpy as np
from enumeration import set_partitions


def same(labels):
    """Whether two rows have one label: (N, N) bool."""
    labels = np.asarray(labels)
    return labels[:, None] == labels[None]


def similarity(draws):
    """Share of the draws in which two rows are together: (N, N)."""
    return np.mean([same(z) for z in draws], axis=0)


def vi(a, b):
    """Variation of information, nats: for each row, the rows with it in a, in b and in both."""
    in_a, in_b = same(a), same(b)
    both = (in_a & in_b).sum(axis=1)
    return float(np.mean(np.log(in_a.sum(axis=1) / both) + np.log(in_b.sum(axis=1) / both)))


def weighted_vi(c, z, split_cost):
    """Split cost times H(c | z) plus H(z | c), nats."""
    in_c, in_z = same(c), same(z)
    both = (in_c & in_z).sum(axis=1)
    return float(np.mean(split_cost * np.log(in_z.sum(axis=1) / both) + np.log(in_c.sum(axis=1) / both)))


def weighted_binder(c, z, split_cost):
    """Share of ordered pairs that z joins and c splits, times the split cost, plus the pairs c joins and z splits."""
    in_c, in_z = same(c), same(z)
    return float(np.mean(split_cost * (in_z & ~in_c) + (in_c & ~in_z)))


def omari(c, draws):
    """One minus the adjusted Rand index from the similarity of unordered pairs; 0 where both are trivial."""
    above = np.triu_indices(len(c), 1)
    joined, p = same(c)[above], similarity(draws)[above]
    expected = joined.sum() * p.sum() / max(len(p), 1)
    most = (joined.sum() + p.sum()) / 2
    return 0.0 if most == expected else float(1 - ((joined * p).sum() - expected) / (most - expected))


def expected_loss(c, draws, loss, split_cost=1.0):
    """Mean loss of a partition over the draws."""
    if loss == "omari":
        return omari(c, draws)
    one = {"vi": weighted_vi, "binder": weighted_binder}[loss]
    return float(np.mean([one(c, z, split_cost) for z in draws]))


def least_loss(draws, loss, split_cost=1.0, max_clusters=None):
    """Least expected loss over all partitions of the rows, and one that has it."""
    candidates = [c for c in set_partitions(np.shape(draws)[1]) if max_clusters is None or max(c) < max_clusters]
    losses = [expected_loss(c, draws, loss, split_cost) for c in candidates]
    best = int(np.argmin(losses))
    return losses[best], np.array(candidates[best])


# ---- readings --------------------------------------------------------------------------------------------------------


def certainty(c, draws):
    """Mean probability of a row to be with a further member of its cluster: (N,); alone: share of draws alone."""
    p, inside = similarity(draws), same(c)
    size = inside.sum(axis=1)
    alone = np.mean([same(z).sum(axis=1) == 1 for z in draws], axis=0)
    with np.errstate(invalid="ignore"):
        mean = ((p * inside).sum(axis=1) - 1) / (size - 1)
    return np.where(size == 1, alone, mean)


def mean_with(c, draws):
    """Mean probability of a row to be with the members of each cluster: (N, K)."""
    p = similarity(draws)
    return np.stack([p[:, c == k].mean(axis=1) for k in range(max(c) + 1)], axis=1)


def between(c, draws):
    """Mean probability that a row of one cluster and another row of another cluster are together: (K, K)."""
    p, K = similarity(draws), max(c) + 1
    found = np.empty((K, K))
    for a in range(K):
        for b in range(K):
            block = p[np.ix_(c == a, c == b)]
            n = len(block)
            if a != b:
                found[a, b] = block.mean()
            else:
                found[a, a] = 1.0 if n == 1 else (block.sum() - n) / (n * (n - 1))
    return found


def ball(c, draws, probability, distance):
    """Radius and the three partitions of a credible ball, as numbers of draws."""
    d = np.array([distance(c, z) for z in draws])
    inside_needed = int(np.ceil(probability * len(d) - 1e-9))
    radius = np.sort(d)[inside_needed - 1]
    inside = [m for m in range(len(d)) if d[m] <= radius + 1e-12]
    n_clusters = [len(set(z.tolist())) for z in np.asarray(draws)]
    horizontal = max(inside, key=lambda m: d[m])
    upper = min(inside, key=lambda m: (n_clusters[m], -d[m]))
    lower = max(inside, key=lambda m: (n_clusters[m], d[m]))
    return radius, horizontal, upper, lower
