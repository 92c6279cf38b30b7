"""Missing and infinite cells that a model does not take: the error, with the line to type."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.estimators.lines import arguments_of, call_of, settings_of
from expfam.families.counts.categorical import Categorical
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.support import first_where, left_out, without_infinity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family

_MOST_TEXT = 30  # of a setting that is repeated in a line to type
_OPEN = "'auto'"  # the text of a family that is left to the data
_WHOLE_ROWS = "~numpy.isnan(numpy.asarray(X, float)).any(axis=1)"
_HAS_ALL = "all(cell is not None and cell == cell for cell in {})"  # NaN is not equal to itself
_WHOLE_FRAME = {
    "pandas": "X.notna().all(axis=1).to_numpy()",
    "polars": f"numpy.array([{_HAS_ALL.format('row')} for row in X.rows()])",
    "pyarrow": f"numpy.array([{_HAS_ALL.format('row.values()')} for row in X.to_pylist()])",
}


def refuse_missing(estimator: Any, X: Any, names: Sequence[str] | None, *, of_fit: bool) -> None:
    """Raise DataError for the first NaN of a matrix; its message says what to type.

    Parameters
    ----------
    estimator : Estimator
    X : (N, V) ndarray or CSR
    names : sequence of str, optional
        Names of the columns.
    of_fit : bool
        Whether the rows are those of a fit.
    """
    found = first_where(X, np.isnan)
    if found is None:
        return
    row, column, _ = found
    place = f"row {row}, column {column if names is None else repr(str(names[column]))}"
    raise DataError(
        f"Input X contains NaN: {type(estimator).__name__}: {place} is missing: {_remedy(estimator, X, names, of_fit)}"
    )


def refuse_infinity(estimator: Any, X: Any, *, may_lack: bool) -> None:
    """Raise DataError for the first infinite value of a matrix, dense or CSR.

    Parameters
    ----------
    estimator : Estimator
    X : (N, V) ndarray or CSR
    may_lack : bool
        Whether cells may be missing. Then, and where the family is left to the data, the line to type makes infinite
        cells missing.

    Raises
    ------
    DataError
        The message names row and column, and says what to type.
    """
    found = first_where(X, np.isinf)
    if found is not None:
        row, column, value = found
        raise DataError(
            f"Input X contains infinity: {type(estimator).__name__}: row {row}, column {column} holds {value}: put a"
            f" number in its place, or {without_infinity(X, may_lack=may_lack or _is_open(estimator))}"
        )


def _is_open(estimator):
    """Return whether the family is left to the data, so that cells may be missing."""
    family = getattr(estimator, "family", None)
    return hasattr(estimator, "_family") and isinstance(family, str) and family == "auto"


def may_be_infinite_or_missing(X: Any) -> bool:
    """Return False for a matrix, dense or CSR, without infinity and NaN; a sum tells it.

    For sums that overflow it is True.
    """
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        return values.dtype.kind == "f" and not bool(np.isfinite(values.sum()))


def _remedy(estimator, X, names, of_fit):
    whole = _WHOLE_ROWS if names is None else _WHOLE_FRAME[estimator.__dict__.get("_backend", "pandas")]
    rows = left_out(whole, "rows that lack cells")
    if sparse.issparse(X):
        return "a sparse matrix has no missing cells; store a zero, or leave out the row"
    if not hasattr(estimator, "_family"):
        return f"counts are never missing; where a missing one means none, write X = numpy.nan_to_num(X); else {rows}"
    family = estimator._family()
    if family.support == "unit":
        return f"a direction needs all cells of its row: {rows}"
    line = line_with_holes(estimator, family, X.shape[1])
    if not of_fit:
        return f"{family.name} needs all cells of a row: {rows}; a model that takes holes is {line}"
    takes = f"{family.name} takes no missing cells as it is given: write {line}"
    takes += f", or leave the family to the data: {_call(estimator, _OPEN)}" if family.support == "real" else ""
    return takes if family.has_independent_columns or isinstance(family, Categorical) else f"{takes}; or {rows}"


def line_with_holes(estimator: Any, family: Family, n_columns: int) -> str:
    """Return the call of an estimator whose family takes missing cells.

    Parameters
    ----------
    estimator : Estimator
        Settings that differ from their defaults are repeated.
    family : Family
        As the user gave it. A family whose columns depend on each other is replaced by one whose columns do not.
    n_columns : int

    Examples
    --------
    >>> from expfam import Mixture, Poisson
    >>> from expfam.estimators.missing_cells import line_with_holes
    >>> line_with_holes(Mixture("poisson", 3), Poisson(), 2)
    'Mixture(Columns([(Poisson(), range(2))]), n_components=3)'
    """
    if isinstance(family, DiagonalGaussian):
        return _call(estimator, _made(family, missing=True))
    if family.has_independent_columns or isinstance(family, Categorical):
        return _call(estimator, f"Columns([({_made(family)}, range({n_columns}))])")
    if family.support == "real":
        return _call(estimator, "DiagonalGaussian(missing=True)")
    return _call(estimator, f"Columns([(Poisson(), range({n_columns}))])")


def _call(estimator, family):
    """Return the call of an estimator with its settings, and the text of another family first."""
    texts = {name: text for name, text in settings_of(estimator).items() if name != "family"}
    owner = type(estimator)
    return call_of(owner.__name__, arguments_of(owner), {"family": family} | texts, n_unnamed=int(family != _OPEN))


def _made(family, **changed):
    """Return the call that makes an unbound family with other settings."""
    values = {name: value for name, value in family.get_params().items() if name not in changed}
    settings = _settings(family, values) + [f"{name}={value!r}" for name, value in changed.items()]
    return f"{type(family).__name__}({', '.join(settings)})"


def _settings(owner, values):
    """Return "name=value" of the settings that differ from the defaults and have a short text."""
    defaults = {name: entry.default for name, entry in inspect.signature(type(owner).__init__).parameters.items()}
    plain = (bool, int, float, str, type(None))
    changed = {k: v for k, v in values.items() if isinstance(v, plain) and v != defaults.get(k)}
    return [f"{name}={value!r}" for name, value in changed.items() if len(repr(value)) <= _MOST_TEXT]
