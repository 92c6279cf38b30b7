"""What a proposal has to keep for the Metropolis test to be exact: its law is known, positive, and what it draws from.

A law here is a function of a `ProposalCase` that raises AssertionError where it is broken and `Inapplicable` where it
has nothing to say.
"""

import pickle
import zlib
from functools import cached_property

import numpy as np
from scipy import special, stats

from expfam import Dataset, DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
from expfam.families.support import dense_rows
from expfam.plugins.laws.data_case import Inapplicable, made_up_data
from expfam.samplers import Snapshot
from expfam.samplers.proposals.base import MODES
from expfam.samplers.proposals.handle import ProposalHandle

LAWS: dict = {}  # name -> function, in order of definition

_ROWS, _COLUMNS, _SLOTS = 40, 6, 5
_DRAWS = 4000
_ASKED = 5  # data of which draws are counted
_LEAST_PVALUE = 1e-6  # seeds are fixed: a sound proposal fails once in a million choices of them


def law(function):
    """Collect a function as a law."""
    LAWS[function.__name__] = function
    return function


class ProposalCase:
    """A proposal with a model, data and clusters that it may know of.

    Parameters
    ----------
    proposal : Proposal
    model : MixtureModel, optional
        Poisson counts under a Dirichlet process; under finite weights where the only mode is "frozen".
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows.
    seed : int
    """

    def __init__(self, proposal, model=None, X=None, *, seed=0):
        self.proposal, self.seed = proposal, int(seed)
        modes = getattr(proposal, "modes", frozenset())
        self.reads_parameters = "frozen" in modes and not modes - {"frozen"}
        weights = SymmetricDirichlet(_SLOTS) if self.reads_parameters else DirichletProcess(alpha=1.0)
        model = MixtureModel(Poisson(), weights) if model is None else model
        if X is None:
            X = made_up_data(model.family.support, _COLUMNS, self.rng("data"), n_rows=_ROWS)
        self.data = Dataset(X, model.family)
        self.model = model.with_family(self.data.family)
        if self.data.n_rows < 10:
            raise ValueError(f"check_proposal needs at least 10 rows; got {self.data.n_rows}")

    def rng(self, name):
        """Generator of one law."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def labels(self, name):
        """Random slots 0..4 for all data, each with some."""
        labels = self.rng(name).integers(_SLOTS, size=self.data.n_rows)
        labels[:_SLOTS] = np.arange(_SLOTS)
        return labels

    def snapshot(self, name, labels=None, *, without=()):
        """Clusters of a random labelling, less some data; drawn parameters for a proposal that knows those only."""
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
        slots = 2 * held + 1  # names need not be dense
        return Snapshot(self.data.family, n[held], slots, lambda: S[held], log_weight=log_weight, log_weight_new=new)

    def handle(self, snapshot=None):
        """The bound proposal, refreshed."""
        handle = ProposalHandle(self.proposal.bind(self.model, self.data, seed=self.seed), repr(self.proposal))
        handle.reserve(2 * _SLOTS + 2)
        handle.refresh(self.view if snapshot is None else snapshot)
        return handle

    @cached_property
    def view(self):
        """The snapshot of most laws."""
        return self.snapshot("view")

    def options(self, snapshot=None):
        """Slots that may be proposed, -1 for a new cluster."""
        snapshot = self.view if snapshot is None else snapshot
        new = [-1] if snapshot.log_weight_new > -np.inf else []
        return np.array([*snapshot.slots, *new], dtype=np.intp)

    def law_of(self, handle, snapshot=None, rows=None):
        """(N, M) log probabilities of all options for all data, or some."""
        options = self.options(snapshot)
        rows = range(self.data.n_rows) if rows is None else rows
        return np.stack([handle.log_prob(i, options[0], options) for i in rows])


@law
def it_says_what_it_is(case):
    """Interface version, kind and modes are declared, and the modes exist."""
    proposal = case.proposal
    assert proposal.api_version == 1, f"api_version is {proposal.api_version!r}"
    assert proposal.kind == "assignment", f"kind is {proposal.kind!r}"
    unknown = set(proposal.modes) - set(MODES)
    assert proposal.modes, "modes is empty"
    assert not unknown, f"modes {sorted(unknown)} are unknown; there are {sorted(MODES)}"


@law
def probabilities_sum_to_one(case):
    """Over the clusters of the snapshot, and a new one where it can be opened."""
    total = special.logsumexp(case.law_of(case.handle()), axis=1)
    i = int(np.abs(total).argmax())
    assert abs(total[i]) < 1e-7, f"the probabilities for datum {i} sum to {np.exp(total[i])!r}"


@law
def every_cluster_has_a_chance(case):
    """A cluster of probability 0 could be left and never entered again."""
    q = case.law_of(case.handle())
    i, k = np.unravel_index(q.argmin(), q.shape)
    assert np.isfinite(q).all(), f"log q of slot {case.options()[k]} for datum {i} is {q[i, k]}"


@law
def unknown_slots_have_none(case):
    """A slot that is not in the snapshot has probability 0."""
    unknown = [2 * _SLOTS] if case.reads_parameters else [2, 2 * _SLOTS]
    q = case.handle().log_prob(0, case.options()[0], unknown)
    assert np.isneginf(q).all(), f"log q of the slots {unknown}, which are not there, is {q}"


@law
def draws_follow_the_law(case):
    """Frequencies of draws against `log_prob`, by chi-square."""
    handle, options, rng = case.handle(), case.options(), case.rng("draws")
    for i in range(_ASKED):
        drawn = [handle.draw(i, options[0], rng)[0] for _ in range(_DRAWS)]
        counts = np.array([drawn.count(k) for k in options])
        assert counts.sum() == _DRAWS, f"datum {i}: slots {sorted(set(drawn) - set(options.tolist()))} were drawn"
        expected = _DRAWS * np.exp(handle.log_prob(i, options[0], options))
        p = _chi_square(counts, expected)
        assert p > _LEAST_PVALUE, f"datum {i}: drawn {counts}, expected {expected.round(1)} (p = {p:.1g})"


def _chi_square(counts, expected):
    """P-value, with rare outcomes taken together."""
    rare = expected < 5
    if rare.any() and not rare.all():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chi2.sf(((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum(), len(counts) - 1)


@law
def the_way_back_is_the_law_of_the_draw(case):
    """`log_back` of a draw is log q(old) - log q(new) by `log_prob`."""
    handle, options, rng = case.handle(), case.options(), case.rng("way back")
    for i in range(case.data.n_rows):
        old = int(options[i % len(options)])
        new, back = handle.draw(i, old, rng)
        q = handle.log_prob(i, old, [old, new])
        assert abs(back - (q[0] - q[1])) < 1e-6, (
            f"datum {i}, {old} to {new}: log_back {back}, by log_prob {q[0] - q[1]}"
        )


@law
def the_same_seed_gives_the_same_law(case):
    """Two bound objects of one seed agree to the bit."""
    assert np.array_equal(case.law_of(case.handle()), case.law_of(case.handle())), "two laws from one seed differ"


@law
def a_pickled_proposal_has_the_same_law(case):
    """Settings survive a process."""
    other = ProposalCase.__new__(ProposalCase)
    other.__dict__.update(case.__dict__, proposal=pickle.loads(pickle.dumps(case.proposal)))
    assert np.array_equal(case.law_of(case.handle()), other.law_of(other.handle())), "the law after pickling differs"


@law
def refresh_forgets(case):
    """Once bound, a law depends on the last snapshot alone: another one between leaves no trace."""
    handle = case.handle()
    before = case.law_of(handle)
    handle.refresh(case.snapshot("second"))
    handle.refresh(case.view)
    difference = np.abs(case.law_of(handle) - before).max()
    assert difference == 0, f"after another snapshot in between log q differs by {difference:.1g}"


@law
def shift_is_a_cheaper_refresh(case):
    """`shift` ends about where `refresh` does, and to the bit where other shifts do if it is exact: for the removed."""
    handle = case.handle()
    if not hasattr(handle.owner, "shift"):
        raise Inapplicable("it has no shift")
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
        assert np.array_equal(shifted, case.law_of(other, after, gone)), "two roads of shifts differ, but it is_exact"


@law
def holding_out_and_restoring_changes_nothing(case):
    """`restore` undoes `hold_out` to the bit: a refused move leaves no trace."""
    handle = case.handle()
    if not handle.takes_single_moves:
        raise Inapplicable("it takes no single moves")
    before, labels = case.law_of(handle), case.labels("view")
    for i in range(case.data.n_rows):
        k = 2 * int(labels[i]) + 1
        if (labels == labels[i]).sum() > 1:
            handle.hold_out(i, k)
            handle.restore(i, k)
    assert np.array_equal(case.law_of(handle), before), "the law after holding out and restoring each datum differs"


@law
def its_arrays_restore_it(case):
    """`to_arrays` holds what a refresh does not remake."""
    handle, other = case.handle(), case.handle(case.snapshot("second"))
    other.owner.from_arrays(handle.owner.to_arrays())
    other.refresh(case.view)
    assert np.array_equal(case.law_of(handle), case.law_of(other)), "a restored proposal has another law"


@law
def no_cluster_but_a_new_one(case):
    """The first datum of a run can open a cluster."""
    if case.view.log_weight_new == -np.inf:
        raise Inapplicable("these weights open no cluster")
    empty = case.snapshot("view", np.full(case.data.n_rows, -1))
    k, back = case.handle(empty).draw(0, -1, case.rng("first"))
    assert (k, back) == (-1, 0.0), f"drew slot {k} with log_back {back} where only a new cluster can be"
