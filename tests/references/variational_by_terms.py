"""Variational inference of mixtures written out from the textbook, float64 NumPy, nothing of the package but its data.

Each posterior is an ordinary distribution in the coordinates of the data (Dirichlet, gamma, normal-gamma, Wishart,
normal-Wishart, beta sticks), its divergence from the prior the closed form of that distribution. Only sizes for
which a table of N x K responsibilities costs nothing.
"""

from itertools import combinations, product

import numpy as np
from scipy.special import betaln, gammaln, logsumexp, multigammaln, psi

LOG_2PI = np.log(2 * np.pi)


# ---- divergences -----------------------------------------------------------------------------------------------------


def kl_dirichlet(a, b):
    total = gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
    return total + ((a - b) * (psi(a) - psi(a.sum()))).sum()


def kl_beta(a, b, a0, b0):
    return (
        betaln(a0, b0) - betaln(a, b) + (a - a0) * psi(a) + (b - b0) * psi(b) + (a0 - a + b0 - b) * psi(a + b)
    ).sum()


def kl_gamma(a, b, a0, b0):
    return ((a - a0) * psi(a) - gammaln(a) + gammaln(a0) + a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b).sum()


def kl_wishart(dof, scale, dof0, scale0):
    """Precisions with Wishart laws of `dof` degrees of freedom and mean dof inv(scale)."""
    d = len(scale)
    log_det, log_det0 = np.linalg.slogdet(scale)[1], np.linalg.slogdet(scale0)[1]
    multi_psi = psi(0.5 * (dof - np.arange(d))).sum()
    return (
        0.5 * dof0 * (log_det - log_det0)
        + 0.5 * dof * (np.trace(np.linalg.solve(scale, scale0)) - d)
        + multigammaln(0.5 * dof0, d)
        - multigammaln(0.5 * dof, d)
        + 0.5 * (dof - dof0) * multi_psi
    )


def kl_normal(mean, strength, mean0, strength0, precision):
    """Expected divergence of N(mean, 1/(strength Lam)) from N(mean0, 1/(strength0 Lam)), E Lam = precision (d, d)."""
    d, ratio = len(mean), strength0 / strength
    return 0.5 * (d * (ratio - 1 - np.log(ratio)) + strength0 * (mean - mean0) @ precision @ (mean - mean0))


# ---- families: posterior of one cluster from responsibilities, expected log likelihood, divergence -------------------


class Counts:
    """Multinomial rows."""

    def __init__(self, family, X):
        self.X, self.a = X, np.broadcast_to(np.asarray(family.concentration, dtype=float), X.shape[1:])

    def posterior(self, r):
        return self.a + r @ self.X

    def expected(self, q):
        base = gammaln(self.X.sum(1) + 1) - gammaln(self.X + 1).sum(1)
        return self.X @ (psi(q) - psi(q.sum())) + base

    def kl(self, q):
        return kl_dirichlet(q, self.a)


class Intensities:
    """Poisson columns."""

    def __init__(self, family, X):
        self.X, self.a, self.b = X, np.broadcast_to(np.asarray(family.shape, dtype=float), X.shape[1:]), family.rate

    def posterior(self, r):
        return self.a + r @ self.X, self.b + r.sum()

    def expected(self, q):
        a, b = q
        return self.X @ (psi(a) - np.log(b)) - a.sum() / b - gammaln(self.X + 1).sum(1)

    def kl(self, q):
        return kl_gamma(*q, self.a, self.b)


class Diagonal:
    def __init__(self, family, X):
        self.X, self.m0, self.k0, self.a0, self.b0 = X, family.mean, family.mean_strength, family.shape, family.rate

    def posterior(self, r):
        n = r.sum()
        k = self.k0 + n
        m = (self.k0 * self.m0 + r @ self.X) / k
        spread = r @ (self.X - m) ** 2 + self.k0 * (self.m0 - m) ** 2
        return m, k, self.a0 + 0.5 * n, self.b0 + 0.5 * spread

    def expected(self, q):
        m, k, a, b = q
        square = (a / b) * (self.X - m) ** 2 + 1 / k
        return 0.5 * (psi(a) - np.log(b) - LOG_2PI - square).sum(1)

    def kl(self, q):
        m, k, a, b = q
        each = [
            kl_normal(m[j : j + 1], k[j], self.m0[j : j + 1], self.k0[j], np.array([[a[j] / b[j]]]))
            for j in range(len(m))
        ]
        return sum(each) + kl_gamma(a, b, self.a0, self.b0)


