"""What goes wrong on the command line: one line on standard error, and an exit code."""

import sys
import traceback


class UsageError(Exception):
    """What was asked for cannot be done as it was asked."""


def is_bad_input(error):
    """Whether the user's arguments or data are to blame, not the run."""
    from expfam.errors import CapabilityError, ExpFamError, PluginError, ResourceError

    if isinstance(error, ExpFamError):
        return not isinstance(error, ResourceError)
    return isinstance(error, (UsageError, CapabilityError, PluginError, ValueError, TypeError))


def message_of(error):
    """An error in one line."""
    text = " ".join(str(error).split())
    from expfam.errors import ExpFamError

    if isinstance(error, (ExpFamError, UsageError, ValueError, OSError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fail(args, message, code):
    """Say what went wrong: the exit code."""
    if args.debug:
        traceback.print_exc()
    print(f"expfam {args.command}: error: {message}", file=sys.stderr)
    return code


def show_warning(message, category, filename, lineno, file=None, line=None):
    """A warning in one line on standard error."""
    print(f"expfam: warning: {message}", file=sys.stderr)
