"""The columns of full covariances that are free: others are constant, or linear in these.

Each cluster learns how narrow a direction is, the more rows the narrower. So the posterior prefers one cluster to all
groups of rows that do not vary in some direction, which says nothing about groups. The chains see the free columns,
under the law that the prior implies for them, and what they find is put into the law of all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.families.gaussian.columns import svec, unsvec
from expfam.families.gaussian.full import Gaussian
from expfam.model.data import Dataset
from expfam.params import is_auto

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.protocols import Floats

_OF_CONSTANT = 0.03  # of the mean variance of the others, which rows have in a constant column
_OF_LINEAR = 1e-6  # of a column's variance, which rows have about what the others say of it
_RESIDUAL = 1e-10  # share of a column's variance that the prior of a cluster would hide
_ROWS_A_COLUMN = 3  # fewer rows are linear in each other by chance
_FEW_ROWS = 500


@dataclass(frozen=True)
class FreeColumns:
    """The free columns of a fit, and how all columns are had again.

    Attributes
    ----------
    columns : (V',) intp ndarray
        Their numbers.
    family : Gaussian
        Bound, of all columns.
    back : (V, V) float64 ndarray
        Makes rows of all columns, about the means, from the free columns and from what the others are beside these.
    variance : (V,) float64 ndarray
        That of the rows of each cluster in a column that is not free, beside the free ones; 0 for these.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Gaussian
    >>> from expfam.fitting.free_columns import free_columns
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> data = Dataset(np.column_stack([X, np.full(20, 7.0), X[:, 0] - 2.0 * X[:, 1]]), Gaussian(scale=1.0))
    >>> free = free_columns(Gaussian(), data)
    >>> free.columns, free.back[3].round(6)
    (array([0, 1]), array([ 1., -2.,  0.,  1.]))
    >>> part = free.part(data)
    >>> free.all_sums(part.family, *part.statistics(np.zeros(20, dtype=int), 1)).shape
    (1, 14)
    """

    columns: npt.NDArray[np.intp]
    family: Any
    back: Floats
    variance: Floats

    def part(self, data: Dataset) -> Dataset:
        """Return a copy of the rows in the free columns."""
        options: dict[str, Any] = {"weight": data.weight, "groups": data.groups, "known": data.known}
        X = np.ascontiguousarray(data.X[:, self.columns])
        return Dataset(X, self.family.implied_for(self.columns), row_offset=data.row_offset, **options)

    def all_columns(self, part: Family) -> Family:
        """Return the family of all columns with what that of the free ones has learned."""
        law = cast("Gaussian", part)
        beside = self._dof_of_scale * self.variance
        scale = self._of_all(law.scale[None], beside[None])[0]
        family = self.family.with_hyper(mean_strength=law.mean_strength, scale=scale)
        factors = law.__dict__.get("hyper_factors_")
        return family.with_factors(factors) if factors else family  # type: ignore[no-any-return]

    def all_sums(self, part: Family, n: Floats, S: Floats) -> Floats:
        """Return the sums of clusters (K, F) from those of the free columns.

        The squares beside these columns are such that large and small clusters are as probable there.
        """
        size = len(self.columns)
        first = S[:, :size] @ self.back[:, self.columns].T
        second = self._of_all(unsvec(np.asarray(S[:, size:]), size), self._beside(part, n)[:, None] * self.variance)
        return np.concatenate([first, svec(second)], axis=1)

    def _beside(self, part, n):
        """Return the squares beside the free columns, in units of the variance: (K,).

        With a column the power of a t density grows by 1 / 2, and its factor has one more root of the scale. They are
        those that leave the density as it is at half the mean squared distance: of ten fits with 20 constant columns
        beside eight, no row had another cluster then.
        """
        law, d = cast("Gaussian", part), len(self.columns)
        n_left = len(self.back) - d
        dof, strength = law.dof + np.asarray(n, dtype=np.float64), law.mean_strength + np.asarray(n, dtype=np.float64)
        gammas = gammaln(0.5 * (dof + n_left + 1.0)) - gammaln(0.5 * (dof + 1.0))
        away = np.log1p(0.5 * d / dof)
        scale = 2.0 * strength / (strength + 1.0) * np.exp(2.0 * gammas / n_left - away)
        return np.maximum(scale - self._dof_of_scale, 0.0)

    @property
    def _dof_of_scale(self):
        """Return by how much the prior scale exceeds the prior mean of a covariance."""
        return max(self.family.dof - self.family.n_features_in_ - 1.0, 1.0)

    def _of_all(self, free, beside):
        """Return matrices (K, V, V) of all columns, given variances (K, V) beside the free ones."""
        d = len(self.back)
        of_all = np.zeros((len(free), d, d))
        of_all[:, np.arange(d), np.arange(d)] = beside
        of_all[:, self.columns[:, None], self.columns] = free
        found = self.back @ of_all @ self.back.T
        return 0.5 * (found + found.transpose(0, 2, 1))


def free_columns(asked: Family, data: Dataset) -> FreeColumns | None:
    """Return the free columns of rows for clusters with full covariances.

    Parameters
    ----------
    asked : Family
        As it was given, not bound.
    data : Dataset

    Returns
    -------
    FreeColumns or None
        None if all columns are free or none is, for other families, and where a prior was given column by column.
    """
    family: Any = data.family
    if type(family) is not Gaussian or asked.is_bound or not _is_left(asked):
        return None
    varies = _varies(family, data.X)
    told, by, slopes = _linear(data.X, np.flatnonzero(varies))
    free = varies.copy()
    free[told] = False
    columns = np.flatnonzero(free)
    if free.all() or not columns.size:
        return None
    variances = data.X.var(axis=0, dtype=np.float64)
    beside = np.where(varies, _OF_LINEAR * variances, _OF_CONSTANT * variances[varies].mean())
    back = np.eye(data.n_features)
    back[told[:, None], by] = slopes
    return FreeColumns(columns, family, back, np.where(free, 0.0, beside))


def _is_left(asked):
    """Tell whether the location is left to the data, and the scale too or it is one number."""
    return is_auto(asked.mean) and (is_auto(asked.scale) or np.ndim(asked.scale) == 0)


def _varies(family, X):
    """Return which columns hold several values: (V,) bool."""
    found = np.ones(X.shape[1], dtype=bool)
    doubtful = np.flatnonzero(family.variance_floor_ == 0.0)
    if doubtful.size:
        found[doubtful] = (X[:, doubtful] != X[:1, doubtful]).any(axis=0)
    return found


def _linear(X, columns):
    """Return columns that earlier ones tell, these, and the slopes: (T,), (O,) and (T, O)."""
    none = np.zeros(0, dtype=np.intp)
    n, most = len(X), max(_FEW_ROWS, _ROWS_A_COLUMN * len(columns))
    if len(columns) < 2 or n < _ROWS_A_COLUMN * len(columns):
        return none, none, np.zeros((0, 0))
    few = np.asarray(X[:: max(1, n // most)][:, columns], dtype=np.float64)
    few = few - few.mean(axis=0)
    spread = few.std(axis=0)
    columns, few, spread = columns[spread > 0.0], few[:, spread > 0.0], spread[spread > 0.0]
    few /= spread
    left = _residuals(few.T @ few / len(few))
    told, by = np.flatnonzero(left < _RESIDUAL), np.flatnonzero(left >= _RESIDUAL)
    if not told.size:
        return none, none, np.zeros((0, 0))
    slopes = np.linalg.lstsq(few[:, by], few[:, told], rcond=None)[0] / spread[by][:, None] * spread[told]
    own = X[:, columns[told]].astype(np.float64)
    rest = own - X[:, columns[by]].astype(np.float64) @ slopes
    is_told = rest.var(axis=0) <= _RESIDUAL * own.var(axis=0)  # by all rows
    return columns[told[is_told]], columns[by], slopes.T[is_told]


def _residuals(correlation):
    """Return the share of each column's variance that earlier columns leave: (V,)."""
    try:
        left = np.square(np.linalg.cholesky(correlation).diagonal())
        if left.min(initial=1.0) >= _RESIDUAL:
            return left
    except np.linalg.LinAlgError:
        pass
    rest, left = correlation.copy(), np.zeros(len(correlation))
    for j in range(len(rest)):
        left[j] = rest[j, j]
        if left[j] >= _RESIDUAL:
            rest -= np.outer(rest[:, j], rest[j]) / left[j]
    return left
