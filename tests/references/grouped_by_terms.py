"""Mixtures of rows in groups written out from their definitions, float64 NumPy: log joint, enumeration, and bounds."""

from itertools import product

import numpy as np
from scipy.special import logsumexp, psi
from variational_by_terms import FAMILIES, kl_dirichlet, top_rows


def log_prior(labels, groups, alpha):
    """Log probability of the clusters of rows, one after the other as an urn of each group gives them."""
    counts, total = {}, 0.0
    for k, g in zip(labels, groups):
        n = counts.setdefault(int(g), np.zeros(len(alpha)))
        total += np.log((n[k] + alpha[k]) / (n.sum() + alpha.sum()))
        n[k] += 1
    return total


def log_likelihood(family, X, labels, n_clusters):
    """Log evidence of the rows given their clusters, one row after the other, without log-base."""
    phi = family.sufficient_statistics(X)
    phi = phi.toarray() if hasattr(phi, "toarray") else phi
    n, S, total = np.zeros(n_clusters), np.zeros((n_clusters, phi.shape[1])), 0.0
    for k, row in zip(labels, phi):
        before = family.log_marginal(n[k : k + 1], S[k : k + 1])[0]
        n[k] += 1
        S[k] += row
        total += family.log_marginal(n[k : k + 1], S[k : k + 1])[0] - before
    return total


def enumerate_clusters(family, X, groups, alpha):
    """All K^N clusters of N rows, and the log joint of each: (K^N, N) and (K^N,)."""
    K = len(alpha)
    labels = np.array(list(product(range(K), repeat=X.shape[0])))
    values = [log_prior(row, groups, alpha) + log_likelihood(family, X, row, K) for row in labels]
    return labels, np.array(values)


class GroupedReference:
    """q of weights of each group and of parameters set from responsibilities; rows and bound term by term."""

    def __init__(self, family, X, groups, alpha, *, weight=None):
        self.family, self.groups, self.alpha = FAMILIES[family.name](family, X), np.asarray(groups), alpha
        self.weight = np.ones(len(X)) if weight is None else weight

    def fit_parameters(self, r):
        self.q = [self.family.posterior(column) for column in (r * self.weight[:, None]).T]
        self.w = np.stack([self.family.expected(q) for q in self.q], axis=1)
        return self

    def fit_weights(self, r):
        self.a = self.alpha + self.group_counts(r)
        return self

    def group_counts(self, r):
        counts = np.zeros((self.groups.max() + 1, len(self.alpha)))
        np.add.at(counts, self.groups, r * self.weight[:, None])
        return counts

    def scores(self):
        log_pi = psi(self.a) - psi(self.a.sum(axis=1, keepdims=True))
        return log_pi[self.groups] + self.w

    def local_step(self, r, n_active, n_iterations):
        """Rows and weights of the groups in turn, at fixed parameters."""
        for _ in range(n_iterations):
            r = top_rows(self.fit_weights(r).scores(), n_active)
        self.fit_weights(r)
        return r

    def bound(self, r):
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(r > 0, r * (self.scores() - np.log(r)), 0.0).sum(axis=1)
        weights = sum(kl_dirichlet(a, self.alpha) for a in self.a)
        return self.weight @ inner - weights - sum(self.family.kl(q) for q in self.q)


def log_evidence(log_joint):
    """Of the data, from the log joint of all clusters."""
    return logsumexp(log_joint)
