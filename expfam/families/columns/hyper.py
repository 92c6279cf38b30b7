"""Hyper-parameters of a table: those of its parts, named ``"part.name"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.families.columns.statistics import PartSums
from expfam.families.columns.table import PRESENCE
from expfam.families.slice_sampling import MOST_ROUNDS, SETTLED
from expfam.families.support import YES_NO

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.protocols import Floats


class PartHyper(PartSums):
    """Base of `Columns` with the hyper-parameters of the parts."""

    def _families_named(self, name):
        if "n_features_in_" in self.__dict__:  # bound: thousands of calls in a fit
            return [family for family, _, _, own in self.parts if own == name]
        return [family for family, _, own in self._given() if own == name]

    def _named_families(self):
        """Return name and family of each part, but not of those about missing cells."""
        if self.is_bound:
            return [(part.name, part.family) for part in self.parts if part.reading != PRESENCE]
        return [(name, family) for family, _, name in self._given()] if len(self.parts) else []

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the hyper-parameters of all parts, ``"part.name"``, that may be learned."""
        named = self._named_families()
        return {f"{name}.{hyper}": kind for name, family in named for hyper, kind in family.hyper.items()}

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters of all parts that estimators learn unless they were given."""
        named = self._named_families()
        return tuple(dict.fromkeys(f"{name}.{hyper}" for name, family in named for hyper in family.learned_by_default))

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
                raise ValueError(f"columns: {name} has {counted(sum(sizes), 'value')} in all; got {np.size(value)}")
            pieces = np.split(np.asarray(value, dtype=np.float64), np.cumsum(sizes)[:-1])
        new = [family.with_hyper(**{hyper: own}) for family, own in zip(families, pieces)]
        return self._with_families({owner: new})

    def _with_families(self, families):
        """Return a copy with other families of the parts of some names, in their order."""
        other, new = self._copy(), {owner: iter(own) for owner, own in families.items()}
        if "n_features_in_" in self.__dict__:
            parts = [part._replace(family=next(new[part.name])) if part.name in new else part for part in self.parts]
        else:
            parts = [(next(new[name]) if name in new else family, columns) for family, columns, name in self._given()]
        other.__dict__["parts"] = tuple(parts)
        return other

    def with_factors(self, factors: Mapping[str, float | Floats]) -> Self:
        """Return a copy with `hyper_factors_`: each hyper-parameter over its value at binding."""
        other = super().with_factors(factors)
        for owner in dict.fromkeys(name.rpartition(".")[0] for name in factors):
            own = {name: self._pieces(name, factor) for name, factor in factors.items() if _owner_of(name) == owner}
            new = [
                family.with_factors({name.rpartition(".")[2]: pieces[place] for name, pieces in own.items()})
                for place, family in enumerate(self._families_named(owner))
            ]
            other = other._with_families({owner: new})
        return other

    def _pieces(self, name, factor):
        """Return the factor of a hyper-parameter for each of the parts that have it."""
        families = self._families_named(_owner_of(name))
        if np.ndim(factor) == 0:
            return [factor] * len(families)
        return np.split(np.asarray(factor), np.cumsum([family.n_features_in_ for family in families])[:-1])

    def factor_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the learned factors: () or (columns of the parts,)."""
        owner, _, hyper = name.rpartition(".")
        shapes = [family.factor_shape(hyper) for family in self._families_named(owner)]
        return (sum(shape[0] for shape in shapes),) if shapes and all(shapes) else ()

    def update_hyper(self, n: Floats, S: Any, rng: np.random.Generator, *, names: Sequence[str] | None = None) -> Self:
        """Draw each declared hyper-parameter by one slice-sampling update, see `Family`.

        A part is updated alone, from its own sums, unless several parts of a name share one factor.
        """
        self.require_bound()
        family, chosen = self, list(self.hyper if names is None else names)
        sums = self._sums_by_name(n, S, [*map(_owner_of, chosen)])
        learned: dict[str, Any] = {}  # parts that were updated alone and are not yet in `family`: one copy has them all

        def update(part, count, own, hypers):
            return part.update_hyper(count, own, rng, names=hypers)

        for (owner, is_shared), own in groupby(chosen, lambda name: (_owner_of(name), self._is_shared(name))):
            if is_shared or owner in learned:
                family, learned = family._with_own_factors(learned), {}
            if not is_shared:
                learned[owner] = family._learned(list(own), sums[owner], update)
                continue
            for name in own:
                family = super(PartHyper, family).update_hyper(n, S, rng, names=[name])
        return family._with_own_factors(learned)

    def fit_hyper(self, n: Floats, S: Any, *, names: Sequence[str] | None = None) -> Self:
        """Move each declared hyper-parameter to the mode of its log target, see `Family`.

        A part is fitted alone, from its own sums, unless several parts of a name share one factor.
        """
        self.require_bound()
        names = list(self.hyper if names is None else names)
        choices = list(filter(self._is_choice, names))
        by_column = [name for name in names if self._is_by_column(name) and self.factor_shape(name)]
        whole = [name for name in names if name not in by_column and name not in choices]
        if any(map(self._is_shared, whole)):
            family = self._with_shared_modes(whole, choices, n, S)
        else:
            family = self._with_modes([*whole, *choices], n, S) if whole or choices else self
        return family._with_parts_at_modes(by_column, n, S)

    def _with_shared_modes(self, whole, choices, n, S):
        """Return a copy with factors that parts share, and choices of columns given them, at modes."""
        family = self
        for _ in range(MOST_ROUNDS):
            family = super(PartHyper, family).fit_hyper(n, S, names=whole)
            before = [getattr(family, name) for name in choices]
            family = family._with_parts_at_modes(choices, n, S)
            if all(np.array_equal(old, getattr(family, name)) for old, name in zip(before, choices)):
                break
        return family

    def _with_parts_at_modes(self, names, n, S):
        """Return a copy whose parts have moved these hyper-parameters to modes."""
        family, sums = self, self._sums_by_name(n, S, [*map(_owner_of, names)])
        for name in names:
            owner = _owner_of(name)
            learned = family._learned([name], sums[owner], lambda part, *own: part.fit_hyper(*own[:2], names=own[2]))
            family = family._with_own_factors({owner: learned})
        return family

    def log_hyper_prior(self, names: Sequence[str]) -> float:
        """Return the log prior density of learned hyper-parameters, see `Family`."""
        choices = list(filter(self._is_choice, names))
        factors = super().log_hyper_prior([name for name in names if name not in choices])
        parts = ((part, name) for name in choices for part in self._families_named(_owner_of(name)))
        return factors + sum(part.log_hyper_prior([_hyper_of(name)]) for part, name in parts)

    def log_odds_of_yes(self, name: str) -> float:
        """Return the log prior odds that a column has a 1, nats, see `Family`."""
        return float(self._families_named(_owner_of(name))[0].log_odds_of_yes(_hyper_of(name)))

    def _is_choice(self, name):
        """Return whether a hyper-parameter is a yes or no for each column."""
        return self._families_named(_owner_of(name))[0].hyper[_hyper_of(name)] == YES_NO

    def _is_by_column(self, name):
        """Return whether columns may have factors of their own of a hyper-parameter."""
        return _hyper_of(name) in self._families_named(_owner_of(name))[0].hyper_by_column

    def _is_shared(self, name):
        """Return whether several parts have one factor of a hyper-parameter."""
        return len(self._families_named(_owner_of(name))) > 1 and not self.factor_shape(name)

    def _with_modes(self, names, n, S):
        """Return a copy whose parts have their hyper-parameters at modes; no two parts share one.

        The rounds are those of `Family.fit_hyper`: they go on in all parts until none moves far.
        """
        own = self._sums_by_name(n, S, [*map(_owner_of, names)])
        hypers = {owner: [_hyper_of(name) for name in names if _owner_of(name) == owner] for owner in own}
        found = {owner: self._families_named(owner)[0] for owner in own}
        bounds = {owner: part._log_bounds(hypers[owner]) for owner, part in found.items()}
        is_sound = {}
        for _ in range(MOST_ROUNDS if len(names) > 1 else 1):
            moves = []
            for owner, ((count, sums), *_) in own.items():
                found[owner], moved, is_sound[owner] = found[owner]._round_to_modes(bounds[owner], count, sums)
                moves.append(moved)
            if max(moves) < SETTLED:
                break
        family = self._with_own_factors({owner: (hypers[owner], [part]) for owner, part in found.items()})
        return family if is_sound[_owner_of(names[-1])] or family._has_finite_evidence(n, S) else self

    def _learned(self, names, own, learn):
        """Return hyper-parameters, and the parts of a name that have learned them from their sums.

        Several parts learn one hyper-parameter after the other, a part alone all in one call.
        """
        hypers, families = list(map(_hyper_of, names)), self._families_named(_owner_of(names[0]))
        for some in [hypers] if len(own) == 1 else [[hyper] for hyper in hypers]:
            families = [learn(family, *sums, some) for family, sums in zip(families, own)]
        return hypers, families

    def _with_own_factors(self, learned):
        """Return a copy with other families of the parts of some names, and their factors."""
        other = self._with_families({owner: families for owner, (_, families) in learned.items()})
        factors = dict(self.__dict__.get("hyper_factors_", {}))
        for owner, (hypers, families) in learned.items():
            for hyper in hypers:
                if families[0].hyper[hyper] == YES_NO:
                    continue
                own = [family.hyper_factors_[hyper] for family in families]
                factors[f"{owner}.{hyper}"] = np.concatenate(own) if np.ndim(own[0]) else own[0]
        other.__dict__["hyper_factors_"] = factors
        return other

    def _evidence_along(self, name: str, n: Floats, S: Any) -> Callable[[float], float]:
        """Return the log evidence of the parts that have a hyper-parameter, up to a constant."""
        owner, _, hyper = name.rpartition(".")
        own = zip(self._families_named(owner), self._sums_by_name(n, S, [owner])[owner])
        parts = [_evidence_of(family, hyper, *sums) for family, sums in own]
        return parts[0] if len(parts) == 1 else lambda t: sum(evidence(t) for evidence in parts)

    def _at_factor(self, name, t):
        owner, _, hyper = name.rpartition(".")
        families = self._families_named(owner)
        pieces = [t] * len(families) if np.ndim(t) == 0 else self._pieces(name, t)
        new = [family._at_factor(hyper, own) for family, own in zip(families, pieces)]
        return self._with_own_factors({owner: ([hyper], new)})

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned hyper-parameter, as factors of its value at binding."""
        owner, _, hyper = name.rpartition(".")
        low, high = zip(*(family.hyper_bounds(hyper) for family in self._families_named(owner)))
        return max(low), min(high)

    def alike_columns(self) -> npt.NDArray[np.bool_]:
        """Return which columns tell nothing about clusters: (V,) bool, in all parts that read them."""
        alike = np.ones(self.n_features_in_, dtype=bool)
        for part in self._parts:
            own = part.family.alike_columns()
            alike[list(part.columns)] &= own if part.reading != PRESENCE else False
        return alike

    def for_more_rows(self) -> Self:
        """Return the family with the parts that are meant for the first of many rows."""
        return self._with_parts([part._replace(family=part.family.for_more_rows()) for part in self._parts])

    def prior_from_clusters(self, n: Floats, S: Floats) -> Self:
        """Return the family with the priors that its parts choose for given clusters."""
        parts = []
        for part, _, count, sums in self._each(n, S):
            used = count > 0.0
            family = part.family.prior_from_clusters(count[used], sums[used]) if used.any() else part.family
            parts.append(part._replace(family=family))
        return self._with_parts(parts)


def _evidence_of(family, hyper, n, S):
    """Return the log evidence of a part's clusters along the log of a factor, up to a constant."""
    evidence = family._evidence_along(hyper, n, S)
    return evidence or (lambda t: family._at_factor(hyper, t).total_log_marginal(n, S))


def _owner_of(name):
    """Return the name of the part that has a hyper-parameter."""
    return name.rpartition(".")[0]


def _hyper_of(name):
    """Return the name that a hyper-parameter has in its part."""
    return name.rpartition(".")[2]
