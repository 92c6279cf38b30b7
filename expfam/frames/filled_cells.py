"""Data frames of pandas, Polars and PyArrow with other values in some of their cells."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.frames.frame import Column, Frame, level_of
from expfam.frames.new_frames import moments
from expfam.frames.numerals import as_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

_TIMES = ("datetime", "date", "duration")


def with_cells(
    X: Any,
    cells: Mapping[str, tuple[npt.NDArray[np.intp], Sequence[Any]]],
    types: Mapping[str, tuple[str, tuple]] | None = None,
) -> Any:
    """Return a copy of a frame with other values in some cells.

    Types of columns, and an index, stay. Numbers are rounded and bounded where the column holds integers. A column of
    text that gets numbers, because codes for missing cells made text of it, becomes one of numbers.

    Parameters
    ----------
    X : frame
        Of a library, or a `Frame`, of which a dict of lists is returned.
    cells : dict
        Rows and their values, by the name of the column.
    types : dict of (str, tuple), optional
        Type of a `Column`, and its levels, by the name of the column: it tells which objects are dates.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.frames.filled_cells import with_cells
    >>> with_cells(pd.DataFrame({"x": [1, 2, 3]}), {"x": ([1], [7.6])})["x"].tolist()
    [1, 8, 3]
    """
    import narwhals as nw

    if isinstance(X, Frame):
        return {name: _python_cells(X.column(name), *cells.get(name, ((), ()))) for name in X.names}
    if type(X).__name__ == "RecordBatch":
        return with_cells(_table_of(X), cells, types).to_batches()[0]
    frame = nw.from_native(X, eager_only=True)
    place = {str(name): position for position, name in enumerate(frame.columns)}
    changed = []
    for name, (rows, values) in cells.items():
        series = frame[:, place[name]]
        kind = (types or {}).get(name, ("", ()))[0]
        changed.append(_filled(series, [int(row) for row in rows], list(values), kind))
    return (frame.with_columns(*changed) if changed else frame.clone()).to_native()


def _table_of(batch):
    """Return the table of a batch of Arrow, in one piece."""
    import pyarrow

    return pyarrow.Table.from_batches([batch])


def _filled(series, rows, values, kind):
    """Return a column of a library with other values in some rows."""
    import narwhals as nw

    dtype = series.dtype
    kind = type(dtype).__name__.lower() if type(dtype).__name__.lower() in _TIMES else kind
    if dtype == nw.String and values and not isinstance(values[0], str):
        return _as_numbers(series, rows, values)
    if kind in _TIMES:
        values = moments(values, kind, getattr(dtype, "time_zone", None))
    elif dtype.is_integer():
        values = _whole(values, str(dtype))
    elif dtype == nw.Decimal:
        values = [_decimal(value, series) for value in values]
    elif dtype == nw.Boolean and not all(isinstance(value, bool) for value in values):
        series = series.cast(nw.Float64)
    if series.implementation.is_pandas():
        return nw.from_native(_of_pandas(series.to_native(), rows, values), series_only=True)
    filled = series.to_list()
    for row, value in zip(rows, values):
        filled[row] = value
    return nw.from_native(_like(series, filled), series_only=True).alias(series.name)


def _as_numbers(series, rows, values):
    """Return a column of text as numbers, since the cells that made text of it are filled."""
    import narwhals as nw

    found = [None if cell is None else as_number(cell) for cell in series.to_list()]
    for row, value in zip(rows, values):
        found[row] = value
    is_whole = all(isinstance(cell, int) for cell in found)
    kept = nw.new_series(series.name, found, nw.Int64 if is_whole else nw.Float64, backend=series.implementation)
    if not series.implementation.is_pandas():
        return kept
    return nw.from_native(kept.to_native().set_axis(series.to_native().index), series_only=True)


def _whole(values, dtype):
    """Return numbers rounded to integers within the range of a type such as "UInt8"."""
    bits = int(dtype.lower().removeprefix("uint").removeprefix("int"))
    low, high = (0, 2**bits - 1) if dtype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [min(max(round(value), low), high) for value in values]


def _decimal(value, series):
    """Return a number as a decimal with the places of the column's type."""
    native = series.to_native()
    dtype = getattr(native, "dtype", None) if hasattr(native, "dtype") else native.type
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    return decimal.Decimal(repr(float(value))).quantize(decimal.Decimal(1).scaleb(-int(dtype.scale)))


def _of_pandas(native, rows, values):
    """Return a column of pandas with other values in some rows."""
    dtype = native.dtype
    if str(dtype).startswith("Sparse"):
        dense = native.sparse.to_dense().copy()
        dense.iloc[rows] = values
        return dense.astype(dtype)
    if hasattr(dtype, "categories"):
        own = {level_of(level): level for level in dtype.categories}
        values = [own[value] for value in values]
        codes = native.cat.codes.to_numpy().copy()
        codes[rows] = [dtype.categories.get_loc(value) for value in values]
        return type(native)(type(native.array).from_codes(codes, dtype=dtype), index=native.index, name=native.name)
    filled = native.copy()
    is_zoned = getattr(dtype, "tz", None) is not None
    if is_zoned or (isinstance(dtype, np.dtype) and dtype.kind in "iufmM"):
        # pandas takes no list of integers for a short type, and no finer times than its own
        values = type(native)(values).astype(dtype).to_numpy()
    filled.iloc[rows] = values
    return filled


def _like(series, cells):
    """Return cells as a column of Polars or PyArrow of the type of another column."""
    native = series.to_native()
    if series.implementation.is_polars():
        return type(native)(native.name, cells, dtype=native.dtype)
    import pyarrow as pa

    if not pa.types.is_dictionary(native.type):
        return pa.chunked_array([pa.array(cells, type=native.type)])
    return pa.chunked_array([pa.array(cells, type=native.type.value_type).dictionary_encode().cast(native.type)])


def _python_cells(column, rows, values):
    """Return the cells of a column of a file as Python values, with other values in some rows."""
    cells = _plain_cells(column)
    for row in np.flatnonzero(column.missing):
        cells[row] = None
    if column.kind == "time":
        values = [_date_text(moment) for moment in moments(list(values), column.type or "datetime")]
    for row, value in zip(rows, values):
        cells[row] = round(value) if column.kind == "integer" else value
    if column.kind == "text" and any(isinstance(value, (int, float)) for value in values):
        cells = [as_number(cell) if isinstance(cell, str) else cell for cell in cells]  # codes had made text of them
    return cells


def _plain_cells(column: Column) -> list[Any]:
    if column.levels:
        return [column.levels[code] for code in column.values]
    if column.kind != "time" or np.isnan(column.present).any():
        return column.values.tolist()
    seconds = [None if gone else value for value, gone in zip(column.values.tolist(), column.missing)]
    return [_date_text(moment) for moment in moments(seconds, column.type or "datetime")]


def _date_text(moment):
    return moment if moment is None or not hasattr(moment, "isoformat") else moment.isoformat()
