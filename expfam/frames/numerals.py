"""Numbers that are written plainly in text: digits, a point and an exponent."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt


def plain_numbers(texts: Collection[str]) -> npt.NDArray[Any] | None:
    """Return texts as numbers, or None if one of them is no plain number.

    Numbers that begin with 0 or hold an underscore are codes, such as postal codes, and stay text.

    Parameters
    ----------
    texts : collection of str

    Returns
    -------
    (n,) int64 or float64 ndarray, or None
        int64 if all are whole numbers that it holds.

    Examples
    --------
    >>> from expfam.frames.numerals import plain_numbers
    >>> plain_numbers(["3", "-12"]), plain_numbers(["3", "1.5"]), plain_numbers(["01234", "99999"])
    (array([  3, -12]), array([3. , 1.5]), None)
    """
    for convert, dtype in ((int, np.int64), (float, np.float64)):
        try:
            values = np.array(list(map(convert, texts)), dtype=dtype)
        except (ValueError, OverflowError):
            continue
        return None if any(map(is_code, texts)) else values
    return None


def is_code(text: str) -> bool:
    """Return whether a number is written as codes are: with leading zeros or underscores."""
    return (text[0] == "0" and len(text) > 1 and text.isdigit()) or "_" in text


def as_number(text: str) -> int | float | None:
    """Return the finite number that a text writes plainly, or None.

    Examples
    --------
    >>> from expfam.frames.numerals import as_number
    >>> as_number("-999"), as_number("1e3"), as_number("007"), as_number("nan")
    (-999, 1000.0, None, None)
    """
    text = text.strip()
    if not text or is_code(text):
        return None
    for convert in (int, float):
        try:
            value: int | float = convert(text)
        except ValueError:
            continue
        return value if abs(value) <= sys.float_info.max else None  # as an integer it may be larger
    return None


def as_infinity(text: str) -> float | None:
    """Return the infinity that a text, or a number beyond all floats, stands for; else None.

    Examples
    --------
    >>> from expfam.frames.numerals import as_infinity
    >>> as_infinity("inf"), as_infinity("-1e999"), as_infinity("1e3")
    (inf, -inf, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isinf(value) else None
