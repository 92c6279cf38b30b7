"""Ascent of the log joint: rows move to their most probable clusters as long as it rises.

This is an optimiser, not a sampler. It turns a draw of a chain into a partition whose labels are those that a mixture
fitted to it predicts for its own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.model.assignment import LoadedClusters
from expfam.model.partitions import division_of
from expfam.model.statistics import moved_statistics, weighted_statistics
from expfam.samplers.starts.few_rows import FewRows, are_few_rows, first_lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_PASSES = 10
_MANY_ROWS = 20_000  # of fewer rows a pass costs little more than its calls
_FEW_MOVED = 0.02  # share of the rows that a pass moves, below which the rows near borders are moved by themselves
_LAST_MOVED = 5e-4  # share of the rows that a pass over many clusters moves, after which the next one may move none
_CERTAIN = 0.51  # probability in single precision
_LOOKED_AT = 512  # rows none of which moves, where an ascent over many clusters begins at a mode
_NEAR_SHARE = 0.1  # of the rows
_FEW_READ = 0.2  # share of the rows up to which only rows that move are read
_SPARE_CLUSTERS = 4  # without rows, which cost less than other owners of the clusters
_HOPE = 3e-3  # nats a row that each pass may gain yet: wide groups without borders move for tens of passes
_MANY_CLUSTERS, _BEST = 24, 8  # of as many clusters the best ones of each row are looked at until none moves


def ascend(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool = False,
    max_passes: int = _MOST_PASSES,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Move all rows to their most probable cluster, again and again while the log joint rises.

    Parameters
    ----------
    model, data : bound MixtureModel and Dataset
    labels : (N,) array_like of non-negative int
    keep_clusters : bool
        Whether no cluster may lose all its rows. Where a pass would empty a cluster, the row with the highest log
        predictive under it, of equal ones the first, keeps its label.
    max_passes : int
        Number of passes at most.
    n_threads : int or None
        The labels do not depend on it.

    Returns
    -------
    (N,) int32 ndarray
        Clusters keep their numbers; without `keep_clusters` some may have lost all their rows. The log joint of these
        labels is never lower than that of the given ones.

    Raises
    ------
    FloatingPointError
        The log predictive of a row is NaN.
    ValueError
        The labels are not N non-negative integers.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import ascend
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> ascend(MixtureModel(data.family, DirichletProcess()), data, [0, 0, 1, 1, 1])
    array([0, 0, 1, 1, 0], dtype=int32)

    Notes
    -----
    One pass computes the statistics of the clusters, and the scores log(posterior mean of the weight) + log predictive
    of `Mixture.predict`; a row is not taken out of its cluster. Clusters with equal scores: the first. The passes end
    when no label changes, when the log joint would not rise (the labels before that pass are kept), or after
    `max_passes`. In the first case every row has its most probable cluster, but for the rows that `keep_clusters` has
    held back. Rows of which something is known, see `Dataset.known`, keep their clusters.

    Where a pass over 20,000 rows or more moves less than 2 % of them, further passes go over the tenth of the rows
    whose two best scores are closest, until none of these moves; then all rows are looked at again. Of 24 clusters or
    more, further passes over so many rows look at the 8 that were best for each row, and only at the rows for which one
    of these has changed, those near borders first, until no row moves; then at all.
    """
    return climb(model, data, labels, keep_clusters=keep_clusters, max_passes=max_passes, n_threads=n_threads).labels


def may_be_mode(
    model: MixtureModel, data: Dataset, labels: npt.NDArray[np.int32], *, n_threads: int | None = None
) -> bool:
    """Tell whether no row of a sample of at most 512 has another most probable cluster.

    Parameters
    ----------
    model, data, labels, n_threads
        As of `ascend`.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import may_be_mode
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> may_be_mode(model, data, [0, 0, 1, 1, 0]), may_be_mode(model, data, [0, 0, 1, 1, 1])
    (True, False)
    """
    return _Ascent(model, data, _checked(labels, data.n_rows), n_threads).may_stay()


