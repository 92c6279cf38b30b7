"""Columns of text that are numbers, with decimal commas or units: `--numbers`."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from expfam.cli.errors import UsageError
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.frames.frame import Column, Frame


def with_numbers(frame: Frame, names: Sequence[str]) -> Frame:
    """Return a frame whose columns of these names are numbers; cells that are none are missing.

    Parameters
    ----------
    frame : Frame
    names : sequence of str
        Columns of text, as `expfam.frames.notation.notation_of` reads them; columns of numbers stay as they are.

    Raises
    ------
    UsageError
        There is no such column, or it holds no numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.cli.numbers import with_numbers
    >>> from expfam.frames.frame import as_frame
    >>> frame = as_frame(pd.DataFrame({"price": ["1.234,50", "7,20", "?"]}))
    >>> with_numbers(frame, ["price"]).column("price").present.tolist()
    [1234.5, 7.2]
    """
    from expfam.frames.frame import Frame

    for name in names:
        if name not in frame.names:
            hint = did_you_mean(name, frame.names)
            raise UsageError(
                f"--numbers: the table has no column {name!r}{hint} (it has {', '.join(frame.names[:20])})"
            )
    readers = [partial(_as_numbers if name in names else _as_it_is, frame, name) for name in frame.names]
    return Frame(frame.names, readers, frame.n_rows, frame.backend)


def _as_it_is(frame: Frame, name: str) -> Column:
    return frame.column(name)


def _as_numbers(frame: Frame, name: str) -> Column:
    """Return a column of text as numbers."""
    from expfam.frames.notation import notation_of
    from expfam.io.cells import column_of_text

    column = frame.column(name)
    if column.kind not in ("text", "category"):
        return column
    levels = [str(level) for level in column.levels]
    notation = notation_of(levels)
    if notation is None:
        raise UsageError(f"--numbers: column {name!r} holds {levels[0]!r}, which is no number: leave it out")
    plain = [_plain(level, notation.steps) if level not in notation.others else "" for level in levels]
    cells = ["" if lacks else plain[code] for code, lacks in zip(column.values, column.missing)]
    return column_of_text(name, cells)


def _plain(level, steps):
    """Return a number as programs write it."""
    for pattern, replacement in steps:
        level = re.sub(pattern, replacement, level)
    return level
