"""What a variational pass is given: expected (or most probable) parameters of each cluster and logs of the weights.

A posterior is set from soft counts n and sums S through the family's and the weights' own functions, so no family
writes a bound: if q was set from (n, S), KL(q, prior) = <S, E theta> - n E g - A(n, S), and the bound at its optimum is
the collapsed log joint at fractional counts plus the entropy of the rows. O(K F) beside what the family costs, which
runs over chunks of clusters in threads.
"""

import numpy as np
from scipy.special import betaln, psi

from expfam.structures.ground.threads import run
from expfam.structures.top_l import select_top

_CHUNK_VALUES = 1 << 16  # of statistics, so that a few hundred wide clusters are work for several threads
_GRAPH_ROWS = 128  # of a product that reads all parameters: fewer would be bound by memory


class Proportions:
    """Functions of the weights for soft counts, with an order of the sticks.

    Parameters
    ----------
    weights : Weights
    sticks : {"open", "closed"}
        Whether the last of the kept sticks leaves mass for later ones, or takes all that is left. Without meaning for
        finite weights.
    objective : {"vb", "map"}

    Notes
    -----
    Sticks depend on the order of clusters. Which cluster has which stick is a part of the bound like any other, so the
    order by falling counts replaces the present one where the bound rises by it; nothing stored is renumbered.
    """

    def __init__(self, weights, *, sticks="open", objective="vb"):
        self.weights, self.sticks, self.objective = weights, sticks, objective
        self.has_order = weights.max_components is None

    def better_order(self, n, order):
        """The order by falling counts or the present one, (K,) int64, whichever gives the higher bound."""
        if not self.has_order:
            return order
        falling = np.argsort(-n, kind="stable")
        return falling if self.optimum(n, falling) >= self.optimum(n, order) else order

    def log_pi(self, n, order):
        """Expected log weights, or the most probable ones: (K,) nats."""
        ordered = n[order]
        log_pi = self.weights.map_log(ordered) if self.objective == "map" else self._expected(ordered)
        out = np.empty_like(log_pi)
        out[order] = log_pi
        return out

    def optimum(self, n, order):
        """The part of the bound that is of the weights, at their optimum for these counts: nats."""
        if self.objective == "map":
            log_pi = self.weights.map_log(n[order])
            return float(n[order] @ log_pi) + self.weights.log_density(log_pi)
        return self._log_evidence(n[order])

    def divergence(self, n, order):
        """KL(q(pi), prior) for q set from these counts; for "map" minus the log density of the prior: nats."""
        log_pi = self.log_pi(n, order)
        return float(n @ log_pi) - self.optimum(n, order)

    def _last(self, n):
        """Both parameters of the last stick, prior and posterior."""
        first = 1.0 + self.weights.offset
        rest = self.weights.strength - self.weights.offset * n.size
        return first, rest, first + n[-1]

    def _expected(self, n):
        log_pi = self.weights.expected_log(n)
        if self.has_order and self.sticks == "closed":
            _, rest, first = self._last(n)
            log_pi[-1] -= psi(first) - psi(first + rest)
        return log_pi

    def _log_evidence(self, n):
        total = self.weights.log_evidence(n)
        if self.has_order and self.sticks == "closed":
            prior, rest, first = self._last(n)
            total -= float(betaln(first, rest) - betaln(prior, rest))
        return total


def cluster_values(family, n, S, *, objective="vb"):
    """What each cluster adds to the bound at the optimum for its statistics: (K,) nats.

    The log evidence, or for "map" the most of log likelihood and prior density together.
    """
    if objective != "map":
        return family.log_marginal(n, S)
    theta, g = family.map_natural(n, S)
    return np.einsum("kf,kf->k", S, theta) - n * g + family.log_prior(theta, g)


class Posterior:
    """Parameters of K clusters and their weights, set from soft statistics.

    Parameters
    ----------
    n : (K,) float64 ndarray
    S : (K, F) float64 ndarray
        In the coordinates of `family`.
    family : Family
    proportions : Proportions
    order : (K,) int64 ndarray
        Clusters in the order of their sticks.
    n_threads : int or None

    Attributes
    ----------
    theta : (K, F) float64 ndarray
        E theta, or the mode of theta for ``objective="map"``.
    g : (K,) float64 ndarray
        E g, or g at the mode.
    log_pi : (K,) float64 ndarray
    """

    def __init__(self, n, S, family, proportions, order, *, n_threads=None):
        self.n, self.S, self.family, self.proportions, self.order = n, S, family, proportions, order
        self.n_threads = n_threads
        self.theta, self.g = np.empty(S.shape), np.empty(len(n))
        natural = family.map_natural if proportions.objective == "map" else family.expected_natural

        def fill(chunk):
            self.theta[chunk], self.g[chunk] = natural(self.n[chunk], self.S[chunk])

        run(fill, self._chunks(), n_threads)
        self.log_pi = proportions.log_pi(n, order)

    def _chunks(self, least=1):
        K, F = self.S.shape
        size = max(least, _CHUNK_VALUES // F)
        return [(slice(k, min(k + size, K)),) for k in range(0, K, size)]

    def _cluster_values(self):
        """Sum of what the clusters add to the bound, in chunks that do not depend on threads."""
        objective = self.proportions.objective

        def total(chunk):
            return cluster_values(self.family, self.n[chunk], self.S[chunk], objective=objective).sum()

        return float(sum(run(total, self._chunks(), self.n_threads)))

    def _log_prior(self):
        return float(self.family.log_prior(self.theta, self.g).sum())

    def bound(self, entropy):
        """Bound of rows with these statistics and this entropy, of which this posterior is the optimum: nats."""
        return self.proportions.optimum(self.n, self.order) + self._cluster_values() + entropy

    def divergence(self):
        """KL(q, prior) of weights and parameters; for "map" minus the log density of the prior: nats."""
        weights = self.proportions.divergence(self.n, self.order)
        if self.proportions.objective == "map":
            return weights - self._log_prior()
        return weights + float(np.einsum("kf,kf->", self.S, self.theta) - self.n @ self.g) - self._cluster_values()

    def cluster_graph(self, n_near):
        """Clusters that take the place of each cluster's data best: (K, n_near) int32, ascending, each among its own.

        Notes
        -----
        By the expected score of what a cluster holds, log pi_k - g_k + <S_j / n_j, theta_k>: a product K x F x K.
        """
        c = self.log_pi - self.g
        means = np.divide(self.S, self.n[:, None], out=np.zeros_like(self.S), where=self.n[:, None] > 1e-6)

        def near(chunk):
            scores = means[chunk] @ self.theta.T
            scores += c
            rows = np.arange(len(scores))
            scores[rows, chunk.start + rows] = np.inf
            return select_top(scores, n_near)[1]

        return np.sort(np.concatenate(run(near, self._chunks(_GRAPH_ROWS), self.n_threads)), axis=1)
