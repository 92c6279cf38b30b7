"""Exact draws of the weights that all groups share, and of both concentrations.

Given the clusters of all rows, the number of tables of each cluster is drawn first; given these, everything else has a
law of one line. The concentrations are drawn with the weights integrated out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.model.pseudo_counts import draw_concentration

if TYPE_CHECKING:
    from expfam.model.pseudo_counts import CountTable

TINY = 1e-300  # smallest weight: a gamma variable of a small shape can be 0 in a double


class SharedWeights(NamedTuple):
    """Concentrations and weights of the clusters in all groups.

    Attributes
    ----------
    alpha, gamma : float
    beta : (K,) float64 ndarray
        Weights of the clusters; 0 for those without rows that are not known to exist.
    rest : float
        Weight of all other clusters. Together the weights sum to 1.
    """

    alpha: float
    gamma: float
    beta: npt.NDArray[np.float64]
    rest: float


def draw_shared_weights(
    pseudocounts: npt.NDArray[np.float64],
    alpha: float,
    gamma: float,
    table: CountTable,
    totals: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    learn: bool = True,
    n_known: int = 0,
) -> SharedWeights:
    """Draw the concentrations and the weights given all counts of rows.

    Parameters
    ----------
    pseudocounts : (K,) float64 ndarray
        Present alpha beta_k of each cluster.
    alpha, gamma : float
        Present concentrations.
    table : CountTable
        Counts of rows of groups in clusters, with the K clusters as its groups.
    totals : (G,) array_like
        Rows of each group.
    rng : numpy Generator
    learn : bool
        Whether the concentrations are drawn, too. Their priors are Gamma(1, 1).
    n_known : int
        The first clusters, which exist whatever the rows.

    Returns
    -------
    SharedWeights

    Notes
    -----
    Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", section 5.3 and appendix A.
    """
    tables = table.draw_tables(np.maximum(pseudocounts, TINY), rng)
    M, K = float(tables.sum()), int(np.count_nonzero(tables[n_known:]))
    if learn:
        totals = np.asarray(totals, dtype=np.float64)
        alpha = draw_concentration(alpha, M, totals[totals > 0], rng)
        gamma = draw_concentration(gamma, K, np.array([M]) if M else np.empty(0), rng, n_known)
    tables = tables + (np.arange(len(tables)) < n_known)
    drawn = rng.standard_gamma(tables)
    rest = max(rng.standard_gamma(gamma), TINY)
    beta = np.where(tables > 0, np.maximum(drawn, TINY), 0.0)
    total = beta.sum() + rest
    return SharedWeights(alpha, gamma, beta / total, max(rest / total, TINY))


def log_density(
    weights: SharedWeights,
    table: CountTable,
    totals: CountTable,
    pseudocounts: npt.NDArray[np.float64],
    n_known: int = 0,
) -> float:
    """Return the log density of the clusters of all rows and of the shared weights, nats.

    `pseudocounts` (K,) are alpha beta_k; `totals` is the table of the numbers of rows of the groups. The first
    `n_known` clusters exist whatever the rows.
    """
    found, gamma = weights.beta[n_known:], weights.gamma
    held = found[found > 0]
    log_beta = len(held) * np.log(gamma) + (gamma - 1.0) * np.log(weights.rest) - np.log(held).sum()
    log_beta += gammaln(gamma + n_known) - gammaln(gamma)
    groups = table.log_rising(np.maximum(pseudocounts, TINY)) - totals.log_rising(np.array([weights.alpha]))
    return float(log_beta + groups)


def log_density_given_tables(weights: SharedWeights, tables: npt.NDArray[np.float64], n_known: int = 0) -> float:
    """Return the log density of the shared weights given the tables of the clusters, nats.

    `tables` (K,) are their numbers. The log joint minus this density is that of the clusters of all rows alone, up to
    what the tables do not tell of the weights. Numbers of clusters compare by the difference: in the log joint each
    weight adds some nats.
    """
    held = weights.beta > 0
    shape = (tables + (np.arange(len(tables)) < n_known))[held]
    total = gammaln(shape.sum() + weights.gamma) - gammaln(weights.gamma) - gammaln(shape).sum()
    total += ((shape - 1.0) * np.log(weights.beta[held])).sum()
    return float(total + (weights.gamma - 1.0) * np.log(weights.rest))


def first_weights(sizes: npt.NDArray[np.int64], alpha: float, gamma: float, n_known: int = 0) -> SharedWeights:
    """Return weights to begin with: those that the sizes (K,) of the clusters suggest."""
    sizes = sizes + (np.arange(len(sizes)) < n_known)
    total = float(sizes.sum()) + gamma
    return SharedWeights(alpha, gamma, sizes / total, gamma / total)
