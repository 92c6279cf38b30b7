"""Data with columns or holes: the family that suits them, and their encoded matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.families.columns.family import Columns
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.io.frames import as_frame

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.families.columns.roles import Roles


def family_of_frame(X: Any, *, owner: str) -> Family | None:
    """Return the family of a frame by roles; None if all columns are floats without holes."""
    frame = as_frame(X, owner=owner)
    return None if frame.is_plain() else Columns.from_frame(frame)


def array_has_holes(X: Any) -> bool:
    """Return whether an array, or what makes one, holds floats with NaN among them."""
    if sparse.issparse(X):
        return False
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, which are refused later
        return False
    if values.dtype.kind != "f" or values.ndim != 2:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(values.sum())) and bool(np.isnan(values).any())


def family_with_holes(X: Any) -> Family:
    """Return the family of an array with holes: independent Gaussian columns."""
    return Columns([(DiagonalGaussian(), tuple(range(np.shape(X)[1])))])


def encoded(X: Any, roles: Roles, *, owner: str) -> tuple[npt.NDArray[Any], str]:
    """Return the matrix of a frame, and the name of the library that the frame is of."""
    frame = as_frame(X, owner=owner)
    return roles.encode(frame, owner=owner), frame.backend
