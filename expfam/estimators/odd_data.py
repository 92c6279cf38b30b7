"""Data whose shape or type is no matrix of real numbers: the error, with the line to type.

The words of scikit-learn stand in the messages, because users search for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError


def refuse_odd_data(X: Any, *, owner: str) -> None:
    """Raise an error for data of which no matrix of real numbers can be made as they are.

    Parameters
    ----------
    X : object
        What the user gave, no frame.
    owner : str
        Named in the message.

    Raises
    ------
    DataError
        The data have one dimension or more than two, rows of different lengths, or integers that no float holds.
    DataTypeError
        They are complex, structured or of bare bytes, a `numpy.matrix`, or an object that holds no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.estimators.odd_data import refuse_odd_data
    >>> refuse_odd_data(np.zeros(3), owner="Mixture")
    Traceback (most recent call last):
        ...
    expfam.errors.DataError: Mixture: Expected 2D array, got 1D array instead: the data have the shape (3,). Reshape \
your data: write X = numpy.reshape(X, (-1, 1)) where they are one column, or X = numpy.reshape(X, (1, -1)) where they \
are one row
    """
    if isinstance(X, np.matrix):
        raise DataTypeError(f"{owner}: np.matrix is not supported: write X = numpy.asarray(X)")
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "c":
        _refuse_complex(X, owner)
    if kind == "V":
        _refuse_void(X, owner)
    if sparse.issparse(X) or (kind in ("b", "i", "u", "f") and getattr(X, "ndim", 0) == 2):
        return
    _refuse_values(X, owner)


def _refuse_complex(X, owner):
    sides = "scipy.sparse.hstack([X.real, X.imag])" if sparse.issparse(X) else "numpy.hstack([X.real, X.imag])"
    raise DataTypeError(
        f"{owner}: Complex data not supported: the data are of type {X.dtype}: write X = X.real, or X = {sides} for"
        " both parts as columns"
    )


def _refuse_void(X, owner):
    names = X.dtype.names
    found = f"a structured array with the fields {', '.join(map(repr, names[:5]))}" if names else f"of type {X.dtype}"
    line = "write X = pandas.DataFrame(X)" if names else "give numbers, such as X = X.view(float)"
    raise DataTypeError(f"{owner}: the data are {found}, which are no columns of numbers: {line}")


def _refuse_values(X, owner):
    """Refuse what NumPy makes no matrix of, or one with another number of dimensions."""
    try:
        found = np.asarray(X)
    except (ValueError, TypeError):
        _refuse_ragged(X, owner)
        raise
    if found.ndim != 2:
        _refuse_dimensions(X, found, owner)
    if found.dtype.kind == "O":
        _refuse_objects(found, owner)


def _refuse_ragged(X, owner):
    """Refuse rows of different lengths."""
    if not isinstance(X, Sequence):
        return
    lengths = [len(row) if hasattr(row, "__len__") else None for row in X]
    other = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if other is not None:
        sizes = ["no row" if length is None else counted(length, "value") for length in (lengths[0], lengths[other])]
        raise DataError(
            f"{owner}: row 0 has {sizes[0]} and row {other} has {sizes[1]}: give all rows one length; where short rows"
            " lack their last values, write X = pandas.DataFrame(X)"
        )


def _refuse_dimensions(X, found, owner):
    if found.ndim == 0:
        what = f"the number {found}" if found.dtype.kind in "biuf" else f"a {type(X).__module__}.{type(X).__name__}"
        raise DataTypeError(
            f"{owner}: Expected 2D array, got scalar array instead: the data are {what}, which has no rows. Reshape"
            " your data: write X = numpy.reshape(X, (1, 1)) for one row with one column"
        )
    if found.ndim == 1:
        column, row = "X = numpy.reshape(X, (-1, 1))", "X = numpy.reshape(X, (1, -1))"
        if hasattr(X, "to_frame"):  # a column of pandas or Polars
            column, row = "X = X.to_frame()", "X = X.to_frame().T" if hasattr(X, "iloc") else row
        raise DataError(
            f"{owner}: Expected 2D array, got 1D array instead: the data have the shape {found.shape}. Reshape your"
            f" data: write {column} where they are one column, or {row} where they are one row"
        )
    raise DataError(
        f"{owner}: Found array with dim {found.ndim}, while dim <= 2 is required: the data have the shape"
        f" {found.shape}: write X = numpy.reshape(X, (len(X), -1)) where each entry of the first dimension is a row"
    )


def _refuse_objects(found, owner):
    """Refuse objects that are no real numbers, by row and column."""
    for (row, column), cell in np.ndenumerate(found):
        if isinstance(cell, (complex, np.complexfloating)):
            raise DataTypeError(
                f"{owner}: Complex data not supported: row {row}, column {column} holds {cell!r}: write"
                " X = numpy.asarray(X, complex).real"
            )
        try:
            float(cell if cell is not None else np.nan)
        except OverflowError:
            raise DataError(
                f"{owner}: row {row}, column {column} holds a number of {len(str(abs(cell)))} digits, which no float"
                " holds: divide the column by a power of ten, or leave the column out"
            ) from None
        except (TypeError, ValueError):
            if type(cell).__name__ == "NAType":
                continue
            raise DataTypeError(
                f"{owner}: row {row}, column {column} holds {repr(cell)[:40]}, a {type(cell).__name__}, and numbers are"
                " needed: argument must be a string or a number; give a data frame, such as"
                " pandas.DataFrame(X).infer_objects(), whose columns may hold other values"
            ) from None
