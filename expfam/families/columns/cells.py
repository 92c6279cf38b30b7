"""Cells of a table by cluster: mean and spread of numbers, probabilities of levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.families.columns.family import Columns
from expfam.families.columns.parts import CELLS, LEVEL, PRESENCE, Part
from expfam.families.counts.categorical import Categorical
from expfam.families.trials.bernoulli import Bernoulli

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats


class CellLaw(NamedTuple):
    """What the cells of one column are in each cluster.

    Attributes
    ----------
    mean : (K,) float64 ndarray or None
        Posterior mean of numbers.
    sd : (K,) float64 ndarray or None
        Standard deviation of numbers at the posterior mode; NaN if the family does not tell it.
    center : (K,) float64 ndarray or None
        What stands for a missing number: the mean, or that of the logarithms of log-normal columns, whose posterior
        predictive has no mean.
    of_logs : bool
        Whether `center` is of logarithms.
    probability : (K, L) float64 ndarray or None
        Posterior predictive probabilities of the levels of categories.
    """

    mean: npt.NDArray[np.float64] | None = None
    sd: npt.NDArray[np.float64] | None = None
    center: npt.NDArray[np.float64] | None = None
    of_logs: bool = False
    probability: npt.NDArray[np.float64] | None = None


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
            found = _laws_of_part(part.family, count, sums, has_missing_level=part.reading == LEVEL)
            laws |= dict(zip(part.columns, found))
    return laws


def _laws_of_part(family, n, S, *, has_missing_level):
    params = family.to_params(*family.map_natural(n, S))
    if isinstance(family, Categorical):
        blocks = np.split(params["probability"], family.offsets_[1:-1], axis=1)
        blocks = [block[:, :-1] for block in blocks] if has_missing_level else blocks
        return [CellLaw(probability=block / block.sum(axis=1, keepdims=True)) for block in blocks]
    if isinstance(family, Bernoulli):
        return [CellLaw(probability=np.column_stack([1.0 - p, p])) for p in params["probability"].T]
    if "mean" not in params and "rate" not in params:
        raise CapabilityError(f"{family.name}: its columns are no cells of a table: they have no means of their own")
    mean = params["mean"] if "mean" in params else params["rate"]
    sd = np.broadcast_to(_spread(family, params, mean), mean.shape)
    is_logs = "median" in params
    center = np.log(params["median"]) if is_logs else mean
    return [CellLaw(mean[:, j], sd[:, j], center[:, j], is_logs) for j in range(mean.shape[1])]


def _spread(family, params, mean):
    """Return the standard deviations that parameters tell: (K, V), or what broadcasts to it."""
    if "covariance" in params:
        return np.sqrt(np.diagonal(params["covariance"], axis1=1, axis2=2))
    if "variance" in params:
        variance = params["variance"]
        return np.sqrt(variance if variance.ndim == 2 else variance[:, None])
    if family.name == "poisson":
        return np.sqrt(mean)
    if family.name == "exponential":
        return mean
    if {"mean", "probability"} <= params.keys():  # negative binomial and geometric
        return np.sqrt(mean / (1.0 - params["probability"]))
    return np.nan
