"""Scores of rows under the statistics of clusters, and their most probable clusters.

The statistics are loaded into components once; after that, rows of any data are scored under them. A row is not taken
out of its cluster: the scores are those of a new row. Bits do not depend on the number of threads, nor on the other
rows of a call. No array of size N x K is made.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.families.components import Components
from expfam.families.filtered_scores import FilteredScores, scores_of
from expfam.families.support import dense_rows
from expfam.model.statistics import weighted_statistics
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from expfam.model.data import Dataset

_BLOCK_SCORES = 1 << 17  # scores that a task computes
_LEAST_ROWS = 16  # of a task
_PRODUCT_ROWS = 512  # least number of a task whose scores are bounded by products of matrices
_ROUNDING = 1e-9  # share of a cluster that is left of it by rounding alone
_KEPT_BYTES = 1 << 16  # rows of more bytes are let go after a call, so that the caller's memory can be freed


class LoadedClusters:
    """Statistics of clusters, loaded once, under which rows of any data are scored.

    Several threads may use one object. Each call takes components of its own from those that are free; if none is free,
    the statistics are loaded once more.

    Parameters
    ----------
    family : Family
        A bound family.
    n, S : (K,) float64 and (K, F)
        Statistics of the clusters, S dense or CSR. They must not change afterwards.
    n_empty : int
        Number of further clusters without data: the slots K, K + 1, ...
    keeps_rows : bool
        Whether the rows of the last call stay in use, for callers that score the same data again and again.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.model.assignment import LoadedClusters
    >>> data = Dataset([[0], [1], [30], [31]], Poisson())
    >>> clusters = LoadedClusters(data.family, *data.statistics([0, 0, 1, 1], 2))
    >>> clusters.most_probable(Dataset([[29], [2]], data.family), np.log([0.5, 0.5]))
    array([1, 0], dtype=int32)
    """

    def __init__(
        self, family: Any, n: npt.NDArray[np.float64], S: Any, *, n_empty: int = 0, keeps_rows: bool = False
    ) -> None:
        self.family, self.n, self.S = family, n, S
        self.n_slots, self.keeps_rows = len(n) + n_empty, keeps_rows
        self._is_numpy = not family.is_compiled
        self._free: dict[bool, list[tuple[Components, Any]]] = {False: [], True: []}  # for dense and for sparse data
        self._dense: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
        self._filtered: dict[tuple[Components, int], Components | FilteredScores] = {}

    def load(self, n: npt.NDArray[np.float64], S: Any) -> None:
        """Replace the statistics by those of as many clusters.

        No other thread may use the object during the call.
        """
        self.n, self.S, self._dense, self._filtered = n, S, None, {}
        for components, _ in [*self._free[False], *self._free[True]]:
            components.load(n, S)

    def most_probable(
        self, data: Dataset, log_mass: npt.ArrayLike, *, n_threads: int | None = None
    ) -> npt.NDArray[np.int32]:
        """Return the cluster with the highest log mass plus log predictive for each row.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        log_mass : (m,) array_like
            Log mass of the first m slots, nats; -inf for clusters that no row may choose.
        n_threads : int or None

        Returns
        -------
        (N,) int32 ndarray
            Of clusters with equal scores the first one.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the row and the cluster.
        """
        mass = _checked_mass(log_mass, self.n_slots)
        labels = np.empty(data.n_rows, dtype=np.int32)

        def reduce(scores, start, stop):
            labels[start:stop] = scores[:, : mass.size].argmax(axis=1)

        def block(scores, start, stop):
            scores.most_probable(start, stop, mass, labels[start:stop])

        self._fill(data, mass, reduce, block, n_threads)
        return labels

    def ranked(
        self, data: Dataset, log_mass: npt.ArrayLike, n_best: int, *, n_threads: int | None = None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Return the clusters of the highest scores of each row, and how far the first one leads.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        log_mass : (m,) array_like
            Log mass of the first m slots, nats.
        n_best : int
            Number L of clusters, from 2 to m.
        n_threads : int or None

        Returns
        -------
        clusters : (N, L) int32 ndarray
            The best one first, of equal ones the lower one first.
        margins : (N,) float64 ndarray
            The best score less the second one, nats.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the row and the cluster.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Dataset, Poisson
        >>> from expfam.model.assignment import LoadedClusters
        >>> data = Dataset([[0], [1], [30], [31], [90]], Poisson())
        >>> clusters = LoadedClusters(data.family, *data.statistics([0, 0, 1, 1, 2], 3))
        >>> clusters.ranked(data.rows(3, 5), np.zeros(3), 2)[0]
        array([[1, 2],
               [2, 1]], dtype=int32)
        """
        mass = _checked_mass(log_mass, self.n_slots)
        found, margins = np.empty((data.n_rows, n_best), dtype=np.int32), np.empty(data.n_rows)

        def reduce(scores, start, stop):
            found[start:stop] = np.argsort(-scores[:, : mass.size], axis=1, kind="stable")[:, :n_best]
            top = np.take_along_axis(scores, found[start:stop, :2].astype(np.intp), axis=1)
            margins[start:stop] = top[:, 0] - top[:, 1]

        def block(scores, start, stop):
            scores.ranked(start, stop, mass, found[start:stop], margins[start:stop])

        self._fill(data, mass, reduce, block, n_threads)
        return found, margins

    def most_probable_of(
        self,
        data: Dataset,
        log_mass: npt.ArrayLike,
        given: npt.NDArray[np.int32],
        *,
        rows: npt.NDArray[np.intp] | None = None,
        n_threads: int | None = None,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Return the most probable of some clusters of each row, and by how much it leads.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        log_mass : (m,) array_like
            Log mass of the first m slots, nats.
        given : (N, L) int32 ndarray
            Different slots among which each row chooses, at least 2.
        rows : (N,) intp ndarray, optional
            Numbers of the rows that choose; all rows if not given.
        n_threads : int or None

        Returns
        -------
        labels : (N,) int32 ndarray
            Of clusters with equal scores the lowest one.
        margins : (N,) float64 ndarray
            The best score less the second one, nats.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the row and the cluster.
        """
        mass = _checked_mass(log_mass, self.n_slots)
        labels, margins = np.empty(len(given), dtype=np.int32), np.empty(len(given))

        def reduce(scores, start, stop):
            slots = np.sort(given[start:stop], axis=1)
            own, each = np.take_along_axis(scores, slots.astype(np.intp), axis=1), np.arange(stop - start)
            best = own.argmax(axis=1)
            labels[start:stop], top = slots[each, best], own[each, best]
            own[each, best] = -np.inf
            margins[start:stop] = top - own.max(axis=1)

        def block(components, start, stop):
            at = slice(start, stop)
            components.most_probable_of(start, stop, mass, given[at], labels[at], margins[at], rows)

        data = data.take(rows) if self._is_numpy and rows is not None else data
        self._fill(data, mass, reduce, block, n_threads, tasks=_tasks(len(given), given.shape[1]))
        return labels, margins

    def shares(
        self,
        data: Dataset,
        log_mass: npt.ArrayLike,
        labels: npt.NDArray[np.integer],
        *,
        n_threads: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the probability of the given cluster of each row, among the clusters: (N,) float32.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        log_mass : (m,) array_like
            Log mass of the first m slots, nats.
        labels : (N,) ndarray of int
            Slots below m.
        n_threads : int or None

        Returns
        -------
        (N,) float32 ndarray
            NaN for a row without any cluster of positive probability.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the row and the cluster.
        """
        mass, own = _checked_mass(log_mass, self.n_slots), np.ascontiguousarray(labels, dtype=np.int32)
        found = np.empty(data.n_rows, dtype=np.float32)

        def reduce(scores, start, stop):
            scores = scores[:, : mass.size]
            chosen = np.take_along_axis(scores, own[start:stop, None].astype(np.intp), axis=1)[:, 0]
            top = scores.max(axis=1)
            with np.errstate(invalid="ignore"):
                found[start:stop] = np.exp(chosen - top) / np.exp(scores - top[:, None]).sum(axis=1)

        def block(scores, start, stop):
            scores.shares(start, stop, mass, own[start:stop], found[start:stop])

        self._fill(data, mass, reduce, block, n_threads)
        return found

    def _fill(self, data, mass, reduce, block, n_threads, *, tasks=None):
        """Fill arrays block by block: `tasks`, or blocks of rows under the slots that have a mass.

        ``block(scores, start, stop)`` does it with what scores rows: compiled components, for blocks of rows of many
        clusters products of matrices. ``reduce(scores, start, stop)`` does it from an array of scores under all slots.
        """
        if self._is_numpy:
            padded = np.concatenate([mass, np.full(self.n_slots - mass.size, -np.inf)])
            self.each_block(data, padded, reduce, n_threads=n_threads)
            return
        with self._components(data) as components:
            scores = components if tasks is not None else self._scores(components, mass.size, data.n_rows)
            is_serial, is_plain = components.needs_gil, scores is components
            if tasks is None:
                tasks = _tasks(data.n_rows, mass.size, _LEAST_ROWS if is_plain else _PRODUCT_ROWS)
            run(partial(block, scores), tasks, 1 if is_serial else n_threads, uses_blas=is_serial or not is_plain)

    def likelier_of_two(
        self, data: Dataset, pairs: npt.NDArray[np.int32], log_mass: npt.ArrayLike
    ) -> npt.NDArray[np.int32]:
        """Return which of the clusters 2 p and 2 p + 1 is more probable for each row.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        pairs : (N,) int32 ndarray
            Number p of the pair between whose clusters each row chooses. Rows of a pair follow each other.
        log_mass : (2 P,) array_like
            Log mass of the clusters, nats; -inf for those that no row may choose.

        Returns
        -------
        (N,) int32 ndarray
            1 where the score of cluster 2 p + 1 is higher, else 0.

        Raises
        ------
        FloatingPointError
            A score is NaN.
        """
        mass = _checked_mass(log_mass, self.n_slots)
        chosen = np.zeros(data.n_rows, dtype=np.int32)
        if not self._is_numpy:
            with self._components(data) as components:
                components.likelier_of_two(pairs, mass, chosen)
            return chosen
        n, S = self._dense_statistics()
        begins = np.flatnonzero(np.diff(pairs, prepend=-1))
        for start, stop in zip(begins, np.append(begins[1:], data.n_rows)):
            two = slice(2 * pairs[start], 2 * pairs[start] + 2)
            scores = self.family.log_predictive(data.X[start:stop], n[two], S[two])
            _weighted(scores, mass[two], self.family, start)
            chosen[start:stop] = scores[:, 1] > scores[:, 0]
        return chosen

    def each_block(
        self,
        data: Dataset,
        log_mass: npt.ArrayLike,
        reduce: Callable[[npt.NDArray[np.float64], int, int], Any],
        *,
        n_threads: int | None = None,
    ) -> list:
        """Apply `reduce` to blocks of log mass + log predictive of all slots.

        Parameters
        ----------
        data : Dataset
            Checked against the same bound family.
        log_mass : (n_slots,) array_like
            Nats.
        reduce : callable
            ``reduce(scores, start, stop)`` of a block (rows, n_slots), which it may change; it calls no BLAS.
        n_threads : int or None

        Returns
        -------
        list
            One result a block, in order.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the row and the cluster.
        """
        mass = _checked_mass(log_mass, self.n_slots)
        tasks = _tasks(data.n_rows, self.n_slots)
        if self._is_numpy:
            n, S = self._dense_statistics()

            def numpy_block(start, stop):
                scores = self.family.log_predictive(data.X[start:stop], n, S)
                return reduce(_weighted(scores, mass, self.family, start), start, stop)

            return run(numpy_block, tasks, 1)
        with self._components(data) as components:

            def block(start, stop):
                scores = components.log_predictive_block(start, stop, self.n_slots)
                return reduce(_weighted(scores, mass, self.family, start), start, stop)

            is_serial = components.needs_gil
            return run(block, tasks, 1 if is_serial else n_threads, uses_blas=is_serial)

    def log_predictive(self, data: Dataset, rows: npt.NDArray[np.integer], k: int) -> npt.NDArray[np.float64]:
        """Return the log predictive of some rows under slot k: (len(rows),) nats, without log-base."""
        with self._components(data) as components:
            return np.array([components.log_predictive(i, [k])[0] for i in rows])

    def log_predictive_without(self, data: Dataset, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return the log predictive of each row under its own cluster without it: (N,).

        Nats, without log-base. A row of weight w is left out w times.

        Parameters
        ----------
        data : Dataset
            Rows that the statistics hold, each with its whole weight in the cluster of its label.
        labels : (N,) int

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Dataset, Poisson
        >>> from expfam.model.assignment import LoadedClusters
        >>> data = Dataset([[0], [1], [30]], Poisson())
        >>> clusters = LoadedClusters(data.family, *data.statistics([0, 0, 0], 1))
        >>> others = LoadedClusters(data.family, *data.take(np.array([0, 1])).statistics([0, 0], 1))
        >>> alone = clusters.log_predictive_without(data, np.zeros(3, dtype=int))
        >>> bool(np.isclose(alone[2], others.log_predictive(data, [2], 0)[0]))
        True
        """
        if data.weight is not None and bool((data.weight != 1.0).any()):
            return self._without_weighted(data, labels)
        with self._components(data) as components:
            return np.array([components.log_predictive_self(i, k) for i, k in enumerate(labels.tolist())])

    def _without_weighted(self, data, labels):
        """Return what `log_predictive_without` does for rows of any weights, from evidences."""
        found, size = np.empty(data.n_rows), max(1, _BLOCK_SCORES // max(1, self.S.shape[1]))
        for start in range(0, data.n_rows, size):
            block = data.rows(start, min(start + size, data.n_rows))
            phi = dense_rows(weighted_statistics(block, np.arange(block.n_rows, dtype=np.int32), block.n_rows)[1])
            own, weight = labels[start : start + size], data.weight[start : start + size]
            n, S = self.n[own] - weight, dense_rows(self.S[own]) - weight[:, None] * phi
            is_alone = n < _ROUNDING * self.n[own]
            n[is_alone], S[is_alone] = 0.0, 0.0
            found[start : start + size] = self.family.log_marginal(n + 1.0, S + phi) - self.family.log_marginal(n, S)
        return found

    def log_marginal(self, data: Dataset) -> npt.NDArray[np.float64]:
        """Return the log evidence of each cluster: (K,) nats, without log-base.

        `data` are any data of the family.
        """
        if self._is_numpy:
            return self.family.log_marginal_of_rows(self.n, self.S)
        with self._components(data) as components:
            return components.log_marginal(range(len(self.n)))

    def _dense_statistics(self):
        if self._dense is None:
            n_empty = self.n_slots - len(self.n)
            S = dense_rows(self.S)
            self._dense = np.append(self.n, np.zeros(n_empty)), np.vstack([S, np.zeros((n_empty, S.shape[1]))])
        return self._dense

    def loaded(self, data: Dataset) -> Components:
        """Return loaded components that are the caller's own and read the rows of `data`."""
        components = self._loaded(data)
        if components.can_set_data:
            components.set_data(data)
        return components

    def _scores(self, components: Components, m: int, n_rows: int) -> Components | FilteredScores:
        """Return what scores rows under the first m slots of loaded components."""
        made = self._filtered.get((components, m))
        if made is None:
            made = scores_of(components, m, n_rows)
            if made is not components:
                self._filtered[components, m] = made
        return made

    def _loaded(self, data: Dataset) -> Components:
        # on one row, because tables of an owner may have the size of the data, and its bits follow from their sizes
        components = Components(self.family, data.rows(0, 1), self.n_slots)
        if not components.can_set_data:
            components = Components(self.family, data, self.n_slots)
        components.load(self.n, self.S)
        return components

    @contextmanager
    def _components(self, data: Dataset) -> Iterator[Components]:
        """Lend loaded components that read these rows, to one call at a time."""
        free = self._free[data.is_sparse]
        if not self.keeps_rows and not data.is_sparse and data.X.nbytes <= _KEPT_BYTES:
            data = data.rows(0, data.n_rows)  # a view would keep the whole array of the caller alive
        try:  # threads may do it at once, as they may `append`
            components, former = free.pop()
        except IndexError:
            components, former = self._loaded(data), None
        if data is not former and components.can_set_data:
            components.set_data(data)
        yield components  # components of a call that failed are not used again
        if not components.can_set_data:
            return
        if not self.keeps_rows and _n_bytes(data.X) > _KEPT_BYTES:
            data = data.rows(0, 1)
            components.set_data(data)
        free.append((components, data))


def assigned_labels(
    model: Any,
    data: Dataset,
    n: npt.NDArray[np.float64],
    S: Any,
    log_mass: npt.ArrayLike,
    *,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Return the most probable cluster of each row, given the statistics of the clusters.

    Parameters
    ----------
    model : MixtureModel or Family
        Bound to the data.
    data : Dataset
    n, S : (K,) float64 and (K, F)
        Statistics of the clusters, S dense or CSR. A row is not taken out of its cluster.
    log_mass : (K,) array_like
        Log mass of each cluster, nats; -inf for a cluster that no row may choose.
    n_threads : int or None
        Labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        Of clusters with equal scores the first one.

    Raises
    ------
    FloatingPointError
        A score is NaN; the message names the row and the cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.model.assignment import assigned_labels
    >>> data = Dataset([[0], [1], [30], [31]], Poisson())
    >>> n, S = data.statistics([0, 1, 1, 1], 2)
    >>> assigned_labels(data.family, data, n, S, np.log(n))
    array([0, 0, 1, 1], dtype=int32)
    """
    return LoadedClusters(getattr(model, "family", model), n, S).most_probable(data, log_mass, n_threads=n_threads)


def extended_labels(
    model: Any, part: Dataset, labels: npt.NDArray[np.int32], data: Dataset, *, n_threads: int | None = None
) -> npt.NDArray[np.int32]:
    """Return the most probable cluster of each row, given clusters of some of the rows.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    part : Dataset
        Rows whose clusters are known.
    labels : (n,) int32 ndarray
        Their clusters, numbers from 0.
    data : Dataset
        All rows.
    n_threads : int or None
        Labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.assignment import extended_labels
    >>> data = Dataset([[0], [30], [1], [31]], Poisson())
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> extended_labels(model, data.rows(0, 2), np.array([0, 1]), data)
    array([0, 1, 0, 1], dtype=int32)
    """
    n, S = weighted_statistics(part, labels, int(labels.max()) + 1)
    with np.errstate(divide="ignore"):  # no row may choose an empty cluster
        log_mass = np.log(model.weights.posterior_mean(n)[0])
    return assigned_labels(model, data, n, S, log_mass, n_threads=n_threads)


def _tasks(n_rows, n_slots, least=_LEAST_ROWS):
    rows = max(least, _BLOCK_SCORES // n_slots)
    return [(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def _n_bytes(X):
    return X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes


def _checked_mass(log_mass, n_slots):
    mass = np.ascontiguousarray(log_mass, dtype=np.float64)
    if mass.ndim != 1 or not 1 <= mass.size <= n_slots:
        raise ValueError(
            f"log_mass must hold one number for each of 1 to {counted(n_slots, 'cluster')}; got shape {mass.shape}"
        )
    if not mass.max() < np.inf:  # the largest of some numbers is NaN if one of them is
        raise ValueError(f"log_mass must hold no NaN and no infinity but -inf; got {mass.tolist()[:8]}")
    return mass


def _weighted(scores, mass, family, start):
    """Add the log masses to scores in place; raise an error if one of the sums is NaN."""
    scores += mass
    if scores.size and np.isnan(scores.max()):
        row, k = np.argwhere(np.isnan(scores))[0]
        raise FloatingPointError(f"family {family.name!r}, datum {start + row}, slot {k}: the score is NaN")
    return scores
