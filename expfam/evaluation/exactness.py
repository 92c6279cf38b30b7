"""Checks whether the steps of a kernel leave the posterior invariant, without convergence.

"rows" starts from the enumerated posterior of a few rows of the user's data. "truth" draws partition and data from the
prior: the partition is then a draw of the posterior, and stays one under every step. It is put at a random place of a
short chain, which is run forwards by the kernel and backwards by its reversal; its rank among the states is uniform,
however slow the chain is (Besag and Clifford 1989; Gandy and Scott 2020). Kernels without a reversal are run forwards
alone: the mean of a quantity along the chain must be that at its start. "data" is "truth" given rows of the user's
data: their partition is drawn from the enumerated posterior and the other rows from the predictive (posterior
simulation-based calibration, Saeilynoja et al. 2025, without its need of a converged chain).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from expfam.amounts import counted
from expfam.errors import CapabilityError, ExpFamError
from expfam.evaluation.quantities import NAMES, Quantities, coordinates
from expfam.evaluation.ranks import (
    chi_square_p,
    frequencies_p,
    gaussian_p,
    mean_p,
    rank_of_truth,
    uniform_p,
)
from expfam.model.data import Dataset
from expfam.model.enumeration import ExactPosterior
from expfam.model.simulation import draw_rows, draw_stick_labels, simulate, simulate_more
from expfam.samplers.states.collapsed import CollapsedState
from expfam.samplers.states.uncollapsed import UncollapsedState
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expfam.model.hyper_prior import HyperPrior
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

LENGTH = 20  # states of a chain that holds the truth
N_SUBSETS = 20
SUBSET_ROWS = 6
GIVEN_ROWS = 8  # real rows of a replicate of "data"
_WITH_HYPER = "log joint by these hyper-parameters"
STATE = "statistics of the state"  # a quantity that is right or wrong: its p is 1 or 0
_LATER = 3  # steps after the first one
TIME = 1000  # step numbers from one step to the next: random numbers follow from them
_LEAST_EFFECTIVE = 2.0  # partitions that a posterior must leave open
_CANDIDATES = 1000  # rows among which near ones are looked for
_PILOT = 20  # draws of the prior that must all be possible data
LARGEST = 1e12  # absolute value of drawn data


IMPOSSIBLE = (ValueError, FloatingPointError, OverflowError, ExpFamError)  # raised for data that no number holds

Draw: TypeAlias = "Callable[[np.random.Generator], tuple[MixtureModel, npt.NDArray[np.int32], Any]]"


class Skipped(Exception):
    """A check cannot be made; the message is the reason."""


class Ranks(NamedTuple):
    """Ranks of the true partition among states or draws.

    Attributes
    ----------
    names : tuple of str
        Test quantities.
    values : (R, Q) int64 ndarray
        Rank in each of R replicates by each of Q quantities.
    n_places : int
        Ranks are from 0 to `n_places` - 1.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.int64]
    n_places: int


class Found(NamedTuple):
    """What one check has found.

    Attributes
    ----------
    p : dict of str to float
        p-value by the name of the quantity.
    n_replicates : int
        Independent replicates, or starts of steps.
    notes : tuple of str
        What a reader must know beside.
    ranks : Ranks or None
        Of the truth in each replicate; None for a check that ranks nothing.
    """

    p: dict[str, float]
    n_replicates: int
    notes: tuple[str, ...] = ()
    ranks: Ranks | None = None


