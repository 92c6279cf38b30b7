"""Constructors and methods whose errors and warnings hold whole lines to type."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from expfam.estimators.foreign_names import unknown_argument, unknown_keyword
from expfam.estimators.lines import completed
from expfam.estimators.row_lines import OF_ROWS, aligned
from expfam.stages import shows_progress, watching
from expfam.user_warnings import renamed_warnings

_SHOWN = ("fit", "fit_plan", "fit_predict", "partial_fit", "fit_chunks")  # methods that show their progress


def names_unknown_keywords(init: Any) -> Any:
    """Return a constructor with a TypeError that names the remedy for an unknown keyword."""
    parameters = inspect.signature(init).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return init

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in parameters:
                known = list(parameters)[1:]
                raise TypeError(unknown_keyword(type(self), name, dict(zip(known, args)) | kwargs, known))
        init(self, *args, **kwargs)

    return checked


def with_whole_lines(method: Any) -> Any:
    """Return a method whose errors and warnings hold whole lines to type.

    A line keeps what the user has set, and takes along what belongs to the rows. The error of an unknown argument names
    the remedy.
    """
    parameters = inspect.signature(method).parameters
    is_checked = getattr(method, "has_whole_lines", False)
    if is_checked or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return method

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in parameters:
                raise TypeError(unknown_argument(self, method.__name__, name, kwargs[name], list(parameters)[1:]))
        try:
            is_shown = method.__name__ in _SHOWN and shows_progress(getattr(self, "callbacks", None))
            with renamed_warnings(lambda text: completed(text, self)), watching(is_shown):
                return method(self, *args, **kwargs)
        except Exception as error:
            if error.args and isinstance(error.args[0], str):
                given = dict(zip(list(parameters)[1:], args)) | kwargs
                message = _whole_lines(error.args[0], self, given)
                error.args = (message, *error.args[1:])
                if isinstance(error, ImportError):
                    error.msg = message  # which is what it shows
            raise

    checked.has_whole_lines = True  # type: ignore[attr-defined]
    return checked


def _whole_lines(message, estimator, given):
    """Return a message whose lines keep the settings, and what was given with the rows."""
    X = given.get("X")
    of_rows = {"start": getattr(estimator, "start", None)} | given
    others = {name: of_rows[name] for name in OF_ROWS if of_rows.get(name) is not None}
    return completed(message if X is None else aligned(message, X, others), estimator)
