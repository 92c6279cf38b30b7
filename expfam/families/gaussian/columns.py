"""Shared parts of Gaussian families: column summaries, checks, packed symmetric matrices.

Statistics are sums about `center_`, the column means at binding, because S2 - n m m' would lose all digits if the data
lie far from the origin. Column summaries are exact sums, so that their bits do not depend on the order of the rows.
Binding reads the rows four times, in blocks, and costs O(V N).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import DataError, DataTypeError, DataWarning
from expfam.families.base import Family
from expfam.families.components import Components
from expfam.families.gaussian.definite import invert_definite
from expfam.families.support import check_hyper, check_scales, dense_rows
from expfam.families.weighing import total_weight, weight_shares
from expfam.params import is_auto
from expfam.structures.ground.threads import single_blas
from expfam.structures.rows.distinct_values import STEPS, DistinctValues
from expfam.structures.rows.exact_sums import ExactSums, column_extremes, sum_entries
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import Floats

LOG_2PI = float(np.log(2.0 * np.pi))
PRIOR_SHARE = 0.1  # prior mean of a variance within a cluster, as a share of the column's variance
_TINY = np.finfo(np.float64).tiny
_MOST_WIDTH = 2.0**448  # of a column whose squares can be summed
_BLOCK_CELLS = 1 << 18  # cells of rows that are read together
_FEW_ROWS = 1 << 15  # up to here sorting a column is faster than counting its distinct values
_COLUMNS = 16  # columns whose distinct values are counted in one pass: their tables stay in the cache
_SURELY_FREE = 0.6  # share of distinct values, estimated within 3 %, above which fewer than half of them are repeats
LEARNED_SHARE = 0.001  # least learned share: the evidence of tied values grows without bound as it falls
# of a learned mean strength: without them it left its value at binding by factors of 100 (breast cancer) and 2e4 (wine)
STRENGTHS = (0.01, 1.0)


class RealFamily(Family):
    """Base class of Gaussian families: centring, bounds of learned scales, compiled prediction."""

    support = "real"
    of_logs: ClassVar[bool] = False  # whether the rows of the model are the logarithms of those of the data
    center_: Floats
    resolution_: Floats
    variance_floor_: Floats

    def resolve_center(self, X: Any, weight: Floats | None = None) -> tuple[dict[str, Floats], Floats]:
        """Return the attributes learned from the columns, and the column variances (V,).

        The attributes are center_, resolution_ and variance_floor_, each (V,). The weights (N,) are above 0.
        """
        mean, variance, resolution = column_summaries(X, weight, of_logs=self.of_logs)
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

    def scale_bounds(self, variance: Floats, *, pooled: bool = False) -> tuple[float, float]:
        """Return the bounds of a learned scale, as factors of its value at binding.

        `variance` (V,) are the prior variances that follow from the value at binding; one number, if the columns are
        `pooled` because they have one variance. Each exceeds 0.001 of the column's variance, and in columns with many
        tied values the variance of rounding to the smallest gap. Where all columns are constant, so that data have no
        scale, it exceeds 0.001 of the value at binding.
        """
        floor = self.variance_floor_.mean() if pooled else self.variance_floor_
        if not np.any(floor > 0.0):
            return LEARNED_SHARE, 1e6
        return min(1.0, float(np.max(floor / variance))), 1e6

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


# ---- columns -------------------------------------------------------------------------------------------------------


def column_summaries(X: Any, weight: Floats | None = None, *, of_logs: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance (divided by N) and resolution of each column, or of its logarithms.

    The resolution of a column is the smallest gap between its distinct values, if at least half of the values are
    repeats; otherwise it is 0.0. It is 0.0 for all columns of CSR data. A variance that overflows is infinite. Cells
    that hold NaN are left out; all three are NaN for a column of such cells. The bits of the results do not depend on
    the order of the rows. Rows count as often as their weights (N,) say, which are above 0.

    The rows are read in blocks; no column is sorted or copied, unless it has more than 2048 distinct values and many
    repeats.
    """
    if sparse.issparse(X):
        mean, variance = _sparse_moments(X, weight)
        return mean, variance, np.zeros(X.shape[1])
    low, high, count = _extremes(X, of_logs)
    with np.errstate(over="ignore"):
        width = high - low
    wide = width > _MOST_WIDTH
    usable = np.where(width <= _MOST_WIDTH, width, 0.0)
    if weight is None:
        mean, second = _moments(X, of_logs, low, usable, count)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # in columns that are too wide
            mean, second, count = _weighted_moments(X, of_logs, low, usable, weight)
    # squares that underflow do not make a column constant
    variance = np.where(width == 0, 0.0, np.maximum(second, _TINY))
    resolution = _resolutions(X, of_logs, low, high, count)
    return np.where(wide, low / 2 + high / 2, low + mean), np.where(wide, np.inf, variance), resolution


def _moments(X, of_logs, low, width, count):
    """Return the mean of each column less its least value, and the variance."""
    sums, squares = ExactSums(width, len(X)), ExactSums(width**2, len(X))
    for rows in _blocks(X, of_logs):
        sums.add(rows, low)
    mean = sums.total() / count
    for rows in _blocks(X, of_logs):
        squares.add_squares(rows, low, mean)
    return mean, squares.total() / count


