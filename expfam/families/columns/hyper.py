"""Hyper-parameters of a table: those of its parts, named ``"part.name"``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.parts import PRESENCE
from expfam.families.columns.sums import PartSums

if TYPE_CHECKING:
    from typing_extensions import Self

    from expfam.protocols import Floats


class PartHyper(PartSums):
    """Base of `Columns`: hyper-parameters of the parts as its own."""

    def _families_named(self, name):
        if self.is_bound:
            return [part.family for part in self._parts if part.name == name]
        return [family for family, _, own in self._given() if own == name]

    def _hyper_names(self, attribute):
        """Return "part.name" of the hyper-parameters that an attribute of the parts' families lists."""
        named = self._named_families()
        return dict.fromkeys(f"{name}.{hyper}" for name, family in named for hyper in getattr(family, attribute))

    def _named_families(self):
        """Return name and family of each part, but not of those about missing cells."""
        if self.is_bound:
            return [(part.name, part.family) for part in self._parts if part.reading != PRESENCE]
        return [(name, family) for family, _, name in self._given()] if len(self.parts) else []

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the hyper-parameters of all parts, ``"part.name"``, that may be learned."""
        return dict.fromkeys(self._hyper_names("hyper"), "positive")

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters of all parts that estimators learn unless they were given."""
        return tuple(self._hyper_names("learned_by_default"))

    @property
    def worth_hyper(self) -> tuple[tuple[str, ...], ...]:  # type: ignore[override]
        """Return the hyper-parameters of each part that count the observations of its prior."""
        named = self._named_families()
        groups = ((f"{name}.{hyper}" for hyper in group) for name, family in named for group in family.worth_hyper)
        return tuple(dict.fromkeys(map(tuple, groups)))

    def __getattr__(self, name: str) -> Any:
        owner, dot, hyper = name.rpartition(".")
        families = self._families_named(owner) if dot else []
        if not families:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        values = [getattr(family, hyper) for family in families]
        return values[0] if len(values) == 1 or np.ndim(values[0]) == 0 else np.concatenate(values)

    def with_hyper(self, **values: Any) -> Self:
        """Return a copy with other hyper-parameters.

        ``"part.name"`` is a hyper-parameter of a part: a number, or one array for all columns of the part in the order
        of `getattr`. Call it as ``with_hyper(**{"poisson.rate": 2.0})``.

        Examples
        --------
        >>> from expfam import Columns, Poisson
        >>> family = Columns([(Poisson(rate=1.0), (0,))]).bind([[1.0], [4.0]])
        >>> getattr(family.with_hyper(**{"poisson.rate": 3.0}), "poisson.rate")
        3.0
        """
        own = {name: value for name, value in values.items() if "." not in name}
        other = super().with_hyper(**own)
        for name, value in values.items():
            if name not in own:
                other = other._with_part_hyper(name, value)
        return other

    def _with_part_hyper(self, name, value):
        owner, _, hyper = name.rpartition(".")
        families = self._families_named(owner)
        if not families:
            raise TypeError(f"columns has no part {owner!r}; its hyper-parameters are {list(self.hyper)}")
        sizes = [np.size(getattr(family, hyper, 0.0)) for family in families]
        value = np.asarray(value, dtype=np.float64) if np.ndim(value) and self.is_bound else value
        pieces = [value] * len(families)
        if len(families) > 1 and np.ndim(value):
            if np.size(value) != sum(sizes):
                raise ValueError(f"columns: {name} has {sum(sizes)} values in all; got {np.size(value)}")
            pieces = np.split(np.asarray(value, dtype=np.float64), np.cumsum(sizes)[:-1])
        new = iter([family.with_hyper(**{hyper: piece}) for family, piece in zip(families, pieces)])
        return self._replaced(owner, lambda family: next(new))

    def _replaced(self, owner, change):
        """Return a copy in which `change` was applied to the families of the parts of a name."""
        other = self._copy()
        if self.is_bound:
            parts = [part._replace(family=change(part.family)) if part.name == owner else part for part in self._parts]
        else:
            parts = [(change(family) if name == owner else family, columns) for family, columns, name in self._given()]
        other.__dict__["parts"] = tuple(parts)
        return other

    def with_factors(self, factors: Mapping[str, float]) -> Self:
        """Return a copy with `hyper_factors_`: each hyper-parameter over its value at binding."""
        other = super().with_factors(factors)
        for owner in dict.fromkeys(name.rpartition(".")[0] for name in factors):
            own = {key.rpartition(".")[2]: factor for key, factor in factors.items() if key.rpartition(".")[0] == owner}
            other = other._replaced(owner, lambda family, own=own: family.with_factors(own))
        return other

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned hyper-parameter, as factors of its value at binding."""
        owner, _, hyper = name.rpartition(".")
        low, high = zip(*(family.hyper_bounds(hyper) for family in self._families_named(owner)))
        return max(low), min(high)

    def prior_from_clusters(self, n: Floats, S: Floats) -> Self:
        """Return the family with the priors that its parts choose for given clusters."""
        parts = []
        for part, _, count, sums in self._each(n, S):
            used = count > 0.0
            family = part.family.prior_from_clusters(count[used], sums[used]) if used.any() else part.family
            parts.append(part._replace(family=family))
        return self._with_parts(parts)
