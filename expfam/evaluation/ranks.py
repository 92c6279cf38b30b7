"""Tests of a certificate: ranks of a true value among states, means, and frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

N_BINS = 10
_TIE = 1e-9  # relative; equal partitions differ by rounding
_POWER = 0.9


def rank_of_truth(
    truth: npt.NDArray[np.float64], others: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return the rank of each true value among others, ties broken at random: (Q,) from 0 to T.

    Parameters
    ----------
    truth : (Q,) float64 ndarray
    others : (T, Q) float64 ndarray
    rng : numpy.random.Generator
    """
    ties = np.abs(others - truth) <= _TIE * (1.0 + np.abs(truth))
    below = ((others < truth) & ~ties).sum(axis=0)
    return below + rng.integers(0, ties.sum(axis=0) + 1)


def uniform_p(ranks: npt.NDArray[np.int64], n_places: int) -> npt.NDArray[np.float64]:
    """Return the p-value of uniform ranks: (Q,) for (R, Q) ranks below `n_places`.

    It is that of two tests together, by Bonferroni: the chi-square of at most ten bins, which sees every difference,
    and the mean rank, which sees a small shift sooner.
    """
    n_bins, R = min(N_BINS, n_places), len(ranks)
    bins = ranks * n_bins // n_places
    expected = np.bincount(np.arange(n_places) * n_bins // n_places) / n_places * R
    chi_square = [stats.chisquare(np.bincount(column, minlength=n_bins), expected).pvalue for column in bins.T]
    error = np.sqrt((n_places**2 - 1) / 12.0 / R)
    shift = gaussian_p((ranks.mean(axis=0) - (n_places - 1) / 2.0) / error)
    both: npt.NDArray[np.float64] = np.minimum(1.0, 2.0 * np.minimum(chi_square, shift))
    return both


def mean_p(differences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the two-sided p-value of a mean of zero by Student's t: (Q,) for (R, Q).

    It is 1 where all numbers are zero.
    """
    n = len(differences)
    error = differences.std(axis=0, ddof=1) / np.sqrt(n)
    t = np.divide(np.abs(differences.mean(axis=0)), error, out=np.zeros(differences.shape[1]), where=error > 0)
    return 2.0 * stats.t.sf(t, n - 1)


def gaussian_p(z: Any) -> Any:
    """Return the two-sided p-value of a standard normal number."""
    return 2.0 * stats.norm.sf(np.abs(z))


def frequencies_p(counts: npt.NDArray[np.int64], probability: npt.NDArray[np.float64], least: float = 5.0) -> Any:
    """Return chi-square and degrees of freedom of counts; rare cells are added up.

    Parameters
    ----------
    counts : (C,) int64 ndarray
    probability : (C,) float64 ndarray
        Probability of each cell.
    least : float
        Cells with a smaller expected count are rare.
    """
    expected = probability * counts.sum()
    common = expected >= least
    found = np.append(counts[common], counts[~common].sum()).astype(np.float64)
    expected = np.append(expected[common], expected[~common].sum())
    used = expected >= 1.0
    statistic = float(((found - expected)[used] ** 2 / expected[used]).sum())
    return statistic, max(int(np.count_nonzero(used)) - 1, 0)


def chi_square_p(statistic: float, freedom: int) -> float:
    """Return the p-value of a chi-square statistic; 1 without degrees of freedom."""
    return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0


def least_variation(n_replicates: int, level: float) -> float:
    """Return the total variation from uniform ranks that a test finds in 90 % of runs."""
    freedom = N_BINS - 1
    critical = stats.chi2.isf(level, freedom)
    strength = optimize.brentq(lambda x: stats.ncx2.sf(critical, freedom, x) - _POWER, 1e-3, 1e5)
    return float(min(1.0, 0.5 * np.sqrt(strength / n_replicates)))


def least_shift(n_draws: int, level: float) -> float:
    """Return the shift of a mean, in standard deviations, that a test finds in 90 % of runs."""
    return float((stats.norm.isf(level / 2) + stats.norm.isf(1 - _POWER)) / np.sqrt(n_draws))
