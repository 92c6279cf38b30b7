"""Data with columns or holes: the family that suits them, and their encoded matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError, DataTypeError
from expfam.families.columns.family import Columns
from expfam.families.counts.multinomial import Multinomial
from expfam.families.foreign import OF_TEXTS
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.trials.bernoulli import Bernoulli
from expfam.fitted.scoring import array_has_holes
from expfam.fitting.whole_numbers import columns_of_numbers

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.frames.frame import Frame


def family_of_frame(frame: Frame) -> Family | None:
    """Return the family of a frame by roles; None if it holds real columns alone."""
    return None if holds_real_columns(frame) else Columns.from_frame(frame)


def holds_real_columns(frame: Frame) -> bool:
    """Return whether all columns are floats without holes, and not all of them 0 and 1 alone."""
    return frame.is_plain() and not _is_binary_frame(frame)


def _is_binary_frame(frame):
    """Return whether several columns of floats hold 0 and 1 alone, as an array of them."""
    if len(frame.names) < 2:
        return False
    found = set()
    for name in frame.names:
        values = frame.column(name).values
        if not ((values == 0) | (values == 1)).all():
            return False
        found |= {values.min(), values.max()}
    return len(found) > 1


def family_of_array(X: Any, *, owner: str) -> Family:
    """Return the family of data without columns of their own: an array, sparse rows, or lists.

    Booleans, and several columns of 0 and 1 alone, are Bernoulli columns. Sparse rows of counts are multinomial.
    Other columns are Gaussian. Those of an array with holes leave them out, whatever the family, and have the roles of
    a frame of the array if some cells are fractions.

    Raises
    ------
    DataTypeError
        Sparse rows hold fractions or negative numbers.
    """
    if sparse.issparse(X):
        return _family_of_sparse(X, owner)
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, which are refused later
        return DiagonalGaussian()
    has_holes = array_has_holes(X)
    if has_holes and values.dtype.kind == "O":
        values = values.astype(np.float64)
    is_binary = values.ndim == 2 and _is_binary(values, has_holes=has_holes)
    family = Bernoulli() if is_binary else DiagonalGaussian()
    if not has_holes:
        return family
    by_roles = None if is_binary else columns_of_numbers(values)
    return Columns([(family, tuple(range(values.shape[1])))]) if by_roles is None else by_roles


def _is_binary(values, *, has_holes):
    """Return whether an array holds booleans, or several columns of 0, 1 and holes alone.

    One column of numbers is left to the Gaussian: probabilities of one question tell no clusters apart.
    """
    if values.dtype.kind == "b":
        return True
    if values.dtype.kind not in "iuf" or not values.size or values.shape[1] < 2:
        return False
    if not (values[0, 0] in (0, 1) or np.isnan(values[0, 0])):
        return False
    is_one = values == 1
    is_known = is_one | (values == 0)
    is_whole = is_known | np.isnan(values) if has_holes else is_known
    return bool(is_whole.all() and is_one.any() and not is_one[is_known].all())


def _family_of_sparse(X, owner):
    if X.dtype.kind == "b":
        return Bernoulli()
    fraction = first_fraction(X)
    if fraction is None:
        return Multinomial()
    raise DataTypeError(
        f"{owner}: the sparse rows hold {fraction:.6g}, which is no count: give counts of words in place of weights"
        f" such as tf-idf, {owner}().fit(counts); or a dense array, {owner}().fit(X.toarray()); or, for rows of length"
        f" 1, write {owner}('von_mises_fisher').fit(X)"
    )


def first_fraction(X: Any) -> float | None:
    """Return the first cell of sparse rows that is no count; None for other data."""
    if not sparse.issparse(X):
        return None
    cells = X.tocsr().data
    with np.errstate(invalid="ignore"):
        bad = ~((cells >= 0) & (cells == np.floor(cells)) & (cells < np.inf))
    return float(cells[bad][0]) if bad.any() else None


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
    """Raise DataError for a frame without columns or rows."""
    if not frame.names:
        raise DataError(f"{owner}: the frame has no columns (0 feature(s)), and at least one is needed")
    if not frame.n_rows:
        raise DataError(f"{owner}: the frame has no rows (0 sample(s)), and at least one is needed")
