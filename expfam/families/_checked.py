"""Checks around the methods of a family: read-only arguments, results of the right form.

`Family` wraps the methods of every subclass once, when the class is made. A wrong result raises an error that names
the method. Without the check, NumPy might broadcast it and give wrong answers silently, or fail in another place.
A call costs about 2 microseconds more, for views of the arguments and one comparison over the result.
"""

from __future__ import annotations

import functools
import inspect
from functools import partial
from types import FunctionType

import numpy as np
from scipy import sparse

from expfam.errors import PluginError
from expfam.families._method_texts import METHODS, whole_docstring
from expfam.families.support import as_csr_array, dense_rows, read_only, read_only_array

_FLOAT64 = np.dtype(np.float64)
_largest = partial(np.maximum.reduce, axis=None)


def check_methods(cls: type, base: type) -> None:
    """Wrap the methods of `cls`, a subclass of `base`, in checks; methods of `base` itself stay."""
    for name, judge in _JUDGES.items():
        method = inspect.getattr_static(cls, name, None)
        if callable(method) and method is not base.__dict__.get(name) and not hasattr(method, "is_checked"):
            setattr(cls, name, _checked(name, method, judge))
    for name in METHODS:
        method = cls.__dict__.get(name)
        if isinstance(method, FunctionType):
            method.__doc__ = whole_docstring(name, method.__doc__)


def _checked(name, method, judge):
    """Return the method with read-only arguments, whose result is what `judge` returns.

    `judge` receives the family, the name of the method, its result and its arguments.
    """
    protect = _PROTECTS.get(judge, _protected)

    @functools.wraps(method)
    def checked(self, *args, **kwargs):
        args = [protect(each) for each in args]
        if not kwargs:
            return judge(self, name, method(self, *args), *args)
        kwargs = {key: protect(each) for key, each in kwargs.items()}
        result = method(self, *args, **kwargs)
        return judge(self, name, result, *inspect.signature(method).bind(self, *args, **kwargs).args[1:])

    checked.is_checked = True
    return checked


def _protected_data(X):
    """Return a read-only view of the user's data, CSR data as `csr_array`.

    Only `validate` needs it: the other methods receive validated data, which are read-only.
    """
    return read_only(as_csr_array(X) if sparse.issparse(X) and X.format == "csr" else X)


def _protected(value):
    """Return a read-only view of an array of NumPy; other values are left to `read_only_array`.

    Nearly all arguments are such arrays, and there are thousands of calls in a fit.
    """
    if type(value) is not np.ndarray:
        return read_only_array(value)
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def _protected_sums(value):
    """Return a read-only view; CSR sums of clusters become an array.

    Estimators of sparse data have such sums as `S_`.
    """
    if type(value) is not np.ndarray and sparse.issparse(value):
        value = dense_rows(value)
    return _protected(value)


# ---- results ---------------------------------------------------------------------------------------------------------


def _taken(family, name, result, *arguments):
    """Return any result unchanged."""
    return result


def _matrix(family, name, X, *arguments):
    """Return data as read-only; sparse data as `csr_array`."""
    return read_only(as_csr_array(X) if sparse.issparse(X) else X)


def _statistics(family, name, phi, X):
    """Return statistics if they have one row for each row of X, CSR ones as `csr_array`.

    The values are not checked here, but where they are summed.
    """
    is_sparse = type(phi) is not np.ndarray and sparse.issparse(phi)  # thousands of calls: the type alone is cheap
    N, F = np.shape(X)[0], family.__dict__.get("n_statistics_")  # None while `bind` runs
    if not (is_sparse or isinstance(phi, np.ndarray)) or phi.dtype.kind not in "buif" or phi.ndim != 2:
        _refuse(family, name, phi, (N, F or "F"))
    if phi.shape != (N, F or phi.shape[1]):
        _refuse(family, name, phi, (N, F or "F"))
    return as_csr_array(phi) if is_sparse else phi


def _by_row(family, name, values, X):
    """Return `values` if there is one real number below infinity for each row of X."""
    _check_real(family, name, values, (np.shape(X)[0],))
    _check_below_inf(family, name, values, "row")
    return values


def _by_cluster(family, name, values, n, S):
    """Return `values` if there is one float64 for each cluster, neither NaN nor +inf."""
    if type(values) is not np.ndarray or values.dtype != _FLOAT64 or values.shape != np.shape(n):
        _refuse(family, name, values, np.shape(n))
    _check_below_inf(family, name, values, "cluster", S)
    return _contiguous(values)


