"""Missing cells that clusters fill, and rows that are drawn from them.

A further cluster without data has a part in every answer about rows, as it has in their density.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.cells import as_columns, cell_laws, drawn_holes, whole_rows
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.laws import CellLaw, joined_laws
from expfam.families.support import dense_rows
from expfam.fitted.scoring import log_sum_exp

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.fitted.clusters import FittedClusters
    from expfam.fitted.drawn_clusters import DrawnClusters

_ROWS = 4096  # whose parameters are drawn together


def filled_rows(
    clusters: FittedClusters | DrawnClusters,
    matrix: npt.NDArray[np.float64],
    roles: Sequence[Any],
    *,
    draws: int | None,
    rng: np.random.Generator | None,
    mass: npt.NDArray[np.float64] | None = None,
) -> list[npt.NDArray[np.float64]]:
    """Return rows with their missing cells filled.

    Parameters
    ----------
    clusters : FittedClusters or DrawnClusters
        Draws count in each row as its given cells are likely under them.
    matrix : (N, V) float64 ndarray
        NaN where a cell is missing; checked.
    roles : sequence of V
        Role of each column, or None.
    draws : int or None
        Number of results with drawn cells; None for one with means of numbers and the most probable levels.
    rng : numpy Generator
        Of draws.
    mass : (N, clusters) float64, optional
        Log weights of the clusters for each row, in place of the common ones.

    Returns
    -------
    list of (N, V) ndarrays
    """
    holes = np.isnan(matrix)
    rows = np.flatnonzero(holes.any(axis=1))
    mass = None if mass is None else mass[rows]
    cells = [_cells_of(part, roles) for part in clusters.parts]
    laws = _joined([each.laws for each in cells])  # refuses families whose columns are no cells
    if not rows.size:
        return [matrix] * (draws or 1)
    if draws is None:
        return [_with_means(clusters, matrix, holes, rows, laws, mass)]
    return _with_draws(clusters, matrix, holes, rows, cells, mass, draws, rng)


def _cells_of(part, roles):
    n_empty = len(part.log_weights) - part.n_clusters
    return _Cells(as_columns(part.family), part.n, part.S, roles, n_empty=n_empty)


def _joined(laws):
    """Return the laws of each column in the clusters of all draws, one draw after the other."""
    if len(laws) == 1:
        return laws[0]
    return {j: joined_laws([of_draw[j] for of_draw in laws]) for j in laws[0]}


def _with_means(clusters, matrix, holes, rows, laws, mass):
    filled = matrix.copy()

    def reduce(scores, start, stop):
        p = np.exp(scores - log_sum_exp(scores)[:, None])
        at = rows[start:stop]
        for j in np.flatnonzero(holes[at].any(axis=0)):
            lacking = holes[at, j]
            filled[at[lacking], j] = laws[j].average(p[lacking])

    clusters.each_conditional_block(matrix[rows], reduce, mass)
    return filled


def _with_draws(clusters, matrix, holes, rows, cells, mass, draws, rng):
    def reduce(scores, start, stop):
        return np.exp(scores - log_sum_exp(scores)[:, None])

    blocks = clusters.each_conditional_block(matrix[rows], reduce, mass)
    p = np.cumsum(np.concatenate(blocks), axis=1)
    firsts = np.cumsum([0, *(len(each.n) for each in cells)])
    filled = []
    for _ in range(draws):
        chosen = (rng.random((len(rows), 1)) * p[:, -1:] >= p).sum(axis=1)
        found = matrix.copy()
        for each, first, last in zip(cells, firsts, firsts[1:]):
            own = np.flatnonzero((chosen >= first) & (chosen < last))
            if own.size:
                at = rows[own]
                found[at] = np.where(holes[at], each.drawn_rows(chosen[own] - first, rng), matrix[at])
        filled.append(found)
    return filled


def drawn_rows(
    clusters: FittedClusters, n_samples: int, roles: Sequence[Any], rng: np.random.Generator, *, complete: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Return rows drawn from the clusters with data, and their clusters, in ascending order.

    Parameters
    ----------
    clusters : FittedClusters
    n_samples : int
    roles : sequence of V
        Role of each column, or None.
    rng : numpy Generator
    complete : bool
        Whether every cell is drawn; else cells of a table are missing as often as in the data.
    """
    family, n, S = clusters.family, clusters.n, dense_rows(clusters.S)
    sizes = rng.multinomial(n_samples, clusters.weights / np.sum(clusters.weights))
    chosen = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    if not isinstance(family, Columns):
        used = np.flatnonzero(sizes)
        draw: Any = family.posterior_predictive_sample
        return np.concatenate([draw(n[k], S[k], int(sizes[k]), rng) for k in used]), chosen
    X = _Cells(family, n, S, roles).drawn_rows(chosen, rng)
    if not complete:
        X[drawn_holes(family, n, S, chosen, rng)] = np.nan
    return X, chosen


class _Cells:
    """Clusters of a table from which cells are drawn, with an empty one if it has a weight."""

    def __init__(self, table, n, S, roles, *, n_empty=0):
        if n_empty:
            n, S = np.append(n, np.zeros(n_empty)), np.vstack([dense_rows(S), np.zeros((n_empty, S.shape[1]))])
        self.table, self.n, self.S, self.roles = table, np.asarray(n, dtype=np.float64), dense_rows(S), roles

    @cached_property
    def laws(self):
        """Return what the cells of each column are, without the level of unseen values."""
        laws = cell_laws(self.table, self.n, self.S)
        return {j: known_levels(law, role) for (j, law), role in zip(sorted(laws.items()), self.roles)}

    def drawn_rows(self, clusters, rng):
        """Return a row of each given cluster, each under its own parameter, with all its cells."""
        family, columns = whole_rows(self.table)
        cells = np.empty((len(clusters), self.table.n_features_in_))
        for start in range(0, len(clusters), _ROWS):
            part = slice(start, start + _ROWS)
            theta, _ = family.draw_natural(self.n[clusters[part]], self.S[clusters[part]][:, columns], rng)
            cells[part] = family.sample(theta, 1, rng)
        gone = np.isnan(cells).any(axis=0)  # a level stands for missing codes
        for j, role in enumerate(self.roles):
            if gone[j] or (role is not None and role.is_category and role.other):
                p = np.cumsum(self.laws[j].probability, axis=1)[clusters]  # one cell a row: the predictive
                cells[:, j] = (rng.random((len(clusters), 1)) * p[:, -1:] >= p).sum(axis=1)
        return cells


def known_levels(law: CellLaw, role: Any) -> CellLaw:
    """Return the law of a column without the level that stands for unseen values."""
    if law.probability is None or role is None or not role.other:
        return law
    known = law.probability[:, : len(role.levels)]
    return law._replace(probability=known / known.sum(axis=1, keepdims=True))
