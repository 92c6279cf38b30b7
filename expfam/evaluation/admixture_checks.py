"""Checks of the steps of topic chains and grouped chains.

What each check asks is told in `expfam.evaluation.exactness`. Clusters have numbers here, for their pseudo-counts may
differ: all clusters of few units are enumerated, not their partitions. Where a model has many clusters, few units are
checked with four of them. Data are groups as large as those of the user, with clusters from urns and values from the
model; the chain through the true clusters is run both ways.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, ExpFamError
from expfam.evaluation.admixture_quantities import SLOPE_ALPHA, SLOPE_ETA, AdmixtureQuantities, names_of
from expfam.evaluation.calibration import Replicate, draws_compared, joined
from expfam.evaluation.exactness import (
    IMPOSSIBLE,
    LARGEST,
    LENGTH,
    STATE,
    TIME,
    Found,
    Ranks,
    Skipped,
    generator_of,
    is_consistent,
    means_p,
)
from expfam.evaluation.ranks import chi_square_p, frequencies_p, mean_p, rank_of_truth, uniform_p
from expfam.evaluation.units import Units, log_prior, some_clusters
from expfam.model.admixture import AdmixtureModel
from expfam.model.enumeration import canonical
from expfam.model.grouped_simulation import draw_clusters, probability_of_links
from expfam.model.pseudo_counts import positive
from expfam.samplers.chain.driver import sample
from expfam.samplers.grouped.gibbs_state import GroupedState
from expfam.samplers.topics.gibbs import TokenState
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.samplers.chain.kernel import Kernel

N_SUBSETS = 20
FEW_UNITS = 6  # that are enumerated
FEW_CLUSTERS = 4  # of the model, where it has more
_STEPS = 4
_REFUSALS = 1000
_OWN_JOINT = "log joint by these hyper-parameters"


class PriorOfCounts(NamedTuple):
    """Gamma(1, 1) priors of the pseudo-counts that a kernel redraws.

    Attributes
    ----------
    alpha, eta : bool
        Which of them it redraws.
    least_eta : float
        Smallest `eta`; if it is not 0, that prior is exponential from there on, with this mean beyond it.
    """

    alpha: bool
    eta: bool
    least_eta: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Return names of numbers of pseudo-counts, whatever the numbers of clusters."""
        of_alpha = ("hyper-parameter alpha, sum", "hyper-parameter alpha, largest") if self.alpha else ()
        return (*of_alpha, *(("hyper-parameter eta",) if self.eta else ()), _OWN_JOINT)

    def draw(self, model: AdmixtureModel, rng: np.random.Generator) -> AdmixtureModel:
        """Draw a model with other pseudo-counts."""
        if self.alpha:
            model = model.with_alpha(positive(rng.standard_gamma(1.0, model.n_components)))
        if self.eta:
            eta = float(positive(self.least_eta + (self.least_eta or 1.0) * rng.standard_gamma(1.0)))
            model = model.with_family(model.family.with_hyper(concentration=eta))
        return model

    def values(self, model: AdmixtureModel) -> list[float]:
        """Return the numbers that `names` names, but for the last."""
        alpha = model.pseudocounts
        of_alpha = [alpha.sum(), alpha.max()] if self.alpha else []
        return [*of_alpha, *([model.family.concentration] if self.eta else [])]


