"""The end of a run without settings: no merge, split or simple partition is better.

A chain stops when its log joint has stopped rising. That alone does not show that it is anywhere near a mode: pieces of
one wide cluster are never merged one by one, and columns of noise hide the one that tells the groups apart. So the best
draw and the start are taken uphill, and the result is compared with one cluster and with k-means in several metrics.
Where there are more rows than a search looks at, k-means divides a sample of them first, and all rows only if it is
better there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.fitting.rivals import NUMBERS_BESIDE_ONE, best_of_given_number
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import by_first_appearance, compact_labels, division_of
from expfam.samplers.starts.equal_rows import EqualRows
from expfam.samplers.starts.exchanges import Exchanges
from expfam.samplers.starts.many_exchanges import ManyExchanges, has_many_clusters
from expfam.samplers.starts.refill import Refill
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.samplers.warm_starts.sample_rows import has_few_rows, has_many_rows, search_rows
from expfam.samplers.warm_starts.settle import Fitted, Settler, least_gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CLOSE = 2e-3  # nats a row
_CRUMBS = 1e-3  # share of the rows
_MOST_EXCHANGES, _TRIED_EXCHANGES = 20, 8
_MOST_DENSE, _TRIED_DENSE = 10, 32  # the same of those that do not lower the density, many of which are refused
_CLEARLY_LOWER = 2.0  # nats of a density with labels summed out
FEW_ROWS, _RUNS_OF_FEW_ROWS = 6000, 4  # k-means runs in each metric to which the end is compared
# clusters that may hold several groups each, which can be divided among them in many ways; of fewer rows these ways
# differ by few nats
_FEW_CLUSTERS, _RUNS_OF_FEW_CLUSTERS, _ROWS_OF_MANY_RUNS = 3, 12, 1000
_OTHER = 0.01  # share of the rows by which another division differs; less is the same one, a few passes away
_MOST_MODES = 3  # of a sample, that are compared on all rows


class Ending(NamedTuple):
    """Partition in which a run ends.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    model : MixtureModel
        With the hyper-parameters under which the labels are a mode.
    gain : float
        Nats that were gained over the best draw.
    is_settled : bool
        Whether neither a merge nor a split raises the log joint further.
    name : str
        Candidate from which it was reached.
    compared : int
        Number of clusters of the k-means runs to which it was compared.
    """

    labels: npt.NDArray[np.int32]
    model: MixtureModel
    gain: float
    is_settled: bool
    name: str
    compared: int


class GivenEnding(NamedTuple):
    """Partition of a given number of clusters in which a run ends.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    shares : (N,) float32 ndarray or None
        Probability of the cluster of each row among the clusters, where the last pass over the rows has told it.
    """

    labels: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float32] | None = None


def open_ending(
    settler: Settler,
    candidates: dict[str, Any],
    *,
    splits: bool = True,
    before: Ending | None = None,
    divisions: Divisions | None = None,
) -> Ending:
    """Take the best of some partitions uphill, and compare it with simple ones.

    Parameters
    ----------
    settler : Settler
        Of all rows.
    candidates : dict of str to (N,) array_like of int
        The first one is the best draw.
    splits : bool
        Whether cuts of clusters are tried.
    before : Ending, optional
        An earlier end of the same run, which is among the candidates. With as many clusters the simple partitions that
        were below it are not made again.

    divisions : Divisions, optional
        Of all rows with the seed of the settler, where some are made already.

    Returns
    -------
    Ending
    """
    begun = _begun(settler, candidates)
    name = max(begun, key=lambda name: begun[name].log_joint)
    ways = {"splits": splits, "exchanges": settler.data.n_rows <= FEW_ROWS}
    reached, is_settled = settler.settled(begun[name], **ways)
    K = int(reached.labels.max()) + 1
    rival = _best_rival(settler, reached, divisions) if before is None or before.compared != K else None
    if rival is not None and rival.log_joint > reached.log_joint - _close(settler.data.n_rows):
        risen, is_end = settler.settled(rival, **ways)
        if risen.log_joint > reached.log_joint + least_gain(settler.data.n_rows):
            reached, is_settled = risen, is_end
    gain = reached.log_joint - next(iter(begun.values())).log_joint
    return Ending(reached.labels, reached.model, gain, is_settled, name, K)


def _close(n_rows):
    """Return how far below, in nats, a rival may be that yet rises by merges and splits."""
    return _CLOSE * n_rows if n_rows <= FEW_ROWS else -least_gain(n_rows)


def _begun(settler: Settler, candidates: dict[str, Any]) -> dict[str, Fitted]:
    """Take the candidates uphill; of many rows only those that may become the best.

    A candidate that would have to gain more than twice what the best one has gained is left where it is.
    """
    begun = {name: settler.fitted(labels) for name, labels in candidates.items()}
    first = max(begun, key=lambda name: begun[name].log_joint)
    best, before = settler.ascended(begun[first]), begun[first].log_joint
    least = best.log_joint - 2.0 * (best.log_joint - before) - least_gain(settler.data.n_rows)
    is_long = has_many_rows(settler.data.n_rows, None)
    hopeless = {name for name, one in begun.items() if is_long and one.log_joint < least}
    return {
        name: best if name == first else one if name in hopeless else settler.ascended(one)
        for name, one in begun.items()
    }


def _best_rival(settler: Settler, reached: Fitted, divisions: Divisions | None) -> Fitted | None:
    """Return the best of one cluster and k-means with as many clusters as were reached."""
    data = settler.data
    K = int(reached.labels.max()) + 1
    rows = search_rows(data.n_rows, None, settler.seed)
    if rows is not None:
        return _best_of_many_rows(settler, reached, rows) if K > 1 else None
    if divisions is None:
        divisions = Divisions(data, seed=settler.seed, n_threads=settler.n_threads)
    if settler.model.weights.max_components is not None and data.n_rows <= FEW_ROWS:
        return best_of_given_number(settler, reached, divisions)
    rivals = simple_rivals(divisions, K, range(1, 1 + _n_runs(data.n_rows)))  # run 0 was a candidate of the start
    found = [settler.ascended(settler.fitted(labels)) for labels in rivals]
    return max(found, key=lambda one: one.log_joint, default=None)


def simple_rivals(divisions: Divisions, n_clusters: int, runs: Iterable[int]) -> list[npt.NDArray[np.int32]]:
    """Return the partitions to which an end with an open number of clusters is compared.

    Parameters
    ----------
    divisions : Divisions
        Of the rows.
    n_clusters : int
        Number that was found.
    runs : iterable of int
        Runs of k-means in each metric.

    Returns
    -------
    list of (N,) int32 ndarray
        k-means with as many clusters, and one cluster. Beside one cluster k-means with several numbers: no cut of one
        wide cluster in two pays where its groups overlap, and one in more may.
    """
    if n_clusters == 1:
        return [divisions.kmeans(metric, n) for metric, n in product(divisions.metrics, NUMBERS_BESIDE_ONE)]
    found = [divisions.kmeans(metric, n_clusters, run) for metric, run in product(divisions.metrics, runs)]
    return [*found, np.zeros(divisions.n_rows, dtype=np.int32)]


def _best_of_many_rows(settler: Settler, reached: Fitted, rows: npt.NDArray[np.int64]) -> Fitted:
    """Return the best of one cluster and of k-means, if that is better on a sample of the rows.

    No division of all rows is made where none of the sample's is better there.
    """
    data, part = settler.data, settler.data.take(rows)
    one = settler.fitted(np.zeros(data.n_rows, dtype=np.int32))  # one cluster is its own mode
    small = replace(settler, data=part)
    own = small.ascended(small.fitted(reached.labels[rows]))
    K = int(own.labels.max()) + 1
    divisions = Divisions(part, seed=settler.seed, n_threads=settler.n_threads)
    least = own.log_joint + least_gain(part.n_rows)
    runs = (small.fitted(divisions.kmeans(metric, K, run=1)) for metric in divisions.metrics)
    best = max((small.ascended(run, least=least) for run in runs), key=lambda each: each.log_joint)
    if not best.log_joint > least:
        return one
    labels = extended_labels(best.model, part, best.labels, data, n_threads=settler.n_threads)
    return max(one, settler.ascended(settler.fitted(labels)), key=lambda each: each.log_joint)


def best_labels(
    rows: EqualRows,
    labels: npt.NDArray[np.int32],
    others: Iterable[npt.NDArray[np.int32]],
    *,
    spread: EqualRows | None = None,
) -> npt.NDArray[np.int32]:
    """Return the labels, or those of the others whose log joint is clearly higher.

    Parameters
    ----------
    rows : EqualRows
        Computes log joints.
    labels : (N,) int32 ndarray
    others : iterable of (N,) int32 ndarray
    spread : EqualRows, optional
        Computes log joints with repeated values spread, see `is_below`: there a better one is not below either.

    Returns
    -------
    (N,) int32 ndarray
        The given array itself where none of the others is better.
    """
    best_joint, least = rows.log_joint(compact_labels(labels)), least_gain(rows.data.n_rows)
    for other in others:
        if (log_joint := rows.log_joint(compact_labels(other))) > best_joint + least:
            if spread is not None and is_below(spread, other, labels):
                continue
            labels, best_joint = other, log_joint
    return labels


def is_below(spread: EqualRows, labels: npt.NDArray[np.int32], best: npt.NDArray[np.int32]) -> bool:
    """Tell whether labels are better on the rows as they are by repeated values alone.

    A cluster of one value of a column is as dense as the prior lets it be, so the rows as they are prefer clusters of
    single values to all groups. With these values spread over what they stand for, such clusters gain nothing.

    Parameters
    ----------
    spread : EqualRows
        The rows with repeated values spread.
    labels, best : (N,) int32 ndarray

    Returns
    -------
    bool
        Whether the log joint of `labels` is clearly lower there.
    """
    gap = spread.log_joint(compact_labels(best)) - spread.log_joint(compact_labels(labels))
    return gap > least_gain(spread.data.n_rows)


def given_ending(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.int32],
    n_clusters: int,
    others: Sequence[npt.NDArray[np.integer]] = (),
    *,
    max_passes: int,
    seed: int,
    n_threads: int | None,
    exchanges: bool = True,
    divisions: Divisions | None = None,
    spread: Dataset | None = None,
) -> GivenEnding:
    """Return the mode of a given number of clusters above labels or k-means.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
    labels : (N,) int32 ndarray
    n_clusters : int
    others : sequence of (N,) ndarray of int
        Partitions to which the mode is compared, beside k-means.
    max_passes : int
        Of each ascent.
    seed : int
    n_threads : int or None
    exchanges : bool
        Whether exchanges of clusters are tried.
    divisions : Divisions, optional
        Of all rows with the same seed, where some are made already.
    spread : Dataset, optional
        The rows with repeated values spread: a mode that is better on `data` counts only if it is not below there.

    Returns
    -------
    GivenEnding
        Labels as those of `refilled`. Of up to 6,000 rows no exchange of clusters that was tried leads to a better
        mode. Where there are more rows than a search looks at, a sample of the rows decides whether k-means is the
        better start. Where clusters are many, see `has_many_clusters`, many exchanges are made at once, and k-means has
        been the start.
    """
    seek = _GivenNumber(model, data, n_clusters, max_passes, seed, n_threads, spread)
    if has_many_clusters(model, data):
        return seek.exchanged_together(labels, others)
    rows = search_rows(data.n_rows, n_clusters, seed)
    if rows is None:
        found = seek.best_of_simple(seek.mode(labels), others, divisions)
        return GivenEnding(seek.exchanged(found) if exchanges else found)
    part = seek.of_rows(rows)
    own = part.refill.rows.ascents.climb(labels[rows], keep_clusters=True, max_passes=max_passes).labels
    first, *more = (
        labels if one is own else extended_labels(model, part.data, one, data, n_threads=n_threads)
        for one in part.best_modes(own, [one[rows] for one in others])
    )
    found = seek.best(seek.mode(first), more)
    if np.bincount(found).min() >= _CRUMBS * data.n_rows:
        return GivenEnding(found)
    # clusters of so few rows hold outliers, of which a sample has none: all rows decide
    divisions = Divisions(part.data, seed=seed, n_threads=n_threads)
    begun = (divisions.kmeans(metric, n_clusters) for metric in divisions.metrics)
    whole = (extended_labels(model, part.data, one, data, n_threads=n_threads) for one in begun)
    return GivenEnding(best_labels(seek.refill.rows, found, map(seek.mode, whole), spread=seek.spread_rows))


def exchanged_ending(
    model: MixtureModel,
    data: Dataset,
    labels: npt.NDArray[np.int32],
    n_clusters: int,
    *,
    max_passes: int,
    seed: int,
    n_threads: int | None,
) -> npt.NDArray[np.int32]:
    """Return the mode that exchanges of clusters reach from another one.

    The arguments are those of `given_ending`, and so are the labels.
    """
    return _GivenNumber(model, data, n_clusters, max_passes, seed, n_threads).exchanged(labels)


@dataclass(frozen=True)
class _GivenNumber:
    """Modes of a given number of clusters of one data set."""

    model: MixtureModel
    data: Dataset
    n_clusters: int
    max_passes: int
    seed: int
    n_threads: int | None
    spread: Dataset | None = None

    def of_rows(self, rows):
        return replace(self, data=self.data.take(rows), spread=None if self.spread is None else self.spread.take(rows))

    @cached_property
    def spread_rows(self):
        return None if self.spread is None else EqualRows(self.model, self.spread, n_threads=self.n_threads)

    @cached_property
    def refill(self):
        options: dict[str, Any] = {"max_passes": self.max_passes, "seed": self.seed, "n_threads": self.n_threads}
        return Refill(self.model, self.data, self.n_clusters, **options)

    def mode(self, labels):
        return self.refill.labels(labels)

    def best_of_simple(self, labels, others, divisions=None):
        """Return the labels, or a better mode above one of the others or above k-means."""
        return self.best_modes(labels, others, divisions)[0]

    def best_modes(self, labels, others, divisions=None):
        """Return the labels or a better mode above others or k-means, then modes near it.

        Where clusters are few and rows are many, the modes differ by many nats, and which one k-means reaches is
        chance: where one is not far below the labels, and divides the rows in another way, k-means has more runs.
        """
        if divisions is None:
            divisions = Divisions(self.data, seed=self.seed, n_threads=self.n_threads)
        begun = self._distinct(labels, chain(others, self._divisions(divisions, range(self._n_runs()))))
        if self.n_clusters > _FEW_CLUSTERS or self.data.n_rows <= FEW_ROWS:
            return [self.best(labels, begun)]
        near = self._near(labels, begun)
        own = by_first_appearance(labels)[1]
        if any(np.count_nonzero(mode != own) > _OTHER * len(own) for mode in near):
            near += self._near(labels, self._divisions(divisions, range(self._n_runs(), _RUNS_OF_FEW_CLUSTERS)))
        near = sorted(near, key=self._log_joint, reverse=True)[:_MOST_MODES]
        best = best_labels(self.refill.rows, labels, near, spread=self.spread_rows)
        return [best, *(mode for mode in near if mode is not best)]

    def _near(self, labels, begun):
        """Return the modes with all clusters that are not far below the labels."""
        least = self._log_joint(labels) - _CLOSE * self.data.n_rows
        modes = (self.refill.better(one, least) for one in begun)
        return [mode for mode in modes if mode is not None and mode.max() + 1 == self.n_clusters]

    def _log_joint(self, labels):
        return self.refill.rows.log_joint(compact_labels(labels))

    def exchanged(self, labels):
        """Make exchanges of clusters; if they lower the density, those that do not."""
        if self.data.n_rows > FEW_ROWS or has_few_rows(self.model, self.data):
            return labels
        exchanges = Exchanges(self.model, self.data, seed=self.seed, n_threads=self.n_threads)
        found = self._risen(exchanges, labels, rounds=_MOST_EXCHANGES, most=_TRIED_EXCHANGES)
        if found is labels or not self._is_less_dense(found, labels):
            return found
        less_dense = set()  # modes; what labels they are compared with later is denser still

        def refuses(mode, best):
            if (key := division_of(mode)) not in less_dense and self._is_less_dense(mode, best):
                less_dense.add(key)
            return key in less_dense

        return self._risen(exchanges, labels, rounds=_MOST_DENSE, most=_TRIED_DENSE, refuses=refuses)

    def _risen(self, exchanges, labels, *, rounds, most, refuses=None):
        """Return what exchanges lead to, each time the first one to a better mode."""
        for _ in range(rounds):
            begun = (one.labels for one in exchanges.best(labels, most=most))
            better = self.best(labels, begun, takes_first=True, refuses=refuses)
            if better is labels:
                break
            labels = better
        return labels

    def _is_less_dense(self, labels, begun):
        """Tell whether labels of a higher log joint have a lower density with labels summed out.

        Where two clusters overlap, the log joint of a partition rises when they are joined and a strange row is made a
        cluster of its own. Nobody wants that of the number that he has given.
        """
        try:
            found = {"labels": labels, "begun": begun}
            scores = best_by_em(self.model, self.data, found, seed=self.seed, n_threads=self.n_threads).scores
        except CapabilityError:  # no mode or prior density
            return False
        return scores["begun"] > scores["labels"] + _CLEARLY_LOWER

    def exchanged_together(self, labels, others):
        """Return the mode above the best of some labels, by exchanges of many clusters at once.

        All of them come from one start by draws, so they differ in few rows, and the modes above them hardly.
        """
        begun = {one.tobytes(): one for one in (compact_labels(each) for each in (labels, *others))}.values()
        exchanges = ManyExchanges(self.model, self.data, seed=self.seed, n_threads=self.n_threads)
        begun = max(begun, key=self.refill.rows.log_joint) if len(begun) > 1 else next(iter(begun))
        risen = exchanges.risen(begun, self.n_clusters)
        found, _, _, shares = self.refill.rows.climb(risen, keep_clusters=True, max_passes=self.max_passes)
        # exchanges have looked for a better place of each cluster of a strange row, many at once
        is_full = np.count_nonzero(np.bincount(found)) == self.n_clusters
        found = GivenEnding(by_first_appearance(found)[1], shares) if is_full else GivenEnding(self.mode(found))
        if self.spread_rows is not None and is_below(self.spread_rows, found.labels, own := self.mode(labels)):
            return GivenEnding(own)
        return found

    def best(self, labels, begun, *, takes_first=False, refuses=None):
        """Return the labels, or a better mode with all clusters."""
        rows, gain = self.refill.rows, least_gain(self.data.n_rows)
        best, least = labels, rows.log_joint(compact_labels(labels)) + gain
        for one in begun:
            mode = self.refill.better(one, least)
            if mode is None or mode.max() + 1 < self.n_clusters or not (log_joint := rows.log_joint(mode)) > least:
                continue
            if self.spread_rows is not None and is_below(self.spread_rows, mode, best):
                continue
            if refuses is not None and refuses(mode, best):
                continue
            best, least = mode, log_joint + gain
            if takes_first:
                break
        return best

    def _n_runs(self):
        if self.n_clusters <= _FEW_CLUSTERS and _ROWS_OF_MANY_RUNS <= self.data.n_rows <= FEW_ROWS:
            return _RUNS_OF_FEW_CLUSTERS
        return _n_runs(self.data.n_rows)

    def _divisions(self, divisions, runs):
        """Yield k-means divisions in each metric."""
        # one wide cluster with tight remainders has the highest log joint where rows are few
        left_out = {"white"} if has_few_rows(self.model, self.data) else set()
        for metric, run in product([each for each in divisions.metrics if each not in left_out], runs):
            yield divisions.kmeans(metric, self.n_clusters, run)

    @staticmethod
    def _distinct(own, partitions):
        """Yield partitions that differ from each other and from the own labels."""
        seen = {division_of(own)}
        for labels in partitions:
            if (key := division_of(labels)) not in seen:
                seen.add(key)
                yield labels


def _n_runs(n_rows):
    return _RUNS_OF_FEW_ROWS if n_rows <= FEW_ROWS else 1
