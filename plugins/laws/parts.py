"""Laws of the parts of split-merge moves: anchor laws and allocators.

An allocator reports the probability of the division that it draws. A chain over few data hides small errors in it;
these laws find them because they add up the probabilities of all divisions.

A law here is a function of a `PartCase`. It raises AssertionError if the part breaks it, and `Inapplicable` if it
cannot be tried.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam import Dataset, MixtureModel, PitmanYor, Poisson
from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.plugins.laws.data_case import Inapplicable, made_up_data, within

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.protocols import BoundAllocator, BoundAnchors

ALLOCATOR_LAWS: dict = {}  # name -> function, in order of definition
ANCHOR_LAWS: dict = {}

_ROWS = 40
_DIVIDED = 5  # rows that are divided, anchors included: all divisions can be listed
_GENERATORS = 30  # compared by a law that asks for equal answers
_EPOCHS = 8
_DRAWS = 1000
_SCORED = 100  # generators with which all divisions are scored
_LEAST_EXPECTED = 25  # draws of a division whose frequency is compared


def law(among: dict[str, Callable[..., None]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to the laws of allocators or of anchors."""

    def collect(function):
        among[function.__name__] = function
        return function

    return collect


class PartCase:
    """An anchor law or an allocator, with a model and at least 10 data to try it on.

    The default data are Poisson counts under a Pitman-Yor process.
    """

    def __init__(self, part: Any, model: MixtureModel | None = None, X: Any = None, *, seed: int = 0) -> None:
        self.part, self.seed = part, int(seed)
        model = MixtureModel(Poisson(), PitmanYor(alpha=1.0, discount=0.3)) if model is None else model
        X = made_up_data(model.family.support, 4, self.rng("data"), n_rows=_ROWS) if X is None else X
        self.data = Dataset(X, model.family)
        self.model = model.with_family(self.data.family)
        if self.data.n_rows < 10:
            raise ValueError(f"the laws of anchors and allocators need at least 10 rows; got {self.data.n_rows}")
        if hasattr(part, "check"):
            part.check(self.model, self.data)

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator that depends on the seed and on `name` alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def allocator(self) -> BoundAllocator:
        """Bind the allocator; raise `Inapplicable` if only compiled kernels can use it."""
        bound = self.part.bind(self.model, self.data, seed=self.seed)
        try:
            bound.sides(self.rows(2), np.random.default_rng(0))
        except CapabilityError as error:
            raise Inapplicable(str(error)) from error
        return bound

    def anchors(self, epoch: int = 0) -> BoundAnchors:
        """Bind the anchor law and draw its random parts for an epoch."""
        bound = self.part.bind(self.data, seed=self.seed)
        bound.refresh(epoch)
        return bound

    def rows(self, m: int) -> Any:
        """Return the (m, F) statistics of the first m rows."""
        return self.data.family.sufficient_statistics(self.data.X[:m])

    def log_q(self, bound: BoundAllocator, m: int, seed: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
        """Return all divisions of m rows, (2^(m-2), m), and log q of each for this seed.

        Parameters
        ----------
        bound : BoundAllocator
        m : int
            Number of rows, the two anchors included.
        seed : int
            Seed of the random numbers of each call of `sides`.
        """
        divisions = np.array([(0, 1, *rest) for rest in itertools.product((0, 1), repeat=m - 2)], dtype=np.int8)
        log_q = np.empty(len(divisions))
        for place, division in enumerate(divisions):
            sides, log_q[place] = bound.sides(self.rows(m), np.random.default_rng(seed), forced=division.copy())
            assert np.array_equal(sides, division), (
                f"given forced={division}, `sides` returns {np.asarray(sides)}; it must return the forced sides"
            )
        return divisions, log_q


# ---- allocators ----------------------------------------------------------------------------------------------------


@law(ALLOCATOR_LAWS)
def sides_are_sides(case: PartCase) -> None:
    """Each row gets side 0 or 1, anchors first, and log q <= 0 (0 if there is no choice)."""
    bound = case.allocator()
    for m in range(2, _DIVIDED + 1):
        sides, log_q = bound.sides(case.rows(m), case.rng("sides"))
        sides = np.asarray(sides)
        assert sides.shape == (m,), f"{counted(m, 'row has', 'rows have')} sides of shape {sides.shape}"
        assert np.isin(sides, (0, 1)).all(), f"sides must be 0 or 1; got {sides}"
        assert (sides[0], sides[1]) == (0, 1), f"the anchors are on the sides {sides[:2]}, not on 0 and 1"
        assert np.isfinite(log_q), f"log q of the drawn sides is {log_q!r}, not finite"
        assert log_q <= 1e-9, f"log q = {log_q!r} is positive: no probability is above 1"
        assert m > 2 or abs(log_q) < 1e-9, f"two anchors have one division, so log q must be 0; got {log_q!r}"


@law(ALLOCATOR_LAWS)
def probabilities_of_all_divisions_sum_to_one(case: PartCase) -> None:
    """For any state of the generator, the probabilities of all divisions sum to 1."""
    bound = case.allocator()
    for m in range(3, _DIVIDED + 1):
        for seed in range(5):
            total = np.exp(case.log_q(bound, m, seed)[1]).sum()
            assert abs(total - 1.0) < 1e-7, (
                f"the probabilities of the {counted(2 ** (m - 2), 'division')} of {counted(m, 'row')} sum to "
                f"{total:.6g}, not to 1: log q given `forced` is not normalised, or it depends on random numbers that "
                "`forced` changes"
            )


@law(ALLOCATOR_LAWS)
def every_division_has_a_chance(case: PartCase) -> None:
    """Every division has a positive probability; otherwise some merges are never accepted."""
    divisions, log_q = case.log_q(case.allocator(), _DIVIDED, 0)
    worst = int(log_q.argmin())
    assert np.isfinite(log_q[worst]), f"log q of the sides {divisions[worst]} is {log_q[worst]}"


@law(ALLOCATOR_LAWS)
def draws_follow_the_law_of_the_way_back(case: PartCase) -> None:
    """Sides are drawn with the probability that `forced` gives, and report the same log q."""
    bound, rng = case.allocator(), case.rng("draws")
    drawn = [bound.sides(case.rows(_DIVIDED), rng) for _ in range(_DRAWS)]
    q = np.exp([case.log_q(bound, _DIVIDED, seed)[1] for seed in range(_SCORED)])
    code = 1 << np.arange(_DIVIDED - 2)[::-1]
    hits = np.array([np.asarray(sides)[2:] @ code for sides, _ in drawn])[:, None] == np.arange(2 ** (_DIVIDED - 2))
    reported = np.exp([log_q for _, log_q in drawn])[:, None]
    common = q.mean(axis=0) * _DRAWS >= _LEAST_EXPECTED
    # E[1{s} f(q)] over draws equals E[q(s) f(q(s))] over generators, for every function f
    _same_means((1.0 * hits)[:, common], q[:, common], "frequencies of sides drawn, against log q given `forced`")
    _same_means(
        (hits * reported)[:, common], q[:, common] ** 2, "log q reported with a draw, against that given `forced`"
    )


def _same_means(values, expected, what):
    """Check that two samples (m, c) and (l, c) have the same mean in each column."""
    error = np.sqrt(values.var(axis=0) / len(values) + expected.var(axis=0) / len(expected))
    within((values.mean(axis=0) - expected.mean(axis=0)) / np.maximum(error, 1.0 / len(values)), 5.0, what)


@law(ALLOCATOR_LAWS)
def calls_leave_no_trace(case: PartCase) -> None:
    """Equal generators give equal sides and log q, whatever was called before."""

    def answers(bound):
        # of few sides, two different streams agree too often: many generators are compared
        sizes = range(2, _DIVIDED + 1)
        return [bound.sides(case.rows(m), np.random.default_rng(seed)) for m in sizes for seed in range(_GENERATORS)]

    used = case.allocator()
    answers(used)
    case.log_q(used, 3, 0)
    for (sides, log_q), (known, known_log_q) in zip(answers(used), answers(case.allocator())):
        assert np.array_equal(sides, known), "equal generators give different divisions"
        assert log_q == known_log_q, "equal generators give different values of log q"


# ---- anchors -------------------------------------------------------------------------------------------------------


@law(ANCHOR_LAWS)
def pairs_are_data(case: PartCase) -> None:
    """`draw_pairs(size)` gives `size` pairs of different data, or -1 twice for no move."""
    bound = case.anchors()
    for size in (0, 1, 500):
        pairs = np.asarray(bound.draw_pairs(size, case.rng("pairs")))
        assert pairs.shape == (size, 2), f"draw_pairs({size}) has shape {pairs.shape}, not ({size}, 2)"
        assert np.issubdtype(pairs.dtype, np.integer), f"draw_pairs gives {pairs.dtype}, not integers"
        none = pairs < 0
        assert (pairs[none] == -1).all(), f"a pair without a move must be (-1, -1); got {pairs[none].min()}"
        assert (none[:, 0] == none[:, 1]).all(), "a pair without a move must be (-1, -1); got a single -1"
        assert (pairs < case.data.n_rows).all(), (
            f"datum {pairs.max()} was drawn; there are {counted(case.data.n_rows, 'datum', 'data')}"
        )
        same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]) & ~none[:, 0])
        assert not same.size, f"datum {pairs[same[:1], 0]} is paired with itself"


