"""Laws of proposals: their probabilities are known, positive, and those of their draws.

The Metropolis test is exact only if these laws hold.

A law here is a function of a `ProposalCase`. It raises AssertionError if the proposal breaks it, and `Inapplicable` if
it cannot be tried.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from expfam import Dataset, DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
from expfam.families.support import dense_rows
from expfam.plugins.laws.data_case import Inapplicable, made_up_data
from expfam.samplers import Snapshot
from expfam.samplers.proposals.base import MODES
from expfam.samplers.proposals.handle import ProposalHandle

if TYPE_CHECKING:
    import numpy.typing as npt

LAWS: dict = {}  # name -> function, in order of definition

_ROWS, _COLUMNS, _SLOTS = 40, 6, 5
_DRAWS = 4000
_ASKED = 5  # data whose draws are counted
_LEAST_PVALUE = 1e-6  # seeds are fixed: a correct proposal fails for one seed in a million


def law(function: Callable[[ProposalCase], None]) -> Callable[[ProposalCase], None]:
    """Add a function to the laws of proposals and return it."""
    LAWS[function.__name__] = function
    return function


class ProposalCase:
    """A proposal with a model, at least 10 data and clusters to try it on.

    The default data are Poisson counts under a Dirichlet process; under finite weights where the only mode is "frozen".
    """

    def __init__(self, proposal: Any, model: MixtureModel | None = None, X: Any = None, *, seed: int = 0) -> None:
        self.proposal, self.seed = proposal, int(seed)
        modes: frozenset[str] = getattr(proposal, "modes", frozenset())
        self.reads_parameters = "frozen" in modes and not modes - {"frozen"}
        weights = SymmetricDirichlet(_SLOTS) if self.reads_parameters else DirichletProcess(alpha=1.0)
        model = MixtureModel(Poisson(), weights) if model is None else model
        if X is None:
            X = made_up_data(model.family.support, _COLUMNS, self.rng("data"), n_rows=_ROWS)
        self.data = Dataset(X, model.family)
        self.model = model.with_family(self.data.family)
        if self.data.n_rows < 10:
            raise ValueError(f"check_proposal needs at least 10 rows; got {self.data.n_rows}")

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator that depends on the seed and on `name` alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def labels(self, name: str) -> npt.NDArray[Any]:
        """Return a random slot 0..4 for each datum; no slot is empty."""
        labels = self.rng(name).integers(_SLOTS, size=self.data.n_rows)
        labels[:_SLOTS] = np.arange(_SLOTS)
        return labels

    def snapshot(
        self, name: str, labels: npt.ArrayLike | None = None, *, without: Collection[int] | npt.NDArray[Any] = ()
    ) -> Snapshot:
        """Return a snapshot of random clusters, without the data in `without`.

        A proposal that reads parameters only gets drawn parameters instead of statistics.

        Parameters
        ----------
        name : str
            Names the random numbers: equal names give equal clusters.
        labels : (N,) array_like of int, optional
            Cluster of each datum; drawn if not given.
        without : collection of int
            Numbers of the data that are left out.
        """
        labels = np.array(self.labels(name) if labels is None else labels)
        labels[list(without)] = -1
        n, S = self.data.statistics(labels, _SLOTS)
        if self.reads_parameters:
            Theta, G = self.data.family.draw_natural(n, dense_rows(S), self.rng(name + " theta"))
            log_pi = np.log(self.rng(name + " pi").dirichlet(np.ones(_SLOTS)))
            return Snapshot.of_parameters(self.data.family, Theta, G, log_pi, n_rows=self.data.n_rows)
        weights, held = self.model.weights, np.flatnonzero(n)
        if weights.max_components is not None:
            held = np.arange(_SLOTS)
        with np.errstate(divide="ignore"):
            log_weight = np.log(n[held] + weights.offset)
        new = -np.inf if weights.max_components else float(weights.log_new_mass(n.sum(), len(held))[-1])
        slots = 2 * held + 1  # slots with gaps: a proposal must not assume 0..K-1
        return Snapshot(self.data.family, n[held], slots, lambda: S[held], log_weight=log_weight, log_weight_new=new)

    def handle(self, snapshot: Snapshot | None = None) -> ProposalHandle:
        """Return a handle of the bound proposal, refreshed with the snapshot."""
        handle = ProposalHandle(self.proposal.bind(self.model, self.data, seed=self.seed), repr(self.proposal))
        handle.reserve(2 * _SLOTS + 2)
        handle.refresh(self.view if snapshot is None else snapshot)
        return handle

    @cached_property
    def view(self) -> Snapshot:
        """Return the snapshot that most laws use."""
        return self.snapshot("view")

    def options(self, snapshot: Snapshot | None = None) -> npt.NDArray[np.intp]:
        """Return the slots that may be proposed, with -1 for a new cluster."""
        snapshot = self.view if snapshot is None else snapshot
        new = [-1] if snapshot.log_weight_new > -np.inf else []
        return np.array([*snapshot.slots, *new], dtype=np.intp)

    def law_of(
        self, handle: ProposalHandle, snapshot: Snapshot | None = None, rows: Iterable[int] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return (N, M) log probabilities of all options, for all data or the given rows.

        Parameters
        ----------
        handle : ProposalHandle
        snapshot : Snapshot, optional
            Its slots are the options.
        rows : iterable of int, optional
            Numbers of the data; all if not given.
        """
        options = self.options(snapshot)
        rows = range(self.data.n_rows) if rows is None else rows
        return np.stack([handle.log_prob(i, options[0], options) for i in rows])


