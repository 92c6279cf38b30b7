"""The standard error of a score: of a mean over rows, or over parts of groups and documents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataError


def error_of_mean(sums: npt.ArrayLike, counts: npt.ArrayLike | None = None, *, unit: str = "row") -> float:
    """Return the standard error of sum(sums) / sum(counts), where units are drawn independently.

    Parameters
    ----------
    sums : (U,) array_like of float
        Sum over the parts of each unit: of the scores of the rows of a group, or of the tokens of a document.
    counts : (U,) array_like, optional
        Parts of each unit; 1 where not given.
    unit : str
        What a unit is called in the error.

    Raises
    ------
    DataError
        There are fewer than two units.

    Notes
    -----
    The mean is a ratio of two sums, whose variance is that of the residuals sums - mean * counts to first order
    (Cochran 1977, "Sampling techniques", chapter 6). With counts of 1 it is that of a mean.

    Examples
    --------
    >>> from expfam.evaluation.mean_error import error_of_mean
    >>> error_of_mean([1.0, 3.0])
    1.0
    """
    totals = np.asarray(sums, dtype=np.float64)
    parts = np.ones(len(totals)) if counts is None else np.asarray(counts, dtype=np.float64)
    n = len(totals)
    if n < 2:
        raise DataError(f"a standard error needs at least two {unit}s; there is {counted(n, unit)}")
    residuals = totals - totals.sum() / parts.sum() * parts
    return float(np.sqrt(n / (n - 1.0) * (residuals @ residuals)) / parts.sum())
