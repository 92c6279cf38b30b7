"""Variational bound of topics of unknown number from its definitions, one document after the other: a slow oracle.

Nothing is shared with the package.
"""

import numpy as np
from scipy.special import gammaln, psi
from topics_by_terms import Reference


class ProcessReference:
    """Sticks q(u_k) = Beta(mean_k size_k, (1 - mean_k) size_k), concentrations with Gamma(1, 1) priors, eta (V,).

    The first `n_known` topics have with all others together the prior Dirichlet(1, ..., 1, gamma).
    """

    def __init__(self, mean, size, alpha, gamma, eta, n_known=0):
        self.n_known = n_known
        self.a, self.b = np.asarray(mean) * size, (1.0 - np.asarray(mean)) * size
        self.alpha, self.gamma, self.eta, self.K = alpha, gamma, np.asarray(eta, dtype=float), len(self.a)

    def moments(self):
        """Mean, mean log and variance of the weights of all topics, the last of the rest: (K + 1,) each."""
        total = self.a + self.b
        mean, logs, square = [], [], []
        for k in range(self.K + 1):
            one, log, two = 1.0, 0.0, 1.0
            for j in range(min(k + 1, self.K)):
                stays = self.a[j] if j == k else self.b[j]
                one *= stays / total[j]
                log += psi(stays) - psi(total[j])
                two *= stays * (stays + 1) / (total[j] * (total[j] + 1))
            mean.append(one)
            logs.append(log)
            square.append(two)
        mean = np.array(mean)
        return mean, np.array(logs), np.array(square) - mean**2

    @property
    def lda(self):
        """Documents and topics of a given number, at pseudo-counts alpha E beta."""
        return Reference(self.alpha * self.moments()[0][:-1], self.eta)

    def document(self, E, c, r):
        """Document's part of the bound at q(pi) = Dirichlet(alpha E beta + counts), each expectation written out."""
        mean, logs, variance = self.moments()
        M = self.alpha * mean
        a = M + np.append(c @ r, 0.0)
        e_pi = psi(a) - psi(a.sum())
        # -log G(alpha beta) = log(alpha beta) - log G(1 + alpha beta), the last term above its parabola
        normaliser = np.log(self.alpha) + logs - gammaln(1.0 + M) - np.pi**2 / 12.0 * self.alpha**2 * variance
        prior = gammaln(self.alpha) + normaliser.sum() + ((M - 1.0) * e_pi).sum()
        posterior = gammaln(a.sum()) - gammaln(a).sum() + ((a - 1.0) * e_pi).sum()
        log_r = np.log(np.where(r > 0, r, 1.0))
        return (c[:, None] * r * (E + e_pi[:-1] - log_r)).sum() + prior - posterior

    def sticks(self):
        """Minus the divergence of the sticks from their priors, with the prior of the concentrations."""
        total = self.a + self.b
        left = [self.n_known - k if k <= self.n_known else 0 for k in range(1, self.K + 1)]  # known ones that follow
        g = self.gamma + np.array(left)
        log_u, log_v = psi(self.a) - psi(total), psi(self.b) - psi(total)
        prior = np.log(g) + (g - 1.0) * log_v
        own = gammaln(total) - gammaln(self.a) - gammaln(self.b) + (self.a - 1.0) * log_u + (self.b - 1.0) * log_v
        return (prior - own).sum() - self.alpha - self.gamma

    def bound(self, documents, word_counts, weight=None):
        """The whole bound; `documents` are (words, counts, responsibilities (U, K)) of those with words."""
        E = self.lda.expected_logs(word_counts)
        weight = np.ones(len(documents)) if weight is None else weight
        parts = [self.document(E[words], c, r) for words, c, r in documents]
        return float(np.dot(weight, parts)) + self.lda.topics_bound(word_counts) + self.sticks()