@law
def it_says_what_it_is(case: ProposalCase) -> None:
    """Interface version, kind and modes are declared, and the modes exist."""
    proposal = case.proposal
    assert proposal.api_version == 1, f"api_version is {proposal.api_version!r}"
    assert proposal.kind == "assignment", f"kind is {proposal.kind!r}"
    unknown = set(proposal.modes) - set(MODES)
    assert proposal.modes, "modes is empty"
    assert not unknown, f"modes {sorted(unknown)} are unknown; the known modes are {sorted(MODES)}"


@law
def probabilities_sum_to_one(case: ProposalCase) -> None:
    """Probabilities of the snapshot's clusters, and of a new cluster if allowed, sum to 1."""
    total = special.logsumexp(case.law_of(case.handle()), axis=1)
    i = int(np.abs(total).argmax())
    assert abs(total[i]) < 1e-7, f"the probabilities for datum {i} sum to {np.exp(total[i])!r}"


@law
def every_cluster_has_a_chance(case: ProposalCase) -> None:
    """Every cluster has a positive probability; otherwise it could never be entered again."""
    q = case.law_of(case.handle())
    i, k = np.unravel_index(q.argmin(), q.shape)
    assert np.isfinite(q).all(), f"log q of slot {case.options()[k]} for datum {i} is {q[i, k]}"


@law
def unknown_slots_have_none(case: ProposalCase) -> None:
    """A slot that is not in the snapshot has probability 0."""
    unknown = [2 * _SLOTS] if case.reads_parameters else [2, 2 * _SLOTS]
    q = case.handle().log_prob(0, case.options()[0], unknown)
    assert np.isneginf(q).all(), f"log q of the slots {unknown}, which are not in the snapshot, is {q}, not -inf"


@law
def draws_follow_the_law(case: ProposalCase) -> None:
    """Draws occur with the frequencies that `log_prob` gives (chi-square test)."""
    handle, options, rng = case.handle(), case.options(), case.rng("draws")
    for i in range(_ASKED):
        drawn = [handle.draw(i, options[0], rng)[0] for _ in range(_DRAWS)]
        counts = np.array([drawn.count(k) for k in options])
        assert counts.sum() == _DRAWS, f"datum {i}: slots {sorted(set(drawn) - set(options.tolist()))} were drawn"
        expected = _DRAWS * np.exp(handle.log_prob(i, options[0], options))
        p = _chi_square(counts, expected)
        assert p > _LEAST_PVALUE, f"datum {i}: drawn {counts}, expected {expected.round(1)} (p = {p:.1g})"


