"""Arithmetic shared by the count families: pseudo-counts, rising factorials, draws in logs.

A conjugate prior of counts is a set of pseudo-counts, and every evidence is a sum of terms
log Gamma(z + m) - log Gamma(z), computed by `log_rising`. Sums over columns read only non-zero entries: O(nnz).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from expfam.families.components import Components

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.protocols import Floats

_BLOCK = 1 << 20  # stored entries summed in one step
LEAST, MOST = 1e-100, 1e100  # a product of a few factors in this range must not overflow a float64


def check_positive(
    value: Any, name: str, family: str, *, size: int | None = None, scalar: bool = False
) -> str | float | Floats:
    """Return `value` as a positive float or (V,) float64 array; return ``"auto"`` unchanged.

    Parameters
    ----------
    value : object
    name, family : str
        Names of the hyper-parameter and of the family, for the message.
    size : int, optional
        Length that an array must have.
    scalar : bool
        Whether arrays are refused.

    Raises
    ------
    ValueError
        The message names family, parameter, value and rule.
    """
    if isinstance(value, str):
        if value == "auto":
            return value
        raise ValueError(f'{family}: {name} must be "auto" or positive; got {value!r}')
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f'{family}: {name} must be "auto" or positive; got {value!r}') from None
    if array.ndim > (0 if scalar else 1):
        allowed = "a number" if scalar else "a number or a one-dimensional array"
        raise ValueError(f"{family}: {name} must be {allowed}; got shape {array.shape}")
    bad = np.flatnonzero(~((array.ravel() >= LEAST) & (array.ravel() <= MOST)))
    if bad.size:
        where = f"{name}[{bad[0]}]" if array.ndim else name
        raise ValueError(
            f"{family}: {where} must be positive and finite ({LEAST:g} to {MOST:g}); got {array.ravel()[bad[0]]}"
        )
    if array.ndim and size is not None and array.shape[0] != size:
        raise ValueError(f"{family}: {name} must be a number or have length {size}; got length {array.shape[0]}")
    return array if array.ndim else float(array)


def entries(S: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Floats]:
    """Return cluster, column and value of each non-zero entry of `S`: three arrays, row by row.

    `S` (K, F) may be dense or CSR.
    """
    if sparse.issparse(S):
        S = S.tocsr()
        return np.repeat(np.arange(S.shape[0]), np.diff(S.indptr)), S.indices, np.asarray(S.data, dtype=np.float64)
    S = np.asarray(S, dtype=np.float64)
    rows, columns = np.nonzero(S)
    return rows, columns, S[rows, columns]


def row_sums(S: Any) -> Floats:
    """Return the sum of each row of `S`, dense or CSR: (K,) float64.

    Sparse entries are summed in blocks, so that there is no full copy.
    """
    if not sparse.issparse(S):
        return np.asarray(S, dtype=np.float64).sum(axis=1)
    S = S.tocsr()
    n_rows, total = S.shape[0], np.zeros(S.shape[0])
    step = max(1, _BLOCK * n_rows // max(S.nnz, 1))
    for start in range(0, n_rows, step):
        ends = S.indptr[start : start + step + 1]
        filled = np.flatnonzero(np.diff(ends))
        if filled.size:  # double precision, whatever the type of the entries
            values = S.data[ends[0] : ends[-1]].astype(np.float64, copy=False)
            total[start + filled] = np.add.reduceat(values, ends[filled] - ends[0])
    return total


def log_rising(z: Any, m: Any) -> Any:
    """Return log Gamma(z + m) - log Gamma(z) for z > 0 and m >= 0, elementwise.

    The arguments are broadcast.

    Notes
    -----
    From z = 16 on it is the difference of two Stirling series, which does not cancel and whose remainder is below
    1e-15. Below 16 it is the difference of two log-gammas, of which only one can be large. Many small counts with one z
    are looked up in a table.
    """
    if np.ndim(z) == 0 and np.ndim(m) == 1 and np.size(m) > 1024:
        most = m.max()
        if most < np.size(m) / 4 and (m == np.rint(m)).all():
            return log_rising(z, np.arange(most + 1.0))[m.astype(np.intp)]
    z, m = np.asarray(z, dtype=np.float64), np.asarray(m, dtype=np.float64)
    small = z < 16.0
    if small.all():
        return gammaln(z + m) - gammaln(z)
    large = np.maximum(z, 16.0)
    difference = m * np.log(large) + (large + m - 0.5) * np.log1p(m / large) - m
    difference = difference + (_stirling_tail(large + m) - _stirling_tail(large))
    if not small.any():
        return difference
    return np.where(small, gammaln(z + m) - gammaln(z), difference)


def _stirling_tail(z):
    inverse = 1.0 / z
    square = inverse * inverse
    return inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square * (1.0 / 1680))))


def of_columns(prior: float | Floats, columns: npt.NDArray[Any]) -> Any:
    """Return the pseudo-counts of these columns; return a scalar prior unchanged."""
    return np.take(prior, columns) if np.ndim(prior) else prior


def sum_log_rising(prior: float | Floats, S: Any) -> Floats:
    """Return the sum over columns w of `log_rising` (prior_w, S_kw): (K,) float64.

    `prior` is a float or (F,); `S` (K, F) may be dense or CSR.
    """
    rows, columns, values = entries(S)
    terms = log_rising(of_columns(prior, columns), values)
    return cast("Floats", np.bincount(rows, weights=terms, minlength=S.shape[0]))


def draw_log_gamma(shape: npt.ArrayLike, rng: np.random.Generator) -> Floats:
    """Draw the logs of gamma variates of unit rate; they are finite for shapes far below 1.

    Notes
    -----
    log G(a) = log G(a + 1) + log(U) / a (Marsaglia and Tsang 2000, section 6).
    """
    shape = np.asarray(shape, dtype=np.float64)
    return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape


def log_normalise(logits: Floats) -> Floats:
    """Return `logits` minus the log of the sum of their exponentials along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def row_log_gamma(X: Any) -> Floats:
    """Return the sum of log Gamma(x + 1) over the columns of each row: (N,) float64.

    `X` may be dense or CSR.
    """
    rows, _, values = entries(X)
    return cast("Floats", np.bincount(rows, weights=gammaln(values + 1.0), minlength=X.shape[0]))


class Rows:
    """Validated rows of a bound family, with the attributes of a data set that components read.

    Families use it for prediction.
    """

    def __init__(self, X: Any, family: Family) -> None:
        self.X, self.family = X, family
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_statistics = family.n_statistics_
        self.is_sparse = sparse.issparse(X)


_TABLE_BYTES = 1 << 28


def predict(family: Family, X: Any, n: npt.ArrayLike, S: Any) -> Floats:
    """Return the log predictive of each row given each cluster: (N, K) float64, nats.

    Compiled components score groups of clusters one after the other, so that the table of counts of a group takes at
    most about 256 MiB.
    """
    rows = Rows(family.validate(X), family)
    n = np.asarray(n, dtype=np.float64)
    S = S.tocsr() if sparse.issparse(S) else np.asarray(S, dtype=np.float64)
    out = np.empty((rows.n_rows, n.shape[0]))
    width = max(64, _TABLE_BYTES // (8 * rows.n_statistics))
    for start in range(0, n.shape[0], width):
        part = slice(start, min(start + width, n.shape[0]))
        size = part.stop - part.start
        components = Components(family, rows, size)
        components.load(n[part], S[part])
        out[:, part] = components.log_predictive_block(0, rows.n_rows, size)
    return out
