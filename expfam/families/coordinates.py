"""Maps of rows to coordinates in which distances are meaningful.

Columns of real data are standardised, so that units and origin do not matter. Counts are replaced by their square
roots, whose variance hardly depends on the mean. Maps learn from all data once, in O(N V); a row costs O(V).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.families.column_summaries import column_moments

if TYPE_CHECKING:
    import numpy.typing as npt


def with_float64(block: Any) -> Any:
    """Return a copy of dense or sparse rows in double precision."""
    return sparse.csr_array(block, dtype=np.float64) if sparse.issparse(block) else np.array(block, dtype=np.float64)


def square_roots(rows: Any) -> Any:
    """Return the square roots of dense or sparse counts, in double precision."""
    return np.sqrt(with_float64(rows))


def roots_of_shares(rows: Any) -> Any:
    """Return the square roots of counts divided by the sum of their row, in double precision."""
    rows = with_float64(rows)
    total = np.asarray(rows.sum(axis=1), dtype=np.float64).reshape(-1, 1)
    inverse = 1.0 / np.maximum(total, 1.0)
    if sparse.issparse(rows):
        return (sparse.diags_array(inverse.ravel()) @ rows).sqrt()
    return np.sqrt(rows * inverse)


def in_one_form(points: Any, *, widest: int) -> Any:
    """Return coordinates of discrete data in the one form that dense and CSR rows have.

    Rows of up to `widest` columns become dense, others CSR: products of rows then have the same bits.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.families.coordinates import in_one_form
    >>> type(in_one_form(np.eye(3), widest=2)).__name__, type(in_one_form(np.eye(3), widest=3)).__name__
    ('csr_array', 'ndarray')
    """
    if sparse.issparse(points):
        return points if points.shape[1] > widest else points.toarray()
    return sparse.csr_array(points) if points.shape[1] > widest else points


class StandardisedColumns:
    """Map to columns of mean 0 and variance 1 over the data X; constant columns become 0.

    Sparse columns are scaled but not centred. With `may_miss`, means and variances are those of the values that are not
    NaN, and NaN becomes 0. With `weight` (N,) they are those of the rows repeated as often as their weights say. With
    `of_logs`, all is about the logarithms of dense columns.
    """

    def __init__(
        self,
        X: Any,
        *,
        may_miss: bool = False,
        weight: npt.NDArray[np.float64] | None = None,
        of_logs: bool = False,
    ) -> None:
        self.may_miss, self.of_logs = may_miss, of_logs
        if sparse.issparse(X):
            self.centre, self.scale = _sparse_standardisation(X, weight)
            return
        moments = column_moments(X, weight, of_logs=of_logs)
        mean, variance = (np.nan_to_num(each, nan=0.0, posinf=np.inf) for each in moments)  # of a column without values
        self.centre, self.scale = mean, _inverse_spread(mean**2, variance)

    def __call__(self, rows: Any) -> Any:
        """Return the coordinates of rows (m, V): float64, dense or CSR."""
        if sparse.issparse(rows):
            return sparse.csr_array(rows, dtype=np.float64).multiply(self.scale[None]).tocsr()
        block = (np.log(rows.astype(np.float64)) if self.of_logs else rows) - self.centre
        block *= self.scale
        if self.may_miss:
            block[np.isnan(block)] = 0.0
        return block


def _sparse_standardisation(X, weight):
    """Compute the mean and the inverse standard deviation of each column of CSR rows."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    mean, level = (np.asarray(part.T @ weight).ravel() / weight.sum() for part in (X, X.multiply(X)))
    return mean, _inverse_spread(level, np.maximum(level - mean**2, 0.0))


def _inverse_spread(level, variance):
    varies = variance > 1e-24 * level  # a smaller variance is the rounding error of a constant
    return np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)


class ScaledColumns:
    """Map to columns of variance 1 over the dense data X, not centred.

    Constant columns stay as they are. With `weight` (N,) the variances are those of the rows repeated as often as their
    weights say.
    """

    def __init__(self, X: npt.NDArray[Any], weight: npt.NDArray[np.float64] | None = None) -> None:
        scale = StandardisedColumns(X, weight=weight).scale
        self.scale = np.where(scale > 0.0, scale, 1.0)

    def __call__(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the coordinates of rows (m, V)."""
        scaled: npt.NDArray[np.float64] = rows * self.scale
        return scaled