class Problem(NamedTuple):
    """A model with a kernel to certify, and the rows of the user.

    Attributes
    ----------
    model : MixtureModel
        Bound once; its hyper-parameters are fixed.
    kernel : Kernel
        Kernel of the steps that count, with all adaptation fixed.
    X : (N, V) ndarray or CSR
    n_rows : int
        Rows of a simulated data set.
    n_threads : int or None
    prior : HyperPrior or None
        Of the hyper-parameters that the kernel redraws; None if it redraws none.
    """

    model: MixtureModel
    kernel: Kernel
    X: Any
    n_rows: int
    n_threads: int | None = 1
    prior: HyperPrior | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the test quantities, redrawn hyper-parameters included."""
        if self.prior is None:
            return NAMES
        return (*NAMES, *(f"hyper-parameter {name}" for name in self.prior.names), _WITH_HYPER)

    def values(self, X: Any, labels: npt.NDArray[np.int32], models: Sequence[MixtureModel]) -> npt.NDArray[np.float64]:
        """Compute the test quantities of (T, N) partitions with T models: (T, Q) float64.

        Those of partitions are under the model of the problem, so that they are functions of partition and data.

        Parameters
        ----------
        X : (N, V) ndarray or CSR
        labels : (T, N) int32 ndarray
        models : sequence of T MixtureModel
            With the hyper-parameters that belong to each partition; they are read if the kernel redraws
            hyper-parameters.
        """
        values = Quantities(self.model, X).values(labels)
        if self.prior is None:
            return values
        hyper = [self.prior.values(model) for model in models]
        joint = [model.log_joint(X, each) for model, each in zip(models, labels)]
        return np.column_stack([values, np.array(hyper), joint])

    @property
    def n_sticks(self) -> int | None:
        """Number of sticks of an uncollapsed kernel under a process, else None."""
        limit = self.kernel.max_clusters(self.model)
        return limit if limit is not None and self.model.weights.max_components is None else None


def generator_of(seed: int, check: str, replicate: int) -> np.random.Generator:
    """Return the generator of random numbers for one replicate of a check."""
    return np.random.default_rng([seed, sum(map(ord, check)), replicate])


# ---- rows ------------------------------------------------------------------------------------------------------------


def check_rows(problem: Problem, n_replicates: int, seed: int) -> Found:
    """Start from the enumerated posterior of few rows, and compare the ends of steps with it.

    Parameters
    ----------
    problem : Problem
    n_replicates : int
        Number of starts for each of 20 subsets of 6 rows.
    seed : int

    Raises
    ------
    Skipped
        Partitions of the model cannot be enumerated, or the rows say nothing.
    """
    if problem.n_sticks is not None:
        raise Skipped(
            f"{problem.kernel!r} cuts the process off at {counted(problem.n_sticks, 'numbered stick')}: partitions of "
            "it cannot be enumerated"
        )
    if problem.X.shape[0] < 3:
        raise Skipped(f"the data have {counted(problem.X.shape[0], 'row')}; 3 are needed")
    near = coordinates(problem.model.family, problem.X[:_CANDIDATES])
    parts = run(
        lambda number: _subset(problem, near, n_replicates, seed, number),
        [(number,) for number in range(N_SUBSETS)],
        problem.n_threads,
    )
    told = [part for part in parts if part is not None]
    if not told:
        raise Skipped("the posterior of each subset of rows leaves no two partitions open: it says nothing")
    notes = [f"{counted(len(told), 'subset')} of {counted(min(SUBSET_ROWS, problem.X.shape[0]), 'row')}"]
    if len(told) < len(parts):
        notes.append(f"{len(parts) - len(told)} more leave no two partitions open and say nothing")
    comparisons, are_right = zip(*told)
    p = _rows_p(comparisons) | {STATE: float(all(are_right))}
    return Found(p, n_replicates * len(told), tuple(notes))


def _subset(problem, near, n_replicates, seed, number):
    """Return the statistics of one subset by step, or None if it says nothing."""
    rng = generator_of(seed, "rows", number)
    X = problem.X[_near_rows(near, problem.X.shape[0], SUBSET_ROWS, rng)]
    data = Dataset(X, problem.model.family)
    exact = ExactPosterior(problem.model, data)
    if exact.n_effective < _LEAST_EFFECTIVE:
        return None
    ends, is_right = _ends(problem, data, exact, n_replicates, rng)
    numbers = np.stack([exact.labels.max(axis=1) + 1.0, exact.log_joint], axis=1)
    return {step: _compare(rows, exact.probability, numbers) for step, rows in ends.items()}, is_right


class _Comparison(NamedTuple):
    """Chi-square of partitions at the ends of steps, and their numbers about the means."""

    chi_square: float
    freedom: int
    shift: npt.NDArray[np.float64]
    variance: npt.NDArray[np.float64]


def _compare(rows, probability, numbers):
    center = probability @ numbers
    variance = probability @ (numbers - center) ** 2 * len(rows)
    if (rows < 0).any():  # a partition that the weights rule out
        return _Comparison(np.inf, 1, np.full(numbers.shape[1], np.inf), variance)
    counts = np.bincount(rows, minlength=len(probability))
    return _Comparison(*frequencies_p(counts, probability), (numbers[rows] - center).sum(axis=0), variance)


def _ends(problem, data, exact, n_replicates, rng):
    """Return partitions after one step and after four, as positions.

    The second result is whether the statistics of the state agree with its labels.
    """
    model, kernel, seed = problem.model, problem.kernel, int(rng.integers(2**63))
    starts = rng.choice(len(exact), size=n_replicates, p=exact.probability)
    state = _begun(problem, kernel, data, seed)
    homes: dict[int, CollapsedState] = {}
    ends = {"1 step": np.empty(n_replicates, dtype=np.int64), "4 steps": np.empty(n_replicates, dtype=np.int64)}
    for t, row in enumerate(starts.tolist()):
        if row not in homes:
            homes[row] = CollapsedState(model, data, exact.labels[row].astype(np.int32), seed=seed)
        try:
            homes[row].n_steps = (LENGTH + 1 + t) * TIME
            state.take(homes[row])
            kernel.step(state)
            ends["1 step"][t] = exact.row(state.partition)
            for _ in range(_LATER):
                kernel.step(state)
        except CapabilityError as error:  # of a kernel that remembers the names of clusters
            raise Skipped(str(error)) from error
        ends["4 steps"][t] = exact.row(state.partition)
    return ends, is_consistent(state)


def _near_rows(near, n_rows, size, rng):
    """Return a row, its two nearest, and others at random, in random order."""
    first = int(rng.integers(len(near)))
    order = np.argsort(((near - near[first]) ** 2).sum(axis=1), kind="stable")
    chosen = list(dict.fromkeys([first, *order[:3].tolist()]))[:3]
    rest = np.setdiff1d(np.arange(n_rows) if n_rows <= 10**6 else rng.integers(n_rows, size=64), chosen)
    more = rng.choice(rest, size=min(size - len(chosen), rest.size), replace=False)
    return rng.permutation([*chosen, *more.tolist()])


def _rows_p(parts):
    """Return p-values over all subsets: of the partitions, and of two mean values."""
    found = {}
    for step in parts[0]:
        chi, freedom, shift, variance = zip(*(part[step] for part in parts))
        found[f"partitions after {step}"] = chi_square_p(sum(chi), sum(freedom))
        worst = min(chi_square_p(c, f) for c, f in zip(chi, freedom))
        found[f"partitions of one subset after {step}"] = min(1.0, len(chi) * worst)
        error = np.sqrt(np.sum(variance, axis=0))
        z = np.divide(np.sum(shift, axis=0), error, out=np.zeros(2), where=error > 0)
        found[f"clusters after {step}"], found[f"log joint after {step}"] = map(float, gaussian_p(z))
    return found


# ---- truth and data --------------------------------------------------------------------------------------------------


def check_truth(problem: Problem, n_replicates: int, seed: int) -> Found:
    """Rank partitions drawn from the prior among the states of chains through them.

    Parameters
    ----------
    problem : Problem
    n_replicates : int
        Number of partitions that are drawn.
    seed : int

    Raises
    ------
    Skipped
        The prior draws data that the family cannot hold.
    """
    draw = prior_draw(problem)
    refusals = [reason for reason in (_refusal(draw, seed, number) for number in range(_PILOT)) if reason is not None]
    # the wide prior of hyper-parameters often reaches values that no number holds
    if len(refusals) > (0 if problem.prior is None else _PILOT // 2):
        raise Skipped(
            f"the prior draws data that the family cannot hold ({refusals[0]}); the check 'data' draws them given rows"
        )
    return _through_truth(problem, draw, "truth", n_replicates, seed)


def _refusal(draw, seed, number):
    """Return why a draw of the prior is no data of the family, or None if it is."""
    try:
        _possible(draw, generator_of(seed, "pilot", number))
    except IMPOSSIBLE as error:
        return str(error)
    return None


def check_data(problem: Problem, n_replicates: int, seed: int) -> Found:
    """Rank partitions as `check_truth` does, given rows of the data.

    Further rows come from the predictive of these rows.
    """
    if problem.n_sticks is not None:
        raise Skipped(
            f"{problem.kernel!r} cuts the process off at {counted(problem.n_sticks, 'numbered stick')}: the posterior "
            "of rows cannot be enumerated"
        )
    near = coordinates(problem.model.family, problem.X[:_CANDIDATES])
    n_given = min(GIVEN_ROWS, problem.X.shape[0], problem.n_rows - 1)

    def draw(rng):
        given = problem.X[_near_rows(near, problem.X.shape[0], n_given, rng)]
        exact = ExactPosterior(problem.model, given)
        labels = exact.labels[rng.choice(len(exact), p=exact.probability)]
        return problem.model, *simulate_more(problem.model, given, labels, problem.n_rows, rng)

    found = _through_truth(problem, draw, "data", n_replicates, seed)
    return found._replace(notes=(f"{counted(n_given, 'row')} of the data in each", *found.notes))


def prior_draw(problem: Problem) -> Draw:
    """Return the function that draws model, labels and data from the prior of the kernel."""
    n_sticks, prior = problem.n_sticks, problem.prior
    try:
        problem.model.family.require("draw", "a draw of the prior")
        problem.model.family.require("sample", "a draw of the prior")
    except ExpFamError as error:
        raise Skipped(str(error)) from error
    if n_sticks is not None and prior is not None and prior.draws_weights:
        raise Skipped(
            f"{problem.kernel!r} cuts the process off at {counted(n_sticks, 'numbered stick')}, and redraws the "
            "weights of the process that is not cut off"
        )

    def draw(rng):
        model = problem.model if prior is None else prior.draw(rng)
        if n_sticks is None:
            return model, *simulate(model, problem.n_rows, rng)
        labels = draw_stick_labels(model.weights, problem.n_rows, n_sticks, rng)
        return model, labels, draw_rows(model.family, labels, rng)

    return draw


def _possible(draw, rng):
    """Draw model and labels with data that the family takes; raise if it does not."""
    model, labels, X = draw(rng)
    if not (np.isfinite(X).all() and np.abs(X).max() < LARGEST):
        raise ValueError(f"values up to {np.abs(X).max():.2g}")
    return model, labels, Dataset(X, model.family)


def possible_draw(draw: Draw, rng: np.random.Generator) -> tuple[MixtureModel, npt.NDArray[np.int32], Dataset, int]:
    """Draw until the family takes the data.

    What is refused depends on the data alone, so the labels stay draws of the posterior given the data.

    Parameters
    ----------
    draw : callable
        Draws model, labels and rows with a Generator.
    rng : numpy Generator

    Returns
    -------
    model : MixtureModel
    labels : (N,) int32 ndarray
    data : Dataset
    n_refused : int
        Number of draws that were refused.
    """
    for n_refused in range(1000):
        try:
            return *_possible(draw, rng), n_refused
        except IMPOSSIBLE:
            continue
    raise Skipped("a thousand draws in a row gave data that the family cannot hold")


def _through_truth(problem, draw, check, n_replicates, seed):
    reversal = problem.kernel.reversed()
    function = _forwards if reversal is None else _both_ways

    def replicate(number):
        rng = generator_of(seed, check, number)
        model, labels, data, n_refused = possible_draw(draw, rng)
        try:
            return *function(problem, reversal, model, labels, data, rng), n_refused
        except CapabilityError as error:
            raise Skipped(str(error)) from error

    rows, are_right, refused = zip(*run(replicate, [(r,) for r in range(n_replicates)], problem.n_threads))
    values = np.array(rows)
    p = means_p(values) if reversal is None else uniform_p(values, LENGTH)
    notes = ["ranks in chains of 20 states" if reversal is not None else "no reversal: means along chains of 20 states"]
    if sum(refused):
        notes.append(f"{counted(sum(refused), 'draw')} gave data that the family cannot hold")
    ranks = None if reversal is None else Ranks(problem.names, values, LENGTH)
    found = dict(zip(problem.names, map(float, p))) | {STATE: float(all(are_right))}
    return Found(found, n_replicates, tuple(notes), ranks)


def _both_ways(problem, reversal, model, labels, data, rng):
    """Return the ranks of the truth at a random place of a chain, and whether states agree."""
    place, seed = int(rng.integers(LENGTH)), int(rng.integers(2**63))
    forth = walk(problem, problem.kernel, model, labels, data, seed, range(place, LENGTH - 1))
    back = walk(problem, reversal, model, labels, data, seed, range(place - 1, -1, -1))
    states, models = [_numbered(labels), *forth.states, *back.states], [model, *forth.models, *back.models]
    values = problem.values(data.X, np.array(states), models)
    return rank_of_truth(values[0], values[1:], rng), forth.is_right and back.is_right


def _forwards(problem, reversal, model, labels, data, rng):
    """Return the quantities of the truth and of a chain from it, and whether the state agrees."""
    chain = walk(problem, problem.kernel, model, labels, data, int(rng.integers(2**63)), range(LENGTH - 1))
    states, models = [_numbered(labels), *chain.states], [model, *chain.models]
    return problem.values(data.X, np.array(states), models), chain.is_right


def means_p(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return p-values of equal means along chains and at their starts: (Q,) for (R, T, Q).

    Each value is replaced by its rank among all, so that no tail decides.
    """
    R, T, Q = values.shape
    ranks = stats.rankdata(values.reshape(R * T, Q), axis=0).reshape(R, T, Q) / (R * T)
    return mean_p(ranks[:, 1:].mean(axis=1) - ranks[:, 0])


