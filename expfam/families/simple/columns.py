"""Shared parts of the families with independent columns: checks, defaults and draws."""

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.support import check_hyper


def _check_positive(family, names=None):
    for name in names or family.get_params():
        check_hyper(family.name, name, getattr(family, name))


def _resolved(family, X, **auto):
    """Return hyper-parameters of a family as numbers or arrays.

    The value in `auto` replaces ``"auto"``. Sequences become arrays, which must have one value for each column of X.
    """
    out = {}
    for name, default in auto.items():
        value = getattr(family, name)
        value = default if isinstance(value, str) else np.asarray(value, dtype=np.float64)
        if value.ndim and value.shape != (X.shape[1],):
            raise DataError(
                f"{family.name}: {name} has {counted(value.shape[0], 'value')} for data of "
                f"{counted(X.shape[1], 'column')}"
            )
        out[name] = value if value.ndim else float(value)
    return out


def _draw_log_gamma(shape, rng):
    """Draw the logs of Gamma(shape, 1) variates.

    log G(a) = log G(a + 1) + log(U) / a is finite for shapes down to 1e-300.
    """
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential(np.shape(shape)) / shape
