"""Partitions of data that anybody can write down: one cluster, k-means in several metrics, single columns.

Each is a pair of a name and labels. No fit is asked; only what its family says about the columns is used.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from expfam.families.columns.roles import Roles

MOST_CENTRES = 256
MOST_ROWS = 20_000  # from which k-means takes its centres
MOST_WHITENED = 100  # columns
ROWS_A_COLUMN = 4  # that a total covariance needs at least
MOST_LEVELS = 20  # of a column that is a partition by itself
STARTS = 4  # of k-means


def simple_partitions(data, numbers, *, seed):
    """Names and labels of all simple partitions of a Dataset, with each of the numbers of clusters; none twice."""
    found, seen = [], set()
    for name, labels in _all_partitions(data, sorted(set(numbers)), seed):
        key = by_first_row(labels).tobytes()
        if key not in seen:
            seen.add(key)
            found.append((name, labels))
    return found


def _all_partitions(data, numbers, seed):
    yield "one cluster", np.zeros(data.n_rows, dtype=np.int64)
    for metric, Z in coordinates(data).items():
        for k in numbers:
            if 1 < k <= min(data.n_rows, MOST_CENTRES):
                yield f"k-means {k} {metric}", kmeans(Z, k, seed)
    for j, labels in columns_of_few_levels(data):
        yield f"column {j}", labels


def by_first_row(labels):
    """The labels numbered by first appearance: (N,) int64."""
    _, first, inverse = np.unique(np.asarray(labels), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.ravel()]


def kmeans(Z, k, seed):
    """Labels of k-means; of many rows the centres are those of a sample."""
    rows = Z.shape[0]
    part = Z
    if rows > MOST_ROWS:
        part = Z[np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres
        return KMeans(k, n_init=STARTS, random_state=seed).fit(part).predict(Z)


# ---- metrics ---------------------------------------------------------------------------------------------------------


def coordinates(data):
    """Columns between which k-means measures distances, by the name of the metric."""
    is_category = categories_of(data)
    if is_category.any() or (not sparse.issparse(data.X) and np.isnan(data.X.sum())):
        return _of_cells(data.X.astype(np.float64), is_category)
    if data.family.support == "counts":
        return _of_counts(data.X)
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    if data.family.support == "binary":
        return {"raw": X.astype(np.float64)}
    return _of_vectors(X.astype(np.float64))


def categories_of(data):
    """Whether each column of the matrix holds categories."""
    roles = getattr(data.family, "roles", None)
    if roles:
        return np.array([role.is_category for role in Roles(roles).kept])
    return np.full(data.n_features, data.family.support == "categories")


def _of_vectors(X):
    centred = X - X.mean(axis=0)
    found = {"raw": centred, "standardised": _standardised(centred)}
    n, d = X.shape
    if 1 < d <= MOST_WHITENED and n >= ROWS_A_COLUMN * d:
        found["whitened"] = _whitened(found["standardised"])
    return found


def _standardised(X):
    spread = X.std(axis=0)
    return X / np.where(spread > 0.0, spread, 1.0)


def _whitened(Z):
    """Columns with unit total covariance; directions without variance are left out."""
    variances, axes = np.linalg.eigh(Z.T @ Z / len(Z))
    kept = variances > 1e-10 * variances[-1]
    return Z @ (axes[:, kept] / np.sqrt(variances[kept]))


def _of_counts(X):
    X = sparse.csr_array(X).astype(np.float64)
    X = sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    totals = X.sum(axis=1)
    scale = np.divide(totals.mean(), totals, out=np.zeros_like(totals), where=totals > 0)
    scaled = X.copy()
    scaled.data *= np.repeat(scale, np.diff(X.indptr))
    return {"raw": X, "log1p": X.log1p(), "roots": scaled.sqrt()}


def _of_cells(X, is_category):
    """Numbers standardised and holes at the mean; categories as their codes, and as one column for each level."""
    numbers = _filled(X[:, ~is_category])
    codes = _filled(np.where(X[:, is_category] < 0, np.nan, X[:, is_category]))
    levels = [_indicators(column) for column in X[:, is_category].T]
    return {
        "codes": np.column_stack([numbers, codes]),
        "indicators": np.column_stack([numbers, *levels]),
    }


def _filled(X):
    if not X.shape[1]:
        return X
    held = ~np.isnan(X)
    mean = np.where(held, X, 0.0).sum(axis=0) / np.maximum(held.sum(axis=0), 1)
    return _standardised(np.where(held, X, mean) - mean)


def _indicators(column):
    levels = np.unique(column[(column >= 0) & ~np.isnan(column)])
    return (column[:, None] == levels).astype(np.float64)


# ---- columns ---------------------------------------------------------------------------------------------------------


def columns_of_few_levels(data):
    """Each column of categories or 0 and 1 that has few levels, as labels; a hole is a level."""
    is_category = categories_of(data)
    if data.family.support == "binary":
        is_category[:] = True
    for j in np.flatnonzero(is_category):
        column = data.X[:, [j]].toarray().ravel() if sparse.issparse(data.X) else data.X[:, j]
        levels, labels = np.unique(np.nan_to_num(column.astype(np.float64), nan=-1.0), return_inverse=True)
        if 1 < len(levels) <= MOST_LEVELS:
            yield j, labels.ravel()
