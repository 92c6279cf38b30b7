"""What the real-valued families share: column summaries, checks of hyper-parameters, packed symmetric matrices.

Statistics are taken about `center_`, the column means at binding, because S2 - n m m' loses every digit far from the
origin. Summaries run over sorted columns, so that they are the same bits whatever the order of the rows.
Cost of binding: O(V N log N), one column in memory at a time.
"""

import warnings
from functools import lru_cache

import numpy as np
from scipy import sparse

from expfam.errors import DataTypeError, DataWarning
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.families.gaussian.definite import invert_definite
from expfam.families.support import check_scales, dense_rows
from expfam.structures.ground.threads import single_blas

LOG_2PI = float(np.log(2.0 * np.pi))
PRIOR_SHARE = 0.1  # prior mean of a within-cluster variance, as a share of the column's
_TINY = np.finfo(np.float64).tiny
LEARNED_SHARE = 0.03  # below it the evidence of tied values grows without end while the clusters get worse


class RealFamily(Family):
    """Common ground of the Gaussian families: centring, bounds of learned scales, compiled prediction."""

    support = "real"

    def resolve_center(self, X):
        """Attributes learned from the columns: center_, variance_floor_ and resolution_, and the column variances."""
        mean, variance, resolution = column_summaries(X)
        check_scales(variance, family=self.name)
        learned = {
            "center_": mean,
            "resolution_": resolution,
            "variance_floor_": np.maximum(LEARNED_SHARE * variance, resolution**2 / 12.0),
        }
        return learned, variance

    def scale_bounds(self, name, variance):
        """Bounds of a learned scale whose value at binding means the prior variances `variance` (V,)."""
        share = self.variance_floor_ / variance
        low = float(share.max())
        rounding = self.resolution_**2 / 12.0
        tied = np.flatnonzero((rounding >= self.variance_floor_) & (share > LEARNED_SHARE / PRIOR_SHARE))
        if tied.size and name not in self.__dict__.get("hyper_factors_", {}):  # said before the first update only
            warnings.warn(
                f"{self.name}: {_listed(tied)} hold{'s' if tied.size == 1 else ''} many tied values; {name} is not"
                " learned below the variance of rounding to the smallest gap",
                DataWarning,
                stacklevel=3,
            )
        return min(1.0, low), 1e6

    def _learned_base(self, name):
        """Value of a hyper-parameter at binding, before its learned factor."""
        return np.asarray(getattr(self, name)) / self.__dict__.get("hyper_factors_", {}).get(name, 1.0)

    def log_predictive(self, X, n, S):
        """Log probability of each row given each cluster's data: (N, K) nats, without log-base; see `Family`."""
        self.require_bound()
        rows, n = Rows(self.validate(X), self.n_statistics_), np.asarray(n, dtype=np.float64)
        if n.shape[0] == 0:
            return np.empty((rows.n_rows, 0))
        components = Components(self, rows, n.shape[0])
        components.load(n, dense_rows(S))
        return components.log_predictive_block(0, rows.n_rows, n.shape[0])


class Rows:
    """The part of a data set that compiled components read."""

    def __init__(self, X, n_statistics):
        self.X, self.n_statistics = X, n_statistics
        self.n_rows, self.n_features = X.shape
        self.is_sparse = sparse.issparse(X)


# ---- columns -------------------------------------------------------------------------------------------------------


def column_summaries(X):
    """Mean, variance (division by N) and resolution of each column, independent of the order of rows.

    Parameters
    ----------
    X : (N, V) ndarray or CSR

    Returns
    -------
    mean, variance, resolution : (V,) float64 ndarrays
        The resolution of a column of which at least half of the values are repeats is the smallest gap between its
        distinct values; 0.0 for other columns, and not looked for in CSR data.

    Notes
    -----
    A variance that overflows is infinite.
    """
    if sparse.issparse(X):
        mean, variance = _sparse_moments(X)
        resolution = np.zeros(X.shape[1])
    else:
        mean, variance, resolution = np.array([_column(X[:, j]) for j in range(X.shape[1])]).T.copy()
    return mean, variance, resolution


def _column(values):
    values = np.sort(values.astype(np.float64))
    if values[0] == values[-1]:
        return values[0], 0.0, 0.0
    with np.errstate(over="ignore"):
        from_least = values - values[0]
        mean = from_least.sum() / values.size
        variance = ((from_least - mean) ** 2).sum() / values.size
    gaps = np.diff(values)
    # 0.3 and 0.1 * 3 are one value: a gap of rounding errors is none
    gaps = gaps[gaps > 1e-9 * (values[-1] - values[0])]
    variance = max(variance, _TINY)  # squares that underflow do not make a column constant
    return values[0] + mean, variance, gaps.min() if 2 * (gaps.size + 1) <= values.size else 0.0


def _sparse_moments(X):
    order = np.lexsort((X.data, X.indices))
    columns, values = X.indices[order], X.data[order].astype(np.float64)
    mean = np.bincount(columns, weights=values, minlength=X.shape[1]) / X.shape[0]
    squares = np.bincount(columns, weights=(values - mean[columns]) ** 2, minlength=X.shape[1])
    absent = X.shape[0] - np.bincount(columns, minlength=X.shape[1])
    variance = (squares + absent * mean**2) / X.shape[0]
    return mean, np.where((mean != 0) & (np.abs(mean) < np.sqrt(_TINY)), np.maximum(variance, _TINY), variance)


