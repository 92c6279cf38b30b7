"""Checks of data when they enter the package: shape, type, finiteness and support.

Data that pass are a C-contiguous float32 or float64 array, or a canonical `csr_array` (sorted indices, no duplicates,
no stored zeros). Families that keep narrow rows get those of float16 and of integers of one or two bytes as they are.
Data are read-only, and use the caller's memory if nothing had to change. The checks cost O(size of the data) and run in
blocks.
"""

from __future__ import annotations

import copy
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, SupportError
from expfam.families.foreign import OF_TOKENS, is_word, refuse_foreign
from expfam.params import is_auto
from expfam.structures.ground.threads import READERS, of_parts, readers
from expfam.structures.rows.exact_sums import column_extremes
from expfam.structures.rows.finite_cells import are_finite
from expfam.structures.rows.row_copies import copied_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.protocols import Floats

_KEPT_DENSE = (np.float64, np.float32)
NARROW_KINDS = (np.float16, np.int8, np.uint8, np.int16, np.uint16)  # a float32 holds their values exactly
_KEPT_SPARSE = (np.float64, np.float32, np.int64, np.int32)
YES_NO = "yes_no"  # of hyper-parameters that are 0 or 1 for each column, and have no factor
_BLOCK = 1 << 20  # entries checked in one step, so that boolean masks stay small
_MOST_COUNTED = 2.0**53  # above it not every integer is a float64, and sums are no longer exact
_LEAST_SQUARED = 1e-153  # a smaller number has no square among the normal floats
_MOST_SCALE = 1e15  # squares up to this scale, and their inverses, are within the range of a float32
_MOST_RATIO = 1e20  # between the standard deviations of two columns, for families with a full covariance
_TIMES = ("datetime", "timedelta", "timestamp", "date", "duration", "time", "period", "interval")


def check_given(X: Any, *, owner: str) -> None:
    """Raise an error for data that NumPy or SciPy would misread silently or crash on.

    Call it on the user's data before any function of NumPy or SciPy. A DataError refuses masked entries, which NumPy
    would use as if they were not masked, and sparse matrices whose indices do not fit their shape. A DataTypeError
    refuses dates and durations, which NumPy would read as numbers, and what is no matrix yet, such as lists of tokens.
    `owner` is named in the messages.
    """
    if sparse.issparse(X):
        check_structure(X, owner=owner)
        return
    given = X
    check_unmasked(X, owner=owner)
    refuse_foreign(X, owner=owner)
    names, types = _columns_of_frame(X)
    for name, kind in zip(names, types):
        if str(kind).lower().startswith(_TIMES):
            raise DataTypeError(f"{owner}: column {name!r} holds {kind}; {_AS_NUMBERS}")
    if names:
        return
    if not hasattr(X, "dtype"):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of different lengths: `as_matrix` refuses them, by their shape
            return
        if X.ndim == 0 and X.dtype.kind == "O":
            raise DataTypeError(
                f"{owner}: the data are a {type(given).__module__}.{type(given).__name__}, of which NumPy makes no"
                " array: give an array, a sparse matrix of SciPy or a data frame"
            )
    kind = getattr(X.dtype, "kind", "")
    if kind in ("m", "M"):
        raise DataTypeError(f"{owner} needs numbers; the data hold dates or durations ({X.dtype}); {_AS_NUMBERS}")
    if kind in ("O", "U"):
        _refuse_text(np.atleast_1d(np.asarray(X)), owner)
    if kind == "O":
        bad = first_where(
            np.atleast_2d(X), lambda v: np.array([isinstance(e, np.generic) and e.dtype.kind in "mM" for e in v])
        )
        if bad is not None:
            raise DataTypeError(f"{owner}: row {bad[0]}, column {bad[1]} holds a date or a duration; {_AS_NUMBERS}")


def _refuse_text(X, owner):
    """Refuse an array with words in it; text that NumPy reads as a number passes."""
    for (row, *column), cell in np.ndenumerate(X):
        if is_word(cell):
            raise DataTypeError(
                f"{owner}: row {row}, column {column[0] if column else 0} holds the text {cell[:40]!r}: give a data"
                " frame, such as pandas.DataFrame(X).infer_objects(), whose columns may hold text; where each row is a"
                f" document, count its tokens: {OF_TOKENS}"
            )


_AS_NUMBERS = "turn it into numbers of a unit that you choose, such as (dates - dates.min()) / np.timedelta64(1, 'D')"