def has_many_clusters(n_rows: int, n_clusters: int) -> bool:
    """Tell whether rows and clusters are so many that most passes score few clusters of a row.

    Examples
    --------
    >>> from expfam.samplers.starts.ascent import has_many_clusters
    >>> has_many_clusters(20_000, 24), has_many_clusters(20_000, 10)
    (True, False)
    """
    return n_rows >= _MANY_ROWS and n_clusters >= _MANY_CLUSTERS


class Summit(NamedTuple):
    """End of an ascent.

    Attributes
    ----------
    labels : (N,) int32 ndarray
    most_probable : (N,) int32 ndarray
        Most probable cluster of each row, as of the last pass. Rows differ from `labels` that were held back, or that
        would lower the log joint.
    is_hopeless : bool
        Whether the ascent has ended early, because it would not have reached the log joint that was wanted.
    shares : (N,) float32 ndarray or None
        Probability of the cluster of each row among the clusters, where the last pass has told it.
    """

    labels: npt.NDArray[np.int32]
    most_probable: npt.NDArray[np.int32]
    is_hopeless: bool = False
    shares: npt.NDArray[np.float32] | None = None


def climb(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike,
    *,
    keep_clusters: bool,
    max_passes: int,
    n_threads: int | None,
    first_equal: Callable[[], npt.NDArray[np.intp]] | None = None,
) -> Summit:
    """Do what `ascend` does, and tell also where each row would go.

    Parameters
    ----------
    model, data, labels, keep_clusters, max_passes, n_threads
        As in `ascend`.
    first_equal : callable, optional
        Returns the first row that is equal to each row, (N,) intp. With it the rows of a cluster that are equal to the
        row which keeps its label keep theirs too.

    Returns
    -------
    Summit
    """
    ascents = Ascents(model, data, n_threads=n_threads)
    return ascents.climb(labels, keep_clusters=keep_clusters, max_passes=max_passes, first_equal=first_equal)


