"""Shared parts of Gaussian families: column summaries, checks, packed symmetric matrices.

Statistics are sums about `center_`, the column means at binding, because S2 - n m m' would lose all digits if the data
lie far from the origin.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, DataWarning
from expfam.families.base import Family
from expfam.families.column_summaries import summaries_of_rows
from expfam.families.components import Components
from expfam.families.gaussian.definite import invert_definite
from expfam.families.support import check_hyper, check_scales, dense_rows
from expfam.params import is_auto
from expfam.structures.ground.threads import single_blas
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats

LOG_2PI = float(np.log(2.0 * np.pi))
PRIOR_SHARE = 0.1  # prior mean of a variance within a cluster, as a share of the column's variance
LEARNED_SHARE = 0.001  # least learned share: the evidence of tied values grows without bound as it falls
# of a learned mean strength: without them it left its value at binding by factors of 100 (breast cancer) and 2e4 (wine)
STRENGTHS = (0.01, 1.0)
MOST_FACTOR = 1e6  # of a learned scale


class RealFamily(Family):
    """Base class of Gaussian families: centring, bounds of learned scales, compiled prediction."""

    support = "real"
    asks_for_extremes = True
    center_: Floats
    resolution_: Floats
    variance_floor_: Floats

    def resolve_center(self, rows: AllRows) -> tuple[dict[str, Floats], Floats]:
        """Return the attributes learned from the columns, and the column variances (V,).

        The attributes are center_, resolution_ and variance_floor_, each (V,). The weights of the rows are above 0.
        """
        mean, variance, resolution = summaries_of_rows(rows, of_logs=self.of_logs)
        empty = np.flatnonzero(np.isnan(mean))
        if empty.size:
            raise DataError(f"{self.name}: {_listed(empty)} without a value in any row: leave out such columns")
        check_scales(variance, family=self.name)
        learned = {
            "center_": mean,
            "resolution_": resolution,
            "variance_floor_": np.maximum(LEARNED_SHARE * variance, resolution**2 / 12.0),
        }
        return learned, variance

    def _bounds_from(self, name: str, base: Floats) -> tuple[float, float]:
        """Return `hyper_bounds`, given the value at binding.

        A mean strength stays within 0.01 and 1 data, or as near to that as the value at binding is. A scale stays so
        large that the prior variance of each column exceeds 0.001 of the column's variance, and in columns with many
        tied values the variance of rounding to the smallest gap. Where all columns are constant, so that data have no
        scale, it exceeds 0.001 of the value at binding.
        """
        if name == "mean_strength":
            low, high = STRENGTHS
            base = np.asarray(base)
            return min(1.0, low / float(base.min())), max(1.0, high / float(base.max()))
        if name not in ("rate", "scale"):
            return super()._bounds_from(name, base)
        variance = self._prior_variance(base)
        floor = self.variance_floor_ if np.ndim(variance) else self.variance_floor_.mean()
        if not (floor > 0.0).any():
            return LEARNED_SHARE, MOST_FACTOR
        return min(1.0, float((floor / variance).max())), MOST_FACTOR

    def _prior_variance(self, scale: Floats) -> Floats:
        """Return the prior variances that follow from a scale: (V,), or one number for all columns."""
        raise NotImplementedError

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of each row given each cluster's data: (N, K) nats.

        The log base measure is left out; see `Family.log_predictive`.
        """
        self.require_bound()
        rows, n = Rows(self.validate(X), self.n_statistics_), np.asarray(n, dtype=np.float64)
        if n.shape[0] == 0:
            return np.empty((rows.n_rows, 0))
        components = Components(self, rows, n.shape[0])
        components.load(n, dense_rows(S))
        return components.log_predictive_block(0, rows.n_rows, n.shape[0])


class Rows:
    """Data with the attributes of a data set that compiled components read."""

    def __init__(self, X: Any, n_statistics: int) -> None:
        self.X, self.n_statistics = X, n_statistics
        self.n_rows, self.n_features = X.shape
        self.is_sparse = sparse.issparse(X)


# ---- columns ---------------------------------------------------------------------------------------------------------


def usable_variance(variance: Floats, family: str) -> Floats:
    """Return column variances (V,) for a prior, with zeros replaced by the mean of the others.

    The replacement is 1 if all variances are zero. A DataWarning names the family and the constant columns.
    """
    constant = np.flatnonzero(variance <= 0.0)
    if not constant.size:
        return variance
    others = variance[variance > 0.0]
    stand_in = float(others.mean()) if others.size else 1.0
    warn(
        f"{family}: {_listed(constant)} {'is' if constant.size == 1 else 'are'} constant; the prior uses the variance"
        f" {stand_in:.4g} there",
        DataWarning,
    )
    return np.where(variance > 0.0, variance, stand_in)


def _listed(columns, most=4):
    """Return text with the numbers of the first few columns, and their count if there are more."""
    text = ", ".join(str(int(j)) for j in columns[:most])
    if columns.size > most:
        return f"{counted(columns.size, 'column')} ({text}, ...)"
    return f"column{'s' * (columns.size > 1)} {text}"


# ---- hyper-parameters ----------------------------------------------------------------------------------------------


