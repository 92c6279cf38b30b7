"""A frame of numbers as a matrix, without roles of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.families.columns.encoding import check_finite, require_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.frames.frame import Frame


def numbers_of_frame(frame: Frame, *, of_fit: bool, may_lack: bool = True) -> npt.NDArray[Any]:
    """Return the columns of a frame of numbers as a matrix, NaN where cells are missing.

    Parameters
    ----------
    frame : Frame
    of_fit : bool
        Whether the columns held numbers at the fit, for messages.
    may_lack : bool
        Whether cells may be missing, for messages.

    Returns
    -------
    (N, V) ndarray
        float32 or int64 if all columns are, else float64.

    Raises
    ------
    DataError, DataTypeError
        A column holds text, dates or infinity; the message names it and the row.
    """
    columns = [frame.column(name) for name in frame.names]
    for column in columns:
        require_numbers(column, frame.backend, of_fit=of_fit)
        check_finite(column, may_lack=may_lack)
    kinds = {
        np.dtype(float) if column.missing.any() and column.kind != "float" else column.values.dtype
        for column in columns
    }
    dtype = kinds.pop() if len(kinds) == 1 else np.dtype(float)
    X = np.empty(frame.shape, dtype=dtype if dtype in (np.float32, np.int64) else np.float64)
    for j, column in enumerate(columns):
        X[:, j] = np.where(column.missing, np.nan, column.values) if column.missing.any() else column.values
    return X
