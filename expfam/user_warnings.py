"""Warnings that name the line of the user's program, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

# Callers of these packages are passed over: ours, and those that call our methods for the user.
_PASSED = frozenset({"expfam", "sklearn", "joblib", "concurrent", "threading", "contextlib", "functools"})


_renamings: ContextVar[tuple[Callable[[str], str], ...]] = ContextVar("renamings of warnings", default=())


@contextmanager
def renamed_warnings(rename: Callable[[str], str]) -> Iterator[None]:
    """Replace places in warnings of this package: columns of a part by those of the table.

    Parameters
    ----------
    rename : callable that returns the message to show for a message

    Examples
    --------
    >>> import warnings
    >>> from expfam.user_warnings import renamed_warnings, warn
    >>> with warnings.catch_warnings(record=True) as caught, renamed_warnings(lambda text: text.replace("3", "'size'")):
    ...     warnings.simplefilter("always")
    ...     warn("column 3 is constant")
    >>> str(caught[0].message)
    "column 'size' is constant"
    """
    token = _renamings.set((*_renamings.get(), rename))
    try:
        yield
    finally:
        _renamings.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with file and line of the nearest caller that is a program of the user.

    If there is none, as in a thread of a pool, the outermost caller is named.

    Examples
    --------
    >>> import warnings
    >>> from expfam.user_warnings import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("column 3 is constant")
    >>> str(caught[0].message), caught[0].category.__name__
    ('column 3 is constant', 'UserWarning')
    """
    for rename in reversed(_renamings.get()):
        message = rename(message)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_passed(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_passed(frame: FrameType) -> bool:
    """Return whether a frame belongs to a package that is passed over."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _PASSED
