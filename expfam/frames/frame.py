"""Data frames of pandas, Polars and PyArrow: columns as arrays.

A frame is read column by column, so that no copy of the whole is made. A column becomes an array of numbers, or of
level numbers with the levels in an order that does not depend on the rows; missing cells (None, NaN, NA, NaT, Arrow
nulls) become one mask. narwhals is imported when something with columns arrives; NumPy arrays never come here.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

_KINDS = {  # Python types of the cells of an object column, and the kind of column that they make
    "text": (str,),
    "boolean": (bool, np.bool_),
    "integer": (int, np.integer),
    "float": (float, int, np.integer, np.floating, decimal.Decimal),
    "time": (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64),
}
_TIMES = ("datetime", "timedelta", "timestamp", "date", "duration", "time", "period", "interval")
BACKENDS = ("pandas", "polars", "pyarrow")  # of frames that are given back
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Column:
    """One column of a frame as an array.

    Attributes
    ----------
    name : str
    kind : {"boolean", "integer", "float", "text", "category", "time", "empty"}
        A column is "empty" if all its cells are missing, whatever its type.
    values : (N,) ndarray
        bool, int64, float32 or float64; of text and categories int32 numbers of levels; of dates and durations float64
        seconds since 1970 or from 0. The values of missing cells have no meaning.
    missing : (N,) bool ndarray
    levels : tuple
        Of text and categories: distinct values, sorted; of a declared type all its levels, in its own order.
    is_declared : bool
        Whether the type of the column fixes its levels: a pandas category or a Polars Enum.
    type : {"", "boolean", "integer", "category", "enum", "datetime", "date", "duration"}
        Type of the column in a frame; "enum" are categories with an order. Empty for text and floats.
    infinite_text : str
        Of floats that were read from text: the text of the first infinite cell; else empty.
    times : (N,) int64 ndarray or None
        How many rows each cell stands for, in a summary of a column; None if each is one row.
    """

    name: str
    kind: str
    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]
    levels: tuple = ()
    is_declared: bool = False
    type: str = ""
    infinite_text: str = ""
    times: npt.NDArray[np.int64] | None = None

    @property
    def n_missing(self) -> int:
        """Return how many rows lack a cell."""
        return int(self.missing.sum() if self.times is None else self.times[self.missing].sum())

    @property
    def present_times(self) -> npt.NDArray[np.int64] | None:
        """Return how many rows each of the cells in `present` stands for, None if one."""
        return None if self.times is None else self.times[~self.missing]

    @property
    def present(self) -> npt.NDArray[Any]:
        """Return the values of the cells that are not missing."""
        return self.values[~self.missing] if self.missing.any() else self.values


class _Reader(partial):
    """Reader of a column whose cells may be Python objects."""


class Frame:
    """Named columns that are read when they are asked for, each once.

    Parameters
    ----------
    names : sequence of str
    columns : sequence of callable
        Each returns a `Column`; its argument, if it has one, is that of `column`.
    n_rows : int
    backend : str
        Library of the user's frame, for frames that are given back: "pandas", "polars" or "pyarrow".

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.frames.frame import as_frame
    >>> frame = as_frame(pd.DataFrame({"size": [1.5, None], "kind": ["b", "a"]}))
    >>> frame.names, frame.column("kind").levels, frame.column("size").missing
    (('size', 'kind'), ('a', 'b'), array([False,  True]))
    """

    def __init__(
        self, names: Sequence[str], columns: Sequence[Callable[[], Column]], n_rows: int, backend: str = "pandas"
    ) -> None:
        self.names = tuple(names)
        repeated = sorted({name for name in self.names if self.names.count(name) > 1}) if _repeats(names) else []
        if repeated:
            keep = "X = X.loc[:, ~X.columns.astype(str).duplicated()]"
            line = f": write {keep}, which keeps the first" if backend == "pandas" else ""
            raise DataError(f"the frame has more than one column named {listed(repeated)}: rename or drop them{line}")
        self._columns = dict(zip(self.names, columns))
        self._read: dict[tuple[str, Any], Column] = {}
        self.n_rows, self.backend = int(n_rows), backend

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        return self.n_rows, len(self.names)

    def __repr__(self):
        return f"Frame({self.n_rows} x {len(self.names)})"

    def column(self, name: str, is_missing: Callable[[Any], bool] | None = None) -> Column:
        """Return one column; a DataTypeError names what cannot be a column of a table.

        Objects for which `is_missing` holds are missing cells, so that a code such as "?" may stand among numbers. The
        column is kept for an equal `is_missing`.
        """
        reader = self._columns[name]
        if not isinstance(reader, _Reader):
            is_missing = None
        if (name, is_missing) not in self._read:
            self._read[name, is_missing] = reader() if is_missing is None else reader(is_missing)  # type: ignore[call-arg]
        return self._read[name, is_missing]

    def without(self, names: Sequence[str]) -> Frame:
        """Return the frame without these columns."""
        return self.only([name for name in self.names if name not in names])

    def only(self, names: Sequence[str]) -> Frame:
        """Return the frame with these columns alone."""
        part = Frame(names, [self._columns[name] for name in names], self.n_rows, self.backend)
        part._read = self._read
        return part

    def is_plain(self) -> bool:
        """Return whether the frame has cells and all of them are floats."""
        columns = (self.column(name) for name in self.names)
        return all(self.shape) and all(column.kind == "float" and not column.missing.any() for column in columns)


def is_frame(X: Any) -> bool:
    """Return whether data have columns with names: a data frame or an Arrow table.

    Nothing is imported to find out.
    """
    kind = type(X)
    return isinstance(X, Frame) or (
        kind is not np.ndarray and (hasattr(kind, "columns") or hasattr(kind, "column_names")) and not _is_pyarrow(kind)
    )


def _is_pyarrow(kind):
    return kind.__module__.startswith("pyarrow") and kind.__name__ not in ("Table", "RecordBatch")


def as_frame(X: Any, *, owner: str = "expfam") -> Frame:
    """Return data with columns as a `Frame`, without a copy; `owner` is named in messages.

    Raises
    ------
    DataTypeError
        The data are a lazy frame, or of a library that narwhals does not know.
    DataError
        Two columns have one name.
    """
    if isinstance(X, Frame):
        return X
    import narwhals as nw

    if type(X).__module__.startswith("dask"):
        raise DataTypeError(
            f"{owner}: the data are a Dask frame: write X = X.compute(), or from expfam.dask import Mixture, which"
            " leaves the rows where they are"
        )
    if type(X).__name__ == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    of_pandas = getattr(X, "columns", ()) if type(X).__module__.startswith("pandas") else ()
    labels = [str(name) for name in getattr(X, "column_names", of_pandas)]  # of Arrow, and of pandas
    if _repeats(labels):
        Frame(labels, [], 0, "pandas" if len(of_pandas) else "pyarrow")  # raises the error
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise DataTypeError(f"{owner}: the data are a lazy frame ({type(X).__module__}): write X = X.collect()")
    if not isinstance(frame, nw.DataFrame):
        raise DataTypeError(
            f"{owner}: the data are a {type(X).__module__}.{type(X).__name__}, which is no frame that expfam can read:"
            " convert it to pandas, Polars, PyArrow or NumPy"
        )
    names = [str(name) for name in frame.columns]
    readers = [_Reader(_read_column, frame, j, name) for j, name in enumerate(names)]
    backend = str(frame.implementation)
    return Frame(names, readers, len(frame), backend if backend in BACKENDS else "pandas")


def listed(names: Sequence[Any], most: int = 5) -> str:
    """Return the first names in quotes, for a message, and how many more there are."""
    text = ", ".join(repr(name) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text or "none"


def _repeats(names):
    return len(set(names)) < len(names)


# ---- one column ------------------------------------------------------------------------------------------------------


def _read_column(frame, position, name, is_missing=None):
    import narwhals as nw

    series = _dense(frame[:, position])
    dtype = series.dtype
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    if missing.all():
        return Column(name, "empty", np.zeros(len(missing)), missing)
    if dtype == nw.Boolean:
        return Column(name, "boolean", _filled(series, missing, False, np.bool_), missing, type="boolean")
    if dtype in (nw.Int128, nw.UInt128) or _holds_objects(series):
        return _object_column(name, series.to_list(), missing, is_missing)
    if dtype.is_integer():
        wide = np.uint64 if dtype == nw.UInt64 else np.int64
        return Column(name, "integer", _filled(series, missing, 0, wide), missing, type="integer")
    if dtype.is_float():
        values = np.asarray(series.to_numpy())
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        return Column(name, "float", values, missing | np.isnan(values))
    if dtype == nw.String:
        return _text_column(name, series.to_list(), missing)
    if dtype in (nw.Categorical, nw.Enum):
        kind = "enum" if dtype == nw.Enum else "category"
        return replace(_category_column(name, series, missing), type=kind)
    if dtype in (nw.Datetime, nw.Date, nw.Duration):
        values = np.asarray(series.to_numpy())
        seconds = _seconds_of_objects(series.to_list(), missing) if values.dtype == object else _seconds(values)
        return Column(name, "time", seconds, missing, type=type(dtype).__name__.lower())
    if dtype == nw.Decimal or dtype == nw.Object:
        return _object_column(name, series.to_list(), missing, is_missing)
    native = str(getattr(series.to_native(), "dtype", dtype)).lower()
    if native.startswith(_TIMES):
        return Column(name, "time", np.full(len(missing), np.nan), missing)
    row = int(np.argmin(missing))
    raise _unusable(name, row, type(series.to_list()[row]).__name__)


def _dense(series):
    """Return a sparse column of pandas as a dense one; other columns stay."""
    import narwhals as nw

    native = series.to_native()
    is_sparse = str(getattr(native, "dtype", "")).startswith("Sparse")
    return nw.from_native(native.sparse.to_dense(), series_only=True) if is_sparse else series


def _holds_objects(series):
    """Return whether a column of pandas holds objects, which narwhals judges by the first ones."""
    return str(getattr(series.to_native(), "dtype", "")) == "object"


def _filled(series, missing, value, dtype):
    return np.asarray((series.fill_null(value) if missing.any() else series).to_numpy()).astype(dtype, copy=False)


def _seconds(values):
    """Return dates as seconds since 1970, and durations as seconds; missing ones as NaN."""
    unit = "timedelta64[us]" if values.dtype.kind == "m" else "datetime64[us]"
    values = values.astype(unit)
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / _MICROSECONDS)


def _text_column(name, cells, missing):
    """Return a column of the levels that occur, sorted by type and value."""
    present = list(compress(cells, (~missing).tolist()))
    codes = np.full(len(cells), -1, dtype=np.int32)
    try:
        seen = {cell: code for code, cell in enumerate(dict.fromkeys(present))}
        codes[~missing] = np.fromiter(map(seen.__getitem__, present), dtype=np.int32, count=len(present))
    except TypeError as error:  # lists and structs have no hash
        row = next(row for row in np.flatnonzero(~missing).tolist() if not isinstance(cells[row], Hashable))
        raise _unusable(name, row, type(cells[row]).__name__) from error
    first = list(seen)
    order = sorted(range(len(first)), key=lambda code: (type(first[code]).__name__, first[code]))
    place = np.empty(len(first) + 1, dtype=np.int32)
    place[order], place[-1] = np.arange(len(first)), -1
    return Column(name, "text", place[codes], missing, tuple(level_of(first[code]) for code in order))


def _category_column(name, series, missing):
    native = series.to_native()
    if hasattr(native, "cat") and hasattr(native.cat, "codes"):  # pandas and what speaks as it does
        levels = tuple(level_of(level) for level in native.cat.categories)
        return Column(name, "category", native.cat.codes.to_numpy().astype(np.int32), missing, levels, True)
    declared = getattr(series.dtype, "categories", None)
    column = _text_column(name, series.to_list(), missing)
    if declared is None:
        return Column(name, "category", column.values, missing, column.levels)
    place = np.array([list(declared).index(level) for level in column.levels] + [-1], dtype=np.int32)
    return Column(name, "category", place[column.values], missing, tuple(declared), True)


def level_of(value: Any) -> Any:
    """Return a level as text, a number or a boolean; intervals and dates as their text."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufU" else value
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def _object_column(name, cells, missing, is_missing):
    if is_missing is not None:
        missing = missing | np.fromiter(map(is_missing, cells), dtype=bool, count=len(cells))
        if missing.all():
            return Column(name, "empty", np.zeros(len(missing)), missing)
    return column_of_objects(name, cells, missing)