def _columns_of_frame(X):
    """Return names and types of the columns of a data frame or Arrow table.

    Both lists are empty for other data.
    """
    names = getattr(X, "columns", getattr(X, "column_names", None))
    types = getattr(X, "dtypes", getattr(getattr(X, "schema", None), "types", None))
    if names is None or types is None:
        return [], []
    # `columns` of an Arrow table holds the values, not the names
    if hasattr(X, "schema") and hasattr(X, "column_names"):
        return list(X.column_names), list(X.schema.types)
    return list(names), list(types)


def check_unmasked(values: Any, *, owner: str) -> None:
    """Raise DataError if an entry of a masked array, or of a list of masked arrays, is masked.

    NumPy would ignore the mask.
    """
    rows = values if isinstance(values, (list, tuple)) else ()
    for row, part in enumerate(rows):
        if np.ma.isMaskedArray(part) and np.ma.getmaskarray(part).any():
            raise DataError(f"{owner}: row {row} is masked in part: {_filled('X')}")
    if np.ma.isMaskedArray(values) and (mask := np.ma.getmaskarray(values)).any():
        where = np.argwhere(mask)[0].tolist()
        place = ", ".join(f"{noun} {at}" for noun, at in zip(("row", "column"), where))
        raise DataError(f"{owner}: {place} is masked: {_filled('X' if values.ndim > 1 else owner)}")


def _filled(name):
    """Return what to do about masked entries of the data, or of what belongs to the rows."""
    remedy = left_out(f"numpy.array([not numpy.ma.is_masked(row) for row in {name}])")
    return f"fill the masked entries, {name}.filled(value), or {remedy}"


# Ends of lines about rows; estimators put in their places what does the same to all that was given with the rows.
LEFT_OUT = "X = X[keep]"
REPEATED = "X = X[rows]"


