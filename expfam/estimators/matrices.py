"""What a user gave, as the matrix of numbers that a family reads.

Arrays are read by position. Columns of a frame are matched by name with those of the fit, in any order, and its missing
cells are NaN. All checks that need names are made here, so that errors name columns as the user does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from expfam.errors import DataTypeError
from expfam.estimators.missing_cells import may_be_infinite_or_missing, refuse_infinity, refuse_missing
from expfam.estimators.odd_data import refuse_odd_data
from expfam.estimators.tables import check_numbers, require_rows
from expfam.families.support import NARROW_KINDS, check_given
from expfam.frames.frame import Frame, as_frame, is_frame
from expfam.frames.names import check_names
from expfam.frames.numbers import check_finite, numbers_of_frame
from expfam.user_warnings import warn

_KINDS = (np.float64, np.float32, np.int64, np.int32, *NARROW_KINDS)  # of data that are used as they are


def checked_input(
    estimator: Any,
    X: Any,
    *,
    frame: Frame | None = None,
    reset: bool,
    accepts_sparse: bool,
    may_lack: bool = False,
    family_checks: bool = False,
) -> Any:
    """Return X as an (N, V) array or CSR, checked as scikit-learn checks it.

    Parameters
    ----------
    estimator, X : Estimator, and array_like, sparse matrix or frame
    frame : Frame, optional
        X, if it is a frame that was opened already.
    reset : bool
        Whether the number and names of the columns are learned from X; otherwise those learned are asked for.
    accepts_sparse : bool
    may_lack : bool
        Whether NaN, a missing cell, is taken.
    family_checks : bool
        Whether infinity is left to the family, which refuses it.

    Returns
    -------
    (N, V) ndarray or CSR

    Raises
    ------
    DataError, DataTypeError, ValueError, TypeError
        The message names row and column, and what to do.
    """
    owner, names = type(estimator).__name__, None
    if frame is not None or is_frame(X):
        frame = frame or as_frame(X, owner=owner)
        X, names = _columns_of_frame(estimator, X, frame, reset=reset, accepts_sparse=accepts_sparse)
    check_given(X, owner=owner)
    if names is None:
        if frame is None:
            refuse_odd_data(X, owner=owner)
        if not reset and _would_pass(estimator, X, accepts_sparse):
            return X
        found = _validated(estimator, X, reset=reset, accepts_sparse=accepts_sparse)
    else:
        found = check_array(X, **_options(estimator, accepts_sparse))
    if not (family_checks and may_lack) and may_be_infinite_or_missing(found):
        if not family_checks:
            refuse_infinity(estimator, found, may_lack=may_lack)
        if not may_lack:
            refuse_missing(estimator, found, names, of_fit=reset)
    return found


def _options(estimator, accepts_sparse):
    return {
        "accept_sparse": "csr" if accepts_sparse else False,
        "dtype": list(_KINDS),
        "ensure_all_finite": False,
        "estimator": estimator,
    }


def _validated(estimator, X, *, reset, accepts_sparse):
    if reset and _is_plain(X):
        estimator.__dict__.pop("feature_names_in_", None)  # of the frame of an earlier fit
        estimator.n_features_in_, found = X.shape[1], X
    else:
        options = _options(estimator, accepts_sparse)
        del options["estimator"]
        found = validate_data(estimator, X, reset=reset, **options)
    if reset:
        estimator.__dict__.pop("_backend", None)  # of the frame of an earlier fit
    return found


def _is_plain(X: Any) -> bool:
    """Return whether `validate_data` would only note the number of columns, and return X itself.

    Of a few rows it takes a tenth of the time of the fit.
    """
    return type(X) is np.ndarray and X.dtype in _KINDS and X.ndim == 2 and X.size > 0


def _would_pass(estimator: Any, X: Any, accepts_sparse: bool) -> bool:
    """Return whether `validate_data` would return X itself, without a warning.

    For one row this costs a tenth of its time. False means that it is to be asked: it then has the error, the warning
    or the conversion.
    """
    is_sparse = accepts_sparse and type(X) in (sparse.csr_array, sparse.csr_matrix)
    if not (is_sparse or type(X) is np.ndarray) or X.dtype not in _KINDS or X.ndim != 2 or X.shape[0] < 1:
        return False
    if X.shape[1] != estimator.__dict__.get("n_features_in_") or "feature_names_in_" in estimator.__dict__:
        return False
    values = X.data if is_sparse else X
    with np.errstate(over="ignore", invalid="ignore"):
        return values.dtype.kind != "f" or bool(np.isfinite(values.sum()))


# ---- frames ----------------------------------------------------------------------------------------------------------


def _columns_of_frame(estimator, X, frame, *, reset, accepts_sparse):
    """Return the cells of a frame, and the names of their columns or None.

    Columns whose names are not text, such as the numbers that pandas gives, are read by position as those of an array.
    """
    owner = type(estimator).__name__
    require_rows(frame, owner=owner)
    is_named = _has_names(X, owner)
    if reset:
        if not isinstance(X, Frame):
            check_given(X, owner=owner)
        if is_named:
            estimator.feature_names_in_ = np.array(frame.names, dtype=object)
            estimator.n_features_in_, estimator._backend = len(frame.names), frame.backend
        return _cells(
            estimator, X, frame, of_fit=True, accepts_sparse=accepts_sparse
        ), frame.names if is_named else None
    known = estimator.__dict__.get("feature_names_in_")
    if known is None or not is_named:
        if is_named and not isinstance(X, Frame):
            text = f"X has feature names, but {owner} was fitted without feature names"
            warn(text)
        return _cells(estimator, X, frame, of_fit=False, accepts_sparse=accepts_sparse), None
    known = list(map(str, known))
    check_names(frame.names, known, known, owner=owner)
    if list(frame.names) != known:
        X, frame = _selected(X, known), frame.only(known)
    return _cells(estimator, X, frame, of_fit=False, accepts_sparse=accepts_sparse), frame.names


def _has_names(X, owner):
    """Return whether the columns of a frame have names; those of some only are refused."""
    if isinstance(X, Frame) or not type(X).__module__.startswith("pandas"):
        return True
    are_text = [isinstance(name, str) for name in X.columns]
    if any(are_text) and not all(are_text):
        raise DataTypeError(
            f"{owner}: the feature names, which are the names of the columns, are text for some columns only: write"
            " X.columns = X.columns.astype(str)"
        )
    return all(are_text)


def _selected(X, names):
    """Return a frame of pandas with some of its columns; other frames are read through `Frame`."""
    return X[names] if type(X).__module__.startswith("pandas") else X


def _cells(estimator, X, frame, *, of_fit, accepts_sparse):
    """Return the cells of a frame as numbers, NaN where they are missing."""
    may_lack = hasattr(estimator, "_family")  # counts of words are never missing
    if type(X).__module__.startswith("pandas") and _is_block(X):
        if accepts_sparse and all(type(kind).__name__ == "SparseDtype" and kind.fill_value == 0 for kind in X.dtypes):
            return X
        values = X.to_numpy()  # other values than 0 are not sparse to SciPy
        if values.dtype.kind == "f" and np.isinf(values).any():
            column = frame.column(frame.names[int(np.isinf(values).any(axis=0).argmax())])
            check_finite(column, may_lack=may_lack)
        return values
    if of_fit:
        check_numbers(frame, owner=type(estimator).__name__)
    return numbers_of_frame(frame, of_fit=not of_fit, may_lack=may_lack)


def _is_block(X):
    """Return whether all columns are NumPy's numbers, or all are sparse."""
    kinds = set(X.dtypes)
    if all(isinstance(kind, np.dtype) for kind in kinds):
        return all(kind.kind in "iuf" for kind in kinds)
    return all(type(kind).__name__ == "SparseDtype" for kind in kinds)