class Spherical:
    """Each cluster has its own variance."""

    def __init__(self, family, X):
        self.X, self.m0, self.k0, self.a0, self.b0 = X, family.mean, family.mean_strength, family.shape, family.rate

    def posterior(self, r):
        n, d = r.sum(), self.X.shape[1]
        k = self.k0 + n
        m = (self.k0 * self.m0 + r @ self.X) / k
        spread = (r @ (self.X - m) ** 2).sum() + self.k0 * ((self.m0 - m) ** 2).sum()
        return m, k, self.a0 + 0.5 * n * d, self.b0 + 0.5 * spread

    def expected(self, q):
        m, k, a, b = q
        square = (a / b) * ((self.X - m) ** 2).sum(1) + len(m) / k
        return 0.5 * (len(m) * (psi(a) - np.log(b) - LOG_2PI) - square)

    def kl(self, q):
        m, k, a, b = q
        return kl_normal(m, k, self.m0, self.k0, a / b * np.eye(len(m))) + kl_gamma(a, b, self.a0, self.b0)


class ZeroMean:
    def __init__(self, family, X):
        self.X, self.dof0, self.scale0 = X, family.dof, family.scale

    def posterior(self, r):
        return self.dof0 + r.sum(), self.scale0 + (self.X.T * r) @ self.X

    def expected(self, q, mean=0.0, extra=0.0):
        dof, scale = q
        d = len(scale)
        log_det = psi(0.5 * (dof - np.arange(d))).sum() + d * np.log(2) - np.linalg.slogdet(scale)[1]
        away = self.X - mean
        square = dof * np.einsum("ij,ij->i", away @ np.linalg.inv(scale), away)
        return 0.5 * (log_det - d * LOG_2PI - square - extra)

    def kl(self, q):
        return kl_wishart(*q, self.dof0, self.scale0)


class Full(ZeroMean):
    def __init__(self, family, X):
        super().__init__(family, X)
        self.m0, self.k0 = family.mean, family.mean_strength

    def posterior(self, r):
        n = r.sum()
        k = self.k0 + n
        m = (self.k0 * self.m0 + r @ self.X) / k
        away, prior = self.X - m, self.m0 - m
        return self.dof0 + n, self.scale0 + (away.T * r) @ away + self.k0 * np.outer(prior, prior), m, k

    def expected(self, q):
        dof, scale, m, k = q
        return super().expected((dof, scale), m, len(m) / k)

    def kl(self, q):
        dof, scale, m, k = q
        return super().kl((dof, scale)) + kl_normal(m, k, self.m0, self.k0, dof * np.linalg.inv(scale))


FAMILIES = {
    "multinomial": Counts,
    "multinomial_vector": Counts,
    "poisson": Intensities,
    "gaussian": Full,
    "gaussian_diag": Diagonal,
    "gaussian_spherical": Spherical,
    "gaussian_zero": ZeroMean,
}


# ---- weights ---------------------------------------------------------------------------------------------------------


class Dirichlet:
    def __init__(self, weights):
        self.a0 = np.full(weights.n_components, weights.offset)

    def posterior(self, n):
        return self.a0 + n

    def expected(self, q):
        return psi(q) - psi(q.sum())

    def kl(self, q):
        return kl_dirichlet(q, self.a0)