class Walk(NamedTuple):
    """Partitions and models after each step, and whether statistics agree with labels."""

    states: list[npt.NDArray[np.int32]]
    models: list[MixtureModel]
    is_right: bool


def walk(
    problem: Problem,
    kernel: Kernel,
    model: MixtureModel,
    labels: npt.NDArray[np.int32],
    data: Dataset,
    seed: int,
    times: range,
) -> Walk:
    """Make steps at given times from a given model and labels.

    Parameters
    ----------
    problem : Problem
    kernel : Kernel
        The kernel of the problem, or its reversal.
    model : MixtureModel
    labels : (N,) int32 ndarray
    data : Dataset
    seed : int
    times : range
        Times of the steps; each time has random numbers of its own.

    Returns
    -------
    Walk
    """
    if not len(times):
        return Walk([], [], True)
    state = _begun(problem, kernel, data, seed)
    if problem.n_sticks is not None:
        state.set_model(model)
        state.set_labels(labels)  # numbers of sticks have a meaning, which `take` would lose
    else:
        state.take(CollapsedState(model, data, labels, seed=seed))
    found = Walk([], [], True)
    for time in times:
        state.n_steps = time * TIME  # in both directions, each step has random numbers of its own
        kernel.step(state)
        found.states.append(state.partition)
        found.models.append(state.model)
    return found._replace(is_right=is_consistent(state))