def check_structure(X: Any, *, owner: str) -> None:
    """Raise DataError unless the indices of a sparse matrix of any format fit its shape.

    Compiled code of SciPy and of this package does not check indices and row starts: wrong ones lead to a crash or to
    reads of foreign memory. The check costs O(stored entries) and makes no copies. `owner` is named in the message.
    """
    if X.ndim != 2:
        raise DataError(f"{owner} needs a two-dimensional matrix; got shape {X.shape}")
    if X.format == "coo":
        for indices, size, noun in zip((X.row, X.col), X.shape, ("row", "column")):
            if len(indices) != len(X.data):
                raise DataError(
                    f"{owner}: a COO matrix has {counted(len(X.data), 'value')} and {len(indices)} {noun} numbers"
                )
            _check_indices(indices, size, noun, owner)
    elif X.format in ("csr", "csc", "bsr"):
        block = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        sizes, nouns = [n // b for n, b in zip(X.shape, block)], ["row", "column"]
        if X.format == "csc":
            sizes, nouns = sizes[::-1], nouns[::-1]
        _check_starts(X, sizes[0], nouns[0], owner)
        _check_indices(X.indices, sizes[1], nouns[1], owner)


def _check_starts(X, size, noun, owner):
    starts = X.indptr
    _require_integers(starts, "indptr", owner)
    if len(X.indices) != len(X.data):
        raise DataError(
            f"{owner}: the matrix has {counted(len(X.data), 'value')} and {len(X.indices)} indices; {_REBUILT}"
        )
    if starts.shape != (size + 1,) or starts[0] != 0 or starts[-1] > len(X.indices):
        raise DataError(
            f"{owner}: indptr must hold {counted(size + 1, 'number')} from 0 to at most {len(X.indices)}, the stored "
            f"entries; it has shape {starts.shape}"
            + (f" and reaches {starts[-1]}" if starts.size else "")
            + f"; {_REBUILT}"
        )
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if falls.size:
        raise DataError(f"{owner}: indptr falls after {noun} {falls[0]}, to {starts[falls[0] + 1]}; {_REBUILT}")


def _check_indices(indices, size, noun, owner):
    _require_integers(indices, "indices", owner)
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        bad = int(np.flatnonzero((indices < 0) | (indices >= size))[0])
        raise DataError(
            f"{owner}: stored entry {bad} names {noun} {indices[bad]}; the matrix has {size} {noun}s; {_REBUILT}"
        )


def _require_integers(array, name, owner):
    if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
        raise DataError(f"{owner}: {name} must be a vector of int32 or int64; got {array.dtype} {array.shape}")


_REBUILT = "build the matrix again from its parts"


def as_matrix(
    X: Any,
    *,
    family: str,
    accepts_sparse: bool,
    n_features: int | None = None,
    allow_nan: bool = False,
    keeps_narrow: bool = False,
) -> Any:
    """Return data as a two-dimensional, finite, numeric array or canonical CSR, read-only.

    Parameters
    ----------
    X : array_like or sparse matrix, shape (N, V)
    family : str
        Name of the family, for messages.
    accepts_sparse : bool
        Whether the family reads CSR.
    n_features : int, optional
        Number of columns that the data must have.
    allow_nan : bool
        Whether NaN is allowed: only infinity is refused then.
    keeps_narrow : bool
        Whether dense rows of `NARROW_KINDS` stay as they are, in place of a copy in single precision.

    Raises
    ------
    DataError, DataTypeError
        The data are of another kind or have another number of columns; the message names the place.
    """
    check_given(X, owner=family)
    if sparse.issparse(X):
        if not accepts_sparse:
            raise DataTypeError(
                f"{family} works on dense data only; got a sparse matrix: pass X.toarray() if that fits"
            )
        X = _canonical_csr(X, family)
        values = X.data
    else:
        X = np.asarray(X)
        if X.dtype == object or X.dtype.kind not in "buif":
            raise DataTypeError(f"{family} needs numeric data; got dtype {X.dtype}")
        if X.ndim != 2:
            hint = ": reshape your data with X.reshape(-1, 1) for one feature" if X.ndim == 1 else ""
            raise DataError(f"{family} needs a two-dimensional array (rows, columns); got shape {X.shape}{hint}")
        X = np.ascontiguousarray(X, dtype=X.dtype if keeps_narrow and is_narrow(X) else _dense_kind(X.dtype))
        values = X
    if X.shape[0] < 1 or X.shape[1] < 1:
        raise DataError(f"{family} needs at least one row and one column; got shape {X.shape}")
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(
            f"X has {counted(X.shape[1], 'feature')}, but {family} is expecting {counted(n_features, 'feature')} as "
            "input"
        )
    extremes = _extremes(X)
    is_finite = (
        _are_finite(values, may_miss=allow_nan) if extremes is None else _are_usable(extremes, X.shape[0], allow_nan)
    )
    if values.dtype.kind == "f" and not is_finite:
        bad = first_where(X, (lambda v: np.isinf(v)) if allow_nan else (lambda v: ~np.isfinite(v)))
        if bad is not None:
            rule = "finite values or NaN for missing ones" if allow_nan else "finite values"
            what = "infinity" if allow_nan else "NaN or infinity"
            remedy = f": {without_infinity(X, may_lack=allow_nan)}" if np.isinf(bad[2]) else ""
            raise DataError(f"{family} needs {rule}; row {bad[0]}, column {bad[1]} holds {bad[2]} ({what}){remedy}")
    X = read_only(X)
    if extremes is not None:
        NOTED_EXTREMES.get().append((X, extremes))  # type: ignore[union-attr]  # there is a list
    return X


# ---- extremes that a check has found ---------------------------------------------------------------------------------

# A list in which `as_matrix` notes the extremes of rows, in place of a pass that only looks for infinity. Who asks for
# the extremes of these very rows then does not read them again. It is None unless a caller wants notes.
NOTED_EXTREMES: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("extremes of columns", default=None)


def _extremes(X):
    """Return the extremes of columns of dense real numbers, if they are to be noted."""
    if NOTED_EXTREMES.get() is None or sparse.issparse(X) or X.dtype not in (np.float32, np.float64):
        return None
    return column_extremes(X, readers(X.size) if READERS.get() > 1 else None)


def _are_usable(extremes, n_rows, allow_nan):
    """Tell from the extremes whether no cell is infinite, and none NaN unless that is allowed."""
    low, high, count = extremes
    is_whole = allow_nan or bool((count == n_rows).all())
    return is_whole and bool((low > -np.inf).all() and (high < np.inf).all())


def _are_finite(values, *, may_miss):
    """Return whether all cells are finite, or may miss; False where that is not known."""
    if values.dtype not in (np.float32, np.float64):
        return False
    team = readers(values.size) if READERS.get() > 1 else None
    return are_finite(np.ascontiguousarray(values).reshape(-1), may_miss=may_miss, team=team)


def is_narrow(X: Any) -> bool:
    """Return whether an array has a type of `NARROW_KINDS`."""
    return X.dtype in NARROW_KINDS


def widened(X: Any) -> Any:
    """Return narrow rows in single precision, which is exact, and other data as they are.

    >>> import numpy as np
    >>> from expfam.families.support import widened
    >>> widened(np.array([[3, -7]], dtype=np.int8)).dtype, widened(np.eye(2)).dtype
    (dtype('float32'), dtype('float64'))
    """
    return X.astype(np.float32) if is_narrow(X) else X


def _dense_kind(kind: np.dtype[Any]) -> Any:
    """Return the kind of float that holds dense data of a kind exactly."""
    if kind in NARROW_KINDS:
        return np.float32
    return kind if kind in _KEPT_DENSE else np.float64


def without_infinity(X: Any, *, may_lack: bool) -> str:
    """Return the line about infinite cells: it makes missing cells of them or drops their rows.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
    may_lack : bool
        Whether cells may be missing.
    """
    if sparse.issparse(X):
        return left_out("numpy.isfinite(numpy.asarray(X.sum(axis=1)).ravel())")
    if may_lack:
        return "make missing cells of infinite ones: write X = numpy.where(numpy.isinf(X), numpy.nan, X)"
    return left_out("numpy.isfinite(numpy.asarray(X, float)).all(axis=1)")


def left_out(keep: str, what: str = "such rows") -> str:
    """Return the line that leaves out the rows for which an expression is false.

    >>> from expfam.families.support import left_out
    >>> left_out("X[:, 0] > 0")
    'leave out such rows: write keep = X[:, 0] > 0; X = X[keep]'
    """
    return f"leave out {what}: write keep = {keep}; {LEFT_OUT}"


def repeated(weights: str) -> str:
    """Return the line that repeats rows in place of weights, given the name of these.

    >>> from expfam.families.support import repeated
    >>> repeated("w")
    'repeat the rows: write rows = numpy.repeat(numpy.arange(len(w)), numpy.asarray(w).astype(int)); X = X[rows]'
    """
    times = f"numpy.asarray({weights}).astype(int)"
    return f"repeat the rows: write rows = numpy.repeat(numpy.arange(len({weights})), {times}); {REPEATED}"


def _canonical_csr(X, family):
    if X.dtype == object or X.dtype.kind not in "buif":
        raise DataTypeError(f"{family} needs numeric data; got dtype {X.dtype}")
    given, X = X, as_csr_array(X)
    if X.dtype not in _KEPT_SPARSE:
        X = X.astype(np.float64)
    if X is not given:
        check_structure(X, owner=family)
    shared = X is given or np.shares_memory(X.data, given.data) if hasattr(given, "data") else X is given
    if not _is_canonical(X):
        X = X.copy() if shared else X
        X.has_sorted_indices = X.has_canonical_format = False  # SciPy caches these flags, which may be out of date
        X.prune()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def _is_canonical(X):
    """Return whether a CSR matrix is canonical.

    The columns of each row must increase strictly, no entry may lie behind the last row, and none may be zero.
    """
    indices, starts = X.indices, X.indptr
    if len(indices) != starts[-1]:
        return False
    for start in range(0, len(indices), _BLOCK):
        stop = min(start + _BLOCK, len(indices) - 1)
        falls = indices[start + 1 : stop + 1] <= indices[start:stop]
        first, last = np.searchsorted(starts, (start + 1, stop + 1))
        # the first column of a row need not exceed the last column of the row before
        falls[starts[first:last] - (start + 1)] = False
        if falls.any() or not X.data[start : start + _BLOCK].all():
            return False
    return True


def as_csr_array(X: Any) -> sparse.csr_array:
    """Return a sparse matrix or array of any format as `csr_array`, without a copy if it is CSR.

    Sums, maxima and products of a `csr_matrix` have other shapes and meanings, so the package uses only `csr_array`.
    """
    return X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)


