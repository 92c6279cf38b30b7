"""Predictive densities of rows that lack cells, of Gaussians with dependent columns.

The predictive law of a row is a multivariate t law, or a normal law, and so is that of some of its cells: their part of
location and scale, with the same degrees of freedom. Such rows can be scored; nothing is learned from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from expfam.families.base import Family
from expfam.families.gaussian.columns import LOG_2PI, factor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expfam.protocols import Floats


class PredictiveLaw(NamedTuple):
    """Predictive law of a row in each cluster: a multivariate t law.

    Attributes
    ----------
    dof : (K,) float64
        Degrees of freedom; infinite for a normal law.
    mean : (K, d) float64
        Location, in the units of the data.
    scale : (K, d, d) float64
        Scale matrix; the covariance of a normal law.
    """

    dof: Floats
    mean: Floats
    scale: Floats


def with_holes(family: Family) -> Family | None:
    """Return a bound family that scores rows which lack cells, or None for others.

    Parameters
    ----------
    family : Family
        Bound. Families with a method ``predictive_law(n, S)``, which returns a `PredictiveLaw`, have such a form.

    Returns
    -------
    Family or None
        Of the same statistics and hyper-parameters. Densities are whole: its log-base is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Gaussian
    >>> from expfam.families.gaussian.holes import with_holes
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> family = Gaussian().bind(X)
    >>> n, S = np.array([50.0]), family.sufficient_statistics(X).sum(axis=0, keepdims=True)
    >>> with_holes(family).log_predictive(np.array([[0.5, np.nan]]), n, S).shape
    (1, 1)
    """
    if not hasattr(family, "predictive_law"):
        return None
    other: Family = object.__new__(_kind_with_holes(type(family)))
    other.__dict__.update(family.__dict__)
    return other


@lru_cache(maxsize=64)
def _kind_with_holes(kind: Any) -> type:
    return type(f"{kind.__name__}WithHoles", (_WithHoles, kind), {"__doc__": _WithHoles.__doc__, "name": kind.name})


class _WithHoles(Family):
    """A Gaussian family of the same law, whose rows may lack cells."""

    allows_missing = True
    components = Family.components  # those of the family itself read whole rows

    def log_base(self, X: Any) -> Floats:
        """Return 0 for each row: the densities of `log_predictive` are whole."""
        return np.zeros(X.shape[0])

    def log_predictive(self, X: Any, n: Floats, S: Floats) -> Floats:
        """Return the log density of the cells of each row given each cluster: (N, K) nats."""
        law = self.predictive_law(np.asarray(n, dtype=np.float64), np.asarray(S, dtype=np.float64))  # type: ignore[attr-defined]
        found = np.empty((X.shape[0], len(law.dof)))
        for rows, cells in patterns(X):
            mean, scale = law.mean[:, cells], law.scale[:, cells[:, None], cells]
            found[rows] = log_student(np.asarray(X[rows][:, cells], dtype=np.float64), law.dof, mean, scale, self.name)
        return found


def patterns(X: npt.NDArray[Any]) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Yield the rows that have the same cells, and the numbers of these cells.

    Parameters
    ----------
    X : (N, V) ndarray
        NaN where a cell is missing.

    Yields
    ------
    rows, cells : ndarray of int

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.gaussian.holes import patterns
    >>> X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan]])
    >>> [(rows.tolist(), cells.tolist()) for rows, cells in patterns(X)]
    [([0, 2], [0]), ([1], [0, 1])]
    """
    has = ~np.isnan(X)
    kinds, of_row = np.unique(has, axis=0, return_inverse=True)
    for number, kind in enumerate(kinds):
        yield np.flatnonzero(of_row.ravel() == number), np.flatnonzero(kind)


def log_student(X: Floats, dof: Floats, mean: Floats, scale: Floats, name: str) -> Floats:
    """Return the log density of rows under multivariate t laws, or normal laws.

    Parameters
    ----------
    X : (N, q) float64
    dof : (K,) float64
        Infinite for a normal law.
    mean : (K, q) float64
    scale : (K, q, q) float64
        Positive definite.
    name : str
        Name of the family, for messages.

    Returns
    -------
    (N, K) float64 ndarray
        Nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.gaussian.holes import log_student
    >>> density = log_student(np.zeros((1, 1)), np.array([np.inf]), np.zeros((1, 1)), np.ones((1, 1, 1)), "gaussian")
    >>> float(np.round(density[0, 0], 3))
    -0.919
    """
    q, found = X.shape[1], np.zeros((X.shape[0], len(dof)))
    if not q:
        return found
    for k, C in enumerate(factor(scale, name)):
        squares = (solve_triangular(C, (X - mean[k]).T, lower=True, check_finite=False) ** 2).sum(axis=0)
        found[:, k] = -np.log(np.diag(C)).sum()
        if np.isinf(dof[k]):
            found[:, k] -= 0.5 * (q * LOG_2PI + squares)
            continue
        found[:, k] += gammaln(0.5 * (dof[k] + q)) - gammaln(0.5 * dof[k]) - 0.5 * q * np.log(np.pi * dof[k])
        found[:, k] -= 0.5 * (dof[k] + q) * np.log1p(squares / dof[k])
    return found
