"""All kinds of columns, by role, by family and by the words that users write.

The kinds of this package stand in one table; installed distributions add theirs as entry points of the group
``expfam.column_kinds``, whose values are classes, ``module:Class``. All are asked in the same way.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from expfam.errors import PluginError
from expfam.families.columns.kinds.angle import Angle
from expfam.families.columns.kinds.contract import ColumnKind
from expfam.families.columns.kinds.levels import Binary, Category
from expfam.families.columns.kinds.numbers import Count, Numeric, Positive, Real
from expfam.families.counts.categorical import Categorical
from expfam.families.counts.poisson import Poisson
from expfam.families.directions.von_mises import VonMises
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.geometric import Geometric
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.families.waiting.exponential import Exponential
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.families.columns.roles import ColumnRole

GROUP = "expfam.column_kinds"
DROPPED = "dropped"
# The order in which columns are offered to kinds, after those of other distributions; `Real` takes all that is left.
_OWN: tuple[type[ColumnKind], ...] = (Binary, Category, Count, Positive, Angle, Real, Numeric)
_CLASSES = (Categorical, Bernoulli, Poisson, NegativeBinomial, Geometric, DiagonalGaussian, LogNormal, Exponential)
_FAMILIES: dict[str, Any] = {family.name: family for family in (*_CLASSES, VonMises)}
_ROLE_OF_SUPPORT = {"categories": "category", "binary": "binary", "counts": "count", "nonnegative": "positive"}


@cache
def kinds() -> dict[str, ColumnKind]:
    """Return all kinds by role, in the order in which columns are offered to them."""
    own = {kind.name: kind() for kind in _OWN}
    found: dict[str, ColumnKind] = {}
    for kind, entry in map(_loaded, metadata.entry_points(group=GROUP)):
        if kind.name in own or kind.name in found or kind.name == DROPPED:
            raise PluginError(f"kind of column {kind.name!r} of {entry.value} has the name of another kind: rename it")
        found[kind.name] = kind
    return found | own


def _loaded(entry):
    """Return the kind that an entry point names, and the entry point."""
    try:
        kind = entry.load()
    except Exception as error:  # a foreign module may raise anything; the message must name its origin
        raise PluginError(
            f"kind of column {entry.name!r} of {entry.value} cannot be loaded: {type(error).__name__}: {error};"
            " the traceback above says where"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, ColumnKind) and isinstance(getattr(kind, "name", None), str)):
        raise PluginError(f"kind of column {entry.name!r}: {entry.value} must be a class of ColumnKind with a name")
    return kind(), entry


@cache
def families() -> dict[str, Any]:
    """Return the classes of the families of all kinds, by name."""
    found = dict(_FAMILIES)
    for kind in kinds().values():
        for name in kind.families:
            if name not in found:
                entries = metadata.entry_points(group="expfam.families", name=name)
                if not entries:
                    raise PluginError(f"kind of column {kind.name!r}: no installed family is called {name!r}")
                found[name] = next(iter(entries)).load()
    return found


def role_names() -> list[str]:
    """Return all roles, "dropped" last."""
    return [*kinds(), DROPPED]


def kind_of(role: str) -> ColumnKind:
    """Return the kind of the columns of a role.

    Raises
    ------
    ValueError
        No installed kind has this role.
    """
    found = kinds().get(role)
    if found is None:
        known = ", ".join(role_names())
        raise ValueError(f"roles: there is no role {role!r}{did_you_mean(role, role_names())} (known: {known})")
    return found


def kind_of_family(family: Family) -> ColumnKind:
    """Return the kind of the columns of a family: by its name, or by the values that it takes."""
    for kind in kinds().values():
        if family.name in kind.families and isinstance(family, families()[family.name]):
            return kind
    return kinds()[_ROLE_OF_SUPPORT.get(family.support, Real.name)]


def words() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return what users may write for a kind: the role and its settings, by word."""
    found: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in kinds()}
    for kind in kinds().values():
        found |= {word: (kind.name, dict(settings)) for word, settings in kind.words.items()}
    return found


def family_of(role: ColumnRole) -> Any:
    """Return the unbound family that a role names, with its settings."""
    kind = families()[role.family]
    known = list(kind().get_params())
    for name in role.settings:
        if name not in known:
            raise ValueError(
                f"roles: column {role.column!r}: family {role.family!r} has no setting"
                f" {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"
            )
    try:
        return kind(**role.settings)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"roles: column {role.column!r}: {error}") from error
