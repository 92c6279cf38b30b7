"""Cells of a table by cluster: mean and spread of numbers, probabilities of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.base import Family
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.registry import kind_of_family
from expfam.families.columns.laws import CellLaw
from expfam.families.columns.parts import CELLS, LEVEL, PRESENCE, Part
from expfam.families.counts.categorical import Categorical

if TYPE_CHECKING:
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