class Ascents:
    """Ascents under one model; what all of them need is made once.

    Parameters
    ----------
    model, data : bound MixtureModel and Dataset
    n_threads : int or None
        No result depends on it.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers.starts.ascent import Ascents
    >>> data = Dataset([[0], [1], [30], [31], [2]], Poisson())
    >>> ascents = Ascents(MixtureModel(data.family, DirichletProcess()), data)
    >>> ascents.climb([0, 0, 1, 1, 1], keep_clusters=False, max_passes=10).labels
    array([0, 0, 1, 1, 0], dtype=int32)
    >>> ascents.log_joint([0, 0, 1, 1, 0]) > ascents.log_joint([0, 0, 1, 1, 1])
    True
    """

    def __init__(self, model: MixtureModel, data: Dataset, *, n_threads: int | None = None) -> None:
        self.model, self.data, self.n_threads = model, data, n_threads
        self._few: tuple[int, FewRows | None] = 0, None  # of the last number of clusters
        self._modes: set[tuple[bool, bytes]] = set()  # of few rows, by first appearance

    def climb(
        self,
        labels: npt.ArrayLike,
        *,
        keep_clusters: bool,
        max_passes: int,
        first_equal: Callable[[], npt.NDArray[np.intp]] | None = None,
        least: float = -np.inf,
        least_rise: float = 0.0,
    ) -> Summit:
        """Do what the function `climb` does; end early where there is little to gain.

        Parameters
        ----------
        labels, keep_clusters, max_passes, first_equal
            As in `climb`.
        least : float
            Log joint, nats. The ascent ends where it would not be reached although each pass that is left gained twice
            what the last one has gained, and no less than 0.003 nats a row.
        least_rise : float
            Nats. A pass that gains less is the last one.

        Returns
        -------
        Summit
        """
        labels, data = _checked(labels, self.data.n_rows), self.data
        if (few := self._few_rows(labels)) is not None:
            limits = {"least": least, "least_rise": least_rise}
            return self._climb_few(few, labels, keep_clusters, max_passes, first_equal, limits)
        ascent = _Ascent(self.model, data, labels, self.n_threads)
        ascent.is_last = ascent.has_many and ascent.may_stay()
        wanted, is_mode = ascent.labels, False

        def hold(wanted):
            return _held_back(wanted, ascent.labels, ascent.clusters, data, first_equal)

        for number in range(max_passes):
            wanted = ascent.wanted()
            moved = hold(wanted) if keep_clusters else wanted
            before, n_moved = ascent.log_joint, np.count_nonzero(moved != ascent.labels)
            is_mode = n_moved == 0
            if is_mode or not ascent.move(moved):
                break
            ascent.go_on(hold if keep_clusters else None)
            ascent.is_last = ascent.has_many and n_moved <= _LAST_MOVED * data.n_rows
            if self._is_known_mode(ascent.labels, keep_clusters=keep_clusters):
                return Summit(ascent.labels, ascent.labels)
            if before is not None:  # the first pass is no guide: it takes a partition to another law
                hope = max(2.0 * (ascent.log_joint - before), _HOPE * data.n_rows)
                if ascent.log_joint + (max_passes - 1 - number) * hope < least:
                    return Summit(ascent.labels, wanted, is_hopeless=True)
            if ascent.log_joint - (ascent.begun if before is None else before) < least_rise:
                break
        if is_mode and np.array_equal(wanted, ascent.labels) and data.n_rows < _MANY_ROWS:
            self._modes.add((keep_clusters, division_of(wanted)))
        return Summit(ascent.labels, wanted, shares=ascent.shares if is_mode else None)

    def _climb_few(self, few, labels, keep_clusters, max_passes, first_equal, limits):
        """Make the passes over few rows in one compiled call."""

        modes = self._modes

        def hold(wanted, own):
            return _held_back(wanted, own, few, self.data, first_equal)

        def is_known(own):
            return (keep_clusters, division_of(own)) in modes

        labels, wanted, is_mode, is_hopeless = few.climb(
            labels,
            max_passes,
            hold=hold if keep_clusters else None,
            known=is_known if modes else None,
            hope=_HOPE * self.data.n_rows,
            **limits,
        )
        if is_mode and np.array_equal(wanted, labels):
            modes.add((keep_clusters, division_of(wanted)))
        return Summit(labels, wanted, is_hopeless)

    def _is_known_mode(self, labels, *, keep_clusters):
        """Tell whether an earlier ascent has ended at the same partition, where no row moves."""
        if not self._modes:
            return False
        return (keep_clusters, division_of(labels)) in self._modes

    def log_joint(self, labels: npt.ArrayLike) -> float:
        """Return the log joint of labels 0..K-1, nats, without log-base; clusters may hold no row."""
        labels = _checked(labels, self.data.n_rows)
        if (few := self._few_rows(labels)) is None:
            return self.model.log_joint(self.data, labels)
        few.load(labels)
        return few.log_joint()

    def _few_rows(self, labels):
        """Return `FewRows` with at least as many clusters as the labels have; None for many rows."""
        K = int(np.maximum.reduce(labels)) + 1
        if not K <= self._few[0] <= K + _SPARE_CLUSTERS:
            is_few = self.data.n_rows < _MANY_ROWS and are_few_rows(self.model, self.data, K)
            self._few = K, FewRows(self.model, self.data, K) if is_few else None
        return self._few[1]


