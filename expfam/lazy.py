"""Things that are made on first use: public names of packages, and attributes of results."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from expfam.errors import ResultError

_T = TypeVar("_T")


def load_name(package: str, homes: Mapping[str, Sequence[str]], name: str) -> Any:
    """Import the module that defines a public name, and return the name's value.

    `homes` holds the dotted name of each module and the public names that it defines. The value is stored as an
    attribute of the package. Another name raises AttributeError.
    """
    for home, names in homes.items():
        if name in names:
            value = getattr(import_module(home), name)
            setattr(sys.modules[package], name, value)
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def made_on_use(method: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """Let the method of a property raise AttributeError alone: `hasattr` and `dir` never fail.

    Examples
    --------
    >>> from expfam.lazy import made_on_use
    >>> class Fit:
    ...     @property
    ...     @made_on_use
    ...     def table_(self):
    ...         raise TypeError("there are no columns")
    >>> hasattr(Fit(), "table_")
    False
    >>> Fit().table_
    Traceback (most recent call last):
        ...
    expfam.errors.ResultError: Fit has no table_: there are no columns
    """

    @wraps(method)
    def checked(self: Any) -> _T:
        try:
            return method(self)
        except AttributeError:
            raise
        except Exception as error:
            owner = "" if method.__name__[0] == "_" else f"{type(self).__name__} has no {method.__name__}: "
            raise ResultError(f"{owner}{error}") from error

    return checked