def read_only_array(value: Any) -> Any:
    """Return a read-only view of a dense array; return any other value unchanged."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def read_only(value: Any) -> Any:
    """Return a read-only view of a dense array or `csr_array`; return any other value unchanged."""
    if isinstance(value, sparse.csr_array) and value.data.flags.writeable:
        value = copy.copy(value)  # shallow; a constructor would check all again, for longer than one row is scored
        value.data, value.indices, value.indptr = map(read_only_array, (value.data, value.indices, value.indptr))
    return read_only_array(value)


def chosen_rows(X: Any, rows: Any) -> Any:
    """Return some rows of an array, dense or CSR: the values of ``X[rows]``, read-only.

    Rows are a slice, or numbers.
    """
    if not (isinstance(rows, np.ndarray) and rows.dtype.kind in "iu" and isinstance(X, np.ndarray)):
        return read_only(X[rows])
    if X.ndim == 2 and X.flags.c_contiguous and X.dtype.kind in "biuf":
        return read_only_array(copied_rows(X, rows))
    return read_only_array(X.take(rows, axis=0))  # in a quarter of the time of `X[rows]`


def first_where(X: Any, test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> tuple[int, int, Any] | None:
    """Return (row, column, value) of the first entry for which `test` is true, or None.

    `test` maps an array of values to an array of booleans. Of CSR data only the stored entries are tested.
    """
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X.ravel()
    first = partial(_first_place, values, test)
    found = [first(0, values.size)] if READERS.get() == 1 else of_parts(first, values.size, values.size)
    at = next((place for place in found if place is not None), None)
    if at is None:
        return None
    if is_sparse:
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    else:
        row, column = divmod(at, X.shape[1])
    return row, column, values[at].item()


def _first_place(values, test, start, stop):
    """Return the place of the first value in start..stop-1 that passes the test, or None."""
    for first in range(start, stop, _BLOCK):
        hits = np.flatnonzero(test(values[first : min(first + _BLOCK, stop)]))
        if hits.size:
            return first + int(hits[0])
    return None


def check_counts(X: Any, *, family: str, allow_fractional: bool = False, remedy: str | None = None) -> None:
    """Raise SupportError unless the data are non-negative counts with an exact sum.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
        NaN is passed over.
    family : str
        Name of the family, for messages.
    allow_fractional : bool
        Whether fractions are allowed; if not, counts must be integers to within 1e-9.
    remedy : str, optional
        End of the message about a fraction; without it, the remedies are those of any family of counts.

    Raises
    ------
    SupportError
        The message names row, column and rule. Counts that add up to 2**53 or more are refused too: above it float64
        cannot hold every integer, and removing a datum from a cluster would not restore the sums.
    """
    needs = f"{family} needs {'non-negative values' if allow_fractional else 'non-negative integer counts'}"
    bad = first_where(X, lambda v: v < 0)
    if bad is not None:  # the words after the colon are scikit-learn's: users search for them
        raise SupportError(f"{needs}; row {bad[0]}, column {bad[1]} holds {bad[2]}: Negative values in data")
    if not allow_fractional and X.dtype.kind == "f":
        bad = first_where(X, lambda v: np.abs(v - np.rint(v)) > 1e-9)
        if bad is not None:
            raise SupportError(f"{needs}; row {bad[0]}, column {bad[1]} holds {bad[2]}; {remedy or _rounded(X)}")
    values = (X.data if sparse.issparse(X) else X).ravel()
    total = _total(values)
    if np.isnan(total):
        values = values[~np.isnan(values)]  # missing values: `as_matrix` has refused them where they are not allowed
        total = _total(values)
    if not total < _MOST_COUNTED:
        largest = values.max()
        row, column, _ = cast("tuple[int, int, Any]", first_where(X, lambda v: v == largest))
        raise SupportError(
            f"{family} needs counts that add up to less than 2**53, so that sums are exact; they add up to {total:.4g},"
            f" and row {row}, column {column} holds {largest:.4g}, the largest: divide the counts by a common unit"
        )


def _rounded(X):
    """Return the remedies for fractions in counts, as lines to type."""
    line = "X = X.rint()" if sparse.issparse(X) else "X = numpy.rint(X)"
    return f"where they are counts, round them: {line}; for other numbers take family='gaussian_diag'"


def _total(values):
    return sum(float(values[at : at + _BLOCK].sum(dtype=np.float64)) for at in range(0, values.size, _BLOCK))


def check_hyper(family: str, name: str, value: Any, *, positive: bool = True, vector: bool = True) -> None:
    """Raise ValueError unless `value` is "auto", a finite number or an array of one per column.

    Parameters
    ----------
    family, name : str
        Names of the family and of the hyper-parameter, for the message.
    value : object
    positive : bool
        Whether numbers must be positive.
    vector : bool
        Whether arrays are allowed.
    """
    if is_auto(value):
        return
    rule = f"{'positive and ' * positive}finite: a number{', or one per column' * vector}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > int(vector) or not np.isfinite(array).all() or (positive and not (array > 0).all()):
        raise ValueError(f"{family}: {name} must be {rule}; got {value!r}")


def check_choices(family: str, name: str, value: Any) -> None:
    """Raise ValueError unless `value` is "auto", True, False or one of these per column.

    Parameters
    ----------
    family, name : str
        Names of the family and of the hyper-parameter, for the message.
    value : object
    """
    if is_auto(value):
        return
    array = np.asarray(value)
    if array.ndim > 1 or array.dtype.kind not in "buif" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"{family}: {name} must be 'auto', True or False, or one of these per column; got {value!r}")


class ScaleError(DataError):
    """The standard deviation of a column is too small or too large for the squares of a family."""


def check_scales(variance: Floats, *, family: str) -> None:
    """Raise ScaleError unless each column has a standard deviation from 1e-15 to 1e15.

    `variance` (V,) are the variances of the columns. Constant columns pass.
    """
    with np.errstate(invalid="ignore"):
        usable = (variance == 0) | ((variance >= _MOST_SCALE**-2) & (variance <= _MOST_SCALE**2))
    bad = np.flatnonzero(~usable)
    if bad.size:
        scale = float(np.sqrt(variance[bad[0]]))
        found = f"of {scale:.3g}" if _LEAST_SQUARED < scale < np.inf else "of a size whose square no float holds"
        raise ScaleError(
            f"{family}: column {bad[0]} has a standard deviation {found}; it must lie within {1 / _MOST_SCALE:g} and"
            f" {_MOST_SCALE:g}, so that squares and variances stay within the range of floats: rescale the column,"
            f" write X[:, {bad[0]}] /= numpy.nanmax(numpy.abs(X[:, {bad[0]}])), or where its values lie close together"
            " take sklearn.preprocessing.StandardScaler"
        )


def check_ratio(variance: Floats, *, family: str) -> None:
    """Raise DataError if the standard deviations of two columns differ by a factor above 1e20.

    Constant columns are ignored. This check is for families with covariance matrices of several columns, whose
    inverses would be beyond the precision of float64.
    """
    varied = np.where(variance > 0, variance, np.nan)
    if np.isnan(varied).all():
        return
    low, high = int(np.nanargmin(varied)), int(np.nanargmax(varied))
    ratio = np.sqrt(variance[high]) / np.sqrt(variance[low])
    if ratio > _MOST_RATIO:
        raise DataError(
            f"{family}: the standard deviation of column {high} is {ratio:.3g} times that of column {low}; it may be"
            f" {_MOST_RATIO:g} times: rescale the columns, for example with sklearn.preprocessing.StandardScaler"
        )


def check_interval(X: Any, low: float, high: float, *, family: str, closed: bool = True) -> None:
    """Raise SupportError unless all values lie in [low, high], or (low, high] if not `closed`.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
        Entries that CSR data do not store are 0. NaN is passed over.
    low, high : float
    family : str
        Name of the family, for the message.
    closed : bool
        Whether `low` itself is allowed.

    Raises
    ------
    SupportError
        The message names row, column and rule.
    """
    outside = (lambda v: (v < low) | (v > high)) if closed else (lambda v: (v <= low) | (v > high))
    bad = first_where(X, outside)
    bracket = "[" if closed else "("
    if bad is not None:
        # these words are scikit-learn's: users search for them
        negative = ": Negative values in data" if low >= 0 > bad[2] else ""
        raise SupportError(
            f"{family} needs values in {bracket}{low}, {high}]; row {bad[0]}, column {bad[1]} holds {bad[2]}{negative}"
        )
    if sparse.issparse(X) and outside(np.zeros(1))[0] and X.nnz < X.shape[0] * X.shape[1]:
        raise SupportError(f"{family} needs values in {bracket}{low}, {high}]; the sparse matrix holds zeros")


def check_unit(X: Any, *, family: str, tolerance: float = 1e-6, remedy: str = "normalise the rows first") -> None:
    """Raise DataError unless the length of each row is 1 to within a tolerance.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
    family : str
        Name of the family, for the message.
    tolerance : float
        Largest difference from 1.
    remedy : str
        End of the message, which names the row.

    Raises
    ------
    DataError
    """
    lengths = row_lengths(X)
    bad = np.flatnonzero(~(np.abs(lengths - 1.0) <= tolerance))
    if bad.size:
        raise DataError(f"{family} needs rows of unit length; row {bad[0]} has length {lengths[bad[0]]:.8g}: {remedy}")


def row_lengths(X: Any) -> Floats:
    """Return the length of each row of a dense array or CSR: (N,) float64."""
    if not sparse.issparse(X):
        return np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(rows, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[0]))


def dense_rows(S: Any) -> Floats:
    """Return `S`, sparse or dense, as a dense float64 array."""
    return S.toarray().astype(np.float64, copy=False) if sparse.issparse(S) else np.asarray(S, dtype=np.float64)
