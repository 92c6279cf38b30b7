"""Variational posterior of the weights that all groups share, with its part of the bound.

beta_k = u_k prod_{l<k} (1 - u_l) with independent sticks q(u_k) = Beta(rho_k omega_k, (1 - rho_k) omega_k), k = 1..K;
the rest has the stick that is left. With q(pi_g) at its best, the groups' part of the bound is that of the
pseudo-counts M_k = alpha E beta_k, plus for each group

    - sum_k [log E beta_k - E log beta_k + c alpha^2 Var beta_k],    k = 1..K + 1, c = pi^2 / 12.

Proof: -log G(alpha beta) = log(alpha beta) - log G(1 + alpha beta), and the second derivative of -log G(1 + x) is at
least -pi^2 / 6 for x >= 0, so it is above its parabola in E beta_k of that curvature. Every number of sticks gives a
bound of the same log evidence, so bounds of different numbers of clusters compare.

# Departs from Hughes, Kim and Sudderth 2015, "Reliable and scalable variational inference for the hierarchical
# Dirichlet process": they leave out log G(1 + alpha) - sum_k log G(1 + alpha beta_k) of each group, at least 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, digamma, expit, logit, zeta

from expfam.errors import ArchiveError
from expfam.model.pseudo_counts import PRIOR_RATE
from expfam.samplers.variational.alpha_bound import tangent
from expfam.structures.ground.stored import TINY, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

_CURVATURE = np.pi**2 / 12.0
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
    """

    mean: npt.NDArray[np.float64]
    size: npt.NDArray[np.float64]
    alpha: float
    gamma: float

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
    def around(cls, beta: npt.ArrayLike, n_groups: float, alpha: float, gamma: float) -> StickPosterior:
        """Return a posterior with given means of the weights (K,), whose sum is below 1.

        The sizes are nearly the best ones for so many groups.
        """
        beta = np.asarray(beta, dtype=np.float64)
        left = 1.0 - np.append(0.0, np.cumsum(beta)[:-1])
        mean = np.clip(beta / left, 1e-9, 1.0 - 1e-9)
        after = np.arange(len(beta), 0, -1.0)
        size = 1.0 + gamma + n_groups * ((1.0 - mean) / mean + after * mean / (1.0 - mean))
        return cls(mean, np.clip(size, None, np.exp(_LARGEST)), alpha, gamma)

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
        return _value(self, tables)[0]

    def best(self, tables: Tables, *, learn: bool, n_steps: int = _STEPS) -> StickPosterior:
        """Return a posterior with a larger `value`, after at most so many steps of its optimisation.

        With `learn` the concentrations are chosen, too.
        """
        from scipy.optimize import minimize  # a quarter of a second, and few fits need it

        first, scale = _packed(self, learn), _scale(self, tables, learn)

        def negative(y):
            q = _unpacked(y / scale, self)
            value, parts = _value(q, tables)
            slopes = _slopes(q, tables, parts)
            return -value, -np.concatenate(slopes if learn else slopes[:2]) / scale

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
    return StickPosterior(expit(x[:K]), np.exp(x[K : 2 * K]), alpha, gamma)


def _value(q: StickPosterior, tables: Tables) -> tuple[float, tuple[Any, ...]]:
    """Return the value, and what its slopes need of it."""
    rho, omega, alpha, gamma = q
    p, r = rho * omega, (1.0 - rho) * omega
    at = digamma(np.concatenate([p, r, omega])).reshape(3, -1)
    log_u, log_v = at[0] - at[2], at[1] - at[2]  # expected logs of sticks, and of what they leave
    beta, after = q.beta, np.arange(len(rho), 0, -1.0)

    gap = (np.log(rho) - log_u + after * (np.log1p(-rho) - log_v)).sum()
    second = _second_moments(rho, omega)
    spread = max(float((second - beta**2).sum()), 0.0)
    divergence = (
        -np.log(gamma) - betaln(p, r) + (p - 1.0) * at[0] + (r - gamma) * at[1] + (1.0 + gamma - omega) * at[2]
    ).sum()
    M, D = np.maximum(alpha * beta[:-1], TINY), tables.n_groups
    value = tangent(M, tables.rising, 0.0) - tables.falling * alpha - D * (gap + _CURVATURE * alpha**2 * spread)
    value -= divergence + PRIOR_RATE * (alpha + gamma)
    return float(value), (p, r, beta, after, log_v, second, spread, M)


def _slopes(q: StickPosterior, tables: Tables, parts: tuple[Any, ...]) -> Sequence[npt.NDArray[np.float64]]:
    """Return the slopes of the value in logits of means and in logs of all else."""
    (rho, omega, alpha, gamma), (p, r, beta, after, log_v, second, spread, M) = q, parts
    bend = zeta(2.0, np.concatenate([p, r, omega])).reshape(3, -1)  # the second derivatives of log G
    (c, d), D = tables.rising, tables.n_groups
    t = c + d / M
    down_p = -D * (bend[0] - (1.0 + after) * bend[2]) + (p - 1.0) * bend[0] + (1.0 + gamma - omega) * bend[2]
    down_r = -D * (after * bend[1] - (1.0 + after) * bend[2]) + (r - gamma) * bend[1] + (1.0 + gamma - omega) * bend[2]
    of_mean = t / rho - _after(t) / (1.0 - rho) - D * (1.0 / rho - after / (1.0 - rho)) - omega * (down_p - down_r)
    of_size = -(rho * down_p + (1.0 - rho) * down_r)
    up, left, square = second[:-1], _after(second[:-1]) + second[-1], beta**2
    by_mean = up * (1.0 / rho + omega / (p + 1.0)) - left * (1.0 / (1.0 - rho) + omega / (r + 1.0))
    by_mean += -2.0 * square[:-1] / rho + 2.0 * (_after(square[:-1]) + square[-1]) / (1.0 - rho)
    by_size = up * rho / (p + 1.0) + left * (1.0 - rho) / (r + 1.0) - (up + left) / (omega + 1.0)
    of_mean -= D * _CURVATURE * alpha**2 * by_mean
    of_size -= D * _CURVATURE * alpha**2 * by_size
    of_alpha = t.sum() - alpha * (tables.falling + PRIOR_RATE + 2.0 * D * _CURVATURE * alpha * spread)
    of_gamma = len(rho) + gamma * (log_v.sum() - PRIOR_RATE)
    return of_mean * rho * (1.0 - rho), of_size * omega, np.array([of_alpha, of_gamma])


def _second_moments(rho, omega):
    """Return E beta_k^2 of all weights, the last of the rest: (K + 1,)."""
    taken, left = rho * (rho * omega + 1.0), (1.0 - rho) * ((1.0 - rho) * omega + 1.0)
    return _weights(taken / (omega + 1.0), left / (omega + 1.0))


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
