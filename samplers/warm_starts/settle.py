"""A partition with the prior that fits it, moved uphill by merges, splits and moves of rows.

Rows move only under hyper-parameters that were learned from their labels: under a prior that does not fit them yet,
even the true labels can merge into one cluster. Where neither a merge of two clusters nor a split of one raises the log
joint, the partition has settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.model.partitions import compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.samplers.geometry.metrics import own_points
from expfam.samplers.starts.ascent import Ascents, has_many_clusters
from expfam.samplers.starts.exchanges import Exchanges
from expfam.samplers.starts.greedy_merge import merged_clusters, merged_labels
from expfam.samplers.starts.halves import best_halves, segmented_clusters
from expfam.samplers.warm_starts.sample_rows import has_many_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_MOST_ROUNDS, _MOST_PASSES, _FEW_PASSES = 12, 10, 1
_LEAST_GAIN = 1e-6  # nats; less is rounding
_OTHER_GAIN, _OTHER_GAIN_PER_ROW = 0.5, 5e-5  # nats that another partition must gain
_NEXT_SHARE = 0.02  # of what an ascent over many clusters has gained, which another one may gain after it
_TRIED_EXCHANGES = 3
_QUICK_ROWS = 400  # of a cluster; groups of it that are far from each other show in fewer
_REFITTED = 3  # best splits that are judged under hyper-parameters of their own


def least_gain(n_rows: int) -> float:
    """Return the nats by which a partition must be better to count as another one."""
    return max(_OTHER_GAIN, _OTHER_GAIN_PER_ROW * n_rows)


class Fitted(NamedTuple):
    """Labels, the model with the hyper-parameters that fit them, and their log joint.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Numbers from 0 without gaps.
    model : MixtureModel
    log_joint : float
        Of labels, data and learned hyper-parameters, nats; the latter up to a constant.
    """

    labels: npt.NDArray[np.int32]
    model: MixtureModel
    log_joint: float


@dataclass(frozen=True)
class Settler:
    """Moves partitions of one data set uphill.

    Parameters
    ----------
    model : MixtureModel
        Bound; hyper-parameters have the values from which they are learned.
    data : Dataset
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    adapts_prior : bool
        Whether the prior has the shape of the clusters, see `Family.prior_from_clusters`.
    seed : int
    n_threads : int or None
        No result depends on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers.warm_starts.settle import Settler
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 30, axis=0)
    >>> data = Dataset(X, DiagonalGaussian())
    >>> settler = Settler(MixtureModel(data.family, DirichletProcess()), data, ("mean_strength", "rate"))
    >>> settled, is_settled = settler.settled(settler.fitted(np.zeros(60, dtype=np.int32)))
    >>> np.bincount(settled.labels), settled.labels[0] == settled.labels[29], is_settled
    (array([30, 30]), np.True_, True)
    """

    model: MixtureModel
    data: Dataset
    learned: Sequence[str] = ()
    adapts_prior: bool = False
    seed: int = 0
    n_threads: int | None = None
    _ascents: list[Ascents] = field(default_factory=list, init=False, repr=False, compare=False)  # the last ones
    _ends: set[tuple[str, bytes]] = field(default_factory=set, init=False, repr=False, compare=False)

    def fitted(self, labels: npt.ArrayLike) -> Fitted:
        """Learn hyper-parameters from labels."""
        labels = compact_labels(np.asarray(labels))
        n, S = self._statistics(labels)
        family = self.model.family
        if self.adapts_prior:
            family = family.prior_from_clusters(n, S)
        if self.learned:
            family = family.fit_hyper(n, S, names=self.learned)
        model = self.model.with_family(family)
        log_joint = model.weights.log_prior(n) + family.total_log_marginal(n, S) + family.log_hyper_prior(self.learned)
        return Fitted(labels, model, float(log_joint))

    def merged(self, present: Fitted) -> Fitted:
        """Merge clusters greedily under the present hyper-parameters; the result is never worse."""
        return self._once("merged", present, self._merged)

    def _merged(self, present):
        if self.data.weight is None:
            return self._better(present, merged_labels(present.model, self.data, present.labels))
        labels = compact_labels(present.labels)
        n, S = weighted_statistics(self.data, labels, int(labels.max()) + 1)
        if not n.all():
            return present
        return self._better(present, merged_clusters(present.model, n, S)[labels])

    def ascended(self, present: Fitted, *, least: float = -np.inf, max_passes: int = _MOST_PASSES) -> Fitted:
        """Move rows to their most probable clusters; the result is never worse.

        Parameters
        ----------
        present : Fitted
        least : float
            Log joint, nats. The ascent ends early where it is out of reach, see `Ascents.climb`.
        max_passes : int

        Returns
        -------
        Fitted
        """
        return self._once("ascended", present, self._ascended, least=least, max_passes=max_passes)

    def _ascended(self, present, *, least, max_passes):
        ascents, n_rows = self._ascents_under(present.model), self.data.n_rows
        options: dict[str, Any] = {"keep_clusters": False, "max_passes": max_passes}
        if has_many_rows(n_rows, None):  # each pass takes long, and the mode of the fit goes on from here
            options["least_rise"] = least_gain(n_rows)
            if has_many_clusters(n_rows, int(present.labels.max()) + 1):
                options["max_passes"] = _FEW_PASSES  # a second one over 150,000 rows moves one of them
        return self._better(present, ascents.climb(present.labels, least=least, **options).labels)

    def _once(self, name, present, way, **options):
        """Go a way uphill, unless it has led nowhere from the same labels.

        The hyper-parameters of `Fitted` are a function of its labels, so it would lead nowhere again.
        """
        key = name, blake2b(present.labels).digest()
        if key in self._ends:
            return present
        if (reached := way(present, **options)) is present:
            self._ends.add(key)
        return reached

    def _ascents_under(self, model):
        """Return the ascents under a model: the last ones, if they were under the same one."""
        if self._ascents:
            last = self._ascents[0].model
            if last.family is model.family and last.weights is model.weights:
                return self._ascents[0]
        self._ascents[:] = [Ascents(model, self.data, n_threads=self.n_threads)]
        return self._ascents[0]

    def split(self, present: Fitted, tried: set[bytes] | None = None, *, is_quick: bool = False) -> Fitted:
        """Cut clusters in two where that raises the log joint; the result is never worse.

        Parameters
        ----------
        present : Fitted
        tried : set of bytes, optional
            Clusters whose cuts are known to raise nothing; those that are tried here are added.
        is_quick : bool
            Whether cuts are looked for in few rows of each cluster and in the metric of the family alone, and are not
            judged under hyper-parameters of their own.

        Returns
        -------
        Fitted
        """
        tried = set() if tried is None else tried
        weights, n_clusters = present.model.weights, int(present.labels.max()) + 1
        clusters = _rows_of_clusters(present.labels)
        sizes = np.bincount(present.labels, minlength=n_clusters)
        fresh = [k for k in range(n_clusters) if clusters[k].tobytes() not in tried]
        tried.update(clusters[k].tobytes() for k in fresh)
        options: dict[str, Any] = {"seed": self.seed, "n_threads": self.n_threads}
        options |= {"by_columns": False, "most_rows": _QUICK_ROWS} if is_quick else {}
        cuts = best_halves(present.model, self.data, [clusters[k] for k in fresh], **options)
        found = [
            (_gain(weights, sizes.astype(np.float64), k, cut), clusters[k][cut.labels == 1])
            for k, cut in zip(fresh, cuts)
            if cut is not None
        ]
        found.sort(key=lambda pair: -pair[0])
        gaining = [rows for gain, rows in found if gain > _LEAST_GAIN]
        best = self._better(present, _with_new(present.labels, gaining)) if gaining else present
        if best is not present or is_quick:
            return best
        for _, rows in found[:_REFITTED]:
            best = max(best, self.fitted(_with_new(present.labels, [rows])), key=_log_joint)
        return best if best.log_joint > present.log_joint + _LEAST_GAIN else present

    def segmented(self, present: Fitted) -> Fitted:
        """Cut clusters that hold a row of groups into all of them; never worse."""
        return self._once("segmented", present, self._segmented)

    def _segmented(self, present):
        if self.data.family.is_discrete or has_many_rows(self.data.n_rows, None):  # a sample of these was searched
            return present
        clusters = _rows_of_clusters(present.labels)
        found = segmented_clusters(own_points(self.data, seed=self.seed), clusters, self.data.weight)
        most, n_clusters = present.model.weights.max_components, len(clusters)
        labels, best = [present.labels], present
        for one in found:
            n_clusters += int(one.labels.max())
            if most is not None and n_clusters > most:
                break
            new = [one.rows[one.labels == k] for k in range(1, int(one.labels.max()) + 1)]
            labels.append(_with_new(labels[-1], new))
        for each in {id(each): each for each in (labels[-1], *labels[1 : 1 + _REFITTED])}.values():
            best = max(best, self._better(present, each), key=_log_joint)
        return best

    def exchanged(self, present: Fitted) -> Fitted:
        """Make the first exchange of clusters that raises the log joint, if there is one."""
        exchanges = Exchanges(present.model, self.data, seed=self.seed, n_threads=self.n_threads)
        for one in exchanges.best(present.labels, most=_TRIED_EXCHANGES):
            if one.rise < 0.0:
                break
            other = self.ascended(self.fitted(one.labels))
            if other.log_joint > present.log_joint + least_gain(self.data.n_rows):
                return other
        return present

    def settled(
        self, present: Fitted, *, splits: bool = True, exchanges: bool = False, max_rounds: int = _MOST_ROUNDS
    ) -> tuple[Fitted, bool]:
        """Merge, ascend and split in turn until nothing raises the log joint.

        Parameters
        ----------
        present : Fitted
        splits : bool
            Whether clusters are cut.
        exchanges : bool
            Whether clusters are exchanged, see `Exchanges`, where nothing else raises it.
        max_rounds : int

        Returns
        -------
        fitted : Fitted
            Never worse than `present`.
        is_settled : bool
            Whether nothing was left to do, rather than `max_rounds` rounds made.
        """
        tried: set[bytes] = set()
        is_long, is_risen = has_many_rows(self.data.n_rows, None), False
        for _ in range(max_rounds):
            before, merged = present, self.merged(present)
            if is_risen and merged is before:
                return present, True
            ascended = self.ascended(merged)
            present = self.split(ascended, tried) if splits else ascended
            if present is before and exchanges:
                present = self.exchanged(before)
            if present is before and splits:
                present = self.segmented(before)
            if present is before:
                return present, True
            is_level = present.log_joint - before.log_joint < least_gain(self.data.n_rows)
            # an ascent of many rows that gains little is not gone on with: each pass takes long
            if is_long and is_level and merged is before and present is ascended:
                return present, True
            is_risen = is_long and present is ascended and self._has_risen(merged, ascended)
        return present, False

    def _has_risen(self, before, ascended):
        """Tell whether another ascent over many clusters would gain too little after this one.

        Each goes on over the best clusters of the rows until none moves.
        """
        gain, n_rows = ascended.log_joint - before.log_joint, self.data.n_rows
        is_of_many = has_many_clusters(n_rows, int(ascended.labels.max()) + 1)
        return is_of_many and _NEXT_SHARE * gain < least_gain(n_rows)

    def _statistics(self, labels):
        """Return the statistics of the clusters, without those whose rows have no weight."""
        n, S = weighted_statistics(self.data, labels, int(labels.max()) + 1)
        return (n, S) if n.all() else (n[n > 0.0], S[n > 0.0])

    def _better(self, present: Fitted, labels: npt.NDArray[np.int32]) -> Fitted:
        if np.array_equal(labels, present.labels):
            return present
        other = self.fitted(labels)
        return other if other.log_joint > present.log_joint + _LEAST_GAIN else present


def fit_to_start(state: Any, learned: Sequence[str], *, adapts_prior: bool) -> None:
    """Learn the hyper-parameters of a new state from its labels, before any row moves.

    Parameters
    ----------
    state : State
        Changed in place.
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    adapts_prior : bool
        Whether the prior has the shape of the clusters, see `Family.prior_from_clusters`.
    """
    if not learned and not adapts_prior:
        return
    n, S = state.statistics()
    used = np.flatnonzero(n > 0.0)
    if not used.size:
        return
    family, n, S = state.model.family, n[used], S[used]
    family = family.prior_from_clusters(n, S) if adapts_prior else family
    state.set_model(state.model.with_family(family.fit_hyper(n, S, names=learned) if learned else family))


def _gain(weights, sizes, k, cut):
    """Return the change of the log joint where cluster k is cut in two."""
    if weights.max_components is not None and len(sizes) >= weights.max_components:
        return -np.inf
    n_new = float(cut.labels.sum())
    after = np.append(sizes, n_new)
    after[k] -= n_new
    return cut.rise + weights.log_prior(after) - weights.log_prior(sizes)


def _log_joint(fitted: Fitted) -> float:
    return fitted.log_joint


def _rows_of_clusters(labels):
    """Return the rows of each cluster."""
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])


def _with_new(labels, new_clusters):
    """Return labels in which each of some lists of rows is a cluster of its own."""
    labels = labels.copy()
    for k, rows in enumerate(new_clusters, start=int(labels.max()) + 1):
        labels[rows] = k
    return labels
