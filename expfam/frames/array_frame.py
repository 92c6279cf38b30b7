"""An array of numbers as a frame, whose columns are named by their places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.frames.frame import Column, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_MOST_WHOLE = 2.0**53  # larger floats are not all the whole numbers between them


def holds_whole_numbers(X: npt.NDArray[Any]) -> bool:
    """Return whether all cells of an array are whole numbers that a float holds exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.frames.array_frame import holds_whole_numbers
    >>> holds_whole_numbers(np.array([[1.0, 5.0]])), holds_whole_numbers(np.array([[1.0, 2.5]]))
    (True, False)
    """
    if X.dtype.kind not in "iuf" or not X.size:
        return False
    with np.errstate(invalid="ignore"):
        is_small = bool(X.max().item() <= _MOST_WHOLE) and bool(
            X.min().item() >= -_MOST_WHOLE
        )  # a float16 cannot hold the bound
    if X.dtype.kind != "f" or not is_small:
        return is_small
    return bool(X.flat[0] == np.rint(X.flat[0])) and bool((np.rint(X) == X).all())


def frame_of_array(X: npt.NDArray[Any], names: Sequence[str] | None = None, *, whole: bool = True) -> Frame:
    """Return an array as a frame, in which NaN are missing cells.

    Parameters
    ----------
    X : (N, V) ndarray
    names : sequence of str, optional
        Of the columns; "0", "1" and so on without them.
    whole : bool
        Columns of whole numbers are integers; otherwise all are floats, as in a frame that was made of the array.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.frames.array_frame import frame_of_array
    >>> frame = frame_of_array(np.array([[1.0, 0.5], [np.nan, 2.0]]))
    >>> [(name, frame.column(name).kind, int(frame.column(name).missing.sum())) for name in frame.names]
    [('0', 'integer', 1), ('1', 'float', 0)]
    """
    names = list(map(str, range(X.shape[1]))) if names is None else list(map(str, names))
    return Frame(names, [partial(_column, X, j, name, whole) for j, name in enumerate(names)], X.shape[0])


def _column(X, place, name, whole):
    values = X[:, place]
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    present = values[~missing] if missing.any() else values
    if not present.size:
        return Column(name, "empty", np.zeros(len(values)), missing)
    if not whole or not holds_whole_numbers(present):
        return Column(name, "float", values, missing)
    return Column(name, "integer", np.where(missing, 0, values).astype(np.int64), missing, type="integer")
