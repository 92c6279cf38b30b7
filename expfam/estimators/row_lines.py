"""Lines that leave out or repeat rows, together with their weights, classes and groups.

Code that sees the rows alone ends such a line with `LEFT_OUT` or `REPEATED`. Where an error leaves a method of an
estimator, `aligned` puts in its place what does the same to the rows and to all else that was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from expfam.errors import ExpFamError
from expfam.families.support import LEFT_OUT, REPEATED
from expfam.frames.frame import is_frame
from expfam.model.groups import Groups

OF_ROWS = ("y", "sample_weight", "groups", "links", "start")  # what may belong to the rows, by the names of arguments


def aligned(message: str, X: Any, others: Mapping[str, Any]) -> str:
    """Return a message whose line about rows also changes their weights, classes and groups.

    Parameters
    ----------
    message : str
    X : array_like, sparse matrix or frame
        The rows, as they were given.
    others : mapping of str to object
        What else was given, by name. Numbers and names of columns do not belong to the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.estimators.row_lines import aligned
    >>> aligned("write keep = a > 0; X = X[keep]", np.ones((3, 1)), {"y": np.zeros(3), "groups": [1, 1, 2]})
    'write keep = a > 0; X, y, groups = X[keep], y[keep], [groups[row] for row in numpy.flatnonzero(keep)]'
    """
    for line, of_values, numbers in ((LEFT_OUT, "keep", "numpy.flatnonzero(keep)"), (REPEATED, "rows", "rows")):
        if line in message:
            names = [name for name, value in others.items() if _belongs(value, X)]
            if line == REPEATED:
                names = [name for name in names if name != "sample_weight"]
            values = {"X": _of_data(X, of_values, numbers)}
            values |= {name: _taken(name, others[name], of_values, numbers) for name in names}
            message = message.replace(line, f"{', '.join(values)} = {', '.join(values.values())}")
    return message


@contextmanager
def lines_about_rows(X: Any, others: Mapping[str, Any]) -> Iterator[None]:
    """Make lines in errors also change the weights, classes and groups of rows; see `aligned`.

    Examples
    --------
    >>> from expfam.errors import DataError
    >>> from expfam.estimators.row_lines import lines_about_rows
    >>> with lines_about_rows([[1], [2]], {"y": [0, 1]}):
    ...     raise DataError("write keep = a; X = X[keep]")
    Traceback (most recent call last):
    expfam.errors.DataError: write keep = a; X, y = numpy.asarray(X)[keep], [y[row] for row in numpy.flatnonzero(keep)]
    """
    try:
        yield
    except ExpFamError as error:
        error.args = (aligned(str(error), X, others), *error.args[1:])
        raise


def _belongs(value, X):
    """Return whether a value has an entry for each row."""
    if value is None or isinstance(value, (str, bytes)):
        return False
    try:
        return len(value.of_row if isinstance(value, Groups) else value) == _n_rows(X)
    except TypeError:
        return False


def _n_rows(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _of_data(X, rows, numbers):
    """Return the text of some rows of the data."""
    if sparse.issparse(X):
        return f"X[{rows}]" if X.format in ("csr", "csc", "lil") else f"X.tocsr()[{rows}]"
    if is_frame(X):
        kind = type(X).__module__.partition(".")[0]
        of_pandas = f"X[{rows}]" if rows == "keep" else f"X.iloc[{numbers}]"
        return of_pandas if kind == "pandas" else f"X[{numbers}]" if kind == "polars" else f"X.take({numbers})"
    return f"X[{rows}]" if isinstance(X, np.ndarray) else f"numpy.asarray(X)[{rows}]"


def _taken(name, value, rows, numbers):
    """Return the text of the entries of some rows."""
    if isinstance(value, Groups):
        return f"{name}.of_row[{rows}]"
    kind = type(value).__module__.partition(".")[0]
    if kind == "pandas" and hasattr(value, "iloc"):
        return f"{name}[{rows}]" if rows == "keep" else f"{name}.iloc[{numbers}]"
    if kind == "pyarrow":
        return f"{name}.take({numbers})"
    if kind == "polars":
        return f"{name}[{numbers}]"
    if isinstance(value, (list, tuple)):  # an array of them might make texts of numbers
        return f"[{name}[row] for row in {numbers}]"
    return f"{name}[{rows}]"
