"""Hyper-parameters of which each column learns a factor of its own.

Columns that tell clusters apart and columns that are alike in all clusters want different priors. One factor for all is
a compromise that is right for neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.base import Family
from expfam.families.slice_sampling import climb_to_modes, slice_sample_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.protocols import Floats

_SPREAD = 3.0  # of the log of a factor, as in `Family.update_hyper`


class ColumnFactors(Family):
    """Family of independent columns with a factor for each column of some hyper-parameters.

    A subclass lists them in `hyper_by_column`, and has `log_marginal_by_column`. A hyper-parameter that is one number
    for all columns has one factor, as in other families.
    """

    def has_column_factors(self, name: str) -> bool:
        """Return whether each column of the bound family has its own factor of a hyper-parameter."""
        return self.is_bound and name in self.hyper_by_column and np.ndim(getattr(self, name)) == 1

    def factor_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the factors of a hyper-parameter: () or (V,)."""
        return (self.n_features_in_,) if self.has_column_factors(name) else super().factor_shape(name)

    def of_columns(self, columns: Sequence[int]) -> tuple[Self, npt.NDArray[np.intp]]:
        """Return the same family on some of the columns, with their factors; see `Family`."""
        part, places = super().of_columns(columns)
        factors = self.__dict__.get("hyper_factors_", {})
        own = {name: factor if np.ndim(factor) == 0 else factor[list(columns)] for name, factor in factors.items()}
        return (part.with_factors(own) if own else part), places

    def update_hyper(self, n: Floats, S: Any, rng: np.random.Generator, *, names: Sequence[str] | None = None) -> Self:
        """Draw each declared hyper-parameter by one slice-sampling update, see `Family`.

        Where each column has a factor of its own, all columns are updated at once. Given the partition they do not
        depend on each other.
        """
        self.require_bound()
        family = self
        for name in self.hyper if names is None else names:
            if not family.has_column_factors(name):
                family = super(ColumnFactors, family).update_hyper(n, S, rng, names=[name])
                continue
            low, high = np.log(family.hyper_bounds(name))
            t = slice_sample_each(
                family._column_targets(name, n, S), family._log_factors(name), rng, low=low, high=high
            )
            family = family._at_factor(name, t)
        return family

    def fit_hyper(self, n: Floats, S: Any, *, names: Sequence[str] | None = None) -> Self:
        """Move each declared hyper-parameter to the mode of its log target, see `Family`."""
        self.require_bound()
        names = list(self.hyper if names is None else names)
        whole = [name for name in names if not self.has_column_factors(name)]
        family = super().fit_hyper(n, S, names=whole) if whole else self
        for name in filter(self.has_column_factors, names):
            low, high = np.log(family.hyper_bounds(name))
            t = climb_to_modes(family._column_targets(name, n, S), family._log_factors(name), low=low, high=high)
            family = family._at_factor(name, t)
        return family

    def _log_factors(self, name):
        return np.broadcast_to(np.log(self.__dict__.get("hyper_factors_", {}).get(name, 1.0)), self.factor_shape(name))

    def _column_targets(self, name, n, S):
        """Return the log targets of the columns: (V,) from the logs of factors (V,)."""
        evidence = self._column_evidence(name, n, S)
        return lambda t: evidence(t) - 0.5 * (t / _SPREAD) ** 2

    def _column_evidence(self, name: str, n: Floats, S: Any) -> Callable[[Floats], Floats]:
        """Return the log evidence of columns as a function of the logs of their factors.

        Both are (V,), and the evidence is meant up to a constant.
        """
        return lambda t: self._at_factor(name, t).log_marginal_by_column(n, S).sum(axis=0)  # type: ignore[attr-defined]