def _by_row_and_cluster(family, name, values, X, n, S):
    """Return `values` if there is one real number below infinity for each row and cluster."""
    _check_real(family, name, values, (np.shape(X)[0], *np.shape(n)))
    _check_below_inf(family, name, values, "row and cluster", S)
    return values


def _natural(family, name, result, n, S, *rng):
    """Return theta (K, F) and g (K,) if they are float64 without NaN.

    They may be infinite at the edge of the support.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise PluginError(f"family {family.name!r}: {name} must return a pair (theta, g); got {_described(result)}")
    for what, values, shape in zip((f"theta of {name}", f"g of {name}"), result, (np.shape(S), np.shape(n))):
        if type(values) is not np.ndarray or values.dtype != _FLOAT64 or values.shape != shape:
            _refuse(family, what, values, shape)
        if values.size and np.isnan(np.maximum.reduce(values, axis=None)):
            _refuse_value(family, what, values, np.isnan(values), "cluster", S)
    return tuple(_contiguous(values) for values in result)


def _by_parameter(family, name, values, Theta, *G):
    """Return `values` if there is one real number for each row of Theta."""
    _check_real(family, name, values, (np.shape(Theta)[0],))
    return values


def _by_name(family, name, params, n, S):
    """Return `params` if they are a dict of arrays with one row a cluster, or of such dicts."""
    if not isinstance(params, dict):
        raise PluginError(f"family {family.name!r}: {name} must return a dict of arrays; got {_described(params)}")
    for key, values in params.items():
        if not isinstance(values, dict) and np.shape(values)[:1] != np.shape(n):
            _refuse(family, f"{key!r} of {name}", values, (*np.shape(n), "..."))
    return params


def _count(family, name, number, n_clusters):
    """Return `number` if it is an integer of at least 0."""
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < 0:
        raise PluginError(
            f"family {family.name!r}: {name} must return an integer of at least 0; got {_described(number)}"
        )
    return number


def _check_real(family, name, values, shape):
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "buif" or values.shape != shape:
        _refuse(family, name, values, shape)


def _check_below_inf(family, name, values, unit, S=None):
    """Raise FloatingPointError if a value is NaN or +inf.

    One comparison is enough: the largest of some numbers is NaN if one of them is.
    """
    if values.size and not (values.item() if values.size == 1 else _largest(values)) < np.inf:
        _refuse_value(family, name, values, ~(values < np.inf), unit, S)


def _contiguous(values):
    return values if values.flags.c_contiguous else np.ascontiguousarray(values)


# ---- refusals --------------------------------------------------------------------------------------------------------


def _refuse(family, name, result, shape):
    shape = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
    raise PluginError(
        f"family {family.name!r}: {name} must return real numbers, float64, of shape {shape}; got {_described(result)}"
    )


def _refuse_value(family, name, values, is_bad, unit, S):
    place = np.argwhere(is_bad)[0]
    position = ", ".join(map(str, place))
    cause = ""
    if S is not None:
        S = S.data if sparse.issparse(S) else np.asarray(S)
        cause = " though the statistics S are finite" if np.isfinite(S).all() else ": the statistics S are not finite"
    raise FloatingPointError(
        f"family {family.name!r}: {name} returned {values[tuple(place)]} for {unit} {position}{cause};"
        " a finite number is expected"
    )


def _described(result):
    if isinstance(result, np.ndarray) or sparse.issparse(result):
        return f"{result.dtype} of shape {result.shape}"
    return f"{type(result).__name__} {result!r:.60}"


_JUDGES = {
    "sufficient_statistics": _statistics,
    "log_base": _by_row,
    "log_marginal": _by_cluster,
    "log_predictive": _by_row_and_cluster,
    "expected_natural": _natural,
    "draw_natural": _natural,
    "map_natural": _natural,
    "log_prior": _by_parameter,
    "log_partition": _by_parameter,
    "validate": _matrix,
    "resolve": _taken,
    "sample": _taken,
    "to_params": _taken,
    "cluster_params": _by_name,
    "n_free_parameters": _count,
}

_PROTECTS = {
    _matrix: _protected_data,
    _natural: _protected_sums,
    _by_cluster: _protected_sums,
    _by_name: _protected_sums,
}
