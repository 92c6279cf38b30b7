"""Families that a role may name, and the family of each role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.families.counts.categorical import Categorical
from expfam.families.counts.poisson import Poisson
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

_CLASSES = (Categorical, Bernoulli, Poisson, NegativeBinomial, Geometric, DiagonalGaussian, LogNormal, Exponential)
FAMILIES: dict[str, Any] = {family.name: family for family in _CLASSES}
FAMILY_OF_ROLE = {"binary": "categorical", "category": "categorical", "count": "", "positive": "lognormal"}
FAMILY_OF_ROLE |= {"real": "gaussian_diag", "numeric": "gaussian_diag", "dropped": ""}
_ROLE_OF_SUPPORT = {"categories": "category", "binary": "binary", "counts": "count", "nonnegative": "positive"}


def family_of(role: ColumnRole) -> Any:
    """Return the unbound family that a role names, with its settings."""
    kind = FAMILIES[role.family]
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


def role_of(family: Family) -> str:
    """Return the role of the values that a family takes."""
    return _ROLE_OF_SUPPORT.get(family.support, "real")
