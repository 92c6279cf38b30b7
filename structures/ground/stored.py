"""Arrays that were read from a file: named checks of type, shape and range, and one error for all that is left.

Compiled code believes the labels, slots and places that it is given. Whoever restores a state from a file checks these
first, and `restoring` turns every error that arrays of another run, or altered ones, still lead to into an
`ArchiveError`.
"""

from contextlib import contextmanager

import numpy as np

from expfam.errors import ArchiveError, ExpFamError, PluginError

_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ExpFamError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
_COUNTS_TO = 2**62  # counters of steps and moves: sums of two stay whole numbers of 64 bits


@contextmanager
def restoring(what):
    """Turn the errors of arrays that do not fit into an `ArchiveError`; a missing plugin stays a `PluginError`.

    Parameters
    ----------
    what : str or path_like
        What is restored: the message begins with it.

    Examples
    --------
    >>> from expfam.structures.ground.stored import integers, restoring
    >>> with restoring("run"):
    ...     integers({"labels": [0, 7]}, "labels", (2,), 0, 3)
    Traceback (most recent call last):
    expfam.errors.ArchiveError: run: 'labels' holds 7; whole numbers from 0 to 2 are expected: the file was altered...
    """
    try:
        yield
    except PluginError:
        raise
    except ArchiveError as error:
        if str(error).startswith(f"{what}: "):
            raise
        raise ArchiveError(f"{what}: {error}") from error
    except _FAULTS as error:
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ArchiveError(
            f"{what}: what it holds does not fit together ({found}): the file was altered, or is of another model,"
            " other data or another version; make it again"
        ) from error


def integers(arrays, name, shape, low=0, high=_COUNTS_TO, *, dtype=np.int64):
    """A copy of the array of that name, whole numbers from `low` to `high` - 1.

    Parameters
    ----------
    arrays : mapping of str to array_like
    name : str
    shape : tuple of int or None
        None stands for any number.
    low, high : int
    dtype : dtype
        Of the copy.

    Raises
    ------
    ArchiveError
        There is no such array, or it has another type or shape or a number out of range.
    """
    found = _shaped(arrays, name, shape, "biu")
    bad = (found < low) | (found >= high)
    if bad.any():
        value = found[bad].flat[0]
        raise ArchiveError(
            f"{name!r} holds {value}; whole numbers from {low} to {high - 1} are expected: the file was altered, or is"
            " of other data"
        )
    return np.array(found, dtype=dtype, order="C")


def numbers(arrays, name, shape, *, low=-np.inf, high=np.inf, finite=True, dtype=np.float64):
    """A copy of the array of that name, real numbers from `low` to `high`; `finite=False` lets inf and NaN pass.

    Other parameters and errors are those of `integers`.
    """
    found = _shaped(arrays, name, shape, "biuf")
    if finite and not np.isfinite(found).all():
        raise ArchiveError(f"{name!r} holds numbers that are not finite: the file was altered")
    if (found < low).any() or (found > high).any():
        raise ArchiveError(f"{name!r} holds numbers outside {low:g} to {high:g}: the file was altered")
    return np.array(found, dtype=dtype, order="C")


def offsets(arrays, name, n_lists, n_entries):
    """A copy of the (n_lists + 1,) int64 places where lists begin in an array of `n_entries`, checked."""
    found = integers(arrays, name, (n_lists + 1,), 0, n_entries + 1)
    if found[0] != 0 or found[-1] != n_entries or (np.diff(found) < 0).any():
        raise ArchiveError(f"{name!r} does not cut {n_entries} entries into {n_lists} lists: the file was altered")
    return found


def _shaped(arrays, name, shape, kinds):
    if name not in arrays:
        raise ArchiveError(f"{name!r} is missing: the file was altered, or is of another version")
    found = arrays[name]
    if isinstance(found, dict):
        raise ArchiveError(f"{name!r} holds several arrays in place of one: the file was altered")
    found = np.asarray(found)
    if found.dtype.kind not in kinds:
        wanted = "whole numbers" if "f" not in kinds else "numbers"
        raise ArchiveError(f"{name!r} has dtype {found.dtype}; {wanted} are expected: the file was altered")
    is_right = found.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, found.shape))
    if not is_right:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ArchiveError(
            f"{name!r} has shape {found.shape}; ({wanted}) is expected: the file was altered, or is of other data"
        )
    return found
