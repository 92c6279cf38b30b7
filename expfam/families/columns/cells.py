"""Cells of a table by cluster: numbers, levels and holes, and the table without holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.laws import CellLaw
from expfam.families.columns.kinds.registry import kind_of_family
from expfam.families.columns.table import CELLS, LEVEL, OBSERVED, PRESENCE, Part
from expfam.families.counts.categorical import Categorical
from expfam.families.gaussian.diagonal import DiagonalGaussian

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.columns.family import Columns
    from expfam.protocols import Floats


def as_columns(family: Family) -> Columns:
    """Return a bound family as a table of one part; a table is returned as it is.

    The statistics are the same. Rows of the table may lack cells if the columns of the family are independent.
    """
    if isinstance(family, Columns):
        return family
    V = family.n_features_in_
    table = Columns((Part(family, tuple(range(V)), CELLS, family.name),))
    offsets = np.array([0, family.n_statistics_], dtype=np.int64)
    table.__dict__.update({"n_features_in_": V, "offsets_": offsets, "n_statistics_": family.n_statistics_})
    return table


def may_lack_cells(family: Family, *, scored: bool = False) -> bool:
    """Return whether missing cells of new rows can be integrated out, to score or learn."""
    is_split = family.has_independent_columns or isinstance(family, Categorical)
    is_open = family.allows_missing or is_split or getattr(family, "n_features_in_", 0) == 1
    return bool(is_open or (scored and hasattr(family, "predictive_law")))


def cell_laws(table: Columns, n: Floats, S: Any) -> dict[int, CellLaw]:
    """Return what the cells of each column are in each cluster, by the number of the column.

    Parameters
    ----------
    table : Columns
        Bound.
    n : (K,) float64
    S : (K, F) float64 or CSR

    Notes
    -----
    Under a conjugate prior the mode in natural coordinates has the posterior mean of the mean parameter (Diaconis and
    Ylvisaker 1979, "Conjugate priors for exponential families").
    """
    laws: dict[int, CellLaw] = {}
    for part, _, count, sums in table._each(n, S):
        if part.reading != PRESENCE:
            kind = kind_of_family(part.family)
            found = kind.laws(part.family, count, sums, has_missing_level=part.reading == LEVEL)
            laws |= dict(zip(part.columns, found))
    return laws


def whole_rows(table: Columns) -> tuple[Columns, npt.NDArray[np.intp]]:
    """Return the table without parts that say which cells are missing, and its columns of phi.

    Rows that are drawn from it have all their numbers.
    """
    parts = table._parts
    kept = [place for place, part in enumerate(parts) if part.reading != PRESENCE]
    columns = [np.arange(table.offsets_[place], table.offsets_[place + 1]) for place in kept]
    return table._with_parts([parts[place] for place in kept]), np.concatenate(columns)


def about_columns(table: Columns, known: npt.NDArray[np.bool_]) -> tuple[Columns, npt.NDArray[np.intp]]:
    """Return the table without the unknown columns, and its columns of phi.

    Missing cells of a row are integrated out; with ``missing="informative"`` they are a fact about the row besides. In
    the result this fact is summed out where a column is unknown. Cells of unknown columns must be NaN.

    Parameters
    ----------
    table : Columns
        Bound.
    known : (V,) bool ndarray

    Raises
    ------
    CapabilityError
        The family of a part, which is not of this package, models which cells are missing.
    """
    for part in table._parts:
        if getattr(part.family, "missing", None) == "informative":
            raise CapabilityError(
                f"{part.family.name}: absence itself tells something in this family, so unknown cells cannot be left"
                " out: give all columns"
            )
    if table.missing != "informative":
        return table, np.arange(table.n_statistics_)
    kept = []
    for part, start, stop in zip(table._parts, table.offsets_[:-1], table.offsets_[1:]):
        places = [place for place, column in enumerate(part.columns) if known[column]]
        columns = tuple(part.columns[place] for place in places)
        phi = np.arange(start, stop)
        if part.reading == PRESENCE and columns:
            kept.append((part._replace(columns=columns), phi))
        elif part.reading == LEVEL and columns:
            family, own = part.family.of_columns(places)
            kept.append((part._replace(family=family, columns=columns), phi[own]))
        elif part.reading != PRESENCE:
            kept.append((part if part.reading != LEVEL else part._replace(reading=CELLS), phi))
    kept.sort(key=lambda pair: pair[0].place)
    return table._with_parts([part for part, _ in kept]), np.concatenate([phi for _, phi in kept])


def drawn_holes(
    table: Columns, n: Floats, S: Any, clusters: npt.NDArray[Any], rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return which cells of drawn rows are missing, as often as in the data of their clusters.

    Columns of one part that are missing together in the data are so in each row.

    Parameters
    ----------
    table : Columns
        Bound.
    n : (K,) float64
        Sizes of the clusters, above 0.
    S : (K, F) float64 or CSR
    clusters : (m,) int
        Cluster of each row.
    rng : numpy.random.Generator

    Returns
    -------
    (m, V) bool ndarray
    """
    gone = np.zeros((len(clusters), table.n_features_in_), dtype=bool)
    for part, _, count, sums in table._each(n, S):
        if part.reading == PRESENCE:
            continue
        present = _present(part, count, sums)
        if present is not None:
            share = 1.0 - np.minimum(present / np.asarray(n)[:, None], 1.0)
            gone[:, part.columns] = rng.random((len(clusters), share.shape[1])) < share[clusters]
    return gone


def _present(part, count, sums):
    """Return how many cells each cluster has, (K, columns) or (K, 1); None if it has all."""
    if part.reading == OBSERVED:
        return count[:, None]
    if isinstance(part.family, Categorical):
        blocks = np.split(sums, part.family.offsets_[1:-1], axis=1)
        last = -1 if part.reading == LEVEL else None
        return np.column_stack([block[:, :last].sum(axis=1) for block in blocks])
    if isinstance(part.family, DiagonalGaussian) and part.family.missing:
        return sums[:, : len(part.columns)]
    return None
