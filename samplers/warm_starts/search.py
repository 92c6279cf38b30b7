"""The start of a fit without settings: the best of several candidates by its posterior.

A fixed number of clusters of real values starts from the best of some k-means runs and one run of a sampler with an
open number of clusters, whose clusters are merged greedily. The best is the one from which EM reaches the highest
posterior density: the joint density of a hard partition prefers lopsided clusters where clusters overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import by_first_appearance
from expfam.model.statistics import weighted_statistics
from expfam.model.weights import DirichletProcess
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.chain.plateau import Plateau
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.starts.greedy_merge import merged_labels
from expfam.samplers.starts.kmeans import lloyd_labels, row_tiles
from expfam.samplers.starts.rules import default_n_clusters, starting_labels
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.warm_starts.em_race import best_by_em
from expfam.structures.ground.rng import generator

_SAMPLE_ROWS = 20_000
_SAMPLE_ROWS_EACH = 20  # for each cluster
# of the candidates for a given number of clusters, whose steps take most of the time of a search
_CANDIDATE_ROWS, _CANDIDATE_ROWS_EACH = 2000, 100
_CANDIDATE_ROWS_A_STATISTIC = 4  # of each cluster: a full covariance needs more
_TILE_ROWS = 512  # of EM, which takes nearly as long for a tile of a few rows
_MOST_CENTRES = 256  # of the k-means run from which an open number of clusters starts
_FREE_STEPS = 20
_SHORT: dict[str, Any] = {"window": 2, "gain_per_row": 1e-3}  # rule of a free run that is merged to a given number
_FREE_ROWS = 1000  # fewer rows are divided as well by k-means, for a fraction of the time
_COUNT_STEPS = 5  # sweeps of a candidate on counts


class FoundStart(NamedTuple):
    """Start that a search has chosen.

    Attributes
    ----------
    labels : (n,) int32 ndarray
    name : str
        Candidate that was taken: "lloyd 1" and so on, "free", or "random 1" and so on.
    model : MixtureModel
        The given one, whose prior has the shape of the first clusters where the family asks for that.
    scores : dict of str to float
        Log posterior density, nats, that each candidate has reached; they are comparable among each other only.
    """

    labels: npt.NDArray[np.int32]
    name: str
    model: MixtureModel
    scores: dict[str, float]


def search_rows(n_rows: int, n_clusters: int | None, seed: int) -> npt.NDArray[np.int64] | None:
    """Draw the rows on which a start is searched: sorted, or None for all rows.

    At most 20,000 rows and 20 for each cluster are drawn; an open number of clusters counts as 256.

    Examples
    --------
    >>> from expfam.samplers.warm_starts.search import search_rows
    >>> search_rows(1000, 3, 0) is None, len(search_rows(100_000, 3, 0))
    (True, 20060)
    """
    n_sample = _most_rows(n_clusters)
    if n_rows <= n_sample:
        return None
    return np.sort(generator(seed, "start", unit=7).choice(n_rows, n_sample, replace=False, shuffle=False))


def search_memory(data: Dataset, n_clusters: int | None) -> int:
    """Return the bytes that a search needs at its peak, beside the statistics of the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.search import search_memory
    >>> search_memory(Dataset(np.eye(100, 10), DiagonalGaussian()), 3)
    17600
    """
    n = min(data.n_rows, _most_rows(n_clusters))
    of_part = 0 if n == data.n_rows else _bytes_of_rows(data, n)
    if n_clusters is not None and (n_candidate := _n_candidate_rows(data, n_clusters)) < n:
        of_part += _bytes_of_rows(data, n_candidate)
    # coordinates in double and in single precision, labels of four candidates
    return of_part + n * ((0 if data.family.is_discrete else 12 * min(data.n_features, 1 << 16)) + 56)


def search_start(
    model: MixtureModel,
    data: Dataset,
    *,
    n_init: int = 3,
    adapt_prior: bool = True,
    moves: Kernel | None = None,
    learned: Sequence[str] = (),
    seed: int,
    n_threads: int | None = None,
) -> FoundStart:
    """Find the start of a fit.

    Candidates for a given number K of clusters of real values are made on at most about 5,000 + K max(100, 4 F) rows, F
    statistics each; the other rows then get their most probable cluster.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data. Weights with a fixed number of components stand for as many clusters.
    data : Dataset
    n_init : int
        Number of k-means runs on real values; on counts there is one start of random labels.
    adapt_prior : bool
        Whether the prior may take the shape of the first clusters, see `Family.prior_from_clusters`.
    moves : Kernel, optional
        Splits and merges for the candidate with an open number of clusters, to be used in turn with Gibbs sweeps.
    learned : sequence of str
        Hyper-parameters of the family that the candidate with an open number of clusters learns; all candidates are
        then judged under their values.
    seed : int
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Returns
    -------
    FoundStart

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
    if data.family.is_discrete:
        return _Search(model, data, moves, learned, seed, n_threads).of_counts()
    rows = _candidate_rows(model, data, seed)
    part = data if rows is None else data.take(rows)
    found = _Search(model, part, moves, learned, seed, n_threads).of_real_values(n_init, adapt_prior)
    if rows is None:
        return found
    return found._replace(labels=extended_labels(found.model, part, found.labels, data, n_threads=n_threads))


