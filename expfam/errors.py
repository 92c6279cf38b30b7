"""Every error and warning that the package raises on purpose, by cause.

Each one also derives from the built-in error that a caller would expect, so `except ValueError` keeps working.
Messages name what was found, where (row, column, parameter), and what to do.
"""


class ExpFamError(Exception):
    """Base of all errors of this package."""


class DataError(ExpFamError, ValueError):
    """The data cannot be used: wrong shape, not finite, wrong number of columns."""


class DataTypeError(DataError, TypeError):
    """The data are of a type that cannot be used: objects, or sparse where only dense is possible."""


class SupportError(DataError):
    """A value lies outside the family's support, or statistics are impossible under the family."""


class CapabilityError(ExpFamError, TypeError):
    """A kernel was combined with a family, weights or data that it cannot work with; said before any work."""


class PluginError(ExpFamError, ImportError):
    """A plugin is missing, ambiguous, broken, or made for another interface version."""


class ResourceError(ExpFamError, MemoryError):
    """A run would need more memory than the limit allows; said before anything is allocated."""


class ArchiveError(ExpFamError, ValueError):
    """A saved model or checkpoint is truncated, foreign, or of an unknown format number."""


class ExactnessWarning(UserWarning):
    """The chosen variant does not leave the posterior invariant."""


class DataWarning(UserWarning):
    """The data are legal but probably not what was meant: empty rows, constant columns."""