def started(kernel: Kernel, model: MixtureModel, data: Any, **options: Any) -> Any:
    """Return the state with which a kernel begins; its model must be the one that was given.

    Raises
    ------
    ExpFamError
        The kernel has put another model into its state: it would draw from another posterior.
    """
    state = kernel.init(model, data, **options)
    for what in ("weights", "family"):
        mine, theirs = getattr(model, what), getattr(state.model, what)
        if mine != theirs:
            raise ExpFamError(
                f"{type(kernel).__name__}.init has put another model into the state: its {what} {theirs!r:.200} are not"
                f" {mine!r:.200}, which were given: init must keep the model that it gets"
            )
    return state


def _begun(problem, kernel, data, seed):
    """Return a state that has made a step from one cluster.

    What a kernel makes once, in its first step, then follows from the data alone.
    """
    state = started(kernel, problem.model, data, seed=seed, start=np.zeros(data.n_rows, dtype=np.int32))
    state.n_steps = LENGTH * TIME
    kernel.step(state)
    return state


def is_consistent(state: Any) -> bool:
    """Tell whether the statistics of a state are those of its labels."""
    try:
        state.check()
    except AssertionError:
        return False
    return True


def _numbered(labels):
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def can_be_certified(state: Any) -> bool:
    """Tell whether a state holds one partition, of data that another state can give it."""
    return isinstance(state, (CollapsedState, UncollapsedState)) and not hasattr(state, "soft_partition")
