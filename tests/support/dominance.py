"""How many nats a fitted mixture is below simple partitions, each moved to its own mode under the model of the fit.

Repeated real values are spread by a fit without settings, since the log joint of the rows as they are prefers clusters
of single values to groups. Where it has spread some, the log joint is the mean over rows that are spread with other
random numbers than those of the fit: what a fit, or a move of rows, owes to its random numbers counts for nothing. Each
simple partition is moved on the rows as the fit has seen them, and counts as it is too; the labels of the fit are never
moved. Rows of a few distinct ones, which are categories, are judged as they are, and so are rows of tables.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy import sparse
from simple_partitions import by_first_row, simple_partitions

from expfam import Dataset, Gaussian, Mixture, load_family
from expfam.families.columns.roles import Roles
from expfam.fitting.chains import run_chains
from expfam.fitting.free_columns import free_columns
from expfam.fitting.kept import BestDraw
from expfam.fitting.spread_endings import has_few_distinct_rows
from expfam.model.hyper_prior import HyperPrior
from expfam.params import is_auto
from expfam.samplers import CollapsedGibbs, UpdateHyper
from expfam.samplers.chain.driver import advance
from expfam.samplers.starts.ascent import ascend
from expfam.samplers.starts.refill import refilled
from expfam.samplers.starts.rules import starting_labels
from expfam.samplers.warm_starts.ties import spread_ties
from expfam.structures.ground.rng import resolve_seed

MOST_PASSES = 100
LEARNING_STEPS = 8
HYPER_SPREAD = 3.0  # of the log of a factor, see HyperPrior
SPREADS, FIRST_SPREAD = 5, 1000  # of repeated values; seeds that no fit here has


class Judgement(NamedTuple):
    """What a fit is beside the best simple partition.

    Attributes
    ----------
    below : float
        Nats by which the log joint of the fit's labels is below it, both under the model that the fit has learned;
        negative if it is above.
    best : str
        Name of this partition.
    own : float
        Nats by which the fit is below the best partition under hyper-parameters that are learned from the partition
        itself; their log prior counts.
    """

    below: float
    best: str
    own: float


class JudgedRows(NamedTuple):
    """Rows on which partitions are compared.

    Attributes
    ----------
    seen : Dataset
        As the fit has seen them.
    judged : list of Dataset
        The rows as they are, or several times with repeated values spread.
    """

    seen: Dataset
    judged: list

    @property
    def are_spread(self):
        return self.judged[0] is not self.seen

    def log_joint(self, model, labels):
        """Mean log joint of labels, nats."""
        return float(np.mean([model.log_joint(rows, by_first_row(labels)) for rows in self.judged]))

    def reached(self, mixture, model, labels, seed):
        """Log joint that a partition has at its own mode."""
        mode = self.log_joint(model, moved(mixture, model, self.seen, labels, seed))
        return max(mode, self.log_joint(model, labels)) if self.are_spread else mode


class WatchedMixture(Mixture):
    """Mixture that keeps the labels at which its steps over all rows begin, and the best draw.

    Attributes
    ----------
    passed_ : dict of str to (N,) int ndarray
        Labels by "start" and "best draw".
    """

    def fit(self, X, y=None, **options):
        best = BestDraw()
        self.passed_, self.callbacks = {}, [best]
        try:
            super().fit(X, y, **options)
        finally:
            self.callbacks = None
        if best.labels is not None:
            self.passed_["best draw"] = best.labels
        return self

    def fit_plan(self, plan, *, resume=None):
        seen = plan.of_free_columns()
        runs = run_chains(seen)
        searched = runs[0].start
        start = plan.starts[0] if searched is None else searched
        self.passed_["start"] = starting_labels(start, seen.model, seen.seen, seed=plan.seed)
        with mock.patch("expfam.estimators.mixture.run_chains", return_value=runs):
            return super().fit_plan(plan, resume=resume)


def tolerance(n_rows):
    """Nats by which a fit may be below."""
    return 2.0 + 1e-4 * n_rows


def judge(mixture, X, *, truth=None, n_true=None, seed=0, learns=True):
    """Compare a fitted mixture with all simple partitions, with the truth, and with the start of the fit.

    Parameters
    ----------
    mixture : Mixture
        Fitted to X; of a `WatchedMixture` the start and the best draw are candidates.
    X : array_like, sparse matrix or frame
    truth : (N,) array_like of int, optional
    n_true : int, optional
        True number of clusters, where there is no truth.
    seed : int
        Of k-means and of the learning.
    learns : bool
        Whether `own` is computed.

    Returns
    -------
    Judgement
    """
    data = dataset_of(mixture, X)
    labels = mixture.labels_ if len(getattr(mixture, "labels_", ())) == data.n_rows else mixture.predict(X)
    mixture, data = of_free_columns(mixture, data)
    rows = judged_rows(mixture, data)
    found = rows.log_joint(mixture.model_, labels)
    candidates = candidates_of(mixture, data, labels, truth=truth, n_true=n_true, seed=seed)
    best, highest = "none", -np.inf
    for name, candidate in candidates:
        reached = rows.reached(mixture, mixture.model_, candidate, seed)
        if reached > highest:
            best, highest = name, reached
    own = own_deficit(mixture, rows, found, candidates, seed) if learns else np.nan
    return Judgement(float(highest - found), best, float(own))


def dataset_of(mixture, X):
    """The Dataset of rows for the family of a fit."""
    family = mixture.model_.family
    roles = getattr(family, "roles", None)
    return Dataset(Roles(roles).encode(X) if roles else X, family)


def of_free_columns(mixture, data):
    """The fit and its data in the columns that a fit of full covariances does not leave out."""
    free = free_columns(Gaussian(), data) if is_auto(mixture.sampler) else None
    if free is None:
        return mixture, data
    part, names = free.part(data), ("sampler", "random_state", "n_components", "family", "passed_")
    own = {name: getattr(mixture, name) for name in names if hasattr(mixture, name)}
    return SimpleNamespace(model_=mixture.model_.with_family(part.family), **own), part


def judged_rows(mixture, data):
    """The rows on which the partitions of a fit are compared."""
    K, is_table = mixture.model_.weights.max_components, hasattr(data.family, "real_columns")
    if not is_auto(mixture.sampler) or is_table or data.is_sparse or has_few_distinct_rows(data):
        return JudgedRows(data, [data])
    seen = spread_ties(data, K, seed=resolve_seed(mixture.random_state))
    if seen is data:
        return JudgedRows(data, [data])
    return JudgedRows(seen, [spread_ties(data, K, seed=FIRST_SPREAD + run) for run in range(SPREADS)])


def candidates_of(mixture, data, labels, *, truth, n_true, seed):
    """Names and labels of partitions that the weights of the mixture allow, beginning with those without a fit."""
    K = mixture.model_.weights.max_components
    n_true = n_true if truth is None else len(np.unique(truth))
    numbers = {len(np.unique(labels)), *([] if K is None else [K]), *([] if n_true is None else [n_true])}
    candidates = simple_partitions(data, numbers, seed=seed)
    if truth is not None:
        candidates.append(("truth", by_first_row(truth)))
    passed = getattr(mixture, "passed_", {})
    candidates += [(name, by_first_row(labels)) for name, labels in passed.items()]
    # a fit of K clusters of real values keeps K of them, and is not held to fewer
    least = min(K, n_distinct(data.X)) if keeps_clusters(mixture, data) else 1
    most = data.n_rows if K is None else K
    return [pair for pair in candidates if least <= len(np.unique(pair[1])) <= most] or candidates[:1]


def n_distinct(X):
    """Number of different rows."""
    return X.shape[0] if sparse.issparse(X) else len(np.unique(X, axis=0))


def keeps_clusters(mixture, data):
    """Whether the fit ends with the number of clusters that was given, if as many rows are distinct."""
    return mixture.n_components is not None and not data.family.is_discrete


def moved(mixture, model, data, labels, seed):
    """The labels after all rows have moved to their most probable clusters, as the labels of a fit have."""
    if keeps_clusters(mixture, data):
        return refilled(model, data, labels, mixture.n_components, max_passes=MOST_PASSES, seed=seed)
    # numbered as the labels of a fit: sums of the same partition have the same bits
    return by_first_row(ascend(model, data, labels, max_passes=MOST_PASSES))


# ---- learned hyper-parameters ----------------------------------------------------------------------------------------


def own_deficit(mixture, rows, found, candidates, seed):
    """Nats by which a fit is below the best candidate, each under its own hyper-parameters and with their prior."""
    names = learned_names(mixture)
    data, first = rows.seen, unlearned(mixture, rows.seen)
    best = -np.inf
    for _, labels in candidates:
        model = learned_from(mixture.model_.with_family(first), data, labels, names, seed)
        reached = rows.reached(mixture, model, labels, seed)
        best = max(best, reached + log_prior(model, names))
    return best - (found + log_prior(mixture.model_, names))


def learned_names(mixture):
    """Hyper-parameters of the family that a default fit learns."""
    return tuple(mixture.model_.family.learned_by_default)


def unlearned(mixture, data):
    """The family of the fit as it was bound, or as it is now where the data have chosen it."""
    family: Any = mixture.family
    if isinstance(family, str):
        return mixture.model_.family if family == "auto" else load_family(family).bind(data.X)
    return mixture.model_.family if family.is_bound else family.bind(data.X)


def learned_from(model, data, labels, names, seed):
    """The model with a prior of the shape of given clusters, after some draws of hyper-parameters given these."""
    n, S = data.statistics(by_first_row(labels), len(np.unique(labels)))
    model = model.with_family(model.family.prior_from_clusters(n, S))
    if not names:
        return model
    state = CollapsedGibbs().init(model, data, seed=seed, start=by_first_row(labels))
    advance(UpdateHyper(family=names, weights=False), state, LEARNING_STEPS)
    return state.model


def log_prior(model, names):
    """Log density of the learned factors up to a constant, nats."""
    factors = HyperPrior(model, names, weights=False).values(model)
    return float(-0.5 * np.sum((factors / HYPER_SPREAD) ** 2))
