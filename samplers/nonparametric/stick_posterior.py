"""Variational posterior of the weights that all groups share, with its part of the bound.

beta_k = u_k prod_{l<k} (1 - u_l) with independent sticks q(u_k) = Beta(rho_k omega_k, (1 - rho_k) omega_k), k = 1..K;
the rest has the stick that is left. The prior of a stick is Beta(1, gamma). Sticks of n known clusters come first, and
have the prior Beta(1, gamma + n - k): their weights and that of all others are Dirichlet(1, ..., 1, gamma) then.

With q(pi_g) at its best, the groups' part of the bound is that of the pseudo-counts M_k = alpha E beta_k, plus for
each group

    - sum_k [log E beta_k - E log beta_k + c alpha^2 Var beta_k],    k = 1..K + 1, c = pi^2 / 12.

Proof: -log G(alpha beta) = log(alpha beta) - log G(1 + alpha beta), and the second derivative of -log G(1 + x) is at
least -pi^2 / 6 for x >= 0, so it is above its parabola in E beta_k of that curvature. Every number of sticks gives a
bound of the same log evidence, so bounds of different numbers of clusters compare.

# Departs from Hughes, Kim and Sudderth 2015, "Reliable and scalable variational inference for the hierarchical
# Dirichlet process": they leave out log G(1 + alpha) - sum_k log G(1 + alpha beta_k) of each group, at least 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from expfam.errors import ArchiveError
from expfam.samplers.nonparametric.stick_value import value_of_sticks
from expfam.structures.ground.stored import TINY, numbers

_LARGEST = 25.0  # logits of means, and logs of sizes and concentrations, are within +- this
_STEPS = 50


class Tables(NamedTuple):
    """What all groups say of the shared weights.

    Attributes
    ----------
    rising : (2, K) float64 ndarray
        Slopes c and d of the tangents, see `PseudoCountBound`.
    falling : float
        Slope b in the concentration of the groups.
    n_groups : float
        Weight of the groups that hold data.
    """

    rising: npt.NDArray[np.float64]
    falling: float
    n_groups: float


class StickPosterior(NamedTuple):
    """Posterior of the sticks, and both concentrations.

    Attributes
    ----------
    mean, size : (K,) float64 ndarrays
        rho and omega of each stick.
    alpha, gamma : float
    n_known : int
        The first clusters, which exist whatever the data.
    """

    mean: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]
    alpha: float
    gamma: float
    n_known: int = 0

    def to_arrays(self) -> dict[str, Any]:
        """Return sticks and concentrations, to the bit."""
        return {
            "sticks": np.stack([self.mean, self.size]),
            "concentrations": np.array([self.alpha, self.gamma]),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> StickPosterior:
        """Return what `to_arrays` described; raise ArchiveError for values that no posterior has."""
        mean, size = numbers(arrays, "sticks", (2, None), low=TINY)
        if (mean >= 1.0).any():
            raise ArchiveError("the means of sticks are not below 1: the file was altered")
        return cls(mean, size, *numbers(arrays, "concentrations", (2,), low=TINY).tolist())

    @classmethod
    def around(
        cls, beta: npt.ArrayLike, n_groups: float, alpha: float, gamma: float, n_known: int = 0
    ) -> StickPosterior:
        """Return a posterior with given means of the weights (K,), whose sum is below 1.

        The sizes are nearly the best ones for so many groups.
        """
        beta = np.asarray(beta, dtype=np.float64)
        left = 1.0 - np.append(0.0, np.cumsum(beta)[:-1])
        mean = np.clip(beta / left, 1e-9, 1.0 - 1e-9)
        after = np.arange(len(beta), 0, -1.0)
        size = 1.0 + gamma + n_groups * ((1.0 - mean) / mean + after * mean / (1.0 - mean))
        return cls(mean, np.clip(size, None, np.exp(_LARGEST)), alpha, gamma, n_known)

    @property
    def beta(self) -> npt.NDArray[np.float64]:
        """Return the means of the weights: (K + 1,), the last of the rest."""
        return _weights(self.mean, 1.0 - self.mean)

    @property
    def pseudocounts(self) -> npt.NDArray[np.float64]:
        """Return alpha E beta_k: (K,), without the rest."""
        return self.alpha * self.beta[:-1]

    def value(self, tables: Tables) -> float:
        """Return the part of the bound that depends on the shared weights, nats.

        Concentrations have Gamma(1, 1) priors.
        """
        return value_of_sticks(*self, *_contiguous(tables))

    def best(self, tables: Tables, *, learn: bool, n_steps: int = _STEPS) -> StickPosterior:
        """Return a posterior with a larger `value`, after at most so many steps of its optimisation.

        With `learn` the concentrations are chosen, too.
        """
        from scipy.optimize import minimize  # a quarter of a second, and few fits need it

        first, scale, given = _packed(self, learn), _scale(self, tables, learn), _contiguous(tables)
        slopes: npt.NDArray[np.float64] = np.empty(2 * len(self.mean) + 2)

        def negative(y):
            value = value_of_sticks(*_unpacked(y / scale, self), *given, slopes)
            return -value, -slopes[: len(y)] / scale

        limits = np.stack([-_LARGEST * scale, _LARGEST * scale], axis=1)
        found = minimize(
            negative, first * scale, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": n_steps}
        )
        return _unpacked(found.x / scale, self) if -found.fun > self.value(tables) else self


def _packed(q, learn):
    parts = [logit(q.mean), np.log(q.size)]
    return np.concatenate([*parts, np.log([q.alpha, q.gamma])] if learn else parts)


def _scale(q, tables, learn):
    """Return a scale of each coordinate on which the value is about equally curved."""
    rho, M = q.mean, np.maximum(q.pseudocounts, TINY)
    t = tables.rising[0] + tables.rising[1] / M
    parts = [np.sqrt(1.0 + (t + _after(t)) * rho * (1.0 - rho)), np.full(len(rho), 0.7)]
    if learn:
        parts.append(np.sqrt([1.0 + tables.falling * q.alpha, 1.0 + len(rho)]))
    return np.concatenate(parts)


def _unpacked(x, like):
    K = len(like.mean)
    alpha, gamma = np.exp(x[2 * K :]).tolist() or (like.alpha, like.gamma)
    return StickPosterior(expit(x[:K]), np.exp(x[K : 2 * K]), alpha, gamma, like.n_known)


def _weights(taken, left):
    """Return what sticks take of what those before leave, and the rest: (K + 1,)."""
    shares = np.ones(len(taken) + 1)
    np.cumprod(left, out=shares[1:])
    shares[:-1] *= taken
    return shares


def _after(x):
    """Return the sums of all later entries."""
    sums = np.zeros(len(x))
    np.cumsum(x[:0:-1], out=sums[-2::-1])
    return sums


def _contiguous(tables):
    """Return tables as compiled code reads them."""
    return tables._replace(rising=np.ascontiguousarray(tables.rising, dtype=np.float64))
