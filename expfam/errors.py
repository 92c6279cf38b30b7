"""Errors and warnings of the package, one class for each cause.

Each class also derives from the built-in error that a caller expects, so `except ValueError` keeps working.
Messages name what was found, where it was found (row, column, parameter), and what to do.
"""


class ExpFamError(Exception):
    """Base of all errors of this package."""


class DataError(ExpFamError, ValueError):
    """The data cannot be used: wrong shape, not finite, wrong number of columns."""


class DataTypeError(DataError, TypeError):
    """The data have a type that cannot be used: objects, or sparse where dense is needed."""


class SupportError(DataError):
    """A value lies outside the family's support, or statistics are impossible under the family."""


class CapabilityError(ExpFamError, TypeError):
    """A kernel does not work with this family, these weights or these data.

    The error is raised before any computation.
    """


class PluginError(ExpFamError, ImportError):
    """A plugin is missing, ambiguous, broken, or made for another interface version."""


class UnknownNameError(PluginError):
    """No family or proposal has this name; `near` holds the names that were probably meant."""

    near: tuple[str, ...] = ()


class ResourceError(ExpFamError, MemoryError):
    """A run would need more memory than the limit allows; raised before any allocation."""


class ResultError(ExpFamError, AttributeError, ValueError):
    """An attribute of a result cannot be made; the error that says why is its cause."""


class EngineError(ExpFamError, RuntimeError):
    """Workers of an engine were lost, or did not answer as they should."""


class ArchiveError(ExpFamError, ValueError):
    """A saved model or checkpoint is truncated, altered, or of an unknown format."""


class ExactnessWarning(UserWarning):
    """The chosen variant does not leave the posterior invariant."""


class DataWarning(UserWarning):
    """The data are valid but probably not intended: empty rows, constant columns."""