def column_of_objects(name: str, cells: Sequence[Any], missing: npt.NDArray[np.bool_]) -> Column:
    """Return a column from Python objects, which must be of one kind.

    Parameters
    ----------
    name : str
    cells : (N,) sequence
    missing : (N,) bool ndarray
        Which cells are missing; their values are not read.

    Raises
    ------
    DataTypeError
        The cells are of several kinds, or of none that a column can hold.
    """
    types = set(map(type, compress(cells, (~missing).tolist())))
    for kind, allowed in _KINDS.items():
        if all(_is_of(found, kind, allowed) for found in types):
            break
    else:
        raise _mixed(name, cells, missing)
    if kind == "text":
        return _text_column(name, cells, missing)
    if kind == "time":
        return Column(name, kind, _seconds_of_objects(cells, missing), missing, type=_type_of_times(types))
    dtype = {"boolean": np.bool_, "integer": np.int64, "float": np.float64}[kind]
    values: Any
    try:
        values = np.array([0 if gone else cell for cell, gone in zip(cells, missing)], dtype=dtype)
    except OverflowError:
        return _column_of_large_integers(name, cells, missing)
    is_float = kind == "float"
    return Column(
        name, kind, values, missing | np.isnan(values) if is_float else missing, type="" if is_float else kind
    )


