"""The start of variational passes with an open number: that of the highest bound.

The log joint of a partition is that of labels that are taken for certain. Where groups overlap it is highest for a
partition that joins them, and no pass divides a cluster again. The bound of the log evidence sums over the labels of
each row, so it tells how many clusters such rows have.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.model.assignment import extended_labels
from expfam.model.partitions import compact_labels, division_of
from expfam.samplers.chain.driver import advance
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.sample_rows import race_rows
from expfam.structures.ground.threads import single_blas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expfam.model.mixture import MixtureModel
    from expfam.samplers.variational.mixture import SparseVariational
    from expfam.samplers.warm_starts.settle import Settler

_SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)  # numbers of clusters of k-means
_FEWEST_ROWS = 10  # for each cluster of k-means
_MOST_JOINED = 4  # groups that a cluster of the given partition may hold; it may lack that many, too
_ROUNDS = (4, 6, 12)  # passes, after each of which a third of the candidates stays
_STAYS = 3
_KEPT = 2  # candidates at least, until the end
_MOST_WORK = 1 << 32  # products of a statistic and a parameter in the first round


class BoundRace(NamedTuple):
    """Candidate from which variational passes have reached the highest bound.

    Attributes
    ----------
    name : str
        "given", or a metric and a number of clusters of k-means.
    labels : (N,) int32 ndarray
        The given ones, or the most probable clusters after the passes.
    model : MixtureModel
        With the hyper-parameters that fit the candidate.
    scores : dict of str to float
        Bound of each candidate, with the prior of its hyper-parameters, nats, when it left the race.
    """

    name: str
    labels: npt.NDArray[np.int32]
    model: MixtureModel
    scores: dict[str, float]


def best_by_bound(kernel: SparseVariational, settler: Settler, labels: npt.ArrayLike) -> BoundRace:
    """Race a partition and k-means of several numbers by the bounds that passes reach.

    Parameters
    ----------
    kernel : SparseVariational
        Its settings are those of the race. Bounds are compared with open sticks, whatever its own are.
    settler : Settler
        Learns the hyper-parameters of each candidate from its labels, before the passes. Its model has weights without
        a given number of clusters; on more than 5,000 rows a sample of them decides.
    labels : (N,) array_like of int
        Partition that a search has found. It stays as it is, with the model of the settler fitted to it, where no other
        one is better.

    Returns
    -------
    BoundRace
        Of equal candidates the first.

    Examples
    --------
    Two groups overlap so much that the most probable partition has one cluster:

    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers import SparseVariational
    >>> from expfam.samplers.warm_starts.bound_race import best_by_bound
    >>> from expfam.samplers.warm_starts.settle import Settler
    >>> X = np.random.default_rng(0).normal(size=(2000, 1)) + 2.6 * np.repeat([[0.0], [1.0]], 1000, axis=0)
    >>> data = Dataset(X, DiagonalGaussian())
    >>> settler = Settler(MixtureModel(data.family, DirichletProcess()), data, ("mean_strength", "rate"))
    >>> one = np.zeros(2000, dtype=np.int32)
    >>> settler.settled(settler.fitted(one))[0].labels.max(), best_by_bound(SparseVariational(), settler, one).name
    (np.int32(0), 'own 2')
    """
    whole, given = settler.data, compact_labels(np.asarray(labels))
    rows = race_rows(whole, settler.seed)
    part = whole if rows is None else whole.take(rows)
    race = _Race(kernel, replace(settler, data=part), given if rows is None else given[rows])
    with single_blas():
        name, model, reached = race.run()
    if name == "given":
        return BoundRace(name, given, model, race.scores)
    found = compact_labels(reached)
    if rows is not None:
        found = extended_labels(model, part, found, whole, n_threads=settler.n_threads)
    return BoundRace(name, found, model, race.scores)


def bounds_of(
    kernel: SparseVariational, settler: Settler, candidates: Mapping[str, npt.ArrayLike], *, n_passes: int
) -> dict[str, float]:
    """Return the bound of the log evidence that some passes reach from each partition.

    Parameters
    ----------
    kernel : SparseVariational
    settler : Settler
        Learns the hyper-parameters of each candidate from its labels, before the passes.
    candidates : mapping of str to (N,) array_like of int
    n_passes : int

    Returns
    -------
    dict of str to float
        With the prior of the learned hyper-parameters, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.samplers import SparseVariational
    >>> from expfam.samplers.warm_starts.bound_race import bounds_of
    >>> from expfam.samplers.warm_starts.settle import Settler
    >>> data = Dataset(np.repeat([[0.0], [9.0]], 20, axis=0) + np.linspace(0.0, 1.0, 40)[:, None], DiagonalGaussian())
    >>> candidates = {"one": np.zeros(40, dtype=int), "two": np.repeat([0, 1], 20)}
    >>> settler = Settler(MixtureModel(data.family, DirichletProcess()), data, ("mean_strength", "rate"))
    >>> bounds = bounds_of(SparseVariational(), settler, candidates, n_passes=5)
    >>> bounds["two"] > bounds["one"]
    True
    """
    return {name: _Passes(kernel, settler, labels).bound_after(n_passes) for name, labels in candidates.items()}


class _Passes:
    """Variational passes from a partition, with the hyper-parameters that fit it."""

    def __init__(self, kernel, settler, labels):
        fitted = settler.fitted(labels)
        self.model = fitted.model
        # Empty components would take time.
        settings = {**kernel.get_params(deep=False), "truncation": int(fitted.labels.max()) + 1, "sticks": "open"}
        self.kernel = type(kernel)(**settings)
        self.state = self.kernel.init(self.model, settler.data, seed=settler.seed, start=fitted.labels)
        self.log_prior = self.model.family.log_hyper_prior(settler.learned)

    def bound_after(self, n_passes):
        """Return the bound after some more passes."""
        advance(self.kernel, self.state, n_passes)
        return float(self.state.log_joint + self.log_prior)


class _Race:
    """Passes from several partitions of the same rows; those that leave are not held."""

    def __init__(self, kernel, settler, labels):
        self.kernel, self.settler, self.data = kernel, settler, settler.data
        self.candidates, self.scores = self._candidates(labels), {}

    def run(self):
        """Return the name of the best candidate, its model and the labels that it has reached."""
        running, n_kept = dict.fromkeys(self.candidates), len(self.candidates)
        for n_passes in _ROUNDS:
            left, n_kept = {}, max(_KEPT, n_kept // _STAYS)
            for name, begun in running.items():
                left[name] = begun or _Passes(self.kernel, self.settler, self.candidates[name])
                self.scores[name] = left[name].bound_after(n_passes)
                if len(left) > n_kept:  # of equal ones the last
                    del left[min(reversed(left), key=self.scores.__getitem__)]
            running = left
        best = max(running, key=self.scores.__getitem__)
        return best, running[best].model, running[best].state.labels

    def _candidates(self, labels):
        """Return the distinct partitions by name."""
        divisions = Divisions(self.data, seed=self.settler.seed, n_threads=self.settler.n_threads)
        may_hold = _MOST_JOINED * (int(labels.max()) + 2)
        most = min(may_hold, self.kernel.truncation, self.data.n_rows // _FEWEST_ROWS)
        sizes = _SIZES[: bisect_right(_SIZES, most)]
        a_cluster = len(divisions.metrics) * _ROUNDS[0] * self.data.n_rows * self.data.n_statistics
        found, seen = {"given": labels}, {division_of(labels)}
        for metric in divisions.metrics:
            for K, until in zip(sizes, accumulate(sizes)):
                if until * a_cluster > _MOST_WORK:  # of wide rows fewer clusters are tried
                    break
                one = divisions.kmeans(metric, K)
                if (key := division_of(one)) not in seen:
                    seen.add(key)
                    found[f"{metric} {K}"] = one
        return found