@law(ANCHOR_LAWS)
def pairs_are_those_of_the_generator(case: PartCase) -> None:
    """Equal generators give equal pairs, whatever was drawn before; others give others."""
    bound = case.anchors()
    first, again, other = (np.array(bound.draw_pairs(200, np.random.default_rng(seed))) for seed in (7, 7, 8))
    assert np.array_equal(first, again), "equal generators give different pairs"
    assert not np.array_equal(first, other) or len(np.unique(first, axis=0)) == 1, (
        "pairs do not depend on the generator"
    )


@law(ANCHOR_LAWS)
def refresh_depends_on_the_epoch_alone(case: PartCase) -> None:
    """The law depends on epoch, data and seed only, so a resumed run draws the same pairs."""

    def pairs(bound):
        return np.array(bound.draw_pairs(200, np.random.default_rng(5)))

    used = case.anchors(0)
    for epoch in range(1, _EPOCHS + 1):
        fresh = pairs(case.anchors(epoch))
        assert np.array_equal(fresh, pairs(case.anchors(epoch))), (
            f"two laws of one seed and epoch {epoch} give different pairs"
        )
        pairs(used)
        used.refresh(epoch)
        assert np.array_equal(fresh, pairs(used)), f"the pairs of epoch {epoch} depend on earlier epochs"