def _column_of_large_integers(name, cells, missing):
    """Return integers beyond 64 bits as floats if these differ as they do, else as digits."""
    present = [int(cell) if cell == cell // 1 else cell for cell, gone in zip(cells, missing) if not gone]
    try:
        values = np.array([0.0 if gone else float(cell) for cell, gone in zip(cells, missing)])
        if len(set(values[~missing].tolist())) == len(set(present)):
            return Column(name, "float", values, missing)
    except OverflowError:
        pass
    digits = [None if gone else _digits(name, row, cell) for row, (cell, gone) in enumerate(zip(cells, missing))]
    return _text_column(name, digits, missing)


def _digits(name, row, cell):
    try:
        return str(cell)
    except ValueError as error:  # Python writes no integers of more than 4300 digits
        raise DataError(
            f"column {name!r}, row {row} holds an integer of {counted(cell.bit_length(), 'bit')}: put a smaller number "
            f"or text in its place, or leave the column out ({_as_keyword(name, 'drop')})"
        ) from error


def _is_of(found, kind, allowed):
    is_boolean = issubclass(found, (bool, np.bool_))
    return issubclass(found, allowed) and (kind == "boolean" or not is_boolean)


def _type_of_times(types):
    """Return whether objects are dates, points in time or durations."""
    if all(issubclass(found, (datetime.timedelta, np.timedelta64)) for found in types):
        return "duration"
    is_date = all(issubclass(found, datetime.date) and not issubclass(found, datetime.datetime) for found in types)
    return "date" if is_date else "datetime"


def _seconds_of_objects(cells, missing):
    cells = [None if gone else cell for cell, gone in zip(cells, missing)]
    try:
        is_span = any(isinstance(cell, datetime.timedelta) for cell in cells)
        return _seconds(np.array(cells, dtype="timedelta64[us]" if is_span else "datetime64[us]"))
    except (TypeError, ValueError):
        return np.full(len(cells), np.nan)  # times of day and dates with other types: refused with all dates


def _mixed(name, cells, missing):
    present = [(row, cell) for row, (cell, gone) in enumerate(zip(cells, missing)) if not gone]
    row, first = present[0]
    if not isinstance(first, tuple(kind for kinds in _KINDS.values() for kind in kinds)):
        return _unusable(name, row, type(first).__name__)
    other = next((pair for pair in present if not _are_of_one_kind(first, pair[1])), present[-1])
    found = type(other[1]).__name__
    n_texts = sum(isinstance(cell, str) for _, cell in present)
    line = (
        f"pd.to_numeric(df[{name!r}], errors='coerce')" if 2 * n_texts < len(present) else f"df[{name!r}].astype(str)"
    )
    return DataTypeError(
        f"column {name!r} mixes values of several types: row {row} holds {repr(first)[:40]} ({type(first).__name__}),"
        f" row {other[0]} holds {repr(other[1])[:40]} ({found}): give all cells one type, for example df[{name!r}] ="
        f" {line}, or leave the column out ({_as_keyword(name, 'drop')})"
    )


def _are_of_one_kind(*cells):
    return any(all(_is_of(type(cell), kind, allowed) for cell in cells) for kind, allowed in _KINDS.items())


def _unusable(name, row, found):
    made = _MADE_OF.get(found)
    remedy = "derive such columns from it" if made is None else f"write df[{name!r}] = df[{name!r}].{made}"
    return DataTypeError(
        f"column {name!r}: row {row} holds a value of type {found}; a column holds numbers, truth values, text or"
        f" categories: {remedy}, or leave it out ({_as_keyword(name, 'drop')})"
    )


# what makes numbers or text of objects that databases and Python give
_MADE_OF = {"Decimal": "astype(float)", "Fraction": "astype(float)", "UUID": "astype(str)"}


def _as_keyword(name, value):
    return f"Columns.from_frame(df, {name}={value!r})" if name.isidentifier() else f"**{{{name!r}: {value!r}}}"
