"""The start of a fit without settings: candidates are compared, each under its own prior.

No start suits all data. k-means in standardised columns fails where columns of noise outweigh the one that separates
the groups, k-means in raw columns where units differ; pieces of one wide cluster are never merged one by one; one
cluster is right for a blob. So all of these are candidates. Each learns the hyper-parameters that fit its labels before
any row moves; then merges, splits and moves of rows take it uphill, and the highest log joint wins.

A given number of clusters of real values is judged by the posterior density that EM reaches: the joint density of a
hard partition prefers clusters of unequal sizes where clusters overlap. Where a k-means division holds one group of
rows in each cluster, far from the others, nothing is left to be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import division_of
from expfam.model.weights import DirichletProcess
from expfam.samplers.chain.callbacks import Plateau
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.starts.ascent import may_be_mode
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.starts.kmeans import many_labels
from expfam.samplers.starts.many_exchanges import ManyExchanges, has_many_clusters
from expfam.samplers.starts.rules import default_n_clusters, starting_labels
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.samplers.warm_starts.sample_rows import MOST_CENTRES, candidate_rows, has_few_rows, race_rows
from expfam.samplers.warm_starts.settle import Fitted, Settler
from expfam.structures.ground.threads import single_blas

_FREE_STEPS = 20
_SHORT: dict[str, Any] = {"window": 2, "gain_per_row": 1e-3}  # rule of a free run that is merged to a given number
_FEWEST_SETTLED = 4  # clusters; runs of k-means and exchanges find three
_FREE_ROWS = 1000  # fewer rows are divided as well by k-means, for a fraction of the time
_COUNT_STEPS = 5  # sweeps of random labels of counts
_FEW_CENTRES = 16
_SETTLED = 2  # candidates for an open number that are taken uphill, beside one cluster
_INITS_A_RUN = 3  # of `n_init`, where clusters are many and exchanged: one run by default
_RACED = 4  # candidates for a given number from which EM is run; those of the highest log joint
_CLOSE = 0.02  # nats a row between candidates that steps of the chain are to tell apart
_MOST_ROUNDS = 8  # of exchanges and moves of rows under one width
_HOPE = 2.0  # times the gain of a round that all further ones may have: each gains about half as much as the last one
_MOST_OF_A_BLOB = 0.5  # share of the rows in the largest of a given number of clusters


class FoundStart(NamedTuple):
    """Start that a search has chosen.

    Attributes
    ----------
    labels : (n,) int32 ndarray
    name : str
        Candidate that was taken: "lloyd 1" and so on for k-means in the family's coordinates, "raw", "white", "log" or
        "column" for k-means in others, "segments" of one column, "one", "one width" where clusters are many and
        overlap, "free", or "random 1".
    model : MixtureModel
        The given one with the hyper-parameters that fit the labels, and the shape of the prior that the family makes of
        them.
    scores : dict of str to float
        Log joint or log posterior density, nats, that each candidate has reached; they are comparable among each other
        only.
    others : dict of str to (n,) int32 ndarray
        Partitions to which the end of the run is to be compared.
    divisions : Divisions or None
        Those that the candidates were taken from, if all rows were searched.
    """

    labels: npt.NDArray[np.int32]
    name: str
    model: MixtureModel
    scores: dict[str, float]
    others: dict[str, npt.NDArray[np.int32]] = {}  # noqa: RUF012
    divisions: Divisions | None = None


def search_start(
    model: MixtureModel,
    data: Dataset,
    *,
    n_init: int = 3,
    adapt_prior: bool = True,
    moves: Kernel | None = None,
    learned: Sequence[str] = (),
    is_quick: bool = False,
    seed: int,
    n_threads: int | None = None,
) -> FoundStart:
    """Find the start of a fit.

    Candidates for a given number K of clusters of real values are made on at most about 5,000 + K max(100, 4 F) rows, F
    statistics each, those for an open number on 5,000 rows, with a full covariance of V columns on 80 V if that is
    more; the other rows then get their most probable cluster.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data. Weights with a fixed number of components stand for as many clusters.
    data : Dataset
    n_init : int
        Number of k-means runs in the coordinates of the family; a third of it where clusters are many, see
        `has_many_clusters`, and their exchanges take the place of other candidates.
    adapt_prior : bool
        Whether the prior may take the shape of the clusters, see `Family.prior_from_clusters`.
    moves : Kernel, optional
        Splits and merges, to be used in turn with Gibbs sweeps where steps of a chain are made.
    learned : sequence of str
        Hyper-parameters of the family that each candidate learns from its labels.
    is_quick : bool
        Whether one candidate for an open number is taken uphill, that of the highest log joint, in a third of the time.
    seed : int
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.warm_starts.search import search_start
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)
    >>> data = Dataset(X, DiagonalGaussian())
    >>> found = search_start(MixtureModel(data.family, SymmetricDirichlet(3, 1.0)), data, seed=0)
    >>> np.bincount(found.labels).tolist()
    [30, 30, 30]
    """
    is_open, is_discrete = model.weights.max_components is None, data.family.is_discrete
    rows = race_rows(data, seed) if is_open else None if is_discrete else candidate_rows(model, data, seed)
    part = data if rows is None else data.take(rows)
    search = _Search(model, part, moves, learned, adapt_prior, n_init, is_quick, seed, n_threads)
    with single_blas():  # once: to make the setting takes as long as a pass over a few rows
        found = search.found()
    if rows is None:
        return found if search.is_of_many else found._replace(divisions=search.divisions)
    others = {
        name: extended_labels(found.model, part, one, data, n_threads=n_threads) for name, one in found.others.items()
    }
    if is_open and is_discrete:
        labels = random_start(found.model, data, seed)
    else:
        labels = extended_labels(found.model, part, found.labels, data, n_threads=n_threads)
    return found._replace(labels=labels, others=others)


class _Search:
    """Candidates for the start of one fit."""

    def __init__(self, model, data, moves, learned, adapts_prior, n_init, is_quick, seed, n_threads):
        self.model, self.data, self.moves, self.learned = model, data, moves, tuple(learned)
        self.n_init, self.is_quick, self.seed, self.n_threads = n_init, is_quick, seed, n_threads
        self.is_weighted = data.weight is not None and bool((data.weight != 1.0).any())
        self.K = model.weights.max_components
        self.settler = Settler(model, data, self.learned, adapts_prior, seed, n_threads)
        self.is_of_many = has_many_clusters(model, data)

    @cached_property
    def divisions(self):
        """Return the candidates that are divisions of the rows; many clusters have none of them."""
        return Divisions(self.data, seed=self.seed, n_threads=self.n_threads)

    def found(self):
        """Return the start that is best for what is asked."""
        if self.K is None:
            return self.of_open_number()
        return self.of_counts() if self.data.family.is_discrete else self.of_real_values()

    # ---- an open number of clusters ----------------------------------------------------------------------------------

    def of_open_number(self):
        """Take the candidate that settles at the highest log joint.

        Counts begin with random labels: sweeps from there often end higher than any division, but not always.
        """
        name, best, scores = self._best_open(self.settler)
        if self.data.family.is_discrete:
            return FoundStart(self._random(), "random 1", best.model, scores, {name: best.labels})
        return FoundStart(best.labels, name, best.model, scores)

    def _best_open(self, settler):
        begun = {"one": settler.fitted(np.zeros(self.data.n_rows, dtype=np.int32))}
        for name, labels in self._pieces().items():
            begun[name] = settler.merged(settler.fitted(labels))
        if (segments := self._segments()) is not None:  # their ends are rough, and rows that are moved mend them
            begun["segments"] = settler.merged(settler.ascended(settler.fitted(segments)))
        order = sorted(begun, key=lambda name: -begun[name].log_joint)
        first = order[:1] if self.is_quick else dict.fromkeys([*order[:_SETTLED], "one"])
        settled = {name: settler.settled(begun[name])[0] for name in first}
        settled = self._stepped(settler, _distinct(settled))
        name = _highest(settled)
        return name, settled[name], _log_joints({**begun, **settled})

    def _pieces(self):
        """Return k-means divisions with few and with many centres, in each metric."""
        many = int(min(np.ceil(np.sqrt(self.data.n_rows)), MOST_CENTRES))
        sizes = sorted({min(_FEW_CENTRES, many), many})
        pieces = {f"{metric} {K}": self.divisions.kmeans(metric, K) for metric in self.divisions.metrics for K in sizes}
        return _distinct_labels({**pieces, **self.divisions.of_columns()})

    def _segments(self):
        """Return the segments of a column that tells groups in a row, or None."""
        return None if self.data.family.is_discrete else self.divisions.of_segments()

    def _stepped(self, settler, settled):
        """Let a chain make steps from the candidates that are close to the best one."""
        best = max(fitted.log_joint for fitted in settled.values())
        close = [name for name, fitted in settled.items() if best - fitted.log_joint < _CLOSE * self.data.n_rows]
        if len(close) < 2 or not self._may_step():
            return settled
        return {**settled, **{name: settler.settled(self._after_steps(settler, settled[name]))[0] for name in close}}

    def _after_steps(self, settler, fitted):
        kernels = [CollapsedGibbs()] if self.moves is None else [self.moves, CollapsedGibbs()]
        if self.learned:
            kernels.append(UpdateHyper(family=self.learned, weights=False))
        kernel = Cycle(*kernels)
        state = kernel.init(fitted.model, self.data, seed=self.seed, start=fitted.labels)
        advance(kernel, state, _FREE_STEPS, rule=Plateau(self.data.n_rows, **_SHORT))
        # a draw has rows in improbable clusters, and clusters that look alike for that reason would be merged
        reached = settler.merged(settler.ascended(settler.fitted(state.partition)))
        return reached if reached.log_joint > fitted.log_joint else fitted

    # ---- a given number of clusters ----------------------------------------------------------------------------------

    def of_real_values(self):
        """Take the candidate from which EM reaches the highest posterior density."""
        if self.is_of_many:
            return self.of_many_clusters()
        candidates = {f"lloyd {run + 1}": self.divisions.kmeans("own", self.K, run) for run in range(self.n_init)}
        is_narrow = has_few_rows(self.model, self.data)  # evidence then prefers one wide cluster and tight remainders
        for metric in self.divisions.metrics:
            if metric == "raw" or (metric != "own" and not is_narrow):
                candidates[metric] = self.divisions.kmeans(metric, self.K)
        if not is_narrow and (cut := self.divisions.of_best_column(self.K)) is not None:
            candidates["column"] = cut
        candidates = _distinct_labels(candidates)
        fitted = {name: self.settler.fitted(labels) for name, labels in candidates.items()}
        first = _highest(fitted)
        if len(candidates) == 1:
            return FoundStart(candidates[first], first, fitted[first].model, {})
        if self._pays_to_free():
            if not is_narrow and self._holds_groups(fitted[first]):
                return FoundStart(candidates[first], first, fitted[first].model, _log_joints(fitted))
            self._add(candidates, fitted, "free", self._free())
        if not is_narrow and not ("free" in fitted and self._holds_groups(fitted["free"])):
            self._add(candidates, fitted, "segments", self.divisions.of_segments(self.K))
            if self._may_step() and self.K >= _FEWEST_SETTLED:
                self._add(candidates, fitted, "settled", self._settled())
        first = _highest(fitted)
        model = fitted[first].model
        raced = sorted(candidates, key=lambda name: -fitted[name].log_joint)[:_RACED]
        racers = {name: labels for name, labels in candidates.items() if name in raced}
        try:
            best = best_by_em(model, self.data, racers, seed=self.seed, n_threads=self.n_threads)
        except CapabilityError:  # no mode or prior density
            return FoundStart(candidates[first], first, model, _log_joints(fitted))
        others = {} if best.name == first else {first: candidates[first]}  # the end of the run is one by log joint
        return FoundStart(best.labels, best.name, model, best.scores, others)

    def _add(self, candidates, fitted, name, labels):
        """Add a candidate, if there is one."""
        if labels is not None:
            candidates[name], fitted[name] = labels, self.settler.fitted(labels)

    def _holds_groups(self, fitted):
        """Tell whether each cluster of a k-means division is one group of rows, far from the others.

        It is where it would be the end of a search for an open number: no row moves, and neither a merge of two
        clusters nor a cut of one raises the log joint. Where clusters overlap or are not as many as the groups, rows
        move or one of these pays. Cuts are those in the metric in which a free run begins.
        """
        settler = self._open_settler()
        present = settler.fitted(fitted.labels)
        ways = (settler.ascended, settler.merged, partial(settler.split, is_quick=True))
        return all(way(present) is present for way in ways)

    def _open_settler(self):
        """Return what moves partitions with an open number of clusters."""
        free = MixtureModel(self.model.family, DirichletProcess())
        return Settler(free, self.data, self.learned, self.settler.adapts_prior, self.seed, self.n_threads)

    def of_many_clusters(self):
        """Take the best of few k-means runs, after exchanges of clusters.

        An exchange mends at once what one run does wrong in one place; further runs do as much wrong in others. Where
        clusters overlap, the best one is compared with what exchanges reach under one width of all clusters.
        """
        n_runs = -(-self.n_init // _INITS_A_RUN)
        runs = {
            f"lloyd {run + 1}": many_labels(self.data, self.K, seed=self.seed, run=run, n_threads=self.n_threads)
            for run in range(n_runs)
        }
        fitted = {name: self.settler.fitted(labels) for name, labels in runs.items()}
        for name, one in fitted.items():
            exchanges = ManyExchanges(one.model, self.data, seed=self.seed, n_threads=self.n_threads)
            fitted[name] = self.settler.fitted(exchanges.risen(one.labels))
        name = _highest(fitted)
        best = fitted[name]
        if not may_be_mode(best.model, self.data, best.labels, n_threads=self.n_threads):
            fitted |= self._of_one_width(name, self.settler.ascended(best, max_passes=1), runs[name])
            name = _highest(fitted)
        return FoundStart(fitted[name].labels, name, fitted[name].model, _log_joints(fitted))

    def _of_one_width(self, name, best, begun):
        """Return the best run, and what is reached under one width of all clusters.

        Where clusters overlap, one that has become wide takes in its neighbours, and no move of rows or exchange of
        clusters leads back. Under one width, exchanges and moves of rows go on in turn as long as they may yet be the
        better start. The result is empty where there is no family of one width.
        """
        family = self.model.family.of_one_width()
        if family is None:
            return {}
        data, options = Dataset(self.data.X, family), {"seed": self.seed, "n_threads": self.n_threads}
        model, learned = MixtureModel(data.family, self.model.weights), tuple(data.family.learned_by_default)
        narrow = Settler(model, data, learned, **options)
        present, found = narrow.fitted(begun), self.settler.fitted(begun)
        for _ in range(_MOST_ROUNDS):
            before = found.log_joint
            risen = ManyExchanges(present.model, data, **options).risen(present.labels)
            present = narrow.ascended(narrow.fitted(risen), max_passes=1)
            found = self.settler.fitted(present.labels)
            gain = found.log_joint - before
            if gain < _CLOSE * data.n_rows or found.log_joint + _HOPE * gain < best.log_joint:
                break
        return {name: best, "one width": found}

    def of_counts(self):
        """Take the candidate of the highest log joint after some sweeps."""
        candidates = {"random 1": self._random()}
        for metric in self.divisions.metrics:
            candidates[_name_of(metric)] = self.divisions.kmeans(metric, self.K)
        if self._may_step():
            free = self._free()
            if free is not None:
                candidates["free"] = free
            fitted = {name: self._swept(labels) for name, labels in _distinct_labels(candidates).items()}
        else:
            fitted = {name: self.settler.fitted(labels) for name, labels in _distinct_labels(candidates).items()}
        name = _highest(fitted)
        return FoundStart(fitted[name].labels, name, fitted[name].model, _log_joints(fitted))

    def _free(self):
        """Return what steps with an open number reach, merged to the given one."""
        return self._of_given_number(self._freed)

    @cached_property
    def _freed(self):
        """Return what steps with an open number of clusters reach from many pieces."""
        settler = self._open_settler()
        many = int(max(min(np.ceil(np.sqrt(self.data.n_rows)), MOST_CENTRES), 2 * self.K))
        return self._after_steps(settler, settler.merged(settler.fitted(self.divisions.kmeans("own", many))))

    def _settled(self):
        """Return the best that has settled with an open number, merged to the given one.

        One cluster that is cut again and again finds groups that no division into many pieces does.
        """
        settler = self._open_settler()
        one = settler.fitted(np.zeros(self.data.n_rows, dtype=np.int32))
        settled = [settler.settled(begun)[0] for begun in (self._freed, one)]
        return self._of_given_number(max(settled, key=lambda each: each.log_joint))

    def _of_given_number(self, best):
        """Return labels of clusters merged to the given number.

        None where there are fewer than were asked for, or one wide cluster with tight remainders.
        """
        labels = merged_labels(best.model, self.data, best.labels, n_clusters=self.K)
        if labels.max() + 1 < self.K and not self.data.family.is_discrete:
            return None
        if has_few_rows(self.model, self.data) and np.bincount(labels).max() > _MOST_OF_A_BLOB * self.data.n_rows:
            return None
        return labels

    def _pays_to_free(self):
        """Tell whether rows are enough for a free run, where k-means runs do not agree."""
        return self._may_step() and self.data.n_rows >= _FREE_ROWS

    # ---- counts ------------------------------------------------------------------------------------------------------

    def _random(self):
        return random_start(self.model, self.data, self.seed)

    def _swept(self, labels):
        """Return labels after some Gibbs sweeps under the hyper-parameters that fit them."""
        begun = self.settler.fitted(labels)
        state = CollapsedState(begun.model, self.data, begun.labels, seed=self.seed)
        advance(CollapsedGibbs(), state, _COUNT_STEPS)
        return self.settler.fitted(np.asarray(state.labels))

    def _may_step(self):
        """Tell whether collapsed steps take the weights of the rows, and do not take long."""
        return self.data.family.is_compiled and not self.is_weighted


def random_start(model: MixtureModel, data: Dataset, seed: int) -> npt.NDArray[np.int32]:
    """Return random labels of as many clusters as a start has by default: (N,) int32."""
    K = default_n_clusters(model, data.n_rows)
    return starting_labels("random", model, data, seed=seed, n_clusters=K)


def _highest(fitted: dict[str, Fitted]) -> str:
    return max(fitted, key=lambda name: fitted[name].log_joint)


def _log_joints(fitted: dict[str, Fitted]) -> dict[str, float]:
    return {name: one.log_joint for name, one in fitted.items()}


def _name_of(metric):
    return "lloyd 1" if metric == "own" else metric


def _distinct_labels(candidates):
    """Return the candidates without those that divide the rows as an earlier one does."""
    kept: dict[bytes, tuple[str, Any]] = {}
    for name, labels in candidates.items():
        kept.setdefault(division_of(labels), (name, labels))
    return dict(kept.values())


def _distinct(fitted: dict[str, Fitted]) -> dict[str, Fitted]:
    names = _distinct_labels({name: one.labels for name, one in fitted.items()})
    return {name: fitted[name] for name in names}
