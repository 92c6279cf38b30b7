"""Results of rows as frames, with the names that the rows had in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn import get_config

from expfam.frames.new_frames import new_frame

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    def texts(self) -> npt.NDArray[np.str_]:
        """Return the names as text: (N,), those of several levels with blanks between them."""
        names = self.values.tolist()
        return np.array(
            [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in names], dtype=str
        )

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
    index = getattr(X, "index", None) if type(X).__module__.startswith("pandas") else None
    if index is None or _are_numbers(index):
        return None
    # points in time and others without a type of NumPy are objects of pandas
    return RowIndex(index.to_numpy(), list(index.names))


def _are_numbers(index):
    """Return whether the names of rows are their numbers, also written as text."""
    if type(index).__name__ == "RangeIndex":
        return (index.start, index.step) == (0, 1)
    if index.nlevels > 1:
        return False
    if index.dtype.kind in "iu":
        return np.array_equal(index.to_numpy(), np.arange(len(index)))
    return all(str(name) == str(row) for row, name in enumerate(index))


def row_names(X: Any) -> npt.NDArray[np.str_] | None:
    """Return the names of the rows of a frame of pandas: (N,) ndarray of str, or None.

    Rows whose names are the numbers from 0 on have no names.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.estimators.row_results import row_names
    >>> row_names(pd.DataFrame({"height": [1.8, 1.6]}, index=["ann", "bob"]))
    array(['ann', 'bob'], dtype='<U3')
    >>> row_names([[1.8], [1.6]]) is None
    True
    """
    index = row_index(X)
    return None if index is None else index.texts()


def keep_row_names(estimator: Any, X: Any) -> None:
    """Keep the names of the rows of a fit; those of an earlier fit are dropped."""
    drop_row_names(estimator)
    index = row_index(X)
    if index is not None:
        estimator._row_index = index


def join_row_names(estimator: Any, parts: Sequence[Any]) -> None:
    """Give an estimator the names of the rows of its parts in turn, where all have names."""
    found = [_index_of_fit(part) for part in parts]
    if any(index is None for index in found) or len({len(index.names) for index in found}) > 1:
        return
    is_one_kind = len({index.values.dtype.kind for index in found}) == 1
    values = [index.values if is_one_kind else index.values.astype(object) for index in found]
    estimator._row_index = RowIndex(np.concatenate(values), found[0].names)


def drop_row_names(estimator: Any) -> None:
    """Drop the names of the rows."""
    for name in ("_row_index", "row_names_"):
        estimator.__dict__.pop(name, None)


def rows_frame(columns: dict[str, Any], index: RowIndex | None, *, backend: str) -> Any:
    """Return a frame of rows; their names are its index, or its first column without pandas.

    Parameters
    ----------
    columns : dict of str to (N,) ndarray
    index : RowIndex or None
        Names of the rows; None where they have none.
    backend : {"pandas", "polars"}

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
    names = index.texts().tolist() if len(index.names) > 1 else index.values.tolist()
    first = "row" if len(index.names) > 1 or index.names[0] is None else str(index.names[0])
    return new_frame({first: names, **columns}, backend=backend)


def assignments(estimator: Any) -> Any:
    """Return the cluster and the probability of each row of the fit, as a frame."""
    columns = {"cluster": estimator._labels}
    if "probabilities_" in estimator.__dict__:
        columns["probability"] = estimator.probabilities_
    return rows_frame(columns, _index_of_fit(estimator), backend=estimator._form().kind or "pandas")


def asked_labels(estimator: Any) -> Any:
    """Return the labels of the fit: the series that `set_output` asks for, or the array."""
    asked, labels = asked_output(estimator), estimator._labels
    if asked == "default":
        return labels
    return rows_frame({"cluster": labels}, _index_of_fit(estimator), backend=asked)["cluster"]


def _index_of_fit(estimator):
    """Return the names of the rows of the fit, or None."""
    index, names = estimator.__dict__.get("_row_index"), estimator.__dict__.get("row_names_")
    if index is None and names is not None:  # of a file, which holds no more
        return RowIndex(names, [None])
    return index


def asked_output(estimator: Any) -> str:
    """Return the library of frames that the user asked for, or "default"."""
    given = estimator.__dict__.get("_sklearn_output_config", {}).get("transform")
    asked: str = get_config().get("transform_output", "default") if given is None else given
    return asked


def in_asked_form(estimator: Any, X: Any, p: Any) -> Any:
    """Return probabilities of rows X as the frame that `set_output` asks for, or as they are."""
    asked = asked_output(estimator)
    if asked == "default" or sparse.issparse(p):
        return p
    names = [f"{type(estimator).__name__.lower()}{k}" for k in range(p.shape[1])]
    return rows_frame(dict(zip(names, p.T)), row_index(X), backend=asked)
