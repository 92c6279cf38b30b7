"""Texts that messages about columns share, and warnings at the user's call."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

from expfam.errors import DataWarning


def nearest(name: object, known: Iterable[object]) -> str:
    """Return text that asks whether a known name was meant; empty if none is near."""
    near = difflib.get_close_matches(str(name), [str(other) for other in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def keyword(name: str, value: object) -> str:
    """Return the keyword argument of a column as it is written in a call."""
    return f"{name}={value!r}" if name.isidentifier() else f"**{{{name!r}: {value!r}}}"


def warn(message: str) -> None:
    """Warn with the place of the user's call, which lies outside this package."""
    level, frame = 2, sys._getframe(0).f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("expfam."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, DataWarning, stacklevel=level)