class _Ascent:
    """Labels on their way uphill, with their statistics."""

    def __init__(self, model, data, labels, n_threads):
        self.model, self.data, self.labels, self.n_threads = model, data, labels, n_threads
        self.held = None if data.known is None else data.known.stays
        self.near, self.is_near_end = None, False
        self.best, self.has_changed = None, None  # best clusters of each row; which clusters have moved rows since
        self.is_exact = True  # the statistics, which gather rounding errors where only rows that move are read
        self.is_last, self.shares = False, None  # whether the next pass may move no row; probabilities of the labels
        self._is_plain = data.weight is None and self.held is None and data.n_rows >= _MANY_ROWS
        n, S = weighted_statistics(data, labels, int(labels.max()) + 1)
        self.has_many = self._is_plain and has_many_clusters(data.n_rows, len(n))
        self.clusters = LoadedClusters(model.family, n, S, keeps_rows=True)
        self.log_joint, self.begun = None, None  # of the present labels and of the first ones

    def wanted(self):
        """Return the most probable cluster of each row; note its best ones, or rows near borders."""
        if not self.is_exact:
            self.clusters.load(*weighted_statistics(self.data, self.labels, len(self.clusters.n)))
            self.log_joint, self.is_exact = self._log_joint(self.data), True
        if self.is_last and self._stays():
            return self.labels
        if self.has_many or self.is_near_end:
            n_best = _BEST if self.has_many else 2
            found, margins = self.clusters.ranked(self.data, self._log_mass(), n_best, n_threads=self.n_threads)
            self.best, self.near = found, _lowest(margins)
            return np.ascontiguousarray(found[:, 0])
        wanted = self.clusters.most_probable(self.data, self._log_mass(), n_threads=self.n_threads)
        if self.held is not None:
            wanted[self.held] = self.labels[self.held]
        return wanted

    def may_stay(self):
        """Tell whether no row of a sample moves."""
        rows = np.arange(0, self.data.n_rows, -(-self.data.n_rows // _LOOKED_AT))
        wanted = self.clusters.most_probable(self.data.take(rows), self._log_mass(), n_threads=self.n_threads)
        return np.array_equal(wanted, self.labels[rows])

    def _stays(self):
        """Tell whether no row moves, by a pass that tells the probabilities of the labels as well.

        A cluster of more than half of the probability is the likeliest one; only the other rows are looked at.
        """
        log_mass, options = self._log_mass(), {"n_threads": self.n_threads}
        shares = self.clusters.shares(self.data, log_mass, self.labels, **options)
        rows = np.flatnonzero(~(shares > _CERTAIN))
        if rows.size:
            wanted = self.clusters.most_probable(self.data.take(rows), log_mass, **options)
            if not np.array_equal(wanted, self.labels[rows]):
                return False
        self.shares = shares
        return True

    def move(self, labels):
        """Take other labels if they raise the log joint; tell whether they do."""
        if self.log_joint is None:
            self.log_joint = self.begun = self._log_joint(self.data)
        moved = np.flatnonzero(labels != self.labels)
        self._load(labels, moved)
        log_joint = self._log_joint(self.data)
        if not log_joint > self.log_joint:
            return False
        self.is_near_end = self._is_plain and moved.size <= _FEW_MOVED * self.data.n_rows
        if self.has_many:
            self.has_changed = np.zeros(len(self.clusters.n), dtype=bool)
            self.has_changed[self.labels[moved]] = self.has_changed[labels[moved]] = True
        self.labels, self.log_joint = labels, log_joint
        return True

    def _load(self, labels, moved):
        """Let the clusters hold the rows of other labels; where few move, only these are read."""
        if self.has_many and moved.size <= _FEW_READ * self.data.n_rows:
            self.is_exact = False
            n, S = moved_statistics(self.data, self.clusters.n, self.clusters.S, self.labels, labels)
        else:
            self.is_exact = True
            n, S = weighted_statistics(self.data, labels, len(self.clusters.n))
        self.clusters.load(n, S)

    def go_on(self, hold):
        """Make passes over the rows that may move next.

        `hold` gives rows back to clusters that would be emptied; it is None if these may be.
        """
        if self.has_many:
            self._move_changed(hold)
        else:
            self._move_borders(keep_clusters=hold is not None)

    def _move_changed(self, hold):
        """Move rows among their best clusters until none moves, those near borders first.

        Only rows for which one of these has changed are looked at: the scores of the others have not, but for a term
        that is the same for all clusters.
        """
        near, since = self.near, self.has_changed
        for _ in range(_MOST_PASSES):
            changed = since
            for _ in range(_MOST_PASSES):
                if self._margins_of_moved(near[changed[self.best[near]].any(axis=1)], hold) is None:
                    break
                changed, since = self.has_changed, since | self.has_changed
            rows = np.flatnonzero(since[self.best].any(axis=1))
            margins = self._margins_of_moved(rows, hold)
            if margins is None:
                break
            near, since = rows[_lowest(margins)], self.has_changed

    def _margins_of_moved(self, rows, hold):
        """Move rows to the likeliest of their best clusters; return margins, None if none moves."""
        options = {"rows": rows, "n_threads": self.n_threads}
        found, margins = self.clusters.most_probable_of(self.data, self._log_mass(), self.best[rows], **options)
        wanted, before = self.labels.copy(), (self.clusters.n, self.clusters.S)
        wanted[rows] = found
        wanted = wanted if hold is None else hold(wanted)
        if np.array_equal(wanted, self.labels):
            return None
        if not self.move(wanted):
            self.clusters.load(*before)
            return None
        return margins

    def _move_borders(self, *, keep_clusters):
        """Make passes over the rows whose two best clusters are closest, until none of these moves."""
        if self.near is None:
            return
        near, self.near = self.near, None
        part, own, (n, S) = self.data.take(near), self.labels[near], (self.clusters.n, self.clusters.S)
        begun, log_joint = own, self.log_joint
        clusters = LoadedClusters(self.model.family, n, S, keeps_rows=True)  # those of all rows keep their rows
        for _ in range(_MOST_PASSES):
            moved = clusters.most_probable(part, self._log_mass(clusters), n_threads=self.n_threads)
            if np.array_equal(moved, own):
                break
            n, S = moved_statistics(part, n, S, own, moved)
            if keep_clusters and not n.all():  # the next pass over all rows holds a row back
                break
            clusters.load(n, S)
            if not (risen := self._log_joint(part, clusters)) > log_joint:
                break
            own, log_joint = moved, risen
        labels = self.labels.copy()
        labels[near] = own
        if own is not begun and not self.move(labels):  # a pass that lowered the log joint may have been the last one
            self.clusters.load(*weighted_statistics(self.data, self.labels, len(self.clusters.n)))

    def _log_mass(self, clusters=None):
        with np.errstate(divide="ignore"):
            return np.log(self.model.weights.posterior_mean((clusters or self.clusters).n)[0])

    def _log_joint(self, data, clusters=None):
        clusters = clusters or self.clusters
        log_marginal = clusters.log_marginal(data).sum()
        return float(self.model.weights.log_prior(clusters.n) + log_marginal)


def _held_back(wanted, labels, clusters, data, first_equal):
    """Give a row back to each cluster that would be emptied; return the labels with these rows.

    A row that is given back may be the only one that another cluster has gained, so the clusters are counted again.
    """
    n_clusters, moved = len(clusters.n), wanted
    while (lost := first_lost(labels, moved, n_clusters)) >= 0:
        moved = wanted.copy() if moved is wanted else moved
        members = np.flatnonzero(labels == lost)
        kept = members[clusters.log_predictive(data, members, lost).argmax()]
        if first_equal is not None:
            kept = members[first_equal()[members] == first_equal()[kept]]
        moved[kept] = lost
    return moved


def _lowest(margins):
    """Return the rows of the lowest margins, in order."""
    n_near = min(len(margins), max(1, int(_NEAR_SHARE * len(margins))))
    return np.sort(np.argpartition(margins, n_near - 1)[:n_near])


def _checked(labels, n_rows):
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu" or np.minimum.reduce(labels) < 0:
        wanted = counted(n_rows, "non-negative integer")
        raise ValueError(f"labels must be {wanted}; got {labels.dtype} of shape {labels.shape}")
    return labels.astype(np.int32)
