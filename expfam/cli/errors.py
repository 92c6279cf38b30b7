"""Errors on the command line: one line on standard error, and an exit code."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import argparse


class UsageError(Exception):
    """Arguments of a command are wrong, or contradict each other."""


def is_bad_input(error: BaseException) -> bool:
    """Tell whether the user's arguments or data caused the error, and not the run."""
    from expfam.errors import CapabilityError, ExpFamError, PluginError, ResourceError

    if isinstance(error, ExpFamError):
        return not isinstance(error, ResourceError)
    return isinstance(error, (UsageError, CapabilityError, PluginError, ValueError, TypeError))


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line."""
    text = " ".join(str(error).split())
    from expfam.errors import ExpFamError

    if isinstance(error, (ExpFamError, UsageError, ValueError, OSError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fail(args: argparse.Namespace, message: str, code: int) -> int:
    """Print an error message on standard error and return the exit code."""
    if args.debug:
        traceback.print_exc()
    print(f"expfam {args.command}: error: {message}", file=sys.stderr)
    return code


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning in one line on standard error."""
    print(f"expfam: warning: {message}", file=sys.stderr)
