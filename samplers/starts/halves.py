"""Ways to cut the rows of a cluster, and the best ones by the log joint.

Groups at equal distances along one column are no two groups: a cut of such a cluster in two raises nothing, and one
into all of them does. This is an optimiser, not a sampler. A run has not converged while a cluster can be cut in two
such that the log joint rises. All clusters are cut at once: a pass over the rows of many small clusters costs as much
as one over those of a large one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.model.assignment import LoadedClusters, extended_labels
from expfam.model.mixture import MixtureModel
from expfam.model.statistics import weighted_statistics
from expfam.model.weights import DirichletProcess
from expfam.samplers.geometry.column_cuts import best_cut, best_segments
from expfam.samplers.geometry.coordinates import Rows
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.samplers.geometry.metrics import metrics_of
from expfam.samplers.starts.ascent import ascend
from expfam.structures.ground.rng import generator
from expfam.structures.rows.kmeans import RowTiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expfam.model.data import Dataset

_MOST_ROWS = 2000  # of a cluster, in which cuts are looked for
_HOPE = 1.5  # times the rise of a sample of the rows that all may have
_FEWEST_ROWS = 4
_PASSES = 4  # of the ascent from each cut
_CELLS_AT_ONCE = 1 << 24  # of the rows of clusters that are cut together: 64 MiB in single precision
_MOST_COLUMNS = 4096
_FEWEST_OF_SEGMENTS = 20  # rows of a cluster
_LIGHT = 2.4  # fourth moment over squared variance: 3 of a normal column, 1.8 of many groups at equal distances
_LIGHT_COLUMNS = 4  # of a cluster, those of the lightest tails
_FEWEST_SEGMENTS = 3  # two are a cut
_UNIT = 9  # stream of the purpose "start"
_CLIMBED_AT_ONCE = 4096  # rows of all clusters and cuts; of so few, calls take more time than rows
_SCORED_AT_ONCE = 1 << 21  # numbers in the statistics of clusters that are cut together
_MOST_KEPT = 256  # clusters of a data set whose first cuts are kept; each has a few labels of at most 2000 rows
_kept: WeakKeyDictionary[Dataset, dict[tuple[Any, ...], list[Any]]] = WeakKeyDictionary()


class Halves(NamedTuple):
    """The rows of a cluster in two parts.

    Attributes
    ----------
    labels : (n,) int32 ndarray of 0 and 1
    rise : float
        Log evidence of the parts less that of the whole, nats, without the prior of the partition.
    """

    labels: npt.NDArray[np.int32]
    rise: float


def best_halves(
    model: MixtureModel,
    data: Dataset,
    clusters: Sequence[npt.NDArray[np.integer]],
    *,
    seed: int,
    n_threads: int | None = None,
    forced: bool = False,
    by_columns: bool = True,
    most_rows: int = _MOST_ROWS,
) -> list[Halves | None]:
    """Cut the rows of each of some clusters in two so that their log evidence is highest.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    data : Dataset
        What is known of the rows has no part in the cuts.
    clusters : sequence of (n,) ndarray of int
        Rows of each cluster.
    seed : int
        Decides the random numbers.
    n_threads : int or None
        The result does not depend on it.
    forced : bool
        Whether many rows are also cut where a sample of them shows that it does not pay.
    by_columns : bool
        Whether cuts of single columns, and 2-means in other metrics than that of the family, are tried too. They take
        most of the time where columns are many.
    most_rows : int
        Rows of a cluster in which its cuts are looked for.

    Returns
    -------
    list of Halves or None
        One for each cluster; None where nothing can be cut, or where a sample of many rows shows that it does not pay.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers.starts.halves import best_halves
    >>> data = Dataset([[0.0], [0.1], [0.2], [8.0], [8.1]], DiagonalGaussian())
    >>> (found,) = best_halves(MixtureModel(data.family, DirichletProcess()), data, [np.arange(5)], seed=0)
    >>> found.labels
    array([0, 0, 0, 1, 1], dtype=int32)

    Notes
    -----
    Cuts are 2-means in each metric of `metrics_of`, and the cut of one column that gains most under normal densities.
    Rows then move to the likelier side in a few passes. Cuts of more rows than `most_rows` are looked for in so many of
    them, and made in all only if the rise for each row would outweigh the prior of the partition, or if it is forced.
    """
    data, free = data.without_known(), MixtureModel(model.family, DirichletProcess())
    drawn = [drawn_rows(len(rows), most_rows, seed=seed, unit=_UNIT, step=2 * c) for c, rows in enumerate(clusters)]
    looked_at = [rows if chosen is None else rows[chosen] for rows, chosen in zip(clusters, drawn)]
    cut = [c for c, rows in enumerate(looked_at) if len(rows) >= _FEWEST_ROWS]
    found: list[Halves | None] = [None] * len(clusters)
    for block in _blocks(cut, looked_at, data):
        cuts = _Cuts(free, data, [looked_at[c] for c in block], block, seed, by_columns)
        for c, halves in zip(block, cuts.best()):
            found[c] = halves
    for c, halves in enumerate(found):
        if halves is not None and drawn[c] is not None:
            found[c] = _of_all_rows(free, data, clusters[c], looked_at[c], halves, n_threads, forced)
    return found


def _blocks(cut, looked_at, data):
    """Yield lists of clusters that are cut together: few statistics, few copied rows."""
    at_once, most_rows = max(1, _SCORED_AT_ONCE // (2 * data.n_statistics)), _CELLS_AT_ONCE // data.n_features
    block, n_rows = [], 0
    for c in cut:
        if block and (len(block) == at_once or n_rows + len(looked_at[c]) > most_rows):
            yield block
            block, n_rows = [], 0
        block.append(c)
        n_rows += len(looked_at[c])
    if block:
        yield block


def _of_all_rows(free, data, rows, looked_at, halves, n_threads, forced):
    """Return halves of all rows from those of a sample; None where these do not pay."""
    n, part = len(rows), data.take(looked_at)
    share, rise = np.bincount(halves.labels, minlength=2) * (n / part.n_rows), halves.rise * (n / part.n_rows)
    if not forced and _HOPE * rise + free.weights.log_prior(share) - free.weights.log_prior([n]) < 0.0:
        return None
    whole = data.take(rows)
    begun = extended_labels(free, part, halves.labels, whole, n_threads=n_threads)
    moved = ascend(free, whole, begun, max_passes=_PASSES, n_threads=n_threads)
    if not moved.any() or moved.all():
        return None
    return Halves(moved, _evidence(free, whole, moved) - _evidence(free, whole, np.zeros_like(moved)))


def _evidence(model, data, labels):
    return float(model.family.total_log_marginal(*weighted_statistics(data, labels, int(labels.max()) + 1)))


def _kept_of(data):
    """Return the first cuts that are kept of a data set, by cluster.

    A search, its chains and its end ask for the same clusters again and again, under models that differ in numbers.
    """
    return _kept.setdefault(data, {})


def _as_int64(rows):
    return np.ascontiguousarray(rows, dtype=np.int64)


class _Cuts:
    """First cuts of several clusters, and what they become when rows move."""

    def __init__(self, free, data, clusters, names, seed, by_columns):
        self.free, self.data, self.names, self.seed, self.by_columns = free, data, names, seed, by_columns
        self.clusters = [_as_int64(rows) for rows in clusters]
        self.kept = _kept_of(data)
        # the numbers of a cut depend on the place of its cluster in the list
        self.keys = [(seed, by_columns, c, blake2b(rows).digest()) for c, rows in zip(names, self.clusters)]

    def best(self) -> Iterator[Halves | None]:
        """Yield the best cut of each cluster."""
        first = [self._first_cuts(c) for c in range(len(self.clusters))]
        most = max(map(len, first), default=0)
        at_once = self._climbed_at_once(most)
        climbs = _Climbs(self.free, self.data, self.clusters * at_once)
        best = [-np.inf] * len(self.clusters)
        found: list[Halves | None] = [None] * len(self.clusters)
        for start in range(0, most, at_once):
            begun = np.concatenate([self._numbered(first, number) for number in range(start, start + at_once)])
            for place, (halves, score) in enumerate(climbs.climbed(begun)):
                c = place % len(self.clusters)
                if score > best[c]:  # with the prior of the sizes: else even halves forced win
                    best[c], found[c] = score, halves
        yield from found

    def _climbed_at_once(self, most):
        """Return how many cuts of each cluster climb together, of so many at most."""
        n_rows, n_clusters = sum(map(len, self.clusters)), len(self.clusters)
        fitting = min(_CLIMBED_AT_ONCE // n_rows, _SCORED_AT_ONCE // (2 * n_clusters * self.data.n_statistics))
        return max(1, min(most, fitting))

    def _numbered(self, first, number):
        """Return one first cut of each cluster: (N,) int32; 0 where a cluster has no further one."""
        return np.concatenate(
            [
                cuts[number] if number < len(cuts) else np.zeros(len(rows), dtype=np.int32)
                for cuts, rows in zip(first, self.clusters)
            ]
        )

    def _first_cuts(self, c):
        """Return the first cuts of a cluster, which are made once for the same rows."""
        cuts = self.kept.get(self.keys[c])
        if cuts is None:
            cuts = list(self._cuts_of(c))
            if len(self.kept) >= _MOST_KEPT:
                self.kept.clear()
            self.kept[self.keys[c]] = cuts
        return cuts

    def _cuts_of(self, c):
        part = self.data.take(self.clusters[c])
        metrics = metrics_of(part, seed=self.seed) if self.by_columns else {"own": Rows(part).embedding(self.seed, 1)}
        weight = None if part.weight is None else np.maximum(part.weight, np.finfo(np.float64).tiny)
        rng = generator(self.seed, "start", unit=_UNIT, step=2 * self.names[c] + 1)
        for points in metrics.values():
            yield RowTiles(points, weight=weight).kmeans(2, rng)[0]
        points = metrics["own"]
        if not self.by_columns:
            return
        if points.shape[1] <= _MOST_COLUMNS and (cut := best_cut(points, weight)) is not None:
            yield (points[:, cut.column] >= cut.threshold).astype(np.int32)


class _Climbs:
    """Clusters in halves, whose rows move to the likelier sides, all clusters at once.

    A cluster may stand in the list several times, each with another cut.
    """

    def __init__(self, free, data, clusters):
        self.free, self.data = free, data.take(np.concatenate(clusters))
        sizes = [len(rows) for rows in clusters]
        self.of_row = np.repeat(np.arange(len(clusters), dtype=np.int32), sizes)
        self.ends = np.cumsum(sizes)
        self.begins = self.ends - sizes
        self.loaded = None
        self.whole = self._scored(np.zeros_like(self.of_row))[0]

    def climbed(self, halves) -> Iterator[tuple[Halves, float]]:
        """Move rows to the likelier halves of their clusters while the log joint of these rises.

        Yields
        ------
        Halves
            Of each cluster.
        float
            Their log evidence with the prior of their sizes; -inf where one is empty.
        """
        evidence, score, n = self._scored(halves)
        going = np.isfinite(score)
        for _ in range(_PASSES):
            if not going.any():
                break
            with np.errstate(divide="ignore"):
                wanted = self.loaded.likelier_of_two(self.data, self.of_row, np.log(n))
            moved = np.where(going[self.of_row], wanted, halves)
            changes = moved != halves
            going &= np.bincount(self.of_row[changes], minlength=len(going)) > 0
            if not going.any():
                break
            new_evidence, new_score, new_n = self._scored(moved)
            going &= new_score > score
            rows, both = going[self.of_row], np.repeat(going, 2)
            halves = np.where(rows, moved, halves)
            evidence, score = np.where(going, new_evidence, evidence), np.where(going, new_score, score)
            n = np.where(both, new_n, n)
        rises = evidence - self.whole
        for begin, end, rise, each in zip(self.begins, self.ends, rises.tolist(), score.tolist()):
            yield Halves(halves[begin:end], rise), each

    def _scored(self, halves):
        n, S = weighted_statistics(self.data, 2 * self.of_row + halves, 2 * len(self.ends))
        if self.loaded is None:
            self.loaded = LoadedClusters(self.free.family, n, S, keeps_rows=True)
        else:
            self.loaded.load(n, S)
        evidence = self.loaded.log_marginal(self.data).reshape(-1, 2).sum(axis=1)
        sizes = n.reshape(-1, 2)
        prior = np.where(sizes > 0.0, gammaln(np.maximum(sizes, 1e-300)), 0.0).sum(axis=1)
        return evidence, np.where((sizes > 0.0).all(axis=1), evidence + prior, -np.inf), n


# ---- several parts ---------------------------------------------------------------------------------------------------


class Segmented(NamedTuple):
    """A cluster cut into segments of one column.

    Attributes
    ----------
    rows : (n,) ndarray of int
        Of the cluster.
    labels : (n,) int32 ndarray
        Segment of each of them.
    gain : float
        Nats by which the segments explain the column better.
    """

    rows: npt.NDArray[np.integer]
    labels: npt.NDArray[np.int32]
    gain: float


def segmented_clusters(
    points: npt.NDArray[np.float64],
    clusters: list[npt.NDArray[np.integer]],
    weight: npt.NDArray[np.float64] | None = None,
) -> list[Segmented]:
    """Return the clusters of which some column falls into three or more segments.

    Parameters
    ----------
    points : (N, C) float64 ndarray
        Coordinates of the rows; finite.
    clusters : list of (n,) ndarray of int
        Rows of each cluster.
    weight : (N,) float64 ndarray, optional
        Above 0; how often each row counts.

    Returns
    -------
    list of Segmented
        The highest gain first.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.starts.halves import segmented_clusters
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(600, 3)) + np.outer(np.arange(600) % 4, [0.0, 9.0, 0.0])
    >>> (found,) = segmented_clusters(points, [np.arange(600)])
    >>> np.bincount(found.labels).tolist()
    [150, 150, 150, 150]
    """
    found = []
    for rows in clusters:
        if len(rows) < _FEWEST_OF_SEGMENTS:
            continue
        part, own = points[rows], None if weight is None else weight[rows]
        light = _light_columns(part)
        segments = best_segments(part[:, light], own) if light.size else None
        if segments is not None and segments.labels.max() + 1 >= _FEWEST_SEGMENTS:
            found.append(Segmented(rows, segments.labels, segments.gain))
    return sorted(found, key=lambda one: -one.gain)


def _light_columns(part):
    """Return the columns whose tails are clearly lighter than normal ones."""
    squares = (part - part.mean(axis=0)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        tails = (squares**2).mean(axis=0) / squares.mean(axis=0) ** 2
    order = np.argsort(tails, kind="stable")[:_LIGHT_COLUMNS]
    return order[tails[order] < _LIGHT]