class Sticks:
    """Dirichlet process or Pitman-Yor sticks in the order given; the last one stays open unless `closed`."""

    def __init__(self, weights, closed=False):
        self.gamma, self.discount, self.closed = weights.alpha, getattr(weights, "discount", 0.0), closed

    def posterior(self, n):
        k = np.arange(1, len(n) + 1)
        later = n.sum() - np.cumsum(n)
        return 1 - self.discount + n, self.gamma + self.discount * k + later

    def expected(self, q):
        a, b = q
        log_v, log_rest = psi(a) - psi(a + b), psi(b) - psi(a + b)
        if self.closed:
            log_v[-1] = 0.0
        return log_v + np.concatenate([[0.0], np.cumsum(log_rest)[:-1]])

    def kl(self, q):
        a, b = (value[: len(value) - self.closed] for value in q)
        k = np.arange(1, len(a) + 1)
        return kl_beta(a, b, np.full(len(a), 1 - self.discount), self.gamma + self.discount * k)


def reference_weights(weights, closed=False):
    return Dirichlet(weights) if hasattr(weights, "n_components") else Sticks(weights, closed)


# ---- the algorithm ---------------------------------------------------------------------------------------------------


class Reference:
    """q(pi), q(theta) set from responsibilities; rows, bound and passes by definition."""

    def __init__(self, family, weights, *, weight=None):
        self.family, self.weights = family, weights
        self.weight = np.ones(len(family.X)) if weight is None else weight

    def fit(self, r):
        """Global step."""
        self.r = r
        full = r * self.weight[:, None]
        n = full.sum(0)
        self.order = np.argsort(-n, kind="stable") if isinstance(self.weights, Sticks) else np.arange(len(n))
        self.q_pi = self.weights.posterior(n[self.order])
        self.q = [self.family.posterior(column) for column in full.T]
        return self

    def scores(self):
        """Expected log weight + expected log likelihood, log-base included: (N, K)."""
        log_pi = np.empty(self.r.shape[1])
        log_pi[self.order] = self.weights.expected(self.q_pi)
        return log_pi + np.stack([self.family.expected(q) for q in self.q], axis=1)

    def rows(self, n_active):
        return top_rows(self.scores(), n_active)

    def bound(self, r=None):
        """Lower bound term by term, for any responsibilities and any posteriors."""
        r = self.r if r is None else r
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(r > 0, r * (self.scores() - np.log(r)), 0.0).sum(1)
        return self.weight @ inner - self.weights.kl(self.q_pi) - sum(self.family.kl(q) for q in self.q)


def top_rows(scores, n_active):
    """Softmax on the largest scores of each row, the rest zero; ties to the lower index."""
    r = np.zeros_like(scores)
    keep = np.argsort(-scores, axis=1, kind="stable")[:, :n_active]
    kept = np.take_along_axis(scores, keep, axis=1)
    np.put_along_axis(r, keep, np.exp(kept - logsumexp(kept, axis=1, keepdims=True)), axis=1)
    return r


def row_value(r, scores):
    """sum r (w - log r) of one row."""
    inside = r > 0
    return float((r[inside] * (scores[inside] - np.log(r[inside]))).sum())


def best_value(scores, n_active):
    """Largest value of a row over all supports of at most `n_active` clusters, each at its optimum."""
    values = [
        logsumexp(scores[list(support)])
        for size in range(1, n_active + 1)
        for support in combinations(range(len(scores)), size)
        if np.isfinite(scores[list(support)]).all()
    ]
    return max(values)


def labelings(model, data, n_clusters, log_p_labels):
    """All K^N labelings of N data by K labelled components: (K^N, N), and log p(X, labels), log-base included."""
    labels = np.array(list(product(range(n_clusters), repeat=data.n_rows)))
    phi = data.phi(0, data.n_rows)
    members = labels[:, :, None] == np.arange(n_clusters)
    n = members.sum(axis=1).astype(float)
    S = np.einsum("mik,if->mkf", members, phi)
    evidence = model.family.log_marginal(n.ravel(), S.reshape(-1, phi.shape[1])).reshape(n.shape).sum(axis=1)
    return labels, evidence + [log_p_labels(row) for row in n] + data.log_base.sum()
