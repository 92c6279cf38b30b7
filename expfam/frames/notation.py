"""Numbers as people write them: with decimal commas, thousands, currencies and units.

Such text is recognised to be named in a warning, with the line that makes numbers of it. Nothing is converted here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from expfam.frames.numerals import as_number, is_code

_GAPS = " '\u2019\u00a0\u2009\u202f"  # what stands between thousands beside commas and points
_SIGNS = "$\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba"
_CODES = "USD|EUR|GBP|JPY|CHF|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|BRL|KRW"
_NUMBER = re.compile(
    rf"(?P<bound>[<>\u2264\u2265~\u2248]=?)?\s*"
    rf"(?P<minus>[-+])?\s*(?P<money>[{_SIGNS}]|(?:{_CODES})(?![A-Za-z]))?\s*"
    rf"(?P<number>[-+]?(?:\d{{1,3}}(?:[,.{_GAPS}]\d{{3}})+|\d+)?(?:[.,]\d+)?(?:[eE][-+]?\d+)?)\s*"
    rf"(?P<unit>%|[{_SIGNS}]|[^\W\d_][^\W\d_./\u00b2\u00b3\u00b5]{{0,11}})?"
)
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
PLACEHOLDERS = frozenset(
    {"", "?", "-", "--", ".", "*", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "Null"}
)
_MOST_UNITS = 3
_MOST_OTHERS = 3  # levels that are no number, in a column of numbers
_SHARE_OF_OTHERS = 0.05


class Notation(NamedTuple):
    """How the numbers of a column are written.

    Attributes
    ----------
    what : str
        In words, such as "numbers as text with a decimal comma".
    example : str
        One of them.
    n_numbers : int
        How many distinct numbers there are.
    others : tuple of str
        Levels that are no numbers.
    steps : tuple of (str, str)
        Regular expressions and what to put in their place, one after the other, to have plain numbers.
    is_plain : bool
        Whether the numbers are written plainly.
    has_fractions : bool
        Whether there are fractions, and neither units nor bounds.
    """

    what: str
    example: str
    n_numbers: int
    others: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    is_plain: bool
    has_fractions: bool


def notation_of(levels: Sequence[str]) -> Notation | None:
    """Return how the numbers of a column of text are written; None if it holds no numbers.

    Parameters
    ----------
    levels : sequence of str
        The distinct cells.

    Examples
    --------
    >>> from expfam.frames.notation import notation_of
    >>> notation_of(["3,51", "12,00", "?"])[:4]
    ('numbers as text with a decimal comma', '3,51', 2, ('?',))
    >>> notation_of(["red", "blue"]) is None
    True
    """
    found = [(level, match) for level in levels if (match := _match(level)) is not None]
    numbers = {level for level, _ in found}
    others = tuple(level for level in levels if level not in numbers)
    strange = [level for level in others if level.strip() not in PLACEHOLDERS]
    if not found or len(strange) > max(_MOST_OTHERS, _SHARE_OF_OTHERS * len(levels)) or len(strange) > len(found):
        return None
    if _are_codes(found) or len(_units(found)) > _MOST_UNITS:
        return None
    return _described(found, others)


def _match(level):
    """Return the parts of a text that writes a number, or None."""
    match = _NUMBER.fullmatch(level.strip())
    return match if match is not None and any(character.isdigit() for character in match["number"]) else None


def _are_codes(found):
    """Return whether numbers are codes: with leading zeros, or whole and all of one length."""
    numbers = [match["number"] for _, match in found]
    if any(map(is_code, numbers)):
        return True
    is_bare = all(level.strip() == number for (level, _), number in zip(found, numbers))
    lengths = {len(number) for number in numbers}
    return is_bare and len(numbers) > 1 and len(lengths) == 1 and lengths.pop() > 3 and all(map(str.isdecimal, numbers))


def _units(found):
    """Return the units and signs of money that occur, the most frequent ones first."""
    money = [match["money"] for _, match in found if match["money"]]
    units = [match["unit"] for _, match in found if match["unit"]]
    return [unit for unit, _ in Counter(money + units).most_common()]


def _described(found, others):
    numbers = [match["number"].strip() for _, match in found]
    units, decimal = _units(found), _decimal(numbers)
    money = [unit for unit in units if unit in _SIGNS or unit in _CODES.split("|")]
    measures = [unit for unit in units if unit not in money and unit != "%"]
    bounds = any(match["bound"] for _, match in found)
    gaps = {gap for gap in _GAPS for number in numbers if gap in number}
    is_grouped = bool(gaps) or any("," in number and "." in number for number in numbers)
    is_grouped = is_grouped or any({",": ".", ".": ","}[decimal] in number for number in numbers)
    traits = {
        "a decimal comma": decimal == ",",
        "separated thousands": is_grouped,
        "a currency": bool(money),
        "a per cent sign": "%" in units,
        f"a unit ({', '.join(measures)})": bool(measures),
        "a sign of inequality, which the line drops": bounds,
    }
    traits = [name for name, holds in traits.items() if holds]
    steps = _steps(found, gaps, money, is_dressed=bounds or len(units) > sum(unit in _SIGNS for unit in money))
    if decimal == ",":
        steps += [(r"\.", "")] * is_grouped + [(",", ".")]
    elif is_grouped and any("," in number for number in numbers):
        steps.append((",", ""))
    has_fractions = any(decimal in number for number in numbers) and not measures and not bounds
    example = next(level for level, _ in found if not traits or as_number(level) is None)
    what = f"numbers as text with {' and '.join(traits)}" if traits else "numbers as text"
    return Notation(what, example, len(found), others, tuple(steps), not traits, has_fractions)


def _steps(found, gaps, money, *, is_dressed):
    """Return the steps that leave digits, signs and separators."""
    has_blanks = any(re.search(r"\s", level.strip()) for level, _ in found)
    out = (
        [r"\s"] * has_blanks
        + [sign for sign in money if sign in _SIGNS]
        + sorted(gaps - set(filter(str.isspace, gaps)))
    )
    steps = [(f"[{''.join(out)}]", "")] if out else []
    return steps + [(r"^[^\d.,+-]*([+-]?[\d.,]+(?:[eE][+-]?\d+)?).*$", r"\1")] * is_dressed


def _decimal(numbers):
    """Return the sign before fractions: a point, or a comma."""
    both = [number for number in numbers if "," in number and "." in number]
    if both:
        return max(",.", key=both[0].rindex)
    with_commas = [number for number in numbers if "," in number]
    if with_commas:
        return "." if all(_GROUPED.fullmatch(number) for number in with_commas) else ","
    return "," if any(number.count(".") > 1 for number in numbers) else "."
