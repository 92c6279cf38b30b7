"""Rows that count as often as their weights say, for methods of a family that read all data.

A weight is a multiplicity: a row of weight 3 stands for three rows, and a row of weight 0 for none. What a family
learns from all data must therefore be what it learns from the rows repeated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import DataError
from expfam.families.support import check_unmasked, read_only

if TYPE_CHECKING:
    from expfam.protocols import Floats

_MOST_WEIGHT = 2.0**53


def counted_rows(method: Callable[..., Any], X: Any, weight: npt.ArrayLike | None) -> tuple[Any, dict[str, Any]]:
    """Return the rows that count, and their weights as a keyword of a method.

    Parameters
    ----------
    method : callable
        The keyword is empty if it has no parameter `weight`, or if all weights are 1. Rows of weight 0 are left out
        in any case.
    X : (N, V) ndarray or CSR, validated
    weight : (N,) array_like of non-negative float, or None
        None and weights of 1 are the same.

    Returns
    -------
    rows : (n, V) ndarray or CSR
    given : dict
        Empty, or the float64 weights by the name "weight".

    Raises
    ------
    DataError
        All weights are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.weighing import counted_rows
    >>> X = np.array([[1.0], [2.0], [900.0]])
    >>> rows, given = counted_rows(lambda X, weight: None, X, [1.0, 3.0, 0.0])
    >>> rows.ravel().tolist(), given["weight"].tolist()
    ([1.0, 2.0], [1.0, 3.0])
    """
    if weight is None:
        return X, {}
    weight = np.asarray(weight, dtype=np.float64)
    is_counted = weight > 0
    if not is_counted.all():
        if not is_counted.any():
            raise DataError("the weights of all rows with a value here are zero: leave out such columns")
        X, weight = read_only(X[is_counted]), weight[is_counted]
    return X, {} if (weight == 1.0).all() or not takes_weight(method) else {"weight": weight}


def takes_weight(method: Callable[..., Any]) -> bool:
    """Tell whether a method has a parameter `weight`.

    Examples
    --------
    >>> from expfam import Poisson
    >>> from expfam.families.weighing import takes_weight
    >>> takes_weight(Poisson().bind), takes_weight(Poisson().validate)
    (True, False)
    """
    return "weight" in inspect.signature(method).parameters


def total_weight(X: Any, weight: Floats | None) -> float:
    """Return the sum of the weights of the rows; without weights it is their number.

    The bits are the same in any order of the rows.
    """
    return float(X.shape[0]) if weight is None else float(np.sort(weight).sum())


def weight_shares(weight: Floats) -> tuple[Floats, float]:
    """Return weights divided by a power of two that makes them at most 1, and this power.

    Terms that are multiplied by them have the bounds of the terms themselves, and nothing is rounded.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.weighing import weight_shares
    >>> weight_shares(np.array([3.0, 1.0]))
    (array([0.75, 0.25]), 4.0)
    """
    exponent = int(np.frexp(weight.max())[1])
    return np.ldexp(weight, -exponent), float(np.ldexp(1.0, exponent))


def checked_weight(
    weight: npt.ArrayLike, n_rows: int, *, first_row: int = 0, is_part: bool = False
) -> npt.NDArray[np.float64]:
    """Return the weights of rows as (n_rows,) float64.

    Parameters
    ----------
    weight : (n_rows,) array_like
    n_rows : int
    first_row : int
        Number of the first row, which messages count from.
    is_part : bool
        Whether there are other rows: then all weights may be zero.

    Raises
    ------
    DataError
        The weights have another shape, are negative, not finite, all zero, or too large or small to be summed.

    Examples
    --------
    >>> from expfam.families.weighing import checked_weight
    >>> checked_weight([1, 2], 2)
    array([1., 2.])
    """
    check_unmasked(weight, owner="sample_weight")
    weight = np.ascontiguousarray(weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise DataError(f"sample_weight must have shape ({n_rows},); got {weight.shape}")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise DataError(
            f"sample_weight must be finite and non-negative; row {first_row + bad[0]} holds {weight[bad[0]]}"
        )
    if not weight.any():
        if is_part:
            return weight
        raise DataError("sample_weight is zero in all rows: at least one must count")
    if not weight.max() * n_rows < _MOST_WEIGHT or weight.max() < 1 / _MOST_WEIGHT:
        row = int(np.argmax(weight))
        raise DataError(
            f"sample_weight must lie within 2**-53 and 2**53 divided by the number of rows; row {first_row + row} holds"
            f" {weight[row]}, the largest: multiply or divide all weights by one number"
        )
    return weight
