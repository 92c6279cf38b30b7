"""Data with columns or holes: the family that suits them, and their encoded matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError, DataTypeError
from expfam.families.columns.family import Columns
from expfam.families.foreign import OF_TEXTS
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.trials.bernoulli import Bernoulli
from expfam.fitted.scoring import array_has_holes

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.frames.frame import Frame


def family_of_frame(frame: Frame) -> Family | None:
    """Return the family of a frame by roles; None if all columns are floats without holes."""
    return None if frame.is_plain() else Columns.from_frame(frame)


def family_of_array(X: Any) -> Family:
    """Return the family of data without columns of their own: an array, CSR rows, or lists.

    Truth values are Bernoulli columns. Other columns are Gaussian, and those of an array with holes leave them out.
    """
    if _holds_truth_values(X):
        return Bernoulli()
    if array_has_holes(X):
        return Columns([(DiagonalGaussian(), tuple(range(np.shape(X)[1])))])
    return DiagonalGaussian()


def _holds_truth_values(X):
    if sparse.issparse(X):
        return X.dtype.kind == "b"
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, which are refused later
        return False
    return values.dtype.kind == "b" and values.ndim == 2


def check_numbers(frame: Frame, *, owner: str) -> None:
    """Raise DataTypeError for the first column of a frame that holds text."""
    for name in frame.names:
        column = frame.column(name)
        if column.levels and any(isinstance(level, str) for level in column.levels):
            row = int(np.argmin(column.missing))
            raise DataTypeError(
                f"{owner}: column {name!r} holds text (row {row}: {column.levels[column.values[row]]!r}), and numbers"
                f" are needed: leave it out, X = X.drop(columns=[{name!r}]); where it holds documents, count their"
                f" words, {OF_TEXTS.replace('(X)', f'(X[{name!r}])')}; or take a Mixture without a family, which takes"
                " columns of several kinds"
            )


def require_rows(frame: Frame, *, owner: str) -> None:
    """Raise DataError for a frame without rows."""
    if not frame.n_rows:
        raise DataError(f"{owner}: the frame has no rows (0 sample(s)), and at least one is needed")
