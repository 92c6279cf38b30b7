"""How a column is named in a call, for messages."""

from __future__ import annotations


def keyword(name: str, value: object) -> str:
    """Return the keyword argument of a column as it is written in a call."""
    return f"{name}={value!r}" if name.isidentifier() else f"**{{{name!r}: {value!r}}}"