def _chi_square(counts, expected):
    """Return the p-value of counts; rare outcomes are added up and counted as one."""
    rare = expected < 5
    if rare.any() and not rare.all():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chi2.sf(((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum(), len(counts) - 1)


@law
def the_way_back_is_the_law_of_the_draw(case: ProposalCase) -> None:
    """`log_back` of a draw equals log q(old) - log q(new) by `log_prob`."""
    handle, options, rng = case.handle(), case.options(), case.rng("way back")
    for i in range(case.data.n_rows):
        old = int(options[i % len(options)])
        new, back = handle.draw(i, old, rng)
        q = handle.log_prob(i, old, [old, new])
        assert abs(back - (q[0] - q[1])) < 1e-6, (
            f"datum {i}, {old} to {new}: log_back {back}, by log_prob {q[0] - q[1]}"
        )


@law
def the_same_seed_gives_the_same_law(case: ProposalCase) -> None:
    """Two bound objects with the same seed agree bit for bit."""
    assert np.array_equal(case.law_of(case.handle()), case.law_of(case.handle())), "two laws from one seed differ"


@law
def a_pickled_proposal_has_the_same_law(case: ProposalCase) -> None:
    """A pickled and restored proposal has the same law."""
    other = ProposalCase.__new__(ProposalCase)
    other.__dict__.update(case.__dict__, proposal=pickle.loads(pickle.dumps(case.proposal)))
    assert np.array_equal(case.law_of(case.handle()), other.law_of(other.handle())), "the law after pickling differs"


@law
def refresh_forgets(case: ProposalCase) -> None:
    """The law depends on the last snapshot only; earlier snapshots have no effect."""
    handle = case.handle()
    before = case.law_of(handle)
    handle.refresh(case.snapshot("second"))
    handle.refresh(case.view)
    difference = np.abs(case.law_of(handle) - before).max()
    assert difference == 0, f"after a refresh with another snapshot in between, log q differs by {difference:.1g}"


@law
def shift_is_a_cheaper_refresh(case: ProposalCase) -> None:
    """`shift` gives about the law of `refresh`, and the same law by any shifts if `is_exact`."""
    handle = case.handle()
    if not hasattr(handle.owner, "shift"):
        raise Inapplicable("the proposal has no `shift`")
    labels, gone, nobody = case.labels("view"), np.arange(10), np.zeros(0, dtype=np.intp)
    slots = (2 * labels + 1).astype(np.intp)
    after = case.snapshot("view", labels, without=gone)
    handle.shift(after, (nobody, nobody), (gone, slots[gone]))
    shifted = case.law_of(handle, after, gone)
    refreshed = case.law_of(case.handle(after), after, gone)
    difference = 0.5 * np.abs(np.exp(shifted) - np.exp(refreshed)).sum(axis=1).mean()
    assert difference < 0.1, f"the laws after a shift are {difference:.2g} (total variation) from those after a refresh"
    if getattr(handle.owner, "is_exact", False):
        nothing = case.snapshot("view", np.full(len(labels), -1))
        other = case.handle()
        other.owner.from_arrays(handle.owner.to_arrays())
        other.refresh(nothing)
        other.shift(after, (np.arange(len(labels)), slots), (gone, slots[gone]))
        assert np.array_equal(shifted, case.law_of(other, after, gone)), (
            "is_exact is True, but two ways of shifts to the same clusters give different laws"
        )


@law
def holding_out_and_restoring_changes_nothing(case: ProposalCase) -> None:
    """`restore` undoes `hold_out` bit for bit, so a refused move has no effect."""
    handle = case.handle()
    if not handle.takes_single_moves:
        raise Inapplicable("the proposal does not follow single moves (no `hold_out`)")
    before, labels = case.law_of(handle), case.labels("view")
    for i in range(case.data.n_rows):
        k = 2 * int(labels[i]) + 1
        if (labels == labels[i]).sum() > 1:
            handle.hold_out(i, k)
            handle.restore(i, k)
    assert np.array_equal(case.law_of(handle), before), "the law after holding out and restoring each datum differs"


@law
def its_arrays_restore_it(case: ProposalCase) -> None:
    """`to_arrays` holds everything that a refresh does not compute again."""
    handle, other = case.handle(), case.handle(case.snapshot("second"))
    other.owner.from_arrays(handle.owner.to_arrays())
    other.refresh(case.view)
    assert np.array_equal(case.law_of(handle), case.law_of(other)), "a restored proposal has another law"


@law
def no_cluster_but_a_new_one(case: ProposalCase) -> None:
    """The first datum of a run can open a cluster."""
    if case.view.log_weight_new == -np.inf:
        raise Inapplicable("the prior on the weights allows no new clusters")
    empty = case.snapshot("view", np.full(case.data.n_rows, -1))
    k, back = case.handle(empty).draw(0, -1, case.rng("first"))
    assert (k, back) == (-1, 0.0), f"drew slot {k} with log_back {back}; only a new cluster (-1, 0.0) is possible"
