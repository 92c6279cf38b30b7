"""An unknown number of topics or clusters on a Dask cluster: places and their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.model.finite_process import default_n_places
from expfam.params import Integer, check_value

_LEFT = 1e-6  # least weight of all that a start has not seen


def check_limit(estimator: Any, line: Callable[..., str]) -> None:
    """Refuse a limit beside a given number, and what is no limit.

    Parameters
    ----------
    estimator : TopicModel or GroupedMixture
    line : callable
        ``line(**changes)`` is the text that makes the estimator with some settings changed.
    """
    given, limit = estimator.n_components, estimator.max_components
    if given is not None and limit is not None:
        raise CapabilityError(
            f"max_components={limit} is the limit of an unknown number, and n_components={given} is given: write"
            f" {line(max_components=None)}, or {line(n_components=None)}"
        )
    check_value(f"{type(estimator).__name__}: max_components", limit, (None, Integer(2)))


def n_places(limit: int | None, n_found: int, usual: float, line: Callable[..., str]) -> int:
    """Return the most topics or clusters that there can be.

    Parameters
    ----------
    limit : int or None
        As it was given.
    n_found : int
        Those of the start; 0 where it has none.
    usual : float
        How many a start would have.
    line : callable
        As of `check_limit`.

    Examples
    --------
    >>> from expfam.dask.unknown_numbers import n_places
    >>> n_places(None, 3, 20.0, line=repr), n_places(None, 40, 20.0, line=repr), n_places(70, 40, 20.0, line=repr)
    (50, 160, 70)
    """
    L = default_n_places(n_found or usual) if limit is None else limit
    if n_found > L:
        raise ValueError(
            f"max_components={L} is less than the {counted(n_found, 'cluster')} of the start: write"
            f" {line(max_components=4 * n_found)}"
        )
    return L


def first_shares(beta: npt.NDArray[np.float64], L: int) -> npt.NDArray[np.float64]:
    """Return weights of L places that sum to 1, the first ones in proportion to `beta`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.dask.unknown_numbers import first_shares
    >>> first_shares(np.array([0.6, 0.2]), 4).round(3).tolist()
    [0.6, 0.2, 0.1, 0.1]
    """
    n_new = L - len(beta)
    if not n_new:
        return beta / beta.sum()
    left = max(_LEFT, 1.0 - beta.sum())
    return np.append(beta * ((1.0 - left) / max(beta.sum(), _LEFT)), np.full(n_new, left / n_new))
