"""Missing cells of columns that depend on each other, given the other cells of their row.

Given a cluster a row has a multivariate t law, or a normal law; see `expfam.families.gaussian.holes`. Given some cells,
the others then have such a law too (Kotz and Nadarajah 2004, "Multivariate t distributions and their applications"):

    location  mu_2 + Sigma_21 Sigma_11^-1 (x_1 - mu_1),        degrees of freedom  nu + q,
    scale     (nu + delta) / (nu + q) (Sigma_22 - Sigma_21 Sigma_11^-1 Sigma_12),

for q given cells at the squared distance delta from their location.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.gaussian.columns import factor
from expfam.families.gaussian.holes import PredictiveLaw, patterns
from expfam.families.support import dense_rows
from expfam.fitted.scoring import log_sum_exp

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.fitted.clusters import FittedClusters
    from expfam.fitted.drawn_clusters import DrawnClusters
    from expfam.protocols import Floats


def filled_dependent_rows(
    clusters: FittedClusters | DrawnClusters,
    matrix: npt.NDArray[np.float64],
    *,
    draws: int | None,
    rng: np.random.Generator | None,
    mass: npt.NDArray[np.float64] | None = None,
) -> list[npt.NDArray[np.float64]]:
    """Return rows with their missing cells filled.

    Parameters
    ----------
    clusters : FittedClusters or DrawnClusters
        Of a family with a ``predictive_law``.
    matrix : (N, V) float64 ndarray
        NaN where a cell is missing.
    draws, rng, mass
        As of `expfam.fitted.cells.filled_rows`; without `draws` cells are means.

    Returns
    -------
    list of (N, V) ndarrays
    """
    rows = np.flatnonzero(np.isnan(matrix).any(axis=1))
    if not rows.size:
        return [matrix] * (draws or 1)

    def reduce(scores, start, stop):
        return np.exp(scores - log_sum_exp(scores)[:, None])

    own = None if mass is None else mass[rows]
    p, law = np.concatenate(clusters.each_conditional_block(matrix[rows], reduce, own)), _law(clusters)
    found = [matrix.copy() for _ in range(draws or 1)]
    for of_pattern, cells in patterns(matrix[rows]):
        at, lacking = rows[of_pattern], np.setdiff1d(np.arange(matrix.shape[1]), cells)
        if draws is None:
            found[0][np.ix_(at, lacking)] = _means(law, matrix[at], p[of_pattern], cells, lacking)
            continue
        total = np.cumsum(p[of_pattern], axis=1)
        for one in found:
            chosen = (rng.random((len(at), 1)) * total[:, -1:] >= total).sum(axis=1)  # type: ignore[union-attr]
            one[np.ix_(at, lacking)] = _drawn(law, matrix[at], chosen, cells, lacking, rng)
    return found


def _law(clusters: FittedClusters | DrawnClusters) -> PredictiveLaw:
    """Return the predictive law of each cluster of all draws, also of those without data."""
    laws = [_law_of_part(part) for part in clusters.parts]
    return PredictiveLaw(*(np.concatenate(values) for values in zip(*laws)))


def _law_of_part(part: FittedClusters) -> PredictiveLaw:
    n_empty = len(part.log_weights) - part.n_clusters
    n, S = np.asarray(part.n, dtype=np.float64), dense_rows(part.S)
    n, S = np.append(n, np.zeros(n_empty)), np.vstack([S, np.zeros((n_empty, S.shape[1]))])
    family: Any = part.family
    found: PredictiveLaw = family.predictive_law(n, S)
    return found


def _means(law, X, p, cells, lacking):
    """Return the mean of the missing cells of each row: (N, M)."""
    mean = np.zeros((len(X), len(lacking)))
    for k in range(p.shape[1]):
        mean += p[:, k : k + 1] * _given(law, k, X, cells, lacking)[0]
    return mean


def _drawn(law, X, chosen, cells, lacking, rng):
    """Return a draw of the missing cells of each row from its cluster: (N, M)."""
    drawn = np.empty((len(X), len(lacking)))
    for k in np.unique(chosen):
        rows = np.flatnonzero(chosen == k)
        mean, scale, delta = _given(law, k, X[rows], cells, lacking)
        noise = rng.standard_normal(mean.shape) @ factor(scale[None], "gaussian")[0].T
        if np.isfinite(law.dof[k]):
            dof = law.dof[k] + len(cells)
            noise *= np.sqrt((law.dof[k] + delta) / rng.chisquare(dof, len(rows)))[:, None]
        drawn[rows] = mean + noise
    return drawn


def _given(law: PredictiveLaw, k: int, X: Floats, cells: Any, lacking: Any) -> tuple[Floats, Floats, Floats]:
    """Return location (N, M) and scale (M, M) of missing cells, and distance (N,) of others."""
    mean, scale = law.mean[k], law.scale[k]
    if not len(cells):
        return np.tile(mean, (len(X), 1)), scale, np.zeros(len(X))
    rest = X[:, cells] - mean[cells]
    solved = np.linalg.solve(scale[np.ix_(cells, cells)], scale[np.ix_(cells, lacking)])
    delta = (rest * np.linalg.solve(scale[np.ix_(cells, cells)], rest.T).T).sum(axis=1)
    return (
        mean[lacking] + rest @ solved,
        scale[np.ix_(lacking, lacking)] - scale[np.ix_(lacking, cells)] @ solved,
        delta,
    )