def _weighted_moments(X, of_logs, low, width, weight):
    """Return the mean less the least value, the variance, and the weight of each column."""
    share, unit = weight_shares(weight)
    sums, squares, counts = (ExactSums(bound, len(X)) for bound in (width, width**2, np.ones(len(width))))
    for rows, own in _weighted_blocks(X, of_logs, share):
        sums.add((rows - low) * own)
        counts.add(np.where(np.isnan(rows), 0.0, own))
    mean = sums.total() / counts.total()
    for rows, own in _weighted_blocks(X, of_logs, share):
        squares.add((rows - low - mean) ** 2 * own)
    return mean, squares.total() / counts.total(), counts.total() * unit


def _weighted_blocks(X, of_logs, weight):
    start = 0
    for rows in _blocks(X, of_logs):
        yield rows.astype(np.float64), weight[start : start + len(rows), None]
        start += len(rows)


def _blocks(X, of_logs):
    """Yield the rows in blocks, of their logarithms if asked for."""
    rows = max(1, _BLOCK_CELLS // max(X.shape[1], 1))
    for start in range(0, len(X), rows):
        block = X[start : start + rows]
        yield np.log(block, dtype=np.float64) if of_logs else np.ascontiguousarray(block)


def _extremes(X, of_logs):
    """Return least value, largest value and number of values of each column; NaN if it has none."""
    low, high, count = (np.full(X.shape[1], start) for start in (np.inf, -np.inf, 0.0))
    for rows in _blocks(X, of_logs):
        least, largest, values = column_extremes(rows)
        low, high, count = np.minimum(low, least), np.maximum(high, largest), count + values
    return tuple(np.where(count > 0, each, np.nan) for each in (low, high, count))


def _resolutions(X, of_logs, low, high, count):
    """Return the resolution of each column (V,)."""
    out = np.where(count > 0, 0.0, np.nan)
    if len(X) <= _FEW_ROWS:
        for j in np.flatnonzero(low < high):
            out[j] = _sorted_resolution(X[:, j], of_logs, count[j])
        return out
    for first in range(0, X.shape[1], _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        values = DistinctValues(low[columns], high[columns], len(X))
        for rows in _blocks(X, of_logs):
            values.add(rows[:, columns])
        counts, gaps = values.counts(), values.gaps()
        tied = np.isfinite(gaps) & (2 * counts <= count[columns])
        out[columns][tied] = gaps[tied]
        # the estimate is within 3 %: a column that may have as many repeats as that is sorted
        for j in np.flatnonzero(np.isnan(gaps) & (counts < _SURELY_FREE * count[columns])):
            out[first + j] = _sorted_resolution(X[:, first + j], of_logs, count[first + j])
    return out


def _sorted_resolution(values, of_logs, count):
    values = values.astype(np.float64)
    values = np.sort(np.log(values) if of_logs else values)  # NaN comes last
    values = values[: np.searchsorted(values, np.inf, side="right")]
    gaps = np.diff(values)
    # gaps of rounding errors do not count: 0.3 and 0.1 * 3 are one value
    gaps = gaps[gaps > (values[-1] - values[0]) / STEPS]
    return gaps.min() if gaps.size and 2 * (gaps.size + 1) <= count else 0.0


def _sparse_moments(X, weight):
    columns, values = X.indices, X.data.astype(np.float64)
    own, total = 1.0, X.shape[0]
    if weight is not None:
        shares, unit = weight_shares(weight)
        own, total = shares[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))], total_weight(X, weight) / unit
    largest = np.zeros(X.shape[1])
    np.maximum.at(largest, columns, np.abs(values))
    wide = largest > _MOST_WIDTH
    values = np.where(wide[columns], 0.0, values)
    largest[wide] = 0.0
    mean = sum_entries(values * own, columns, largest) / total
    squares = sum_entries((values - mean[columns]) ** 2 * own, columns, 4.0 * largest**2)
    present = sum_entries(np.ones(values.size) * own, columns, np.ones(X.shape[1]))
    variance = (squares + np.maximum(total - present, 0.0) * mean**2) / total
    tiny = (mean != 0) & (np.abs(mean) < np.sqrt(_TINY))
    return mean, np.where(wide, np.inf, np.where(tiny, np.maximum(variance, _TINY), variance))


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

    A positive value is a number, or one number per column. The degrees of freedom are checked too.
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


def strength_bounds(strength: npt.ArrayLike) -> tuple[float, float]:
    """Return the bounds of a learned mean strength, as factors of its value at binding.

    The learned value stays within 0.01 and 1 data, or as near to that as the value at binding is.
    """
    low, high = STRENGTHS
    return min(1.0, low / float(np.min(strength))), max(1.0, high / float(np.max(strength)))


def per_column(family: str, name: str, value: npt.ArrayLike, d: int) -> Floats:
    """Return a hyper-parameter as (d,) float64, with a number repeated.

    A vector must have length d.
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
