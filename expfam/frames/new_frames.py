"""Data frames of pandas, Polars and PyArrow from arrays."""

from __future__ import annotations

import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from expfam.errors import DataError
from expfam.frames.frame import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMES = ("datetime", "date", "duration")


def new_frame(
    columns: Mapping[str, Any], *, backend: str = "pandas", types: Mapping[str, tuple[str, tuple]] | None = None
) -> Any:
    """Return a frame of a library from columns of values, with None for missing cells.

    Parameters
    ----------
    columns : dict of (N,) sequences
        A NumPy array keeps its type; a list may hold None.
    backend : {"pandas", "polars", "pyarrow"}
        If it is not installed, another one of them is used.
    types : dict of (str, tuple), optional
        Type of a `Column`, and its levels, by the name of the column.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table

    Raises
    ------
    DataError
        None of the three is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.frames.new_frames import new_frame
    >>> new_frame({"k": np.arange(2), "mode": ["a", None]}, backend="polars").to_dict(as_series=False)
    {'k': [0, 1], 'mode': ['a', None]}
    """
    import narwhals as nw

    frame = nw.from_dict(dict(columns), backend=_installed(backend))
    typed = [_typed(frame[name], kind, levels) for name, (kind, levels) in (types or {}).items()]
    return (frame.with_columns(*typed) if typed else frame).to_native()


def _typed(series, kind, levels):
    """Return a column of decoded cells as one of a type."""
    import narwhals as nw

    is_pandas = series.implementation.is_pandas()
    if kind in ("category", "enum"):
        return _categories(series, kind, levels)
    if kind in _TIMES:
        kind = "datetime" if kind == "date" and is_pandas and find_spec("pyarrow") is None else kind  # a type of Arrow
        dtype = {"datetime": nw.Datetime("us"), "date": nw.Date(), "duration": nw.Duration("us")}[kind]
        return nw.new_series(series.name, moments(series.to_list(), kind), dtype, backend=series.implementation)
    if kind == "integer" and not _fits(series, -(2.0**63), 2.0**63):
        return series.cast(nw.UInt64) if _fits(series, 0.0, 2.0**64) and not is_pandas else series
    if not is_pandas:
        return series.cast(nw.Boolean if kind == "boolean" else nw.Int64)
    nullable = {"boolean": "boolean", "integer": "Int64"}
    plain = {"boolean": "bool", "integer": "int64"}
    name = (nullable if series.is_null().any() else plain)[kind]
    return nw.from_native(series.to_native().astype(name), series_only=True)


def _fits(series, low, high):
    """Return whether all values of a column are within some bounds."""
    least, most = series.min(), series.max()
    return least is None or (low <= least and most < high)


def _categories(series, kind, levels):
    import narwhals as nw

    if series.implementation.is_pandas():
        native = series.to_native().astype("category")
        return nw.from_native(native.cat.set_categories(list(levels), ordered=kind == "enum"), series_only=True)
    if series.dtype != nw.String:
        return series  # other libraries have categories of text alone
    return series.cast(nw.Enum(levels) if kind == "enum" and series.implementation.is_polars() else nw.Categorical)


def moments(seconds: Sequence[float | None], kind: str, zone: str | None = None) -> list[Any]:
    """Return seconds since 1970 as dates or points in time, or seconds as durations.

    Parameters
    ----------
    seconds : sequence of float or None
    kind : {"datetime", "date", "duration"}
    zone : str, optional
        Time zone of the points in time.
    """
    found: list[Any] = []
    for value in seconds:
        if value is None or np.isnan(value):
            found.append(None)
            continue
        span = datetime.timedelta(seconds=value)
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + span
        if kind == "duration":
            found.append(span)
        elif kind == "date":
            found.append((moment + datetime.timedelta(hours=12)).date())
        else:
            found.append(moment.replace(tzinfo=None) if zone is None else moment.astimezone(ZoneInfo(zone)))
    return found


def _installed(backend):
    for name in (backend, *BACKENDS):
        if find_spec(name) is not None:
            return name
    raise DataError("a result is a data frame, and neither pandas nor Polars nor PyArrow is installed: install one")


def in_backend(frame: Any, backend: str) -> Any:
    """Return a frame of one library as one of pandas or Polars."""
    import narwhals as nw

    found = nw.from_native(frame, eager_only=True)
    return found.to_pandas() if backend == "pandas" else found.to_polars()
