"""Posterior of a variational run: expected or most probable parameters, and log weights.

A posterior is set from soft counts n and sums S by functions of the family and of the weights, so no family writes a
bound. If q was set from (n, S), KL(q, prior) = <S, E theta> - n E g - A(n, S), and the bound at its optimum is the
collapsed log joint at fractional counts plus the entropy of the rows. Costs O(K F) beside the functions of the family,
which run over chunks of clusters in threads.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, psi

from expfam.structures.ground.threads import run
from expfam.structures.selection.top_l import select_top

CHUNK_VALUES = 1 << 16  # statistics of a chunk: a few hundred wide clusters then occupy several threads
_GRAPH_ROWS = 128  # rows of a product that reads all parameters: with fewer, memory would limit the speed


class Proportions:
    """Functions of the weights for soft counts and an order of the sticks.

    `sticks` says whether the last kept stick leaves mass for later sticks ("open"), or takes all the rest ("closed").
    Finite weights ignore it.

    Sticks depend on the order of the clusters, and so does the bound. The order by falling counts replaces the present
    order where it raises the bound. Clusters keep their numbers.
    """

    def __init__(
        self, weights: Any, *, sticks: Literal["open", "closed"] = "open", objective: Literal["vb", "map"] = "vb"
    ) -> None:
        self.weights, self.sticks, self.objective = weights, sticks, objective
        self.has_order = weights.max_components is None

    def better_order(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the order (K,) of the sticks with the higher bound: by falling counts, or `order`.

        Parameters
        ----------
        n : (K,) float64 ndarray
            Weight of each cluster.
        order : (K,) int64 ndarray
            Clusters in the present order of their sticks.
        """
        if not self.has_order:
            return order
        falling = np.argsort(-n, kind="stable")
        return falling if self.optimum(n, falling) >= self.optimum(n, order) else order

    def log_pi(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the expected log weights, or for "map" the most probable ones: (K,) nats.

        Parameters
        ----------
        n, order
            As of `better_order`.
        """
        ordered = n[order]
        log_pi = self.weights.map_log(ordered) if self.objective == "map" else self._expected(ordered)
        out = np.empty_like(log_pi)
        out[order] = log_pi
        return out

    def optimum(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> float:
        """Return the weights' part of the bound, at their optimum for these counts, nats.

        Parameters
        ----------
        n, order
            As in `log_pi`.
        """
        if self.objective == "map":
            log_pi = self.weights.map_log(n[order])
            return float(n[order] @ log_pi) + self.weights.log_density(log_pi)
        return self._log_evidence(n[order])

    def divergence(self, n: npt.NDArray[np.float64], order: npt.NDArray[np.int64]) -> float:
        """Return KL(q(pi), prior) for q set from these counts, nats.

        For "map" return minus the log density of the prior.

        Parameters
        ----------
        n, order
            As in `log_pi`.
        """
        log_pi = self.log_pi(n, order)
        return float(n @ log_pi) - self.optimum(n, order)

    def _last(self, n):
        """Return both prior parameters of the last stick, and the first posterior one."""
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


def cluster_values(
    family: Any, n: npt.NDArray[np.float64], S: npt.NDArray[np.float64], *, objective: Literal["vb", "map"] = "vb"
) -> npt.NDArray[np.float64]:
    """Return each cluster's part of the bound, at the optimum for its statistics: (K,) nats.

    This is the log evidence, or for "map" the largest sum of log likelihood and log prior density.

    Parameters
    ----------
    family : Family
        Bound to the data.
    n : (K,) float64 ndarray
        Weight of each cluster.
    S : (K, F) float64 ndarray
        Sums of statistics.
    objective : {"vb", "map"}
        As in `SparseVariational`.
    """
    if objective != "map":
        return family.log_marginal(n, S)
    theta, g = family.map_natural(n, S)
    return np.einsum("kf,kf->k", S, theta) - n * g + family.log_prior(theta, g)


class Posterior:
    """Posterior of the parameters of K clusters and of their weights, set from soft statistics.

    `n` (K,) and `S` (K, F) are in the coordinates of `family`; `order` (K,) int64 are the clusters in the order of
    their sticks. `theta` (K, F) is E theta, or the mode of theta for ``objective="map"``; `g` (K,) is E g, or g at the
    mode; `log_pi` is (K,).
    """

    def __init__(
        self,
        n: npt.NDArray[np.float64],
        S: npt.NDArray[np.float64],
        family: Any,
        proportions: Any,
        order: npt.NDArray[np.int64],
        *,
        n_threads: int | None = None,
    ) -> None:
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
        size = max(least, CHUNK_VALUES // F)
        return [(slice(k, min(k + size, K)),) for k in range(0, K, size)]

    def _cluster_values(self):
        """Return the sum of the clusters' parts of the bound.

        The chunks do not depend on the number of threads, so neither does rounding.
        """
        objective = self.proportions.objective

        def total(chunk):
            return cluster_values(self.family, self.n[chunk], self.S[chunk], objective=objective).sum()

        return float(sum(run(total, self._chunks(), self.n_threads)))

    def _log_prior(self):
        return float(self.family.log_prior(self.theta, self.g).sum())

    def bound(self, entropy: float) -> float:
        """Return the bound of rows with these statistics and this entropy, nats.

        This posterior is the optimum for the statistics.
        """
        return self.proportions.optimum(self.n, self.order) + self._cluster_values() + entropy

    def divergence(self) -> float:
        """Return KL(q, prior) of weights and parameters, nats.

        For "map" return minus the log density of the prior.
        """
        weights = self.proportions.divergence(self.n, self.order)
        if self.proportions.objective == "map":
            return weights - self._log_prior()
        return weights + float(np.einsum("kf,kf->", self.S, self.theta) - self.n @ self.g) - self._cluster_values()

    def cluster_graph(self, n_near: int) -> npt.NDArray[np.int32]:
        """Return the nearest clusters of each cluster, ascending: (K, n_near) int32.

        Each cluster is one of its own nearest clusters.

        Notes
        -----
        Cluster k is near to cluster j if the mean statistics of j have a large expected score under k,
        log pi_k - g_k + <S_j / n_j, theta_k>: a product K x F x K.
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
