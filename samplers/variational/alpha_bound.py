"""Pseudo-counts of groups' weights, learned from sums over the groups.

The pseudo-counts alpha, with sum A, enter the part of the bound of group d as log G(A) - log G(A + N_d) +
sum_k f(alpha_k, N_dk), where f(a, n) = log G(a + n) - log G(a). Lower bounds that touch at the present alpha replace
these terms. The first difference is convex in A, so it is above its tangent. For n >= 1 f is convex in log a (Minka
2000, "Estimating a Dirichlet distribution"). For any n f = log G(a + 1 + n) - log G(a + 1) - log(1 + n / a): the
difference is convex in log a (psi(a + 1 + n) - psi(a + 1) is the Laplace transform of a decreasing function), and the
last term is convex in 1 / a. So the bound is above constant + sum_k [c_k log alpha_k - d_k / alpha_k] - b A. Learning
alpha needs only the sums of c, d and b over the groups: no group is kept, and a batch that is learned again replaces
its own sums.

# Departs from Minka 2000: for counts below 1 a tangent in log a alone is no bound, so they have one in 1 / a too.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import psi


class PseudoCountBound:
    """Mixin for an `Additive` that holds the tangents of groups.

    Documents are groups of words.

    Attributes
    ----------
    rising : (2, K) float64 ndarray
        c and d of the tangents; 0 where alpha is not learned.
    falling : float
        b of the tangents.
    rest : float
        Groups' part of the bound without the tangents, nats.
    least_alpha : float
        Smallest pseudo-count that is learned.
    alpha_rate : float
        Rate of the Gamma prior, with shape 1, of each pseudo-count; 0 for no prior.
    """

    rising: npt.NDArray[np.float64]
    falling: float
    rest: float
    least_alpha: ClassVar[float]
    alpha_rate: ClassVar[float] = 0.0

    def documents_bound(self, alpha: npt.NDArray[np.float64]) -> float:
        """Return the groups' part of the bound at pseudo-counts (K,), nats."""
        return self.rest + tangent(alpha, self.rising, self.falling)

    def add_tangent(
        self,
        alpha: npt.NDArray[np.float64],
        topics: npt.NDArray[np.integer],
        N: npt.NDArray[np.float64],
        weight: npt.NDArray[np.float64] | float,
        lengths: tuple[npt.NDArray[np.float64] | float, npt.NDArray[np.float64]],
    ) -> None:
        """Replace the bounds of some groups, which `rest` holds already, by tangents at `alpha`.

        Parameters
        ----------
        alpha : (K,) float64 ndarray
            Pseudo-count of each topic or cluster.
        topics : (P,) int ndarray
            Topics of the documents, or clusters of the groups.
        N : (P,) float64 ndarray
            Their positive counts.
        weight : (P,) float64 ndarray or float
            Weight of the document of each count.
        lengths : tuple
            Weights of the documents, (R,) or one float, and their numbers of tokens, (R,).
        """
        rising = np.zeros_like(self.rising)
        for row, slopes in zip(rising, rising_slopes(alpha[topics], N)):
            row += np.bincount(topics, weights=weight * slopes, minlength=len(alpha))
        times, tokens = lengths
        falling = float((times * (psi(alpha.sum() + tokens) - psi(alpha.sum()))).sum())
        self.rest -= tangent(alpha, rising, falling)
        self.rising += rising
        self.falling += falling

    def best_alpha(self, alpha: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the pseudo-counts (K,) with the largest bound of the tangents.

        Without a tangent these are the present ones, `alpha`.
        """
        if not self.falling > 0:
            return alpha
        c, d = np.maximum(self.rising, 0.0)  # rounding leaves small negative numbers of replaced batches
        return np.maximum(largest(c, d, self.falling + self.alpha_rate), self.least_alpha)


def tangent(alpha: npt.NDArray[np.float64], rising: npt.NDArray[np.float64], falling: float) -> float:
    """Return the value at `alpha` of tangents with these sums of slopes, nats.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
    rising : (2, K) float64 ndarray
        Sums of the slopes c and d of c log alpha - d / alpha.
    falling : float
        Sum of the slopes b of -b alpha.
    """
    c, d = rising
    return float((c * np.log(alpha) - d / alpha).sum() - falling * alpha.sum())


def rising_slopes(
    a: float | npt.NDArray[np.float64], n: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the slopes c in log a and d in -1 / a of a lower bound of log G(a + n) - log G(a).

    The bound touches at `a`; `n` is positive.
    """
    is_small = n < 1.0
    c = a * (psi(a + is_small + n) - psi(a + is_small))
    return c, np.where(is_small, n * a / (a + n), 0.0)


def largest(c: Any, d: Any, b: float) -> Any:
    """Return the `a` at which c log a - d / a - b a is largest, for b positive."""
    return (c + np.sqrt(c * c + 4.0 * b * d)) / (2.0 * b)
