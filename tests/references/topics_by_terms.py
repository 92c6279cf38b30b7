"""Slow variational inference of topics from its definitions, in float64: the oracle of the fast passes.

Nothing is shared with the package: arrays over all words, topics and documents, logs throughout.
"""

import numpy as np
from scipy.special import gammaln, logsumexp, psi


class Reference:
    """Latent Dirichlet allocation with Dirichlet(alpha) weights (K,) and Dirichlet(eta) topics (V,)."""

    def __init__(self, alpha, eta):
        self.alpha, self.eta = np.asarray(alpha, dtype=float), np.asarray(eta, dtype=float)

    def expected_logs(self, word_counts):
        """E log phi under the posterior that the expected counts (V, K) imply: (V, K)."""
        lam = self.eta[:, None] + word_counts
        return psi(lam) - psi(lam.sum(axis=0))

    def rows(self, E, N, support=None):
        """Best responsibilities (U, K) at counts N, restricted to a support (U, K) of bool where there is one."""
        logs = E + psi(self.alpha + N)
        if support is not None:
            logs = np.where(support, logs, -np.inf)
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def bound(self, E, c, r):
        """Document's part of the bound, each expectation written out, at the best weights for the responsibilities."""
        a = self.alpha + c @ r
        e_pi = psi(a) - psi(a.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            log_r = np.where(r > 0, np.log(r), 0.0)
        words = (c[:, None] * r * (E + e_pi - log_r)).sum()
        prior = gammaln(self.alpha.sum()) - gammaln(self.alpha).sum() + ((self.alpha - 1) * e_pi).sum()
        posterior = gammaln(a.sum()) - gammaln(a).sum() + ((a - 1) * e_pi).sum()
        return words + prior - posterior

    def topics_bound(self, word_counts):
        """Topics' part of the bound: minus the divergence of their posterior from the prior."""
        lam = self.eta[:, None] + word_counts
        E = self.expected_logs(word_counts)
        prior = gammaln(self.eta.sum()) - gammaln(self.eta).sum() + ((self.eta[:, None] - 1) * E).sum(axis=0)
        posterior = gammaln(lam.sum(axis=0)) - gammaln(lam).sum(axis=0) + ((lam - 1) * E).sum(axis=0)
        return (prior - posterior).sum()

    def dense(self, E, c, *, max_iterations, tol, N=None):
        """Coordinate ascent over all topics; returns responsibilities and counts of the last, consistent update."""
        N = c @ np.exp(E - logsumexp(E, axis=1, keepdims=True)) if N is None else N
        for _ in range(max_iterations):
            fresh = c @ self.rows(E, N)
            change, N = abs(fresh - N).max(), fresh
            if change <= tol:
                break
        r = self.rows(E, N)
        return r, c @ r

    def few(self, E, c, n_active, *, max_iterations):
        """Responsibilities of the n most probable topics of each word, chosen anew for each update but the last.

        A document has the topics that its words begin with, and no others.
        """
        support = largest(E, n_active)
        logs, E = E, np.where(support.any(axis=0), E, -np.inf)
        for _ in range(max_iterations + 1):
            support = largest(logs, n_active)
            kept = np.where(support, logs, -np.inf)
            N = c @ np.exp(kept - logsumexp(kept, axis=1, keepdims=True))
            logs = E + psi(self.alpha + N)
        return self.rows(E, N, support)

    def restarts(self, E, c, r, *, n_restarts, restart_iterations, tol):
        """Take away the smallest topics in turn and keep what raises the bound."""
        value, N = self.bound(E, c, r), c @ r
        order = [k for k in np.argsort(N, kind="stable") if N[k] > 1e-3][:n_restarts]
        for k in order:
            if N[k] <= 1e-3 or (N > 1e-3).sum() < 2:
                continue
            trial = N.copy()
            trial[k] = 0.0
            other, counts = self.dense(E, c, max_iterations=restart_iterations, tol=tol, N=trial)
            if self.bound(E, c, other) > value + 1e-9 * abs(value):
                r, N, value = other, counts, self.bound(E, c, other)
        return r, N

    def collapsed(self, phi, c, *, n_iterations):
        """Collapsed responsibilities at fixed topics phi (U, K), word after word."""
        r = phi * self.alpha
        r /= r.sum(axis=1, keepdims=True)
        N = c @ r
        for _ in range(n_iterations):
            for u in range(len(c)):
                w = phi[u] * (self.alpha + np.maximum(N - r[u], 0.0))
                w /= w.sum()
                N = N + c[u] * (w - r[u])
                r[u] = w
        return N


def largest(values, n):
    """Which are the n largest of each row, of equal ones the first: bool of the same shape."""
    found = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(found, np.argsort(-values, axis=1, kind="stable")[:, :n], True, axis=1)
    return found