def usable_variance(variance, family):
    """Column variances for a prior: zero ones replaced by the mean of the others (1 if there is none), with a warning.

    Parameters
    ----------
    variance : (V,) float64
    family : str
        Name used in the message.

    Returns
    -------
    (V,) float64 ndarray
    """
    constant = np.flatnonzero(variance <= 0.0)
    if not constant.size:
        return variance
    others = variance[variance > 0.0]
    stand_in = float(others.mean()) if others.size else 1.0
    warnings.warn(
        f"{family}: {_listed(constant)} {'is' if constant.size == 1 else 'are'} constant; the prior uses the variance"
        f" {stand_in:.4g} there",
        DataWarning,
        stacklevel=4,
    )
    return np.where(variance > 0.0, variance, stand_in)


def _listed(columns, most=4):
    """The first few columns by number, and how many they are in all."""
    text = ", ".join(str(int(j)) for j in columns[:most])
    if columns.size > most:
        return f"{columns.size} columns ({text}, ...)"
    return f"column{'s' * (columns.size > 1)} {text}"


# ---- hyper-parameters ----------------------------------------------------------------------------------------------


def is_auto(value):
    """Whether a hyper-parameter is to be chosen from the data."""
    return isinstance(value, str) and value == "auto"


def check_hyper(family, name, value, *, positive=True, vector=True):
    """Raise ValueError unless `value` is "auto" or finite (and positive): a number or, if allowed, one per column."""
    if is_auto(value):
        return
    rule = f"{'positive and ' * positive}finite: a number{', or one per column' * vector}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > int(vector) or not np.isfinite(array).all() or (positive and not (array > 0).all()):
        raise ValueError(f"{family}: {name} must be {rule}; got {value!r}")


def check_scale(family, value, dof):
    """Raise ValueError unless `value` is "auto", positive (a number or one per column) or positive definite."""
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


def check_dof(family, dof, d):
    """Raise ValueError unless the degrees of freedom exceed d - 1; None is d + 3."""
    if dof is not None and dof <= d - 1:
        raise ValueError(f"{family}: dof must exceed d - 1 = {d - 1}; got {dof!r}")


def per_column(family, name, value, d):
    """A hyper-parameter as (d,) float64: numbers are repeated, vectors checked."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim and array.shape != (d,):
        raise ValueError(f"{family}: {name} must be a number or have length {d}; got shape {array.shape}")
    return np.full(d, float(array)) if array.ndim == 0 else array.copy()


def require_dense(family, X):
    """Raise DataTypeError for sparse data."""
    if sparse.issparse(X):
        raise DataTypeError(
            f"{family} subtracts the column means of its dense data; got a sparse matrix: pass X.toarray()"
        )


# ---- symmetric matrices --------------------------------------------------------------------------------------------


def _triangle(d):
    """Rows and columns of the upper triangle, and the weights to pack it and to unpack it: four read-only arrays."""
    rows, columns = np.triu_indices(d)
    arrays = rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0)), np.where(rows == columns, 1.0, np.sqrt(0.5))
    for array in arrays:
        array.setflags(write=False)
    return arrays


_small_triangle = lru_cache(maxsize=16)(_triangle)  # finding the indices takes longer than packing a few columns


def _upper_triangle(d):
    return _small_triangle(d) if d <= 64 else _triangle(d)  # larger ones take memory that must not outlive the fit


def svec(M):
    """Rows of the upper triangle, off-diagonals times sqrt 2: (K, d, d) to (K, d (d + 1) / 2).

    Inner products and norms of the packed vectors are the Frobenius ones of the matrices.
    """
    d = M.shape[-1]
    rows, columns, weights, _ = _upper_triangle(d)
    packed = M.reshape(-1, d * d).take(rows * d + columns, axis=1)  # two index arrays would leave it column-major
    packed *= weights
    return packed


def unsvec(v, d):
    """Inverse of `svec`: (K, d (d + 1) / 2) to symmetric (K, d, d)."""
    rows, columns, _, weights = _upper_triangle(d)
    M = np.empty((v.shape[0], d, d))
    M[:, rows, columns] = M[:, columns, rows] = v * weights
    return M


def svec_outer(X):
    """Packed x x' of each row: (N, d) to (N, d (d + 1) / 2)."""
    d = X.shape[1]
    rows, columns, weights, _ = _upper_triangle(d)
    packed = X.take(rows, axis=1)
    packed *= X.take(columns, axis=1)
    packed *= weights
    return packed


def factor(M, family):
    """Cholesky factors of (K, d, d) matrices.

    Raises
    ------
    FloatingPointError
        Naming family and cluster when one is not positive definite.
    """
    try:
        if np.isfinite(M).all():
            return np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        pass
    for k, matrix in enumerate(M):
        if not _is_definite(matrix):
            raise FloatingPointError(f"{family}: the posterior scale of cluster {k} is not positive definite")
    raise FloatingPointError(f"{family}: a posterior scale is not positive definite")


def inverse(M, family):
    """Inverses and log determinants of (K, d, d) matrices, which are overwritten.

    Raises
    ------
    FloatingPointError
        Naming family and cluster when one is not positive definite.
    """
    log_dets = np.empty(M.shape[0])
    M = np.ascontiguousarray(M)
    finite = np.isfinite(M).all(axis=(1, 2))
    if finite.all():
        with single_blas():  # several threads for each small matrix take longer than one
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


def log_det(factors):
    """Log determinants of matrices from their Cholesky factors."""
    return 2.0 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)


def log_det_or_none(M):
    """Log determinant of each symmetric matrix, -inf where it is not positive definite."""
    definite = np.array([_is_definite(matrix) for matrix in M], dtype=bool)
    out = np.full(M.shape[0], -np.inf)
    if definite.any():
        out[definite] = log_det(np.linalg.cholesky(M[definite]))
    return out
