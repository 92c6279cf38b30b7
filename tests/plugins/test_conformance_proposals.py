"""The laws of proposals hold for ours, and each of them is broken by some fault."""

import numpy as np
import pytest

from expfam import DiagonalGaussian, DirichletProcess, MixtureModel, Multinomial, PitmanYor, Poisson, SymmetricDirichlet
from expfam.plugins.conformance import check_proposal
from expfam.plugins.laws.data_case import Inapplicable
from expfam.plugins.laws.proposals import LAWS, ProposalCase
from expfam.samplers import HashProposal, Int8Proposal, PrototypeProposal, TableProposal

FINITE = SymmetricDirichlet(5)


@pytest.mark.parametrize(
    ("proposal", "family"),
    [
        (TableProposal(), Poisson()),
        (TableProposal(), Multinomial()),
        (Int8Proposal(), DiagonalGaussian()),
        (HashProposal(n_bits=64), Multinomial()),
        (HashProposal(n_bits=64), DiagonalGaussian()),
    ],
    ids=str,
)
def test_collapsed_proposals_keep_the_laws(proposal, family):
    for weights in (DirichletProcess(alpha=0.7), PitmanYor(alpha=1.0, discount=0.3), FINITE):
        report = check_proposal(proposal, MixtureModel(family, weights), raises=False)
        assert report.passed, str(report)


@pytest.mark.parametrize("family", [Poisson(), DiagonalGaussian()], ids=lambda f: f.name)
def test_uncollapsed_proposals_keep_the_laws(family):
    report = check_proposal(PrototypeProposal(max_group=8), MixtureModel(family, FINITE), raises=False)
    assert report.passed, str(report)


class Proxy:
    """A handle with a fault."""

    def __init__(self, handle, fault):
        self.handle, self.fault, self.owner, self.times = handle, fault, handle.owner, 0
        self.own = np.random.default_rng().random()

    def __getattr__(self, name):
        return getattr(self.handle, name)

    def log_prob(self, i, k_old, ks):
        q = self.handle.log_prob(i, k_old, ks)
        ks = np.asarray(ks)
        if self.fault == "not normalised":
            q = q + 0.001
        elif self.fault == "zero":
            q = np.where(ks == 1, -np.inf, q)
        elif self.fault == "unknown":
            q = np.maximum(q, -50.0)
        elif self.fault == "other law":
            q = np.roll(q, 1)
        elif self.fault == "by chance":
            q = q + 1e-12 * self.own
        elif self.fault == "remembers":
            q = q + 1e-9 * self.times
        return q

    def draw(self, i, k_old, rng):
        k, back = self.handle.draw(i, k_old, rng)
        if self.fault == "way back":
            back *= 1.0001
        elif self.fault == "always the first":
            k = 1
        return k, back

    def refresh(self, snapshot):
        self.times += 1
        self.handle.refresh(snapshot)

    def shift(self, snapshot, added, removed):
        if self.fault != "no shift":
            self.handle.shift(snapshot, added, removed)

    def restore(self, i, k):
        if self.fault == "no restore":
            self.handle.moved(i, k, 1)
        else:
            self.handle.restore(i, k)


class Faulty(ProposalCase):
    fault = None

    def handle(self, snapshot=None):
        return Proxy(super().handle(snapshot), self.fault)


class Unpicklable(TableProposal):
    def __reduce__(self):
        return _other_dtype, ()


def _other_dtype():
    return TableProposal(dtype="float32")


class Thawed(TableProposal):
    modes = frozenset({"thawed"})


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("probabilities_sum_to_one", "not normalised"),
        ("every_cluster_has_a_chance", "zero"),
        ("unknown_slots_have_none", "unknown"),
        ("draws_follow_the_law", "other law"),
        ("draws_follow_the_law", "always the first"),
        ("the_way_back_is_the_law_of_the_draw", "way back"),
        ("the_same_seed_gives_the_same_law", "by chance"),
        ("refresh_forgets", "remembers"),
        ("shift_is_a_cheaper_refresh", "no shift"),
        ("holding_out_and_restoring_changes_nothing", "no restore"),
        ("its_arrays_restore_it", "remembers"),
        ("no_cluster_but_a_new_one", "always the first"),
    ],
)
def test_each_law_is_broken_by_a_fault(name, fault):
    case = Faulty(TableProposal(), MixtureModel(Multinomial(), DirichletProcess(alpha=1.0)))
    LAWS[name](case)
    case.fault = fault
    with pytest.raises(AssertionError):
        LAWS[name](case)


@pytest.mark.parametrize(
    ("name", "proposal"),
    [("it_says_what_it_is", Thawed()), ("a_pickled_proposal_has_the_same_law", Unpicklable())],
)
def test_settings_that_break_a_law(name, proposal):
    with pytest.raises(AssertionError):
        LAWS[name](ProposalCase(proposal))


def test_laws_that_do_not_apply_say_why():
    case = ProposalCase(PrototypeProposal(max_group=8))
    for name in ("shift_is_a_cheaper_refresh", "holding_out_and_restoring_changes_nothing", "no_cluster_but_a_new_one"):
        with pytest.raises(Inapplicable):
            LAWS[name](case)


def test_failures_are_raised_together_and_can_be_announced():
    with pytest.raises(AssertionError, match=r"breaks 1 of its laws:\n  it_says_what_it_is: modes \['thawed'\]"):
        check_proposal(Thawed())
    assert check_proposal(Thawed(), expected_failures={"it_says_what_it_is": "not yet"}).passed
    with pytest.raises(ValueError, match="only names no check: no_such_law"):
        check_proposal(TableProposal(), only=["no_such_law"])
    with pytest.raises(ValueError, match="at least 10 rows; got 3"):
        check_proposal(TableProposal(), X=np.ones((3, 2)))
