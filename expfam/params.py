"""Settings objects that store their constructor keywords unchanged, and check their values.

They have a repr, equality and `get_params`. A class declares in `_constraints` what a setting may be, by its name: one
alternative or a tuple of them. An alternative is None, a word, a type, `Integer` or `Real`. A subclass inherits the
table and adds its own settings. What relates two settings, or settings and data, is checked in code.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from expfam.errors import CapabilityError

_PLAIN = frozenset({int, float, str, bool, type(None)})  # types of values that can be kept in a cache


class Settings:
    """Base of kernels and proposals: it holds constructor keywords and no state of a run.

    The constructor of a subclass stores each keyword under its own name and does no other work.
    """

    _constraints: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def _parameter_names(cls):
        return list(_keywords_of(cls.__init__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; `deep` has no effect and is there for scikit-learn."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def __eq__(self, other):
        return self is other or (type(self) is type(other) and self.get_params() == other.get_params())

    __hash__ = None  # type: ignore[assignment]


class PartSettings(Settings):
    """Base of proposals, moves and their parts: settings that fit some models and data only."""

    def check(self, model: Any, data: Any) -> None:
        """Raise an error where settings, family or data do not allow this part.

        Parameters
        ----------
        model, data : bound MixtureModel and Dataset

        Raises
        ------
        ValueError
            A setting is out of range.
        CapabilityError
            The family cannot serve the part, or the sizes do not allow it.
        """
        check_settings(self)


@lru_cache(maxsize=256)  # of constructors: to read a signature takes longer than all else that `==` of settings does
def _keywords_of(constructor):
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(constructor).parameters
    return tuple(name for name, each in parameters.items() if name != "self" and each.kind not in variable)


@dataclass(frozen=True)
class Real:
    """Numbers of an interval; `ends` are its brackets, round where an end is left out."""

    low: float
    high: float = math.inf
    ends: str = "()"
    why: str = ""

    def __contains__(self, value: Any) -> bool:
        # the types of Python first: to ask an abstract class takes ten times as long
        is_number = type(value) in (float, int) or (isinstance(value, numbers.Real) and not isinstance(value, bool))
        is_end = (self.ends[0] == "[" and value == self.low) or (self.ends[1] == "]" and value == self.high)
        return is_number and (is_end or self.low < value < self.high)

    def __repr__(self):
        if (self.low, self.high) != (0, math.inf):
            return f"a number in {self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}{self.why and ', ' + self.why}"
        sign = "positive" if self.ends[0] == "(" else "non-negative"
        return f"a {sign} {'finite ' * (self.ends[1] == ')')}number"


@dataclass(frozen=True)
class Integer:
    """Integers from `low` to `high`; booleans are refused."""

    low: int
    high: float = math.inf

    def __contains__(self, value: Any) -> bool:
        is_integer = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
        return is_integer and self.low <= value <= self.high

    def __repr__(self):
        return f"an integer {f'of at least {self.low}' if self.high == math.inf else f'in {self.low}..{self.high}'}"


POSITIVE, NON_NEGATIVE = Real(0), Real(0, ends="[)")


def check_settings(owner: Any) -> None:
    """Raise ValueError for a setting that is not what the class of its owner declares.

    Examples
    --------
    >>> from expfam.samplers import Memoized
    >>> from expfam.params import check_settings
    >>> check_settings(Memoized(True))
    Traceback (most recent call last):
    ValueError: Memoized: n_batches must be an integer of at least 1; got True
    """
    cls: type = type(owner)
    values = [getattr(owner, name) for name in _table_of(cls)]
    if _PLAIN.issuperset(map(type, values)):
        _check_once(cls, *values)
    else:
        _check_all(cls, *values)


def _check_all(cls, *values):
    """Check the values of the settings that the table of a class has, in its order."""
    for (name, allowed), value in zip(_table_of(cls).items(), values):
        check_value(f"{cls.__name__}: {name}", value, allowed)


# kernels, moves and their parts are checked in each phase of a fit; 1 and True are equal, but of other types
_check_once = lru_cache(maxsize=256, typed=True)(_check_all)


@cache
def _table_of(cls):
    """Return the table of a class with those of its bases."""
    tables = (vars(base).get("_constraints", {}) for base in reversed(cls.__mro__))
    return {name: allowed for table in tables for name, allowed in table.items()}


def check_value(what: str, value: Any, allowed: Any) -> None:
    """Raise ValueError unless a value is one of the alternatives, given as in a table.

    Parameters
    ----------
    what : str
        Name of the setting, for the message.
    value : object
    allowed : object or tuple
        One alternative or several: a value, a type, or a range such as `Integer` and `Real`.
    """
    if not _is_allowed(value, allowed):
        alternatives = allowed if isinstance(allowed, tuple) else (allowed,)
        *most, last = (f"a {one.__name__}" if isinstance(one, type) else repr(one) for one in alternatives)
        raise ValueError(f"{what} must be {', '.join(most)}{' or ' * bool(most)}{last}; got {value!r}")


def _is_allowed(value, allowed):
    if isinstance(allowed, tuple):
        return any(_is_allowed(value, alternative) for alternative in allowed)
    if isinstance(allowed, type):
        return isinstance(value, allowed)
    if isinstance(allowed, str):
        return isinstance(value, str) and value == allowed
    return value is None if allowed is None else value in allowed


def is_auto(value: Any) -> bool:
    """Return whether a setting is the word "auto"; arrays are not."""
    return isinstance(value, str) and value == "auto"


def refuse_unused(owner: Any, names: Iterable[str], *, why: str, remedy: str) -> None:
    """Raise CapabilityError for settings that differ from their defaults but are not used.

    Parameters
    ----------
    owner : object
        It stores each keyword of its constructor under its own name.
    names : iterable of str
        The settings.
    why : str
        What does not use the settings, for example "Gibbs sampling".
    remedy : str
        End of the sentence "leave them out, or ...".

    Raises
    ------
    CapabilityError

    Examples
    --------
    >>> from expfam.samplers import Memoized
    >>> from expfam.params import refuse_unused
    >>> refuse_unused(Memoized(run_length=9), ["run_length"], why="this schedule", remedy="take another one")
    Traceback (most recent call last):
    expfam.errors.CapabilityError: Memoized: this schedule does not use run_length=9: leave it out, or take another one
    """
    given = given_settings(owner, names)
    if given:
        values = ", ".join(f"{name}={value!r}" for name, value in given.items())
        it = "it" if len(given) == 1 else "them"
        raise CapabilityError(f"{type(owner).__name__}: {why} does not use {values}: leave {it} out, or {remedy}")


def given_settings(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the named settings that differ from their defaults: name to value."""
    parameters = inspect.signature(type(owner).__init__).parameters
    values = {name: getattr(owner, name) for name in names}
    return {name: value for name, value in values.items() if not _is_default(value, parameters[name].default)}


def _is_default(value, default):
    return value is default or (np.isscalar(value) and bool(value == default))
