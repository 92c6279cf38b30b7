"""Columns of text that are numbers or dates: `--numbers` and `--dates`."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from expfam.cli.errors import UsageError
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.frames.frame import Column, Frame


def converted(frame: Frame, *, numbers: Sequence[str] = (), dates: Sequence[str] = ()) -> Frame:
    """Return a frame whose columns of these names are numbers and dates.

    Cells that are none are missing.

    Parameters
    ----------
    frame : Frame
    numbers : sequence of str
        Columns of text, as `expfam.frames.notation.notation_of` reads them; columns of numbers stay as they are.
    dates : sequence of str
        Columns of text, as pandas reads them; columns of dates stay as they are.

    Raises
    ------
    UsageError
        There is no such column, or it holds no numbers or no dates, or pandas is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.cli.converted import converted
    >>> from expfam.frames.frame import as_frame
    >>> prices, days = ["1.234,50", "7,20", "?"], ["31.1.1970", "1.1.1970", "2.1.1970"]
    >>> frame = converted(as_frame(pd.DataFrame({"price": prices, "day": days})), numbers=["price"], dates=["day"])
    >>> frame.column("price").present.tolist(), (frame.column("day").present / 86400).tolist()
    ([1234.5, 7.2], [30.0, 0.0, 1.0])
    """
    from expfam.frames.frame import Frame

    made = dict.fromkeys(numbers, _as_numbers) | dict.fromkeys(dates, _as_dates)
    for option, names in (("--numbers", numbers), ("--dates", dates)):
        for name in names:
            if name not in frame.names:
                hint, some = did_you_mean(name, frame.names), ", ".join(frame.names[:20])
                raise UsageError(f"{option}: the table has no column {name!r}{hint} (it has {some})")
    both = next((name for name in numbers if name in dates), None)
    if both is not None:
        raise UsageError(f"column {both!r} is given to --numbers and to --dates: leave it out of one of them")
    readers = [partial(made.get(name, _as_it_is), frame, name) for name in frame.names]
    return Frame(frame.names, readers, frame.n_rows, frame.backend)


def _as_it_is(frame: Frame, name: str) -> Column:
    return frame.column(name)


def _as_numbers(frame: Frame, name: str) -> Column:
    """Return a column of text as numbers."""
    from expfam.frames.notation import notation_of

    column = frame.column(name)
    if column.kind not in ("text", "category"):
        return column
    levels = [str(level) for level in column.levels]
    notation = notation_of(levels)
    if notation is None:
        raise UsageError(f"--numbers: column {name!r} holds {levels[0]!r}, which is no number: leave it out")
    return _with_cells(
        column, [_plain(level, notation.steps) if level not in notation.others else "" for level in levels]
    )


def _as_dates(frame: Frame, name: str) -> Column:
    """Return a column of text as dates."""
    from expfam.frames.doubts import dates_of

    column = frame.column(name)
    if column.kind == "time":
        return column
    levels = [str(level) for level in column.levels]
    found = dates_of(levels)
    if found is None:
        one = repr(levels[0]) if levels else f"values of the kind {column.kind}"
        raise UsageError(f"--dates: column {name!r} holds {one}, which is no date: leave it out")
    try:
        import pandas as pd
    except ImportError as error:
        raise UsageError("--dates needs pandas: pip install pandas") from error
    times = pd.to_datetime(pd.Series(levels), dayfirst=found.is_day_first, format="mixed", utc=True, errors="coerce")
    form = "%Y-%m-%d" if times.dropna().eq(times.dropna().dt.normalize()).all() else "%Y-%m-%dT%H:%M:%S.%f"
    return _with_cells(column, times.dt.strftime(form).fillna("").tolist())


def _with_cells(column, levels):
    """Return a column whose levels have other texts, read as the cells of a file are.

    Empty ones are missing.
    """
    from expfam.io.cells import column_of_text

    cells = ["" if lacks else levels[code] for code, lacks in zip(column.values, column.missing)]
    return column_of_text(column.name, cells)


def _plain(level, steps):
    """Return a number as programs write it."""
    for pattern, replacement in steps:
        level = re.sub(pattern, replacement, level)
    return level
