"""k-means in NumPy and double precision, one obvious line for each step: what the compiled one is compared with."""

import numpy as np


def squares(X, points):
    """Squared distances of rows to points: (N, K)."""
    return np.stack([((X - point) ** 2).sum(axis=1) for point in points], axis=1)


def greedy_seeds(X, K, uniform, n_trials):
    """Rows that greedy k-means++ picks with these uniform numbers: one, then n_trials for each further seed."""
    picked = [int(uniform[0] * len(X))]
    near = squares(X, X[picked]).min(axis=1)
    for step in range(K - 1):
        if not near.sum() > 0:
            break
        u = uniform[1 + step * n_trials :][:n_trials]
        drawn = np.searchsorted(np.cumsum(near), u * near.sum(), side="right")
        left = np.minimum(near[:, None], squares(X, X[drawn]))
        best = left.sum(axis=0).argmin()
        picked.append(int(drawn[best]))
        near = left[:, best]
    return np.array(picked)


def refilled(X, labels, K):
    """Labels after clusters without rows got the rows farthest from their own means."""
    labels, count = labels.copy(), np.bincount(labels, minlength=K)
    empty = np.flatnonzero(count == 0).tolist()
    own = ((X - means(X, labels, K)[labels]) ** 2).sum(axis=1)
    for i in np.argsort(-own, kind="stable"):
        if not empty or own[i] <= 1e-24:
            break
        if count[labels[i]] > 1:
            count[labels[i]] -= 1
            labels[i] = empty.pop(0)
    return labels


def means(X, labels, K):
    """Means of the rows of each cluster; NaN of an empty one."""
    with np.errstate(invalid="ignore"):
        return np.array([X[labels == k].sum(axis=0) / np.float64((labels == k).sum()) for k in range(K)])


def inertia(X, labels):
    """Sum of squared distances to the means of the clusters."""
    return ((X - means(X, labels, labels.max() + 1)[labels]) ** 2).sum()


def lloyd(X, centres, max_passes=30, tol=1e-4):
    """Labels and centres of Lloyd passes; clusters that stay empty are dropped."""
    centres, labels, before = centres.copy(), np.full(len(X), -1), np.inf
    K = len(centres)
    for _ in range(max_passes):
        new = squares(X, centres).argmin(axis=1)
        if np.array_equal(new, labels):
            break
        labels = new
        n_empty = K - np.unique(labels).size
        labels = refilled(X, labels, K)
        n_refilled = n_empty - (K - np.unique(labels).size)
        found = means(X, labels, K)
        centres = np.where(np.isnan(found), centres, found)
        after = ((X - centres[labels]) ** 2).sum()
        if not after < (1 - tol) * before and not n_refilled:
            labels = squares(X, centres).argmin(axis=1)
            break
        before = after
    else:
        labels = squares(X, centres).argmin(axis=1)
    if np.unique(labels).size < K:
        labels = refilled(X, labels, K)
        found = means(X, labels, K)
        centres = np.where(np.isnan(found), centres, found)
    used, labels = np.unique(labels, return_inverse=True)
    return labels, centres[used]