class AdmixtureProblem(NamedTuple):
    """An admixture with a kernel to certify, and the units of the user.

    Attributes
    ----------
    model : AdmixtureModel
        Bound.
    kernel : Kernel
    kind : TokenUnits or RowUnits
    n_units : int
        Units of a simulated data set.
    n_threads : int or None
    prior : PriorOfCounts or None
        Of the pseudo-counts that the kernel redraws; None if it redraws none.
    """

    model: AdmixtureModel
    kernel: Kernel
    kind: Any
    n_units: int
    n_threads: int | None = 1
    prior: PriorOfCounts | None = None

    def names(self, *, is_numbered: bool = True) -> tuple[str, ...]:
        """Return the names of the test quantities."""
        return (*names_of(self.kind, is_numbered=is_numbered), *(self.prior.names if self.prior else ()))

    def values(self, units: Units, labels: Any, models: Any, *, is_numbered: bool = True) -> npt.NDArray[np.float64]:
        """Compute the test quantities of (T, N) clusters with T models: (T, Q) float64."""
        values = AdmixtureQuantities(self.model, self.kind, units, is_numbered=is_numbered).values(labels)
        if self.prior is None:
            return values
        own = [self.prior.values(model) for model in models]
        joint = [log_joint(self.kind, model, units, each[None])[0] for model, each in zip(models, labels)]
        return np.column_stack([values, np.array(own).reshape(len(labels), -1), joint])

    def draw(self, rng: np.random.Generator) -> tuple[AdmixtureModel, Units, npt.NDArray[np.int32]]:
        """Draw pseudo-counts that the kernel redraws, clusters and values."""
        units = self.kind.design(self.n_units, rng, one_link=self.prior is not None and self.prior.alpha)
        model = self._drawn_model(units, rng)
        labels = draw_clusters(model.pseudocounts, units.groups, rng, links=units.links)
        return model, Units(units.groups, self.kind.draw_values(model, labels, rng), units.links), labels

    def _drawn_model(self, units, rng):
        """Draw what the kernel redraws from its prior, given that linked rows agree."""
        if self.prior is None:
            return self.model
        while True:
            model = self.prior.draw(self.model, rng)
            if units.links is None or rng.random() < probability_of_links(
                model.pseudocounts, units.groups, units.links
            ):
                return model

    def draw_given(self, rng: np.random.Generator) -> tuple[AdmixtureModel, Units, npt.NDArray[np.int32]]:
        """Draw clusters of few units of the user from their posterior, and further units given them."""
        few = Few(self, rng)
        given, units = few.labels[rng.choice(len(few.labels), p=few.probability)], few.units
        more = self.kind.design(max(1, self.n_units - len(units)), rng)
        # half of the further units extend the groups of the given ones
        own = rng.choice(units.groups, size=len(more) // 2)
        groups = np.concatenate([units.groups, own, more.groups[len(own) :] + int(units.groups.max()) + 1])
        groups = np.unique(groups, return_inverse=True)[1].astype(np.intp)
        links = None if units.links is None else np.append(units.links, np.full(len(more), -1))
        labels = draw_clusters(few.model.pseudocounts, groups, rng, given=given)
        values = self.kind.draw_values(few.model, labels, rng, given=units.values)
        return few.model, Units(groups, values, links), labels


def log_joint(
    kind: Any, model: AdmixtureModel, units: Units, labels: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Compute the log joint of (T, N) clusters and the values of units: (T,) nats."""
    prior = log_prior(model.pseudocounts, units.groups, labels)
    return np.asarray(prior + kind.log_evidence(model, units, labels))


class Few:
    """Few units of the user with the enumerated posterior of their clusters.

    Attributes
    ----------
    model : AdmixtureModel
        With some of the clusters, where the model has many.
    data : Dataset
    units : Units
        In the order of a chain.
    labels : (S, N) int32 ndarray
        All clusters that agree with the links.
    probability : (S,) float64 ndarray
    """

    def __init__(self, problem: AdmixtureProblem, rng: np.random.Generator) -> None:
        kind = problem.kind
        self.model = some_clusters(problem.model, FEW_CLUSTERS, rng)
        units = kind.near(FEW_UNITS, rng)
        self.data, self.units, _ = kind.data(self.model, units, np.zeros(len(units), dtype=np.int32))
        blocks, K = self.units.blocks, self.model.n_components
        states = np.array(list(product(range(K), repeat=len(blocks))), dtype=np.int32)
        self.labels = np.zeros((len(states), len(units)), dtype=np.int32)
        for place, rows in enumerate(blocks):
            self.labels[:, rows] = states[:, [place]]
        self._codes = self._code(self.labels)
        self._order = np.argsort(self._codes)
        self.log_joint = log_joint(kind, self.model, self.units, self.labels)
        weight = np.exp(self.log_joint - self.log_joint.max())
        self.probability = weight / weight.sum()

    def _code(self, labels):
        return labels.astype(np.int64) @ self.model.n_components ** np.arange(labels.shape[-1])

    def row(self, labels: npt.NDArray[np.integer]) -> int:
        """Return the place of clusters in `labels`, or -1 if they disagree with the links."""
        code = self._code(labels)
        place = self._order[min(int(np.searchsorted(self._codes, code, sorter=self._order)), len(self._order) - 1)]
        return int(place) if self._codes[place] == code else -1


# ---- chains ----------------------------------------------------------------------------------------------------------


def can_hold_clusters(state: Any) -> bool:
    """Tell whether a state holds one cluster of each unit, which a check can set and read."""
    return isinstance(state, (TokenState, GroupedState))


def set_clusters(state: Any, labels: npt.NDArray[np.int32]) -> None:
    """Give a state other clusters; its statistics are made anew."""
    if isinstance(state, TokenState):
        state.set_topics(labels)
        return
    state.labels[:] = labels
    state.components.refresh(state.labels)
    state.adopt_labels()


def started_on_groups(kernel: Kernel, model: AdmixtureModel, data: Dataset, **options: Any) -> Any:
    """Return the state with which a kernel begins; its model must be the one that was given.

    Raises
    ------
    ExpFamError
        The kernel has put another model into its state.
    """
    state = kernel.init(model, data, **options)
    found = state.model
    same = np.array_equal(found.pseudocounts, model.pseudocounts) and found.family == model.family
    if not same:
        raise ExpFamError(
            f"{type(kernel).__name__}.init has put another model into the state: {found!r:.200} is not {model!r:.200},"
            " which was given: init must keep the model that it gets"
        )
    return state


def _begun(problem, model, data, seed):
    """Return a state that has made a step from one cluster."""
    state = started_on_groups(problem.kernel, model, data, seed=seed, start=np.zeros(_n_units(data), dtype=np.int32))
    state.n_steps = LENGTH * TIME
    problem.kernel.step(state)
    return state


def _n_units(data):
    return data.n_rows if data.groups is not None else int(data.X.sum())


# ---- rows ------------------------------------------------------------------------------------------------------------


def check_few(problem: AdmixtureProblem, n_replicates: int, seed: int) -> Found:
    """Start from the enumerated posterior of few units, and compare the ends of steps with it."""
    kind = problem.kind
    if kind.n_units < 3:
        raise Skipped(f"the data have {kind.n_units} {kind.noun}; 3 are needed")
    parts = run(
        lambda number: _subset(problem, n_replicates, seed, number),
        [(number,) for number in range(N_SUBSETS)],
        problem.n_threads,
    )
    p = _few_p(parts, problem) | {STATE: float(all(part.is_right for part in parts))}
    return Found(
        p, n_replicates * len(parts), (f"{counted(len(parts), 'subset')} of {FEW_UNITS} {kind.noun}", _said_of(problem))
    )


def _said_of(problem):
    """Say where few units are checked with some of the clusters."""
    K = problem.model.n_components
    return (
        f"with {FEW_CLUSTERS} of the {counted(K, 'cluster')}" if K > FEW_CLUSTERS else f"with {counted(K, 'cluster')}"
    )


class _Ends(NamedTuple):
    """What the steps from one enumerated posterior have reached."""

    chi_square: list[tuple[float, int]]  # of partitions after the first and the last step
    numbered: list[tuple[float, int]]  # of the clusters with their numbers
    shifts: npt.NDArray[np.float64]  # (R, Q) mean of each number along the steps, about its mean
    is_right: bool


def _subset(problem, n_replicates, seed, number):
    rng = generator_of(seed, "rows", number)
    few = Few(problem, rng)
    ends, is_right = _ends(problem, few, n_replicates, rng)
    numbers = _numbers(problem, few)
    center = few.probability @ numbers
    impossible = (ends < 0).any()
    partitions = [canonical(row) for row in few.labels.tolist()]
    number_of = {each: place for place, each in enumerate(dict.fromkeys(partitions))}
    classes = np.array([number_of[each] for each in partitions])
    law = np.bincount(classes, weights=few.probability)
    if impossible:
        worst = [(np.inf, 1)] * 2
        return _Ends(worst, worst, np.full((n_replicates, numbers.shape[1]), np.inf), is_right)
    sides = (ends[0], ends[-1])
    return _Ends(
        [frequencies_p(np.bincount(classes[each], minlength=law.size), law) for each in sides],
        [frequencies_p(np.bincount(each, minlength=few.probability.size), few.probability) for each in sides],
        (numbers[ends] - center).mean(axis=0),
        is_right,
    )


def _numbers(problem, few):
    """Return the numbers of all enumerated clusters whose means are compared: (S, Q)."""
    names = names_of(problem.kind)
    values = AdmixtureQuantities(few.model, problem.kind, few.units).values(few.labels)
    return values[:, [names.index(name) for name in _compared(problem)]]


def _compared(problem):
    slope = [SLOPE_ETA] if SLOPE_ETA in names_of(problem.kind) else []
    return ["clusters", "sum of squared sizes in groups", "log joint", SLOPE_ALPHA, *slope, "size of cluster 0"]


def _ends(problem, few, n_replicates, rng):
    """Return the places of clusters after each step (steps, R), and whether the state agrees."""
    seed = int(rng.integers(2**63))
    starts = rng.choice(len(few.labels), size=n_replicates, p=few.probability)
    state = _begun(problem, few.model, few.data, seed)
    ends = np.empty((_STEPS, n_replicates), dtype=np.int64)
    for t, row in enumerate(starts.tolist()):
        state.n_steps = (LENGTH + 1 + t) * TIME
        set_clusters(state, few.labels[row])
        for step in range(_STEPS):
            problem.kernel.step(state)
            ends[step, t] = few.row(state.labels)
    return ends, is_consistent(state)


def _few_p(parts, problem):
    """Return p-values over all subsets: of frequencies after steps, and of mean values."""
    found = {}
    for at, steps in enumerate((counted(1, "step"), counted(_STEPS, "step"))):
        for what, tables in (("partitions", "chi_square"), ("numbered clusters", "numbered")):
            chi, freedom = zip(*(getattr(part, tables)[at] for part in parts))
            found[f"{what} after {steps}"] = chi_square_p(sum(chi), sum(freedom))
    shifts = np.concatenate([part.shifts for part in parts])
    names = [f"{name} along {counted(_STEPS, 'step')}" for name in _compared(problem)]
    if not np.isfinite(shifts).all():
        return found | dict.fromkeys(names, 0.0)
    return found | dict(zip(names, map(float, mean_p(shifts))))


# ---- truth and data --------------------------------------------------------------------------------------------------


def check_true_clusters(problem: AdmixtureProblem, n_replicates: int, seed: int) -> Found:
    """Rank clusters drawn from the prior among the states of chains through them."""
    return _through_truth(problem, _drawing(problem), "truth", n_replicates, seed)


def check_given_units(problem: AdmixtureProblem, n_replicates: int, seed: int) -> Found:
    """Rank clusters as `check_true_clusters` does, given units of the data."""
    _drawing(problem)  # the family must be able to draw
    found = _through_truth(problem, problem.draw_given, "data", n_replicates, seed)
    said = f"{FEW_UNITS} {problem.kind.noun} of the data in each"
    return found._replace(notes=(said, _said_of(problem), *found.notes))


def require_drawn_values(problem: Any) -> None:
    """Skip problems whose family cannot draw values."""
    if not hasattr(problem.kind, "slope"):  # words come from urns, rows from the family
        try:
            problem.model.family.require("draw", "a draw of the prior")
            problem.model.family.require("sample", "a draw of the prior")
        except ExpFamError as error:
            raise Skipped(str(error)) from error


def _drawing(problem):
    """Return the function that draws from the prior; skip families that cannot draw."""
    require_drawn_values(problem)
    return problem.draw


def _possible(problem, draw, rng):
    """Draw until the family takes the values; what is refused depends on them alone."""
    for n_refused in range(_REFUSALS):
        try:
            model, units, labels = draw(rng)
            if not hasattr(problem.kind, "slope") and not _is_possible(units.values):
                raise ValueError("values beyond all numbers")
            return model, *problem.kind.data(model, units, labels), n_refused
        except IMPOSSIBLE:
            continue
    raise Skipped("a thousand draws in a row gave data that the family cannot hold; the check 'rows' needs none")


def _is_possible(X):
    return bool(np.isfinite(X).all() and np.abs(X).max() < LARGEST)


def _through_truth(problem, draw, check, n_replicates, seed):
    reversal = problem.kernel.reversed()

    def replicate(number):
        rng = generator_of(seed, check, number)
        model, data, units, labels, n_refused = _possible(problem, draw, rng)
        try:
            return *_chain(problem, reversal, (model, data, units, labels), rng), n_refused
        except CapabilityError as error:
            raise Skipped(str(error)) from error

    rows, are_right, refused = zip(*run(replicate, [(r,) for r in range(n_replicates)], problem.n_threads))
    values, names = np.array(rows), problem.names()
    p = means_p(values) if reversal is None else uniform_p(values, LENGTH)
    notes = ["ranks in chains of 20 states" if reversal is not None else "no reversal: means along chains of 20 states"]
    if sum(refused):
        notes.append(f"{counted(sum(refused), 'draw')} gave data that the family cannot hold")
    found = dict(zip(names, map(float, p))) | {STATE: float(all(are_right))}
    return Found(found, n_replicates, tuple(notes), None if reversal is None else Ranks(names, values, LENGTH))


def _chain(problem, reversal, drawn, rng):
    """Return ranks of the truth in a chain both ways; without a reversal, quantities along it."""
    model, data, units, labels = drawn
    place, seed = int(rng.integers(LENGTH)) if reversal is not None else 0, int(rng.integers(2**63))
    forth = _walk(problem, problem.kernel, model, labels, data, seed, range(place, LENGTH - 1))
    back = _walk(problem, reversal, model, labels, data, seed, range(place - 1, -1, -1))
    states, models = [labels, *forth[0], *back[0]], [model, *forth[1], *back[1]]
    # the fixed model, and in "data" that of few clusters
    fixed = problem if problem.prior is not None else problem._replace(model=model)
    values = fixed.values(units, np.array(states), models)
    ranks = values if reversal is None else rank_of_truth(values[0], values[1:], rng)
    return ranks, forth[2] and back[2]


def _walk(problem, kernel, model, labels, data, seed, times):
    """Make steps from given clusters; return clusters, models, and whether the state agrees."""
    states: list[Any] = []
    models: list[Any] = []
    if not len(times):
        return states, models, True
    first = problem.model if problem.prior is not None else model
    state = _begun(problem, first, data, seed)
    state.set_model(model)
    set_clusters(state, labels)
    for time in times:
        state.n_steps = time * TIME  # in both directions, each step has random numbers of its own
        kernel.step(state)
        states.append(state.labels.copy())
        models.append(state.model)
    return states, models, is_consistent(state)


# ---- cold ------------------------------------------------------------------------------------------------------------


class ChainRun:
    """Run of a kernel from its own start, with as many steps as an estimator makes.

    Parameters
    ----------
    kernel : Kernel
    start : object
        Start of the kernel.
    n_warmup, n_steps : int
    """

    def __init__(self, kernel: Kernel, start: Any, *, n_warmup: int, n_steps: int) -> None:
        self.kernel, self.start, self.n_warmup, self.n_steps = kernel, start, n_warmup, n_steps

    def __call__(self, model: AdmixtureModel, data: Dataset, seed: int) -> tuple[list[Any], list[Any]]:
        """Return the clusters and the model after each step that counts."""
        state = started_on_groups(self.kernel, model, data, seed=seed, start=self.start)
        sample(self.kernel, state, self.n_warmup)
        labels: list[Any] = []
        models: list[Any] = []

        def collect(info: Any, state: Any) -> None:
            labels.append(state.labels.copy())
            models.append(state.model)

        sample(self.kernel, state, self.n_steps, callbacks=[collect])
        return labels, models


def check_cold_chains(problem: AdmixtureProblem, cold_run: ChainRun, n_replicates: int, seed: int) -> Found:
    """Run from a cold start on data of the prior; compare the draws with the true clusters."""
    n_draws, draw = draws_compared(cold_run), _drawing(problem)

    def replicate(number):
        rng = generator_of(seed, "cold", number)
        model, data, units, labels, _ = _possible(problem, draw, rng)
        states, models = cold_run(problem.model, data, int(rng.integers(2**63)))
        chosen = np.linspace(len(states) / n_draws, len(states), n_draws).astype(int) - 1
        every = np.array([labels, *(states[t] for t in chosen)])
        values = problem.values(units, every, [model, *(models[t] for t in chosen)], is_numbered=False)
        return Replicate(values, every, int(rng.integers(2**63)))

    parts = run(replicate, [(number,) for number in range(n_replicates)], problem.n_threads)
    return joined(parts, n_draws, problem.names(is_numbered=False))
