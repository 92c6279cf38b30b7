"""Pseudo-counts of groups' weights that raise a bound, learned from sums over the groups: no group is kept.

Of the groups' part of the bound the pseudo-counts, alpha, enter as log G(A) - log G(A + N_d) + sum_k f(alpha_k, N_dk)
with f(a, n) = log G(a + n) - log G(a). Lower bounds that touch at the present alpha stand for them: the first part is
convex in A, hence above its tangent; f is convex in log a for n >= 1 (Minka 2000, "Estimating a Dirichlet
distribution"), and for any n f = log G(a + 1 + n) - log G(a + 1) - log(1 + n / a), of which the first difference is
convex in log a (psi(a + 1 + n) - psi(a + 1) is the Laplace transform of a decreasing function) and the rest in 1 / a.
So the bound is above constant + sum_k [c_k log alpha_k - d_k / alpha_k] - b A: sums of c, d and b over groups are all
that learning alpha needs, and a batch that is visited again replaces its own.

# Departs from Minka 2000: counts below 1, for which a tangent in log a alone is no bound, have one in 1 / a too.
"""

from typing import ClassVar

import numpy as np
from scipy.special import psi


class UrnTangents:
    """Part of an `Additive` that holds the tangents of groups; documents are groups of words.

    Attributes
    ----------
    rising : (2, K) float64 ndarray
        c and d of the tangents; 0 where alpha is not learned.
    falling : float
        b of the tangents.
    rest : float
        What the bound has of the groups beside the tangents, nats.
    least_alpha : float
        Below which no pseudo-count is learned.
    alpha_rate : float
        Of the Gamma prior, of shape 1, of each pseudo-count; 0 for none.
    """

    least_alpha: ClassVar[float]
    alpha_rate: ClassVar[float] = 0.0

    def documents_bound(self, alpha):
        """Groups' part of the bound, nats; `alpha` (K,)."""
        return self.rest + tangent(alpha, self.rising, self.falling)

    def add_tangent(self, alpha, topics, N, weight, lengths):
        """Take the tangent at `alpha` of groups whose bounds are already in `rest`.

        Parameters
        ----------
        alpha : (K,) float64 ndarray
        topics, N : (P,) ndarrays
            Topics of the documents, or clusters of the groups, and their positive counts.
        weight : (P,) float64 ndarray or float
            Of the document of each of these.
        lengths : (weights, tokens) of the documents, ndarrays (R,) or weights a float
        """
        rising = np.zeros_like(self.rising)
        for row, slopes in zip(rising, rising_slopes(alpha[topics], N)):
            row += np.bincount(topics, weights=weight * slopes, minlength=len(alpha))
        times, tokens = lengths
        falling = float((times * (psi(alpha.sum() + tokens) - psi(alpha.sum()))).sum())
        self.rest -= tangent(alpha, rising, falling)
        self.rising += rising
        self.falling += falling

    def best_alpha(self, alpha):
        """Pseudo-counts at which the tangents' bound is largest, or the present ones without a tangent."""
        if not self.falling > 0:
            return alpha
        c, d = np.maximum(self.rising, 0.0)  # what rounding has left of batches that were replaced
        return np.maximum(largest(c, d, self.falling + self.alpha_rate), self.least_alpha)


def tangent(alpha, rising, falling):
    """Value of the tangents with these sums of slopes: nats."""
    c, d = rising
    return float((c * np.log(alpha) - d / alpha).sum() - falling * alpha.sum())


def rising_slopes(a, n):
    """Slopes c in log a and d in -1 / a of a lower bound of log G(a + n) - log G(a) that touches it, n positive."""
    is_small = n < 1.0
    c = a * (psi(a + is_small + n) - psi(a + is_small))
    return c, np.where(is_small, n * a / (a + n), 0.0)


def largest(c, d, b):
    """Where c log a - d / a - b a is largest, for b positive."""
    return (c + np.sqrt(c * c + 4.0 * b * d)) / (2.0 * b)


__all__ = ["UrnTangents", "largest", "rising_slopes", "tangent"]
