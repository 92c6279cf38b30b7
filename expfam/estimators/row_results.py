"""Results of rows as frames, with the names that the rows had in the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.estimators.leaf_names import row_names
from expfam.frames.new_frames import new_frame


class RowIndex(NamedTuple):
    """The index of a pandas frame as arrays, which copies and pickles hold without pandas.

    Attributes
    ----------
    values : (N,) ndarray
        Tuples where the index has several levels.
    names : list
        Of the levels.
    """

    values: npt.NDArray[Any]
    names: list[Any]

    def of_pandas(self) -> Any:
        """Return the index."""
        import pandas as pd

        if len(self.names) > 1:
            return pd.MultiIndex.from_tuples(self.values.tolist(), names=self.names)
        return pd.Index(self.values, name=self.names[0])


def row_index(X: Any) -> RowIndex | None:
    """Return the index of a frame or series of pandas whose rows have names, else None.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.estimators.row_results import row_index
    >>> row_index(pd.DataFrame({"height": [1.8, 1.6]}, index=["ann", "bob"])).values.tolist()
    ['ann', 'bob']
    >>> row_index(pd.DataFrame({"height": [1.8, 1.6]})) is None
    True
    """
    if row_names(X) is None:
        return None
    return RowIndex(X.index.to_numpy(), list(X.index.names))


def keep_row_names(estimator: Any, X: Any) -> None:
    """Keep the names of the rows of a fit; those of an earlier fit are dropped."""
    drop_row_names(estimator)
    index = row_index(X)
    if index is not None:
        estimator._row_index, estimator.row_names_ = index, row_names(X)


def drop_row_names(estimator: Any) -> None:
    """Drop the names of the rows."""
    for name in ("_row_index", "row_names_"):
        estimator.__dict__.pop(name, None)


def rows_frame(columns: dict[str, Any], index: RowIndex | None, *, backend: str) -> Any:
    """Return a frame of rows; their names are its index, or its first column without pandas.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.estimators.row_results import RowIndex, rows_frame
    >>> print(rows_frame({"cluster": np.array([1, 0])}, RowIndex(np.array(["ann", "bob"]), [None]), backend="pandas"))
         cluster
    ann        1
    bob        0
    """
    if index is None:
        return new_frame(columns, backend=backend)
    frame = new_frame(columns, backend=backend)
    if type(frame).__module__.startswith("pandas"):
        frame.index = index.of_pandas()
        return frame
    names = [" ".join(map(str, name)) if isinstance(name, tuple) else name for name in index.values.tolist()]
    first = "row" if len(index.names) > 1 or index.names[0] is None else str(index.names[0])
    return new_frame({first: names, **columns}, backend=backend)


def assignments(estimator: Any) -> Any:
    """Return the cluster and the probability of each row of the fit, as a frame."""
    columns = {"cluster": np.asarray(estimator.labels_)}
    if "probabilities_" in estimator.__dict__:
        columns["probability"] = estimator.probabilities_
    index, names = estimator.__dict__.get("_row_index"), estimator.__dict__.get("row_names_")
    if index is None and names is not None:  # of a file, which holds no more
        index = RowIndex(names, [None])
    return rows_frame(columns, index, backend=estimator._form().kind or "pandas")


def in_asked_form(estimator: Any, X: Any, p: Any) -> Any:
    """Return probabilities of rows X as the frame that `set_output` asks for, or as they are."""
    asked = estimator._asked_output()
    if asked == "default" or sparse.issparse(p):
        return p
    names = [f"{type(estimator).__name__.lower()}{k}" for k in range(p.shape[1])]
    return rows_frame(dict(zip(names, p.T)), row_index(X), backend=asked)


__all__ = [
    "RowIndex",
    "assignments",
    "drop_row_names",
    "in_asked_form",
    "keep_row_names",
    "row_index",
    "rows_frame",
]