def check_scale(family: str, value: Any, dof: float | None) -> None:
    """Raise ValueError unless `value` is "auto", positive or a positive definite matrix.

    Parameters
    ----------
    family : str
        Name of the family, for the message.
    value : object
        A positive value is a number, or one number per column.
    dof : float or None
        Degrees of freedom, which are checked too.
    """
    if dof is not None and not (np.ndim(dof) == 0 and np.isfinite(dof) and dof > 0):
        raise ValueError(f"{family}: dof must be a number above d - 1, for d columns; got {dof!r}")
    if is_auto(value) or np.ndim(value) < 2:
        check_hyper(family, "scale", value)
        return
    matrix = np.asarray(value, dtype=np.float64)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and np.isfinite(matrix).all()
    if not square or not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0) or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(f"{family}: scale must be a symmetric positive definite matrix; got {value!r}")
    check_dof(family, dof, matrix.shape[0])


def check_dof(family: str, dof: float | None, d: int) -> None:
    """Raise ValueError unless the degrees of freedom exceed d - 1; None passes, it means d + 3."""
    if dof is not None and dof <= d - 1:
        raise ValueError(f"{family}: dof must exceed d - 1 = {d - 1}; got {dof!r}")


def per_column(family: str, name: str, value: npt.ArrayLike, d: int) -> Floats:
    """Return a hyper-parameter as (d,) float64, with a number repeated.

    Parameters
    ----------
    family, name : str
        Names of the family and of the hyper-parameter, for the message.
    value : float or (d,) array_like of float
    d : int
        Number of columns.

    Raises
    ------
    ValueError
        A vector has another length.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and array.shape != (d,):
        raise ValueError(f"{family}: {name} must be a number or have length {d}; got shape {array.shape}")
    return np.full(d, float(array)) if array.ndim == 0 else array.copy()


def require_dense(family: str, X: Any) -> None:
    """Raise DataTypeError if the data are sparse."""
    if sparse.issparse(X):
        raise DataTypeError(
            f"{family} subtracts the column means of its dense data; got a sparse matrix: pass X.toarray()"
        )


# ---- symmetric matrices --------------------------------------------------------------------------------------------


def _triangle(d):
    """Return four read-only arrays: rows and columns of the upper triangle, and two weights.

    The first weights are for packing a matrix, the second ones for unpacking it.
    """
    rows, columns = np.triu_indices(d)
    arrays = rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0)), np.where(rows == columns, 1.0, np.sqrt(0.5))
    for array in arrays:
        array.setflags(write=False)
    return arrays


_small_triangle = lru_cache(maxsize=16)(_triangle)  # making the indices takes longer than packing a small matrix


def _upper_triangle(d):
    # the cache would keep the memory of larger triangles after the fit
    return _small_triangle(d) if d <= 64 else _triangle(d)


def svec(M: Floats) -> Floats:
    """Pack symmetric matrices (K, d, d) into vectors (K, d (d + 1) / 2).

    A vector holds the upper triangle by rows, with off-diagonal entries times sqrt 2. Inner products and norms of the
    vectors then equal the Frobenius inner products and norms of the matrices.
    """
    d = M.shape[-1]
    rows, columns, weights, _ = _upper_triangle(d)
    # indexing with two arrays would give a column-major result
    packed = M.reshape(-1, d * d).take(rows * d + columns, axis=1)
    packed *= weights
    return packed


def unsvec(v: Floats, d: int) -> Floats:
    """Unpack vectors of `svec` (K, d (d + 1) / 2) into symmetric matrices (K, d, d)."""
    rows, columns, _, weights = _upper_triangle(d)
    M = np.empty((v.shape[0], d, d))
    M[:, rows, columns] = M[:, columns, rows] = v * weights
    return M


def factor(M: Floats, family: str) -> Floats:
    """Return the lower Cholesky factors of symmetric matrices (K, d, d).

    Raises
    ------
    FloatingPointError
        A matrix is not positive definite; the message names family and cluster.
    """
    try:
        if np.isfinite(M).all():
            return cast("Floats", np.linalg.cholesky(M))
    except np.linalg.LinAlgError:
        pass
    for k, matrix in enumerate(M):
        if not _is_definite(matrix):
            raise FloatingPointError(f"{family}: the posterior scale of cluster {k} is not positive definite")
    raise FloatingPointError(f"{family}: a posterior scale is not positive definite")


def inverse(M: Floats, family: str) -> tuple[Floats, Floats]:
    """Return inverses (K, d, d) and log determinants (K,) of symmetric matrices; overwrite `M`.

    Raises
    ------
    FloatingPointError
        A matrix is not positive definite; the message names family and cluster.
    """
    log_dets = np.empty(M.shape[0])
    M = np.ascontiguousarray(M)
    finite = np.isfinite(M).all(axis=(1, 2))
    if finite.all():
        with single_blas():  # one thread is faster for small matrices
            bad = invert_definite(M, log_dets)
    else:
        bad = int(np.argmin(finite))
    if bad >= 0:
        raise FloatingPointError(f"{family}: the posterior scale of cluster {bad} is not positive definite")
    return M, log_dets


def _is_definite(matrix):
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(matrix).all())


def log_det(factors: Floats) -> Floats:
    """Return the log determinants (K,) of matrices from their Cholesky factors (K, d, d)."""
    return 2.0 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)


def log_det_or_none(M: Floats) -> Floats:
    """Return the log determinant of each symmetric matrix; -inf if it is not positive definite."""
    definite = np.array([_is_definite(matrix) for matrix in M], dtype=bool)
    out = np.full(M.shape[0], -np.inf)
    if definite.any():
        out[definite] = log_det(np.linalg.cholesky(M[definite]))
    return out
