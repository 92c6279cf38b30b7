"""The posterior of a partition, read from draws: point, credible ball, certainty.

The draws may come from this package or from any other one: only the labels are used, and the names of the labels do not
matter. Everything is computed from the counts of rows that a cluster of the point partition and a cluster of a draw
have in common. That is O(M N) time for M draws of N rows; no N x N array is made.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.archive import read_archive, write_archive
from expfam.errors import DataError
from expfam.evaluation.arviz import arviz_tree
from expfam.families.base import Family
from expfam.families.columns.roles import Roles
from expfam.frames.frame import as_frame, is_frame
from expfam.frames.names import check_names
from expfam.frames.numbers import numbers_of_frame
from expfam.lazy import made_on_use
from expfam.model.data import Dataset
from expfam.model.hyper_prior import FACTOR, WEIGHT_NAMES, at_factors, factor_names, recorded_name
from expfam.model.partitions import by_first_appearance, contingency
from expfam.model.statistics import weighted_statistics
from expfam.params import Integer, Real, check_value
from expfam.samplers.chain.agreement import Diagnostics, StepRecord, record_of_draws, rows_of_chains
from expfam.samplers.chain.trace import shortest_interval
from expfam.structures.ground.rng import generator, resolve_seed
from expfam.structures.ground.stored import integers, numbers, restoring
from expfam.structures.partitions.draw_table import DrawItems, DrawTable, narrow_labels
from expfam.structures.partitions.search import LOSSES, count_values, loss_value, search_partition

Loss = Literal["vi", "binder", "omari"]
_KIND = "posterior"
_PARAMETER_BYTES = 1 << 28  # of the parameters of all draws that are in memory together
_MANY_PAIRS = 1 << 22  # entries of the draws that are compared at a time


class Ball(NamedTuple):
    """Credible ball around a point partition.

    Attributes
    ----------
    radius : float
        Least distance within which at least `probability` of the draws lie.
    probability : float
        The probability that was asked for.
    horizontal : (N,) int32 ndarray
        Draw inside the ball that is farthest from the point partition.
    upper : (N,) int32 ndarray
        Draw inside with the fewest clusters, of several the farthest.
    lower : (N,) int32 ndarray
        Draw inside with the most clusters, of several the farthest.
    """

    radius: float
    probability: float
    horizontal: npt.NDArray[np.int32]
    upper: npt.NDArray[np.int32]
    lower: npt.NDArray[np.int32]


class Interval(NamedTuple):
    """Mean and credible interval of a quantity.

    Attributes
    ----------
    mean, low, high : ndarray
        Of one shape, whose first axis is the cluster.
    """

    mean: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class PartitionPosterior:
    """Posterior of a partition, represented by draws.

    Parameters
    ----------
    draws : (M, N) or (C, D, N) array_like of non-negative int
        Label of each row in each draw, of all chains together, or of C chains with D draws each. Names of labels do not
        matter.
    chain : (M,) array_like of non-negative int, optional
        Chain of each draw; by default all are of one chain, or of those of a (C, D, N) array.
    log_joint : (M,) or (C, D) array_like of float, optional
        Log joint of each draw, nats.
    sample_stats : mapping of str to (M,) or (C, D) array_like, optional
        Further numbers of each draw, for `to_arviz`.
    hyper : mapping of str to (M,) array_like, optional
        Hyper-parameters of each draw, where they were drawn with the partition: "rate_factor" is the `rate` of the
        family over its value at binding; "alpha" and "discount" are those of the weights.
    steps : StepRecord, optional
        Numbers of every step, for `diagnostics`; those of the draws are used without it.
    family : Family, optional
        Family of the data, bound to them, for `parameters`.
    names : sequence of str, optional
        Names of the columns of the fit, by which those of frames are found.
    n_threads : int or None
        Threads of searches and readings; results do not depend on it.

    Attributes
    ----------
    n_draws, n_rows : int
    chain : (M,) int64 ndarray
    log_joint : (M,) float64 ndarray or None
    hyper : dict of str to (M,) float64 ndarray
    family : Family or None
    names : list of str or None

    Raises
    ------
    DataError
        The draws are no matrix, or an entry is no non-negative integer; the message names the first such entry.

    Notes
    -----
    The draws are kept with 1, 2 or 4 bytes a label, as the largest number of clusters needs. `certainty`, `between` and
    other readings that are about clusters mean those of `labels()`; `about` gives them for another partition.

    Examples
    --------
    >>> from expfam.evaluation.posterior import PartitionPosterior
    >>> posterior = PartitionPosterior([[0, 0, 1, 1], [0, 0, 0, 1], [5, 5, 2, 2], [0, 0, 1, 1]])
    >>> posterior.labels()
    array([0, 0, 1, 1], dtype=int32)
    >>> posterior.certainty
    array([1.  , 1.  , 0.75, 0.75], dtype=float32)
    >>> posterior.n_clusters_probability
    {2: 1.0}
    """

    def __init__(
        self,
        draws: npt.ArrayLike,
        *,
        chain: npt.ArrayLike | None = None,
        log_joint: npt.ArrayLike | None = None,
        sample_stats: Mapping[str, npt.ArrayLike] | None = None,
        hyper: Mapping[str, npt.ArrayLike] | None = None,
        steps: StepRecord | None = None,
        family: Family | None = None,
        names: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        found = _checked_draws(draws)
        if found.ndim == 3:
            chain = _chains_of(found, chain)
            found = found.reshape(-1, found.shape[2])
        self._draws = narrow_labels(found)
        self.n_draws, self.n_rows = self._draws.shape
        self.chain, self.names = _checked_chain(chain, self.n_draws), None if names is None else list(map(str, names))
        self.log_joint = None if log_joint is None else _of_draws("log_joint", log_joint, self.n_draws)
        self.sample_stats = {
            str(name): _of_draws(name, values, self.n_draws) for name, values in (sample_stats or {}).items()
        }
        self.hyper = {str(name): _of_draws(name, values, self.n_draws) for name, values in (hyper or {}).items()}
        self.family, self.n_threads, self._steps = family, n_threads, steps
        self._point: npt.NDArray[np.int32] | None = None
        self._found: dict[Any, npt.NDArray[np.int32]] = {}

    def __repr__(self):
        low, high = self.n_clusters.min(), self.n_clusters.max()
        among = counted(high, "cluster") if low == high else f"{low} to {high} clusters"
        return f"PartitionPosterior({counted(self.n_draws, 'draw')} of {counted(self.n_rows, 'row')}, {among})"

    # ---- the point partition -----------------------------------------------------------------------------------------

    def labels(
        self,
        loss: Loss = "vi",
        *,
        split_cost: float = 1.0,
        n_starts: int = 16,
        max_clusters: int | None = None,
        random_state: Any = 0,
    ) -> npt.NDArray[np.int32]:
        """Search the partition with the least expected loss.

        Parameters
        ----------
        loss : {"vi", "binder", "omari"}
            Variation of information; Binder's loss, the share of ordered pairs of rows on which two partitions
            disagree, which favours small extra clusters; or one minus the adjusted Rand index of expected counts.
        split_cost : float
            Cost of splitting what the draws join, relative to joining what they split. Above 1 there are fewer and
            larger clusters. "omari" takes 1 alone.
        n_starts : int
            Number of starts: the two best draws, then greedy ones. More starts take more time and find at least as
            good a partition.
        max_clusters : int, optional
        random_state : None, int, numpy Generator or RandomState

        Returns
        -------
        (N,) int32 ndarray
            Clusters numbered by first appearance. The expected loss is not above that of the best draw with at most
            `max_clusters` clusters. With more than 2e8 labels to read for all pairs of draws, draws are compared with
            20 others first, and the best 8 with all.
        """
        self._check_loss(loss, split_cost)
        check_value("n_starts", n_starts, (Integer(1),))
        check_value("max_clusters", max_clusters, (None, Integer(1)))
        key = (loss, split_cost, n_starts, max_clusters, random_state) if isinstance(random_state, int) else None
        if key is None or key not in self._found:
            found, _ = search_partition(
                self._draws,
                loss=loss,
                split_cost=split_cost,
                n_starts=n_starts,
                max_clusters=max_clusters,
                seed=resolve_seed(random_state),
                n_threads=self.n_threads,
            )
            self._found[key] = found
        return self._found[key].copy()

    def about(self, labels: npt.ArrayLike) -> PartitionPosterior:
        """Return the same posterior with another point partition, for its readings.

        Parameters
        ----------
        labels : (N,) array_like
            For example ``mixture.labels_``.

        Returns
        -------
        PartitionPosterior
            It shares the draws. `certainty` and `between` are those of the clusters of `labels`, under their own
            numbers where these are 0..K-1 without gaps, else numbered by first appearance; so is `point`.
        """
        other = copy.copy(self)
        for name in ("_table", "_readings", "between"):
            other.__dict__.pop(name, None)
        point, labels = self._checked_labels(labels), np.asarray(labels)
        is_numbered = labels.dtype.kind in "iu" and np.array_equal(np.unique(labels), np.arange(point.max() + 1))
        other._point = labels.astype(np.int32) if is_numbered else point
        return other

    @property
    @made_on_use
    def point(self) -> npt.NDArray[np.int32]:
        """Point partition that the readings mean: (N,) int32, by default ``labels()``."""
        if self._point is None:
            self._point = self.labels()
        return self._point

    def expected_loss(self, labels: npt.ArrayLike, loss: Loss = "vi", *, split_cost: float = 1.0) -> float:
        """Return the mean loss of a partition over the draws.

        Parameters
        ----------
        labels : (N,) array_like
        loss : {"vi", "binder", "omari"}
        split_cost : float

        Returns
        -------
        float
            Nats for "vi", share of ordered pairs for "binder".
        """
        self._check_loss(loss, split_cost)
        C, P, Q = self._sums(labels, loss)
        return float(loss_value(loss, C, P.mean(), Q.mean(), self.n_rows, split_cost=split_cost))

    def distances(self, labels: npt.ArrayLike, loss: Loss = "vi") -> npt.NDArray[np.float64]:
        """Return the distance of a partition from each draw.

        Parameters
        ----------
        labels : (N,) array_like of int
        loss : {"vi", "binder", "omari"}
            Variation of information (nats), Binder's loss, or one minus the adjusted Rand index.

        Returns
        -------
        (M,) float64 ndarray
        """
        self._check_loss(loss, 1.0)
        C, P, Q = self._sums(labels, loss)
        return np.asarray(loss_value(loss, C, P, Q, self.n_rows))

    def _sums(self, labels, loss):
        """Return the sums of a loss: of the partition, and of each draw (M,) with it and alone."""
        labels = self._checked_labels(labels)
        items = DrawItems(self._draws, labels=labels)
        clusters = np.empty(items.n_items, dtype=np.int32)
        clusters[items.item_of_row] = labels
        f = count_values(loss, self.n_rows)
        alone = np.add.reduceat(f[items.block_sizes()], items.first)
        return f[np.bincount(labels)].sum(), items.overlaps(clusters, f), alone

    # ---- how sure it is ----------------------------------------------------------------------------------------------

    def ball(self, probability: float = 0.9, labels: npt.ArrayLike | None = None, *, loss: Loss = "vi") -> Ball:
        """Return the credible ball around the point partition.

        Parameters
        ----------
        probability : float in (0, 1]
            Least share of the draws inside.
        labels : (N,) array_like, optional
            Centre; `point` if not given.
        loss : {"vi", "binder", "omari"}
            Distance.

        Returns
        -------
        Ball

        Raises
        ------
        ValueError
            There is one draw.

        Notes
        -----
        Wade & Ghahramani 2018, "Bayesian cluster analysis". Its bounds are draws, so they are partitions that the
        sampler has seen.
        """
        self._require_spread()
        d = self.distances(self.point if labels is None else labels, loss)
        radius = float(np.sort(d)[_n_inside(probability, self.n_draws) - 1])
        inside = np.flatnonzero(d <= radius * (1 + 1e-12))
        K = self.n_clusters[inside]
        chosen = (
            inside[np.argmax(d[inside])],
            inside[np.lexsort([-d[inside], K])[0]],
            inside[np.lexsort([-d[inside], -K])[0]],
        )
        return Ball(radius, float(probability), *(self._draws[m].astype(np.int32) for m in chosen))

    @property
    @made_on_use
    def certainty(self) -> npt.NDArray[np.float32]:
        """Mean probability of each row to be with another row of its cluster: (N,) float32.

        For a cluster of one row it is the share of the draws in which this row is alone.
        """
        return self._readings[0]

    @property
    @made_on_use
    def second(self) -> npt.NDArray[np.int32]:
        """Second most probable cluster of each row: (N,) int32.

        Of the other clusters it is the one with whose rows the row is most often together in the draws, on average;
        -1 where no draw joins the row with another cluster.
        """
        return self._readings[1]

    @property
    @made_on_use
    def second_certainty(self) -> npt.NDArray[np.float32]:
        """Mean probability of each row to be with a row of `second`: (N,) float32."""
        return self._readings[2]

    @cached_property
    @made_on_use
    def between(self) -> npt.NDArray[np.float64]:
        """Mean probability that rows of two clusters are together: (K, K) float64.

        The diagonal, over pairs of different rows, is the cohesion of a cluster; it is 1 for one row.
        """
        self._require_spread()
        return self._table.between()

    @cached_property
    def _table(self):
        items = DrawItems(self._draws, labels=self.point)
        clusters = np.empty(items.n_items, dtype=np.int32)
        clusters[items.item_of_row] = self.point
        return DrawTable(items, clusters)

    @cached_property
    @made_on_use
    def _readings(self):
        self._require_spread()
        rows = self._table.source.item_of_row
        return tuple(values[rows] for values in self._table.certainty(n_threads=self.n_threads))

    def together(self, pairs: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return in which share of the draws the two rows of each pair are together: (P,) float64.

        Parameters
        ----------
        pairs : (P, 2) array_like of int
        """
        return np.mean(self._together(self._checked_pairs(pairs)), axis=0)

    def _together(self, pairs):
        step = max(1, _MANY_PAIRS // max(1, self.n_draws))
        parts = [
            self._draws[:, pairs[a : a + step, 0]] == self._draws[:, pairs[a : a + step, 1]]
            for a in range(0, len(pairs), step)
        ]
        return np.concatenate([np.zeros((self.n_draws, 0), dtype=bool), *parts], axis=1)

    @cached_property
    @made_on_use
    def diagnostics(self) -> Diagnostics:
        """How far the chains agree: R-hat and effective sample sizes, see `Diagnostics`.

        For several chains of a fit they are of every step after the warm-up; of a loaded model, of one chain and of
        other draws they are of the draws. One chain is compared half with half. Chains are cut to the shortest.
        """
        rows = rows_of_chains(self.chain)
        steps = record_of_draws(self._draws, self.chain, self.log_joint) if self._steps is None else self._steps
        middle = rows.shape[1] // 2
        hyper = self.hyper if self._steps is None else {}
        return steps.diagnose(
            {
                **{name: values[rows] for name, values in hyper.items()},
                "vi_first": self.distances(self._draws[rows[0, middle]])[rows],
                "vi_last": self.distances(self._draws[rows[-1, middle]])[rows],
            }
        )

    # ---- number and sizes of clusters --------------------------------------------------------------------------------

    @cached_property
    def n_clusters(self) -> npt.NDArray[np.int64]:
        """Number of clusters of each draw: (M,) int64."""
        return self._draws.max(axis=1).astype(np.int64) + 1

    @property
    @made_on_use
    def n_clusters_probability(self) -> dict[int, float]:
        """Share of the draws with each number of clusters, in ascending order."""
        values, counts = np.unique(self.n_clusters, return_counts=True)
        return {int(value): float(count / self.n_draws) for value, count in zip(values, counts)}

    def n_clusters_interval(self, probability: float = 0.9) -> tuple[int, int]:
        """Return the shortest credible interval of the number of clusters, both ends included."""
        low, high = shortest_interval(self.n_clusters, probability)
        return int(low), int(high)

    def sizes_interval(self, probability: float = 0.9) -> npt.NDArray[np.int64]:
        """Return credible intervals of the sizes of the largest, second largest, ... cluster.

        They are the shortest ones.

        Parameters
        ----------
        probability : float in (0, 1]

        Returns
        -------
        (K_max, 2) int64 ndarray
            Least and largest number of rows; draws with fewer clusters count with 0 rows.
        """
        sizes = np.zeros((self.n_draws, int(self.n_clusters.max())), dtype=np.int64)
        for labels, row in zip(self._draws, sizes):
            counts = np.sort(np.bincount(labels))[::-1]
            row[: len(counts)] = counts
        return np.array([shortest_interval(column, probability) for column in sizes.T], dtype=np.int64)

    def sizes_around(self, probability: float = 0.9) -> Interval:
        """Return how large the clusters of the draws are around the rows of each cluster of `point`.

        Parameters
        ----------
        probability : float in (0, 1]

        Returns
        -------
        Interval of (K,)
            For each draw the mean, over the rows of a cluster, of the number of rows that are with them.
        """
        self._require_spread()
        table = self._table
        starts, cluster, count = table.counts()
        n_blocks = np.diff(np.append(table.source.first, table.source.n_blocks))
        entries = np.diff(starts)
        draw = np.repeat(np.repeat(np.arange(self.n_draws), n_blocks), entries)
        total = np.repeat(table.source.block_sizes(), entries)
        K = len(table.sizes)
        sizes = np.bincount(draw * K + cluster, weights=count * total, minlength=self.n_draws * K)
        return _central(sizes.reshape(self.n_draws, K) / table.sizes, probability)

    # ---- parameters --------------------------------------------------------------------------------------------------

    def parameters(
        self, X: Any, *, probability: float = 0.9, random_state: Any = 0, family: Family | None = None
    ) -> dict[str, Interval]:
        """Return the parameters of each cluster of `point`, with credible intervals.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
            The rows of the draws, in their order: another order cannot be noticed. Columns of a frame are matched by
            name.
        probability : float in (0, 1]
            Share of the draws between `low` and `high`, with equal tails.
        random_state : None, int, numpy Generator or RandomState
        family : Family, optional
            Family bound to the data, where the posterior has none.

        Returns
        -------
        dict of str to Interval
            Names are those of the family's `to_params`; arrays have shape (K, ...). Of a table, parameters are those of
            the encoded columns, and `Columns.entries_of_params` names their entries.

        Raises
        ------
        DataError
            X has other rows or columns.

        Notes
        -----
        For each draw the parameters of its clusters are drawn from their posterior. A cluster of `point` gets the mean
        over its rows of the parameters of the clusters in which they lie, as in Molitor et al. 2010. No labels are
        matched. Where a cluster dissolves in some draws, its intervals become wider: this is meant. Where
        hyper-parameters of the family were drawn with the partition, see `hyper`, each draw has its own.
        """
        self._require_spread()
        _n_inside(probability, self.n_draws)
        family = self.family if family is None else family
        if family is None:
            raise ValueError(
                "parameters needs the family of the data, bound: write posterior.parameters(X, family=family.bind(X))"
            )
        family.require("draw", "parameters")
        X = self._matrix(X, family)
        shape = np.shape(X)
        if len(shape) != 2 or shape[0] != self.n_rows or shape[1] != family.n_features_in_:
            raise DataError(
                f"X has shape {shape}; the draws have {counted(self.n_rows, 'row')} and the family"
                f" {counted(family.n_features_in_, 'column')}: give the rows that were fitted"
            )
        data, seed, K = Dataset(X, family), resolve_seed(random_state), int(self.point.max()) + 1
        first = self._parameters_of_draw(data, family, 0, seed, slice(0, K))
        width = 8 * sum(values[0].size for values in first.values())
        step = max(1, _PARAMETER_BYTES // max(1, self.n_draws * width))
        parts: dict[str, list[Interval]] = {name: [] for name in first}
        for start in range(0, K, step):
            some = slice(start, min(start + step, K))
            drawn = [self._parameters_of_draw(data, family, m, seed, some) for m in range(self.n_draws)]
            for name in first:
                parts[name].append(_central(np.array([values[name] for values in drawn]), probability))
        return {name: Interval(*map(np.concatenate, zip(*intervals))) for name, intervals in parts.items()}

    def _matrix(self, X, family):
        """Return a frame as the matrix that the family reads; other data stay as they are."""
        if not is_frame(X):
            return X
        owner = type(self).__name__
        frame, roles = as_frame(X, owner=owner), getattr(family, "roles", None)
        if roles:
            return Roles(roles).encode(frame, owner=owner)
        if self.names is not None:
            check_names(frame.names, self.names, self.names, owner=owner)
            frame = frame.only(self.names)
        return numbers_of_frame(frame, of_fit=True)

    def _parameters_of_draw(self, data, family, m, seed, clusters):
        """Return the parameters of some clusters of `point` under one draw: name to (K, ...)."""
        z = self._draws[m].astype(np.int32)
        n, S = weighted_statistics(data, z, int(self.n_clusters[m]))
        S = S.toarray() if sparse.issparse(S) else S
        family = self._family_of_draw(family, m)
        theta, g = family.draw_natural(n, S, generator(seed, "posterior", unit=m))
        params = family.to_params(theta, g) if hasattr(family, "to_params") else {"natural": theta}
        counts = contingency(self.point, z)
        share = sparse.csr_array((counts.n_ab, counts.b, counts.starts), shape=(len(counts.n_a), len(counts.n_b)))
        share = sparse.diags_array(1.0 / counts.n_a).tocsr()[clusters, clusters] @ share[clusters]
        return {
            name: (share @ values.reshape(len(values), -1)).reshape(share.shape[0], *values.shape[1:])
            for name, values in ((name, np.asarray(values, dtype=np.float64)) for name, values in params.items())
        }

    def _family_of_draw(self, family, m):
        """Return the family with the hyper-parameters of a draw."""
        known = {recorded_name(family, name): name for name in factor_names(family, family.hyper)}
        drawn = {known.get(name, name): values for name, values in self.hyper.items() if name not in WEIGHT_NAMES}
        unknown = [name.removesuffix(FACTOR) for name in drawn if name not in known.values()]
        if unknown:
            raise ValueError(
                f"{family.name} has no hyper-parameter {unknown[0]!r}, which the draws have: give their family"
            )
        return at_factors(family, {name: float(values[m]) for name, values in drawn.items()})

    # ---- in other forms ----------------------------------------------------------------------------------------------

    def summary(self, probability: float = 0.9) -> Any:
        """Return a table of the clusters of `point`, one in a row.

        Parameters
        ----------
        probability : float in (0, 1]
            Of the intervals of the sizes.

        Returns
        -------
        pandas.DataFrame or str
            Text where pandas is not installed. The row of a cluster has the number of its rows, the interval of
            `sizes_around`, its cohesion, the other cluster that it is most often together with and how often, and the
            number of rows whose certainty is below .5.
        """
        columns = self._summary_columns(probability)
        try:
            from pandas import DataFrame, Index
        except ImportError:
            return _as_text(columns)
        return DataFrame(columns, index=Index(range(len(columns["size"])), name="cluster"))

    def _summary_columns(self, probability):
        around, between = self.sizes_around(probability), self.between
        K = len(between)
        others = np.where(np.eye(K, dtype=bool), -1.0, between)
        nearest = others.argmax(axis=1) if K > 1 else np.full(K, -1)
        return {
            "size": np.bincount(self.point, minlength=K),
            "size_low": np.rint(around.low).astype(np.int64),
            "size_high": np.rint(around.high).astype(np.int64),
            "cohesion": np.diag(between).copy(),
            "nearest": nearest,
            "with_nearest": others[np.arange(K), nearest] if K > 1 else np.zeros(K),
            "in_doubt": np.bincount(self.point[self.certainty < 0.5], minlength=K),
        }

    def draws(self, chain: int | None = None) -> npt.NDArray[np.unsignedinteger]:
        """Return the draws, or those of one chain: (M, N) uint8, uint16 or uint32.

        The labels of each draw are numbered by first appearance.
        """
        if chain is None:
            return self._draws.copy()
        if chain not in self.chain:
            raise ValueError(f"there is no chain {chain!r}: the chains are {np.unique(self.chain).tolist()}")
        return self._draws[self.chain == chain]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the draws and their numbers to a directory of JSON and npz, without pickle.

        The family is not written: give it to `parameters` again.
        """
        arrays: dict[str, Any] = {"draws": self._draws, "chain": self.chain, "sample_stats": dict(self.sample_stats)}
        if self.hyper:
            arrays["hyper"] = dict(self.hyper)
        if self.log_joint is not None:
            arrays["log_joint"] = self.log_joint
        write_archive(path, _KIND, header={"n_draws": self.n_draws, "n_rows": self.n_rows}, arrays=arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> PartitionPosterior:
        """Read a posterior that `save` wrote.

        Raises
        ------
        ArchiveError
            There is none at `path`, or it is damaged or was altered.
        """
        _, arrays = read_archive(path, _KIND)
        with restoring(path):
            draws = integers(arrays, "draws", (None, None), 0, 2**31 - 1, dtype=np.uint32)
            chain = integers(arrays, "chain", (len(draws),))
            log_joint = None
            if "log_joint" in arrays:
                log_joint = numbers(arrays, "log_joint", (len(draws),), finite=False)
            stats = arrays.get("sample_stats", {})
            stats = {name: numbers(stats, name, (len(draws),), finite=False) for name in stats}
            hyper = arrays.get("hyper", {})
            hyper = {name: numbers(hyper, name, (len(draws),), finite=False) for name in hyper}
            return cls(draws, chain=chain, log_joint=log_joint, sample_stats=stats, hyper=hyper)

    def to_arviz(self, *, pairs: int | npt.ArrayLike = 0, labels: bool = False, X: Any = None) -> Any:
        """Return the draws as ArviZ keeps them: one value for each chain and draw.

        Parameters
        ----------
        pairs : int or (P, 2) array_like of int
            Pairs of rows of which it is kept whether they are together; a number stands for as many random pairs.
        labels : bool
            Also keep the labels, numbered by first appearance: N values for each draw. Do not average them.
        X : array_like or frame, shape (N, V), optional
            Observed data; a frame as the family reads it.

        Returns
        -------
        xarray.DataTree, or arviz.InferenceData where ArviZ below 1.0 is installed
            Either has the group "posterior" with `n_clusters`, `largest_share`, `entropy` of
            the sizes (nats), the numbers of `hyper`, `together` and `labels`; group "sample_stats" with `lp` and other
            numbers of the draws. Chains are cut to the shortest, which loses its last draws.

        Raises
        ------
        ImportError
            ArviZ is not installed.
        """
        chosen = self._chosen_pairs(pairs)
        rows = self._rows_of_chains()
        sizes = [np.bincount(labels) / self.n_rows for labels in self._draws]
        posterior = {
            "n_clusters": self.n_clusters,
            "largest_share": np.array([share.max() for share in sizes]),
            "entropy": np.array([-(share * np.log(share)).sum() for share in sizes]),
        }
        posterior |= self.hyper
        coords: dict[str, Any] = {}
        dims: dict[str, list[str]] = {}
        if len(chosen):
            posterior["together"] = self._together(chosen).astype(np.uint8)
            coords["pair"], dims["together"] = [f"{i},{j}" for i, j in chosen.tolist()], ["pair"]
        if labels:
            posterior["labels"], dims["labels"], coords["row"] = self._draws, ["row"], np.arange(self.n_rows)
        stats = {} if self.log_joint is None else {"lp": self.log_joint}
        groups = {"posterior": posterior, "sample_stats": stats | self.sample_stats}
        data: dict[str, Any] = {
            group: {name: values[rows] for name, values in values_of.items()}
            for group, values_of in groups.items()
            if values_of
        }
        if X is not None:
            X = self._matrix(X, self.family)
            X = X.toarray() if sparse.issparse(X) else np.asarray(X)
            if len(X) != self.n_rows:
                raise DataError(f"X has shape {X.shape}; the draws have {counted(self.n_rows, 'row')}")
            data["observed_data"], dims["X"] = {"X": X}, ["row", "column"]
            coords |= {"row": np.arange(self.n_rows), "column": np.arange(X.shape[1])}
        return arviz_tree(data, coords=coords, dims=dims, attrs_of="posterior")

    def _chosen_pairs(self, pairs):
        if np.ndim(pairs):
            return self._checked_pairs(pairs)
        check_value("pairs", pairs, (Integer(0),))
        if self.n_rows < 2 and pairs:
            raise ValueError("one row makes no pairs")
        rng = generator(0, "subsample")
        first = rng.integers(self.n_rows, size=pairs)
        other = rng.integers(max(self.n_rows - 1, 1), size=pairs)
        return np.stack([first, other + (other >= first)], axis=1)

    def _rows_of_chains(self):
        """Return the numbers of the draws of each chain: (chains, draws)."""
        rows = [np.flatnonzero(self.chain == chain) for chain in np.unique(self.chain)]
        length = min(map(len, rows))
        return np.array([numbers[:length] for numbers in rows])

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _check_loss(self, loss, split_cost):
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {list(LOSSES)}; got {loss!r}")
        check_value("split_cost", split_cost, (Real(0, ends="()"),))
        if loss == "omari" and split_cost != 1:
            raise ValueError(f"split_cost must be 1 for loss='omari', which has no costs; got {split_cost!r}")

    def _checked_labels(self, labels):
        labels = np.asarray(labels)
        if labels.shape != (self.n_rows,):
            raise DataError(f"labels must have shape ({self.n_rows},), as the draws have; got {labels.shape}")
        return by_first_appearance(labels)[1]

    def _checked_pairs(self, pairs):
        pairs = np.asarray(pairs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(f"pairs must be integers of shape (P, 2); got {pairs.dtype} of shape {pairs.shape}")
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < self.n_rows:
            raise ValueError(f"pairs must hold rows from 0 to {self.n_rows - 1}; got {pairs.min()} to {pairs.max()}")
        return pairs

    def _require_spread(self):
        if self.n_draws == 1:
            raise ValueError("one draw has no spread: give at least two draws")


def _checked_draws(draws):
    if isinstance(draws, np.ndarray) or sparse.issparse(draws):
        found = draws
    else:
        try:
            found = np.asarray(draws)
        except ValueError as error:
            raise DataError(f"draws must be a matrix (M, N) of labels: {error}") from error
    if sparse.issparse(found) or found.ndim not in (2, 3) or not found.size:
        raise DataError(
            "draws must have shape (M, N), or (C, D, N) for C chains of D draws, with at least one draw and one row;"
            f" got shape {found.shape}"
        )
    if found.dtype.kind not in "iu":
        raise DataError(
            f"draws must be non-negative integers; got {found.dtype}, {found.flat[0]!r} in draw 0 of row 0: convert the"
            " labels, for example with astype(int)"
        )
    if found.min() < 0:
        place = tuple(np.argwhere(found < 0)[0].tolist())
        where = f"draw {place[-2]} of row {place[-1]}" + (f" of chain {place[0]}" if len(place) == 3 else "")
        raise DataError(f"draws must be non-negative integers; got {found[place]} in {where}")
    return found


def _chains_of(draws, chain):
    """Return the chain of each draw of a (C, D, N) array, which says it itself."""
    if chain is not None:
        raise ValueError(
            f"draws of shape {draws.shape} say the chain of each draw: leave out chain=, or give draws of shape"
            " (draws, rows)"
        )
    return np.repeat(np.arange(draws.shape[0], dtype=np.int64), draws.shape[1])


def _checked_chain(chain, n_draws):
    if chain is None:
        return np.zeros(n_draws, dtype=np.int64)
    found = np.asarray(chain)
    if found.shape != (n_draws,) or found.dtype.kind not in "iu" or found.min() < 0:
        wanted = counted(n_draws, "non-negative integer")
        raise DataError(f"chain must be {wanted}, one a draw; got {found.dtype} {found.shape}")
    return found.astype(np.int64)


def _of_draws(name, values, n_draws):
    values = np.asarray(values, dtype=np.float64)
    values = values.ravel() if values.ndim == 2 else values  # (chains, draws)
    if values.shape != (n_draws,):
        raise DataError(f"{name} must have shape ({n_draws},), one number a draw; got {values.shape}")
    return values


def _n_inside(probability, n_draws):
    """Return how many draws a share of them is, rounded up."""
    check_value("probability", probability, (Real(0, 1, ends="(]"),))
    return int(np.ceil(probability * n_draws - 1e-9))


def _central(values, probability):
    """Return mean and central interval over the first axis."""
    tail = (1.0 - probability) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail], axis=0)
    return Interval(values.mean(axis=0), low, high)


def _as_text(columns):
    names = ["cluster", *columns]
    rows = [[str(k), *(_cell(values[k]) for values in columns.values())] for k in range(len(columns["size"]))]
    widths = [max(map(len, column)) for column in zip(names, *rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [names, *rows]]
    return "\n".join(lines)


def _cell(value):
    return f"{value:.2f}" if isinstance(value, (float, np.floating)) else str(value)
