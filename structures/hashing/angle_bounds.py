"""Angles that Hamming distances of sign codes estimate, and bounds of the estimates.

Two vectors at an angle t differ in each bit of their codes with probability t/pi, so the Hamming distance h of codes of
l bits estimates the angle by pi h/l (Charikar 2002).
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray


def hoeffding_bound(n_bits: int, n_codes: int, delta: float) -> float:
    """Return a bound of the deviation of K fractions of differing bits from their means.

    With probability 1 - delta it holds for all K fractions together.

    Parameters
    ----------
    n_bits : int
        Length l of the codes.
    n_codes : int
        Number K of codes that are compared with one code.
    delta : float in (0, 1)

    Returns
    -------
    float
        sqrt(log(K / delta) / (2 l)), one-sided.

    Notes
    -----
    This is Hoeffding's inequality with a union bound. In Ahmed et al. 2012, remark 5, the factor 2 is missing.

    Examples
    --------
    >>> from expfam.structures.hashing.angle_bounds import hoeffding_bound
    >>> round(hoeffding_bound(128, 10_000, 1e-4), 3)
    0.268
    """
    _check_bound(n_bits, n_codes, delta)
    return math.sqrt(math.log(n_codes / delta) / (2 * n_bits))


def kl_bound(n_bits: int, n_codes: int, delta: float) -> NDArray[np.float64]:
    """Return lower confidence limits of the probability of a differing bit.

    There is one limit for each Hamming distance.

    Parameters
    ----------
    n_bits, n_codes, delta
        As in `hoeffding_bound`.

    Returns
    -------
    (n_bits + 1,) float64 ndarray
        For each distance h the smallest p <= h/l with l kl(h/l || p) <= log(K / delta), where kl is the divergence of
        two Bernoulli laws in nats.

    Notes
    -----
    This is Chernoff's bound in its relative-entropy form with a union bound. It is never looser than Hoeffding's. O(l).

    Examples
    --------
    >>> from expfam.structures.hashing.angle_bounds import kl_bound
    >>> round(float(0.25 - kl_bound(128, 1000, 0.01)[32]), 3)
    0.149
    """
    _check_bound(n_bits, n_codes, delta)
    z = np.arange(n_bits + 1) / n_bits
    limit = math.log(n_codes / delta) / n_bits
    low, high = np.zeros_like(z), z.copy()
    for _ in range(60):
        middle = (low + high) / 2
        far = _bernoulli_kl(z, middle) > limit
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return high


def cosine_table(
    n_bits: int,
    *,
    beta: float = 1.0,
    bound: Literal["hoeffding", "kl"] | None = None,
    n_codes: int = 1,
    delta: float = 0.01,
) -> NDArray[np.float32]:
    """Return the cosine of the angle that each Hamming distance estimates, times beta.

    Parameters
    ----------
    n_bits : int
        Length l of the codes.
    beta : float in (0, 1]
        Factor of all entries: the inverse temperature of a proposal by noisy scores.
    bound : {None, "hoeffding", "kl"}
        Whether to use the lower end of a confidence interval of the angle, for pruning, in place of the estimate.
    n_codes, delta
        Arguments of the bound, see `hoeffding_bound`.

    Returns
    -------
    (n_bits + 1,) float32 ndarray
        beta cos(pi h / l).

    Examples
    --------
    >>> from expfam.structures.hashing.angle_bounds import cosine_table
    >>> cosine_table(64)[[0, 32, 64]].round(6).tolist()
    [1.0, 0.0, -1.0]
    """
    if not 0 < beta <= 1:
        raise ValueError(f"beta must lie in (0, 1]; got {beta!r}")
    if n_bits < 1:
        raise ValueError(f"n_bits must be at least 1; got {n_bits!r}")
    z = np.arange(n_bits + 1) / n_bits
    if bound == "hoeffding":
        z = np.maximum(z - hoeffding_bound(n_bits, n_codes, delta), 0.0)
    elif bound == "kl":
        z = kl_bound(n_bits, n_codes, delta)
    elif bound is not None:
        raise ValueError(f"bound must be None, 'hoeffding' or 'kl'; got {bound!r}")
    # With sin the middle is exactly 0 and the ends are symmetric; cos(pi z) would round pi
    return (beta * np.sin(np.pi * (0.5 - z))).astype(np.float32)


def _check_bound(n_bits, n_codes, delta):
    if n_bits < 1 or n_codes < 1:
        raise ValueError(f"n_bits and n_codes must be at least 1; got {n_bits!r} and {n_codes!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie in (0, 1); got {delta!r}")


def _bernoulli_kl(z, p):
    """Return kl(z || p) in nats, elementwise, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        differ = np.where(z > 0, z * np.log(z / p), 0.0)
        agree = np.where(z < 1, (1 - z) * np.log((1 - z) / (1 - p)), 0.0)
    return differ + agree
