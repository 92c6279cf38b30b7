"""Checks of arrays that were read from a file: type, shape and range.

Compiled code does not check the labels, slots and positions that it receives. Code that restores a state from a file
checks them first with these functions. Arrays of another run, or altered arrays, can still lead to other errors;
`restoring` turns all of these into an `ArchiveError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
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
MOST = 1e200  # absolute value of stored numbers: sums and products of larger ones are soon infinite or NaN
TINY = np.finfo(np.float64).tiny  # least number that is taken as positive
_COUNTS_TO = 2**62  # largest counter of steps and moves: the sum of two still fits into 64 bits


@contextmanager
def restoring(what: str | PathLike[str]) -> Iterator[None]:
    """Turn errors of arrays that do not fit into an `ArchiveError` about `what`.

    A `PluginError` for a missing plugin stays as it is.

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


def integers(
    arrays: Mapping[str, Any],
    name: str,
    shape: tuple[int | None, ...],
    low: int = 0,
    high: int = _COUNTS_TO,
    *,
    dtype: npt.DTypeLike = np.int64,
) -> np.ndarray:
    """Return a copy of a named array after checking integers from `low` to `high` - 1.

    Parameters
    ----------
    arrays : mapping of str to array
    name : str
    shape : tuple of int or None
        None allows any size of that axis.
    low, high : int
        All numbers must be at least `low` and below `high`.
    dtype : dtype
        Of the copy.

    Raises
    ------
    ArchiveError
        The array is missing, has another type or shape, or contains a number out of range.
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


def numbers(
    arrays: Mapping[str, Any],
    name: str,
    shape: tuple[int | None, ...],
    *,
    low: float = -MOST,
    high: float = MOST,
    finite: bool = True,
    dtype: npt.DTypeLike = np.float64,
) -> np.ndarray:
    """Return a copy of a named array after checking real numbers from `low` to `high`.

    Parameters
    ----------
    arrays, name, shape, dtype
        As in `integers`.
    low, high : float
        Least and largest number that is allowed.
    finite : bool
        False allows all numbers above `low` and below `high`, if these are given, and NaN.

    Raises
    ------
    ArchiveError
        As in `integers`.
    """
    found = _shaped(arrays, name, shape, "iuf")
    if finite and not np.isfinite(found).all():
        raise ArchiveError(f"{name!r} holds numbers that are not finite: the file was altered")
    if not finite:
        low, high = (low if low != -MOST else -np.inf), (high if high != MOST else np.inf)
    low, high = np.float64(low), np.float64(high)  # numbers of Python would be rounded to those of `found`
    if (found < low).any() or (found > high).any():
        raise ArchiveError(f"{name!r} holds numbers outside {low:g} to {high:g}: the file was altered")
    return np.array(found, dtype=dtype, order="C")


def matrix(
    arrays: Mapping[str, Any],
    name: str,
    shape: tuple[int | None, ...],
    *,
    low: float = -MOST,
    high: float = MOST,
    allow_dense: bool = True,
) -> Any:
    """Return a copy of a named matrix, CSR or dense, after checking its numbers.

    Parameters
    ----------
    arrays, name, shape
        As in `integers`.
    low, high : float
        Least and largest number that is allowed.
    allow_dense : bool
        Whether the matrix may be dense.

    Raises
    ------
    ArchiveError
        As in `integers`.
    """
    found: Any = arrays.get(name)
    if not sparse.issparse(found):
        if not allow_dense:
            raise ArchiveError(f"{name!r} is no CSR matrix of shape {shape}: the file was altered")
        return numbers(arrays, name, shape, low=low, high=high)
    _check_shape(name, found, shape)
    numbers({name: found.data}, name, (None,), low=low, high=high)
    return sparse.csr_array(found, copy=True)


def offsets(arrays: Mapping[str, Any], name: str, n_lists: int, n_entries: int) -> npt.NDArray[np.int64]:
    """Return a copy of the (n_lists + 1,) int64 starts of lists after checking them.

    Parameters
    ----------
    arrays, name
        As in `integers`.
    n_lists : int
    n_entries : int
        Size of the array in which the lists lie one after another. The last number is the end of the last list.

    Raises
    ------
    ArchiveError
        As in `integers`.
    """
    found = integers(arrays, name, (n_lists + 1,), 0, n_entries + 1)
    if found[0] != 0 or found[-1] != n_entries or (np.diff(found) < 0).any():
        raise ArchiveError(
            f"{name!r} does not cut {counted(n_entries, 'entry', 'entries')} into "
            f"{counted(n_lists, 'list')}: the file was altered"
        )
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
    _check_shape(name, found, shape)
    return found


def _check_shape(name, found, shape):
    is_right = found.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, found.shape))
    if not is_right:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ArchiveError(
            f"{name!r} has shape {found.shape}; ({wanted}) is expected: the file was altered, or is of other data"
        )
