"""Constructors and methods whose TypeError of an unknown argument names the remedy."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from expfam.estimators.foreign_names import unknown_argument, unknown_keyword


def names_unknown_keywords(init: Any) -> Any:
    """Return a constructor with a TypeError that names the remedy for an unknown keyword."""
    parameters = inspect.signature(init).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return init

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if name not in parameters:
                raise TypeError(unknown_keyword(type(self), name, value, list(parameters)[1:]))
        init(self, *args, **kwargs)

    return checked


def names_unknown_arguments(method: Any) -> Any:
    """Return a method whose TypeError of an unknown argument names the remedy."""
    parameters = inspect.signature(method).parameters
    is_checked = getattr(method, "names_unknown_arguments", False)
    if is_checked or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return method

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in parameters:
                raise TypeError(unknown_argument(type(self), method.__name__, name, list(parameters)[1:]))
        return method(self, *args, **kwargs)

    checked.names_unknown_arguments = True  # type: ignore[attr-defined]
    return checked


__all__ = ["names_unknown_arguments", "names_unknown_keywords"]