def has_few_rows(model: MixtureModel, data: Dataset) -> bool:
    """Tell whether clusters with a full covariance have fewer rows on average than parameters.

    The joint density of a partition, EM and held-out densities then all prefer one wide cluster and some tight ones.
    """
    K = model.weights.max_components
    return K is not None and model.family.has_full_covariance and data.n_rows < K * data.n_statistics


def _candidate_rows(model, data, seed):
    """Draw the rows for candidates of a given number of clusters: sorted, or None for all."""
    K = model.weights.max_components
    if K is None or has_few_rows(model, data) or data.n_rows <= (n := _n_candidate_rows(data, K)):
        return None
    return np.sort(generator(seed, "start", unit=8).choice(data.n_rows, n, replace=False, shuffle=False))


def _n_candidate_rows(data, n_clusters):
    each = max(_CANDIDATE_ROWS_EACH, _CANDIDATE_ROWS_A_STATISTIC * data.n_statistics)
    return -(-(_CANDIDATE_ROWS + each * n_clusters) // _TILE_ROWS) * _TILE_ROWS


def _most_rows(n_clusters):
    return _SAMPLE_ROWS + _SAMPLE_ROWS_EACH * (_MOST_CENTRES if n_clusters is None else n_clusters)


def _bytes_of_rows(data, n):
    X = data.X
    whole = X.data.nbytes + X.indices.nbytes if data.is_sparse else X.nbytes
    return int(whole * (n / data.n_rows)) + 8 * n


class _Search:
    """Candidates for the start of one fit."""

    def __init__(self, model, data, moves, learned, seed, n_threads):
        self.model, self.data, self.moves, self.learned = model, data, moves, tuple(learned)
        self.seed, self.n_threads = seed, n_threads
        self.is_weighted = data.weight is not None and bool((data.weight != 1.0).any())
        self.K, self._tiles = model.weights.max_components, None

    def of_real_values(self, n_init, adapt_prior):
        """Take the best of some k-means runs and of the merged clusters of a free run."""
        candidates, self.n_init = {}, n_init
        if self.K is not None:
            candidates = {f"lloyd {run + 1}": self._lloyd(self.K, run) for run in range(n_init)}
        candidates = _distinct(candidates)
        is_free = self._may_run_free() and self._pays(candidates)
        pieces = self._merged(self._lloyd(self._n_pieces(), n_init)) if is_free or not candidates else None
        if adapt_prior:
            self.model = self._adapted(candidates or {"free": pieces})
        if is_free:
            labels = self._free(pieces, _FREE_STEPS)
            if not candidates or labels.max() + 1 >= self.K:  # else it lacks clusters that were asked for
                candidates["free"] = labels
        elif not candidates:
            candidates["free"] = pieces
        if len(candidates) == 1:
            (name, labels), scores = next(iter(candidates.items())), {}
            return FoundStart(labels, name, self.model, scores)
        try:
            best = best_by_em(self.model, self.data, candidates, seed=self.seed, n_threads=self.n_threads)
        except CapabilityError:  # no mode or prior density
            return self._best_by_sweeps(candidates)
        return FoundStart(best.labels, best.name, self.model, best.scores)

    def of_counts(self):
        """Take the best of some sweeps from random labels and of the merged clusters of a free run."""
        if self.K is None or not self._may_run_free():
            return FoundStart(self._random(0), "random 1", self.model, {})
        candidates = {"random 1": self._random(0), "free": self._free(self._random(0, free=True), _FREE_STEPS)}
        return self._best_by_sweeps(candidates)

    def _best_by_sweeps(self, candidates):
        """Return the candidate of the highest score after some sweeps; of equal ones the first."""
        reached = {name: self._by_sweeps(labels) for name, labels in candidates.items()}
        name = max(reached, key=lambda name: reached[name][0])
        return FoundStart(reached[name][1], name, self.model, {name: score for name, (score, _) in reached.items()})

    # ---- candidates --------------------------------------------------------------------------------------------------

    def _lloyd(self, n_clusters, run):
        if self._tiles is None:
            self._tiles = row_tiles(self.data, seed=self.seed, n_threads=self.n_threads)
        K = min(n_clusters, self.data.n_rows)
        return lloyd_labels(self.data, K, seed=self.seed, run=run, rows=self._tiles, n_threads=self.n_threads)

    def _random(self, run, free=False):
        model = self._free_model() if free else self.model
        return starting_labels(
            "random", model, self.data, seed=self.seed + run, n_clusters=default_n_clusters(model, self.data.n_rows)
        )

    def _free(self, labels, n_steps):
        """Run some steps with an open number of clusters; merge these to the given number."""
        model = self._free_model()
        kernels = [CollapsedGibbs()] if self.moves is None else [self.moves, CollapsedGibbs()]
        if self.learned:
            kernels.append(UpdateHyper(family=self.learned, weights=False))
        kernel = Cycle(*kernels)
        state = kernel.init(model, self.data, seed=self.seed, start=labels)
        advance(kernel, state, n_steps, rule=Plateau(self.data.n_rows, **({} if self.K is None else _SHORT)))
        model = state.model
        self.model = self.model.with_family(model.family)
        # a draw has rows in improbable clusters, and clusters that look alike for that reason would be merged
        labels = ascend(model, self.data, state.partition, n_threads=self.n_threads)
        return merged_labels(model, self.data, labels, n_clusters=self.K)

    def _merged(self, labels):
        return merged_labels(self._free_model(), self.data, labels)

    def _pays(self, candidates):
        """Tell whether a free run is tried.

        It is for an open number of clusters, and else where rows are many enough and k-means runs do not agree.
        """
        if not candidates:
            return True
        if len(candidates) == 1 < self.n_init:
            return False
        return self.data.n_rows >= _FREE_ROWS and not has_few_rows(self.model, self.data)

    def _free_model(self):
        weights = self.model.weights if self.K is None else DirichletProcess()
        return MixtureModel(self.model.family, weights)

    def _n_pieces(self):
        few = min(np.ceil(np.sqrt(self.data.n_rows)), _MOST_CENTRES)
        return int(few if self.K is None else max(few, 2 * self.K))

    def _may_run_free(self):
        """Tell whether collapsed steps take the weights of the rows, and do not take long."""
        return type(self.data.family).components is not Family.components and not self.is_weighted

    def _adapted(self, candidates):
        """Return the model with the prior of the tightest candidate."""
        family, best = self.model.family, None
        for labels in candidates.values():
            n, S = weighted_statistics(self.data, labels, int(labels.max()) + 1)
            fit = family.total_log_marginal(n, S)
            if best is None or fit > best[0]:
                best = fit, n, S
        return self.model.with_family(family.prior_from_clusters(*best[1:]))

    # ---- scores ------------------------------------------------------------------------------------------------------

    def _by_sweeps(self, labels):
        """Return the log joint after some Gibbs sweeps, and the labels there."""
        state = CollapsedState(self.model, self.data, labels, seed=self.seed)
        advance(CollapsedGibbs(), state, _COUNT_STEPS)
        return state.log_joint, np.asarray(state.labels, dtype=np.int32)


def _distinct(candidates):
    """Return the candidates without those that divide the rows as an earlier one does."""
    kept: dict[bytes, tuple[str, Any]] = {}
    for name, labels in candidates.items():
        kept.setdefault(by_first_appearance(labels)[1].tobytes(), (name, labels))
    return dict(kept.values())
