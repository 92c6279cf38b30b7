"""Clusters of a fit, whichever estimator found them: what they say of rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.errors import CapabilityError
from expfam.families.columns.cells import about_columns, as_columns
from expfam.families.gaussian.holes import with_holes
from expfam.families.support import dense_rows
from expfam.fitted.scoring import log_sum_exp, opened_rows
from expfam.model.assignment import LoadedClusters

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset

_MassOf = Callable[..., npt.NDArray[np.float64]]


@dataclass(frozen=True)
class FittedClusters:
    """Clusters with their weights: bound family, statistics (n, S), log weights.

    Attributes
    ----------
    family : Family
        Bound.
    n, S : (K,) float64 and (K, F)
        Statistics of the clusters, S dense or CSR.
    log_weights : (K,) or (K + 1,) float64 ndarray
        Under which rows are scored, nats. The last one of K + 1 is that of a further cluster without data.
    sizes : (K,) ndarray
        Data in each cluster.
    weights : (K,) float64 ndarray
        Share of each cluster of the rows to come.
    names : (V,) sequence of str, optional
        Names of the columns, for messages.
    n_threads : int or None
        Results do not depend on it.
    load : callable
        ``load(family, n, S, n_empty=...)`` returns `LoadedClusters`; it may keep them between calls.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.fitted.clusters import FittedClusters
    >>> data = Dataset([[0], [1], [30], [31]], Poisson())
    >>> n, S = data.statistics([0, 0, 1, 1], 2)
    >>> clusters = FittedClusters(data.family, n, S, np.log(n / 4), n, n / 4)
    >>> clusters.most_probable([[2], [40]])
    array([0, 1], dtype=int32)
    >>> clusters.probabilities([[2]]).round(3)
    array([[1., 0.]])
    """

    family: Family
    n: npt.NDArray[np.float64]
    S: Any
    log_weights: npt.NDArray[np.float64]
    sizes: npt.NDArray[Any]
    weights: npt.NDArray[np.float64]
    names: Any = None
    n_threads: int | None = None
    load: Callable[..., LoadedClusters] = LoadedClusters

    @property
    def n_clusters(self) -> int:
        """Number of clusters, without the empty one."""
        return len(self.n)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def loaded(self, X: Any, family: Family | None = None, columns: Any = None) -> tuple[Dataset, LoadedClusters]:
        """Return the data set of rows, and the clusters in the layout of its family.

        Parameters
        ----------
        X : (N, V) ndarray or CSR
        family : Family, optional
            Under which the rows are read, by default that of the clusters.
        columns : (F',) integer ndarray, optional
            Columns of phi that this family has of those of the fit, all by default.
        """
        S = self.S if columns is None else self.S[:, columns]
        data, S = opened_rows(X, self.family if family is None else family, self.n, S, names=self.names)
        return data, self.load(data.family, self.n, S, n_empty=len(self.log_weights) - self.n_clusters)

    def each_block(
        self,
        X: Any,
        reduce: Callable[[npt.NDArray[np.float64], int, int], Any],
        *,
        family: Family | None = None,
        columns: Any = None,
        mass: npt.NDArray[np.float64] | None = None,
    ) -> tuple[list[Any], npt.NDArray[np.float64]]:
        """Apply `reduce` to blocks of log weight + log predictive density of rows.

        Parameters
        ----------
        X, family, columns
            As in `loaded`.
        reduce : callable
            ``reduce(scores, start, stop)`` of a block (rows, clusters), which it may change.
        mass : (N, clusters) float64, optional
            Log weights of each row, in place of the common ones.

        Returns
        -------
        list, (N,) float64 ndarray
            One result a block, in order; and the log-base of the rows.
        """
        data, clusters = self.loaded(X, family, columns)
        if mass is None:
            return clusters.each_block(data, self.log_weights, reduce, n_threads=self.n_threads), data.log_base

        def with_mass(scores, start, stop):
            scores += mass[start:stop]
            return reduce(scores, start, stop)

        zeros = np.zeros(len(self.log_weights))
        return clusters.each_block(data, zeros, with_mass, n_threads=self.n_threads), data.log_base

    def most_probable(self, X: Any, *, mass: Any = None) -> npt.NDArray[np.int32]:
        """Return the most probable cluster of each row: (N,) int32.

        The cluster without data has no part in it.

        Parameters
        ----------
        X, mass
            As in `each_block`.
        """
        if mass is None:
            data, clusters = self.loaded(X)
            return clusters.most_probable(data, self.log_weights[: self.n_clusters], n_threads=self.n_threads)
        K = self.n_clusters
        blocks, _ = self.each_block(X, lambda scores, *_: scores[:, :K].argmax(axis=1).astype(np.int32), mass=mass)
        return np.concatenate(blocks)

    def probabilities(self, X: Any, n_top: int | None = None, *, mass: Any = None) -> Any:
        """Return the probability of each cluster for each row.

        The cluster without data has no part in it.

        Parameters
        ----------
        X, mass
            As in `each_block`.
        n_top : int, optional
            Number of probabilities of a row that are kept, the largest ones; all if not given.

        Returns
        -------
        (N, K) float64 ndarray, or CSR with `n_top`
        """
        K, L = self.n_clusters, checked_n_top(n_top)

        def reduce(scores, start, stop):
            p = _softmax(scores[:, :K])
            return p if L is None else largest(p, L)

        blocks, _ = self.each_block(X, reduce, mass=mass)
        return np.concatenate(blocks) if L is None else stacked_largest(blocks, K)

    def log_probabilities(self, X: Any, *, mass: Any = None) -> npt.NDArray[np.float64]:
        """Return the log of `probabilities`: (N, K) nats.

        It is finite also where a probability is too small for a float.

        Parameters
        ----------
        X, mass
            As in `each_block`.
        """
        K = self.n_clusters
        blocks, _ = self.each_block(X, lambda scores, start, stop: _log_softmax(scores[:, :K]), mass=mass)
        return np.concatenate(blocks)

    def log_densities(self, X: Any, **options: Any) -> npt.NDArray[np.float64]:
        """Return the log density of each row: (N,) nats, with log-base; see `each_block`.

        Parameters
        ----------
        X, **options
            As in `each_block`.
        """
        blocks, log_base = self.each_block(X, lambda scores, start, stop: log_sum_exp(scores), **options)
        return np.concatenate(blocks) + log_base

    def conditional_family(self) -> Family:
        """Return the family under which rows are read whose columns are scored given others."""
        return with_holes(self.family) or as_columns(self.family)

    def conditional_log_densities(
        self, X: npt.NDArray[np.float64], known: npt.NDArray[np.bool_], mass_of: _MassOf | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the log density of each row given some of its columns: (N,) nats.

        Parameters
        ----------
        X : (N, V) float64 ndarray
            Read under `conditional_family`.
        known : (V,) bool ndarray
            The columns that are given.
        mass_of : callable, optional
            ``mass_of(X, family, columns)`` makes log weights (N, clusters) of the given cells.
        """
        joint, given = self.joint_and_given(X, known, mass_of)
        return joint - given

    def joint_and_given(
        self, X: npt.NDArray[np.float64], known: npt.NDArray[np.bool_], mass_of: _MassOf | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return log densities of rows and of their given columns; see `conditional_log_densities`.

        Parameters
        ----------
        X, known, mass_of
            As in `conditional_log_densities`.

        Returns
        -------
        joint, given : (N,) float64 ndarrays
            Nats.
        """
        family, only = self.conditional_family(), np.where(known, X, np.nan)
        is_table = with_holes(self.family) is None
        about, columns = about_columns(family, known) if is_table else (family, None)  # type: ignore[arg-type]
        columns = None if about is family else columns
        mass = None if mass_of is None else mass_of(only, about, columns)
        whole = self.log_densities(X, family=family, mass=mass)
        return whole, self.log_densities(only, family=about, columns=columns, mass=mass)

    def each_conditional_block(
        self, X: npt.NDArray[np.float64], reduce: Callable[[npt.NDArray[np.float64], int, int], Any], mass: Any = None
    ) -> list[Any]:
        """Apply `reduce` to blocks of scores of rows with holes, under `conditional_family`.

        Parameters
        ----------
        X, reduce, mass
            As in `each_block`.

        Returns
        -------
        list
            What `reduce` returned for each block.
        """
        return self.each_block(X, reduce, family=self.conditional_family(), mass=mass)[0]

    @property
    def parts(self) -> tuple[FittedClusters, ...]:
        """The clusters themselves, as of one draw."""
        return (self,)

    # ---- the clusters themselves -------------------------------------------------------------------------------------

    def params(self) -> dict[str, Any]:
        """Return the parameters of the clusters by name; see `Family.cluster_params`."""
        return self.family.cluster_params(self.n, self.S)

    def log_bayes_factors(self) -> npt.NDArray[np.float64]:
        """Return how much each column tells each cluster apart from all others: (K, V) nats.

        Raises
        ------
        CapabilityError
            The family does not know the evidence of its columns.
        """
        by_column = getattr(self.family, "log_marginal_by_column", None)
        if by_column is None:
            raise CapabilityError(
                f"explain needs log_marginal_by_column(), which family {self.family.name!r} does not implement"
            )
        n, S = np.asarray(self.n, dtype=np.float64), dense_rows(self.S)
        rest = by_column(_others(n), _others(S))
        found: npt.NDArray[np.float64] = by_column(n, S) + rest
        return found - by_column(n.sum(keepdims=True), S.sum(axis=0, keepdims=True))


# ---- the largest probabilities of a row ------------------------------------------------------------------------------


def checked_n_top(n_top: int | None) -> int | None:
    """Return a number of largest probabilities, or refuse what is none.

    Examples
    --------
    >>> from expfam.fitted.clusters import checked_n_top
    >>> checked_n_top(0)
    Traceback (most recent call last):
    ValueError: n_top must be a positive integer; got 0
    """
    if n_top is not None and (isinstance(n_top, bool) or n_top != int(n_top) or n_top < 1):
        raise ValueError(f"n_top must be a positive integer; got {n_top!r}")
    return None if n_top is None else int(n_top)


def largest(p: npt.NDArray[np.float64], n_top: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Return columns and values of the largest entries of each row, in the order of the columns.

    Parameters
    ----------
    p : (N, K) float64 ndarray
    n_top : int
        L, the number of entries of a row; at most K are returned.

    Returns
    -------
    columns : (N, L) int32 ndarray
    values : (N, L) float64 ndarray
    """
    K = p.shape[1]
    L = min(n_top, K)
    columns = np.sort(np.argpartition(p, K - L, axis=1)[:, K - L :], axis=1).astype(np.int32)
    return columns, np.take_along_axis(p, columns, axis=1)


def stacked_largest(blocks: list[Any], n_clusters: int) -> Any:
    """Return the results of `largest` for blocks of rows as one CSR array."""
    columns, values = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    N, L = columns.shape
    return sparse.csr_array((values.ravel(), columns.ravel(), np.arange(N + 1) * L), shape=(N, n_clusters))


def _softmax(scores):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def _log_softmax(scores):
    return scores - log_sum_exp(scores)[:, None]


def _others(sums):
    """Return the sum of all rows but each one, without subtraction: counts never fall below 0."""
    before, after = np.zeros_like(sums), np.zeros_like(sums)
    np.cumsum(sums[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(sums[:0:-1], axis=0)[::-1]
    return before + after
