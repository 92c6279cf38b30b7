"""Hyper-parameters that are a yes or a no for each column.

Columns that tell clusters apart and columns that are alike in all clusters want different priors, and no factor of a
prior turns one into the other. Which column is which is drawn, or fitted, with the other hyper-parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.base import Family
from expfam.families.support import YES_NO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from expfam.protocols import Floats


class ColumnChoices(Family):
    """Family with hyper-parameters that `hyper` lists as "yes_no": (V,) float64 of 0 and 1.

    A subclass has `log_odds_of_yes` and `log_gain_of_yes`. Given the partition and the other hyper-parameters, columns
    do not depend on each other.
    """

    def log_odds_of_yes(self, name: str) -> float:
        """Return the log prior odds that a column has a 1, nats."""
        raise NotImplementedError(f"{type(self).__name__} has no log_odds_of_yes: write it for {name!r}")

    def log_gain_of_yes(self, name: str, n: Floats, S: Any) -> Floats:
        """Return how much a 1 raises the log evidence of each column over a 0: (V,) nats."""
        raise NotImplementedError(f"{type(self).__name__} has no log_gain_of_yes: write it for {name!r}")

    def update_hyper(self, n: Floats, S: Any, rng: np.random.Generator, *, names: Sequence[str] | None = None) -> Self:
        """Draw each declared hyper-parameter given the others, see `Family`."""
        self.require_bound()
        family = self
        for name in self.hyper if names is None else names:
            if family.hyper[name] != YES_NO:
                family = super(ColumnChoices, family).update_hyper(n, S, rng, names=[name])
                continue
            log_odds = family.log_gain_of_yes(name, n, S) + family.log_odds_of_yes(name)
            chosen = np.log(rng.random(len(log_odds))) < -np.logaddexp(0.0, -log_odds)
            family = family.with_hyper(**{name: chosen.astype(np.float64)})
        return family

    def log_hyper_prior(self, names: Sequence[str]) -> float:
        """Return the log prior density of learned hyper-parameters, see `Family`."""
        choices = [name for name in names if self.hyper[name] == YES_NO]
        factors = super().log_hyper_prior([name for name in names if name not in choices])
        counts = {name: np.count_nonzero(getattr(self, name)) for name in choices}
        return factors + sum(count * self.log_odds_of_yes(name) for name, count in counts.items() if count)

    def factor_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the factors of a hyper-parameter, or of its choices: () or (V,)."""
        return (self.n_features_in_,) if self.hyper[name] == YES_NO else super().factor_shape(name)

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a factor over the value at binding; 0 and 1 of choices."""
        return (0.0, 1.0) if self.hyper[name] == YES_NO else super().hyper_bounds(name)

    def _round_to_modes(self, bounds, n, S):
        """Move the factors to their modes, then let each column choose; see `Family`."""
        factors = {name: ends for name, ends in bounds.items() if self.hyper[name] != YES_NO}
        family, moved, is_sound = super()._round_to_modes(factors, n, S) if factors else (self, 0.0, False)
        for name in bounds:
            if name in factors:
                continue
            chosen = family.log_gain_of_yes(name, n, S) + family.log_odds_of_yes(name) > 0.0
            if np.array_equal(chosen, getattr(family, name) > 0.0):
                continue
            family, moved, is_sound = family.with_hyper(**{name: chosen.astype(np.float64)}), np.inf, False
        return family, moved, is_sound
