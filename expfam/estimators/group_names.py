"""Groups of rows as users give them: numbers, names, or the name of a column of the frame."""

from __future__ import annotations

from typing import Any, NamedTuple

from expfam.errors import DataError
from expfam.frames.frame import Frame, is_frame
from expfam.model.groups import Groups


class GroupedRows(NamedTuple):
    """Rows without the column of groups, classes of rows, and groups.

    Attributes
    ----------
    X, y, groups : object
        As given, but for a column of groups, which is `Groups` with names.
    """

    X: Any
    y: Any
    groups: Any


def grouped_rows(X: Any, groups: Any, y: Any = None, *, labels: str | None = None) -> GroupedRows:
    """Return rows, classes and groups, each in its place.

    Parameters
    ----------
    X : array_like, sparse matrix or frame
    groups : (N,) array_like, Groups, or str
        A text is the name of a column of X, which is then no data.
    y : object
        Where there are no groups and `labels` is None, these are the groups: ``fit(X, groups)``.
    labels : str or None
        As of `GroupedMixture`.

    Raises
    ------
    ValueError
        There are no groups.
    DataError
        X has no column of that name.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.estimators.group_names import grouped_rows
    >>> found = grouped_rows(pd.DataFrame({"age": [4, 5], "home": ["b", "a"]}), "home")
    >>> list(found.X.columns), found.groups.names.tolist()
    (['age'], ['a', 'b'])
    """
    if groups is None and labels is None:
        groups, y = y, None
    if groups is None:
        place = "X, groups=groups" if labels is None else "X, y, groups=groups"
        raise ValueError(
            f"GroupedMixture needs groups=, the group of each row: write fit({place}), and so for new rows; for"
            " rows without groups write Mixture()"
        )
    if isinstance(groups, str):
        as_list = ".to_pylist()" * (type(X).__module__.partition(".")[0] == "pyarrow")
        text = f"X[{groups!r}]{as_list}"
        X, names = _without_column(X, groups)
        groups = Groups.of_names(names, text=text)
    return GroupedRows(X, y, groups)


def _without_column(X, name):
    """Return a frame without a column, and the cells of the column."""
    if not is_frame(X):
        raise DataError(
            f"groups={name!r} is the name of a column, and X is a {type(X).__name__}, which has no names of columns:"
            " write fit(X, groups=groups) with the group of each row"
        )
    names = list(X.column_names if hasattr(X, "column_names") else X.names if isinstance(X, Frame) else X.columns)
    if name not in names:
        raise DataError(f"groups={name!r}: X has no column of this name; it has {names[:20]}")
    if hasattr(X, "column_names"):
        return X.select([other for other in names if other != name]), X.column(name).to_pylist()
    if isinstance(X, Frame):
        column = X.column(name)
        values = column.values.tolist()
        cells = [column.levels[value] for value in values] if column.levels else values
        return X.without([name]), [None if lacks else cell for cell, lacks in zip(cells, column.missing.tolist())]
    is_pandas = type(X).__module__.startswith("pandas")
    return X.drop(columns=[name]) if is_pandas else X.drop(name), X[name].to_list()
