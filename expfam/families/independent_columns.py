"""Shared parts of the families with independent columns: checks, defaults and draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.support import check_hyper

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.families.base import Family


def check_positive(family: Family, names: Iterable[str] | None = None) -> None:
    """Raise an error that names the family unless its hyper-parameters are positive."""
    for name in names or family.get_params():
        check_hyper(family.name, name, getattr(family, name))


def resolved(family: Family, n_columns: int, **auto: Any) -> dict[str, Any]:
    """Return hyper-parameters of a family as numbers or arrays.

    The value in `auto` replaces ``"auto"``. Sequences become arrays, which must have one value for each of `n_columns`.
    """
    out = {}
    for name, default in auto.items():
        value = getattr(family, name)
        value = default if isinstance(value, str) else np.asarray(value, dtype=np.float64)
        if value.ndim and value.shape != (n_columns,):
            raise DataError(
                f"{family.name}: {name} has {counted(value.shape[0], 'value')} for data of "
                f"{counted(n_columns, 'column')}"
            )
        out[name] = value if value.ndim else float(value)
    return out


def draw_log_gamma(shape: Any, rng: np.random.Generator) -> Any:
    """Draw the logs of Gamma(shape, 1) variates.

    log G(a) = log G(a + 1) + log(U) / a is finite for shapes down to 1e-300.
    """
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential(np.shape(shape)) / shape
