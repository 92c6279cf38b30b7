"""Choice of hyper-parameters by a lower bound of the evidence.

The bound comes from a hierarchical clustering of a subsample. Every datum begins as a tree of its own. The pair of
trees with the highest odds of being one cluster is merged, until one tree is left. The weight of its root sums the
probabilities of all partitions that are consistent with the tree, so it is a lower bound of the evidence under a
Dirichlet process, for any family (Heller & Ghahramani 2005). Only `log_marginal` is needed. M data cost O(M^2) scores
and M^2 numbers of memory. For a family whose evidence separates over columns, a score costs only the columns that two
clusters share, and each column that occurs takes M numbers.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from expfam.errors import CapabilityError, DataWarning
from expfam.families.support import dense_rows
from expfam.structures.ground.rng import generator, resolve_seed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expfam.families.base import Family

_Family = TypeVar("_Family", bound="Family")
_BLOCK = 1 << 20  # numbers in a block of merged statistics
_FACTORS = {1: np.geomspace(1e-2, 1e2, 9), 2: np.geomspace(1e-2, 1e2, 5)}


def tune(
    family: _Family,
    X: Any,
    *,
    subsample: int = 1000,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seed: int | np.random.Generator | np.random.RandomState | None = 0,
    alpha: float = 1.0,
) -> _Family:
    """Return the family with the hyper-parameters of a grid that give the best evidence bound.

    Parameters
    ----------
    family : Family
        Bound to X here if it is not bound yet.
    X : array_like or sparse matrix, shape (N, V)
    subsample : int
        Number of data used, drawn without replacement; memory and time grow with its square.
    grid : dict of str to sequence, optional
        Values of one or two declared hyper-parameters; each value is one that the constructor accepts. If not given,
        the grid is made of the hyper-parameters that are learned by default, or else of the first two declared ones.
        Their values at binding are multiplied by 9 factors (one hyper-parameter) or 5 x 5 factors (two) from 1/100 to
        100, within the family's `hyper_bounds`.
    seed : None, int, numpy Generator or RandomState
        Seed of the subsample.
    alpha : float
        Concentration of the Dirichlet process.

    Returns
    -------
    Family
        A bound family.

    Raises
    ------
    CapabilityError
        The family declares no hyper-parameter to tune.
    ValueError
        The grid names other parameters, or more than two.

    Warns
    -----
    DataWarning
        The best value lies at the edge of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [30.0], [90.0]], 20, axis=0))
    >>> Poisson(shape=1.0, rate=1.0).tune(X, grid={"rate": [0.0001, 0.03, 10.0]})
    Poisson(shape=1.0, rate=0.03)
    """
    family = family.bind(X)
    grid = _default_grid(family) if grid is None else _checked_grid(family, grid)
    points = list(itertools.product(*(range(len(values)) for values in grid.values())))
    rows = _subsample(family.validate(X), subsample, resolve_seed(seed))
    candidates = [family.with_hyper(**{n: v[i] for (n, v), i in zip(grid.items(), point)}) for point in points]
    evidence = np.array([tree_evidence(candidate, rows, alpha=alpha) for candidate in candidates])
    best = int(np.nanargmax(evidence))
    _warn_of_edges(family, grid, points[best])
    return candidates[best]


def tree_evidence(family: Family, X: Any, *, alpha: float = 1.0) -> float:
    """Return a lower bound of the log evidence of data under a Dirichlet process mixture.

    The bound comes from a tree that is built greedily.

    Parameters
    ----------
    family : Family
        A bound family.
    X : (M, V) ndarray or CSR
        Data; every pair of rows is scored.
    alpha : float
        Concentration of the Dirichlet process.

    Returns
    -------
    float
        Nats, without log-base; comparable between hyper-parameters and between values of alpha.

    Notes
    -----
    Let C = log alpha + lgamma(n) + A(n, S), and let the weight W of a leaf be its C. The pair with the highest
    s = C_ij - W_i - W_j is merged, and W_ij = W_i + W_j + log(1 + exp s) = log(exp C_ij + exp(W_i + W_j)). This is the
    recursion of Heller & Ghahramani 2005 in logs. The bound is W_root - lgamma(alpha + M) + lgamma(alpha).
    """
    family.require_bound()
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite; got {alpha!r}")
    phi = family.sufficient_statistics(family.validate(X))
    forest = _DenseForest(family, phi) if family.separable() is None else _SeparableForest(family, phi)
    M = forest.n.size
    W = np.log(alpha) + forest.log_marginal()  # lgamma(1) = 0
    live = np.ones(M, dtype=bool)
    score = np.full((M, M), -np.inf)
    for rows, columns, A in forest.all_pairs():
        s = np.log(alpha) + A - W[rows] - W[columns]  # lgamma(2) = 0
        score[rows, columns] = score[columns, rows] = s
    best = score.argmax(axis=1)
    value = score[np.arange(M), best]
    for _ in range(M - 1):
        i = int(value.argmax())
        j = int(best[i])
        W[i] += W[j] + np.logaddexp(0.0, value[i])
        live[j] = False
        forest.merge(i, j)
        score[j], score[:, j], value[j] = -np.inf, -np.inf, -np.inf
        others = np.flatnonzero(live)
        others = others[others != i]
        merged = np.log(alpha) + gammaln(forest.n[i] + forest.n[others]) + forest.log_merged(i, others)
        score[i, others] = score[others, i] = merged - W[i] - W[others]
        _mend(score, best, value, i, j, others)
    return float(W[i] - gammaln(alpha + M) + gammaln(alpha)) if M > 1 else float(W[0] - np.log(alpha))


def _mend(score, best, value, i, j, others):
    """Update the best partner of each tree after tree `j` was merged into tree `i`.

    Only trees whose best partner was `i` or `j` search through their whole row again.
    """
    stale = others[(best[others] == i) | (best[others] == j)]
    for k in itertools.chain([i], stale):
        best[k] = score[k].argmax()
        value[k] = score[k, best[k]]
    better = others[score[i, others] > value[others]]
    best[better], value[better] = i, score[i, better]


# ---- statistics of the trees ---------------------------------------------------------------------------------------


class _DenseForest:
    """Statistics of the trees as dense rows; each pair costs one evaluation of `log_marginal`."""

    def __init__(self, family, phi):
        self.family, self.S = family, dense_rows(phi).copy()
        self.n = np.ones(self.S.shape[0])

    def log_marginal(self):
        """Return the log evidence of each leaf: (M,) nats."""
        return self.family.log_marginal(self.n, self.S)

    def all_pairs(self):
        """Yield all pairs of leaves in blocks: rows, columns, log evidence of each pair together."""
        rows, columns = np.triu_indices(self.n.size, 1)
        step = max(1, _BLOCK // self.S.shape[1])
        for start in range(0, rows.size, step):
            a, b = rows[start : start + step], columns[start : start + step]
            yield a, b, self.family.log_marginal(np.full(a.size, 2.0), self.S[a] + self.S[b])

    def log_merged(self, i, others):
        """Return the log evidence of tree `i` together with each of the others, nats."""
        step = max(1, _BLOCK // self.S.shape[1])
        parts = [others[start : start + step] for start in range(0, others.size, step)]
        values = [self.family.log_marginal(self.n[i] + self.n[part], self.S[i] + self.S[part]) for part in parts]
        return np.concatenate([np.zeros(0), *values])

    def merge(self, i, j):
        """Merge tree `j` into tree `i`."""
        self.n[i] += self.n[j]
        self.S[i] += self.S[j]


class _SeparableForest:
    """Statistics of the trees by column; a pair costs only the columns that both trees have.

    Only columns that occur in the data are kept.
    A(i and j) = a(n, total) + f_i + f_j + sum over shared columns of f(w, s_i + s_j) - f(w, s_i) - f(w, s_j).
    """

    def __init__(self, family, phi):
        self.a, self.f = family.separable()
        phi = sparse.csc_array(phi, dtype=np.float64)
        self.names = np.flatnonzero(np.diff(phi.indptr))
        # one contiguous row per column of the data: `log_merged` reads whole rows
        self.S = np.ascontiguousarray(phi[:, self.names].toarray().T)
        self.n, self.total = np.ones(phi.shape[0]), self.S.sum(axis=0)
        self.columns = [np.flatnonzero(s) for s in self.S.T]
        self.sum_f = np.array([self._own_f(i).sum() for i in range(self.n.size)])

    def _own_f(self, i):
        columns = self.columns[i]
        return self.f(self.names[columns], self.S[columns, i])

    def log_marginal(self):
        """Return the log evidence of each leaf: (M,) nats."""
        return self.a(self.n, self.total) + self.sum_f

    def all_pairs(self):
        """Yield all pairs of leaves in blocks: rows, columns, log evidence of each pair together."""
        for i in range(self.n.size - 1):
            others = np.arange(i + 1, self.n.size)
            yield np.full(others.size, i), others, self.log_merged(i, others)

    def log_merged(self, i, others):
        """Return the log evidence of tree `i` together with each of the others, nats.

        The others must be in increasing order.
        """
        together = self.a(self.n[i] + self.n[others], self.total[i] + self.total[others])
        together = together + self.sum_f[i] + self.sum_f[others]
        if others.size == 0:
            return together
        columns, first = self.columns[i], int(others[0])
        block = self.S[columns, first:]
        row, tree = np.nonzero(block)
        w, s = self.names[columns[row]], block[row, tree]
        shared = self.f(w, self.S[columns, i][row] + s) - self.f(w, s) - self._own_f(i)[row]
        return together + np.bincount(tree, weights=shared, minlength=block.shape[1])[others - first]

    def merge(self, i, j):
        """Merge tree `j` into tree `i`."""
        self.n[i] += self.n[j]
        self.total[i] += self.total[j]
        moved = self.columns[j]
        self.S[moved, i] += self.S[moved, j]
        self.S[moved, j] = 0.0
        self.columns[i], self.columns[j] = np.union1d(self.columns[i], moved), moved[:0]
        self.sum_f[i] = self._own_f(i).sum()


# ---- grids ---------------------------------------------------------------------------------------------------------


def _default_grid(family):
    names = list(family.learned_by_default or family.hyper)[:2]
    if not names:
        raise CapabilityError(f"family {family.name!r} declares nothing in `hyper`: there is nothing to tune")
    grid = {}
    for name in names:
        low, high = family.hyper_bounds(name)
        base = np.asarray(getattr(family, name), dtype=np.float64)
        factors = np.unique(np.clip(_FACTORS[len(names)], low, high))
        grid[name] = [float(base * c) if base.ndim == 0 else base * c for c in factors]
    return grid


def _checked_grid(family, grid):
    unknown = [name for name in grid if name not in family.hyper]
    if unknown or not 1 <= len(grid) <= 2:
        raise ValueError(
            f"grid must have one or two of the hyper-parameters {list(family.hyper)} of {family.name!r};"
            f" got {list(grid)}"
        )
    for name, values in grid.items():
        if len(values) == 0:
            raise ValueError(f"grid[{name!r}] is empty")
        for value in values:
            if not (np.isfinite(value).all() and np.all(np.asarray(value) > 0)):
                raise ValueError(f"grid[{name!r}] must hold positive values; got {value!r}")
    return {name: list(values) for name, values in grid.items()}


def _subsample(X, size, seed):
    if size != int(size) or size < 2:
        raise ValueError(f"subsample must be an integer of at least 2; got {size!r}")
    if X.shape[0] <= size:
        return X
    return X[np.sort(generator(seed, "subsample").permutation(X.shape[0])[: int(size)])]


def _warn_of_edges(family, grid, point):
    for (name, values), i in zip(grid.items(), point):
        if len(values) > 2 and i in (0, len(values) - 1):
            warnings.warn(
                f"{family.name}: the best {name} lies at the edge of the grid ({values[i]}): widen it, or doubt the"
                " data (columns with repeated exact values have no best scale)",
                DataWarning,
                stacklevel=4,
            )
