"""Proposals written in NumPy: tables have the law that was given, with its floor, and the kernel stays exact."""

import numpy as np
import pytest
from by_mean import ByMean
from enumeration import exact_posterior, update_matrix
from scipy import sparse, stats
from tiny import FAMILIES, WEIGHTS

from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError, DataError, PluginError
from expfam.families.support import dense_rows
from expfam.samplers import CellProposal, CollapsedMetropolis
from expfam.samplers.proposals.handle import ProposalHandle
from expfam.samplers.proposals.snapshot import Snapshot
from expfam.samplers.states.collapsed import CollapsedState
from expfam.structures import DataCells

N = 6


class Given(CellProposal):
    """Whatever the test says."""

    def __init__(self, answer=None, group=(0, 1, 2, 0, 1, 2), *, floor=0.02):
        self.answer, self.group, self.floor = answer, group, floor

    def groups(self, data):
        return np.asarray(self.group)

    def probabilities(self, snapshot):
        return self.answer(snapshot) if callable(self.answer) else self.answer


class ByRest(CellProposal):
    """Clusters whose mean count has the parity of the datum's group; it has no constructor of its own."""

    def groups(self, data):
        return np.arange(data.n_rows) % 2

    def probabilities(self, snapshot):
        mean = dense_rows(snapshot.S)[:, 0] / np.maximum(snapshot.n, 1)
        return np.stack([np.exp(-mean), mean * snapshot.n])


def dataset():
    data = Dataset([[0.0], [0.5], [3.0], [3.5], [9.0], [9.5]], DiagonalGaussian())
    return data, MixtureModel(data.family, DirichletProcess(alpha=1.0))


def view(data, slots=(4, 0, 2), new=0.0):
    n = np.arange(1.0, len(slots) + 1)
    S = np.c_[n, n * 2] if len(slots) else np.zeros((0, 2))
    return Snapshot(data.family, n, slots, lambda: S, log_weight=np.log(n), log_weight_new=new)


def handle_of(proposal, **options):
    data, model = dataset()
    handle = ProposalHandle(proposal.bind(model, data, seed=0), "grouped")
    handle.refresh(view(data, **options))
    return handle


WEIGHT = np.array([[1.0, 2.0, 5.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0]])
SLOTS = [4, 0, 2, -1]


@pytest.mark.parametrize(
    "make", [np.array, sparse.csr_array, sparse.csr_matrix, lambda w: np.array(w, dtype=np.float32)]
)
def test_tables_have_the_law_that_was_given(make):
    handle = handle_of(Given(make(WEIGHT), floor=0.1))
    for i in range(N):
        row = WEIGHT[i % 3]
        q = np.exp(handle.log_prob(i, 4, SLOTS))
        assert np.allclose(q, np.append(0.9 * row / row.sum(), 0.0) + 0.1 / 4, atol=1e-8)
        assert q.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.isneginf(handle.log_prob(i, 4, [1, 3, 5, 99])).all()


def test_a_further_column_is_a_new_cluster():
    weight = np.c_[WEIGHT, [8.0, 0.0, 4.0]]
    q = np.exp(handle_of(Given(weight, floor=0.1)).log_prob(0, 4, SLOTS))
    assert np.allclose(q, 0.9 * weight[0] / 16 + 0.1 / 4, atol=1e-8)
    q = np.exp(handle_of(Given(weight, floor=0.1), new=-np.inf).log_prob(0, 4, SLOTS))
    assert np.allclose(q, np.append(0.9 * weight[0, :3] / 8 + 0.1 / 3, 0.0), atol=1e-8)


def test_a_row_of_zeros_is_uniform():
    handle = handle_of(Given(np.zeros((3, 3))))
    assert np.allclose(np.exp(handle.log_prob(0, 4, SLOTS)), 0.25, atol=1e-8)
    handle = handle_of(Given(np.zeros((3, 3))), new=-np.inf)
    assert np.allclose(np.exp(handle.log_prob(0, 4, SLOTS)), [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-8)


def test_draws_follow_the_law():
    handle, rng = handle_of(Given(WEIGHT, floor=0.2)), np.random.default_rng(0)
    for i in range(3):
        log_q, counts = dict(zip(SLOTS, handle.log_prob(i, 0, SLOTS))), dict.fromkeys(SLOTS, 0)
        for _ in range(10000):
            k, back = handle.draw(i, -1, rng)
            counts[k] += 1
            assert back == pytest.approx(log_q[-1] - log_q[k], abs=1e-12)
        q = np.exp(list(log_q.values()))
        assert stats.chisquare(list(counts.values()), 10000 * q).pvalue > 1e-4
        assert stats.chisquare(list(counts.values()), 10000 * np.roll(q, 1)).pvalue < 1e-4


def test_no_cluster_but_a_new_one():
    handle = handle_of(Given(np.zeros((3, 0))), slots=())
    assert handle.draw(0, -1, np.random.default_rng(0)) == (-1, 0.0)


def test_refresh_forgets():
    data, _ = dataset()
    handle = handle_of(Given(lambda s: np.ones((3, len(s.slots)))))
    handle.refresh(view(data, slots=(1,)))
    assert np.isneginf(handle.log_prob(0, 1, [4, 0, 2])).all()
    assert np.allclose(np.exp(handle.log_prob(0, 1, [1, -1])), [0.99, 0.01], atol=1e-8)
    assert handle.owner.to_arrays() == {}
    handle.owner.from_arrays({})


def test_more_groups_than_fit_in_one_block():
    weight = np.random.default_rng(0).random((3000, 3))
    handle = handle_of(Given(weight, group=(0, 1, 2, 1000, 2000, 2999)))
    assert np.allclose(
        np.exp(handle.log_prob(5, 4, [4]))[0], 0.98 * weight[2999, 0] / weight[2999].sum() + 0.005, atol=1e-8
    )


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (np.ones((2, 3)), r"Given.probabilities must return \(3, 3\)"),
        (np.ones((3, 2)), r"shape \(3, 2\)"),
        (np.ones((3, 5)), r"shape \(3, 5\)"),
        (np.ones(3), r"shape \(3,\)"),
        (np.full((3, 3), "a"), "numbers"),
        (None, "object"),
        (np.where(np.eye(3) == 1, np.nan, 1.0), "group 0, column 0 holds nan"),
        (np.where(np.arange(9).reshape(3, 3) == 7, -1.0, 1.0), "group 2, column 1 holds -1"),
        (sparse.csr_array([[1.0, np.inf, 0.0], [1.0, 0, 0], [1.0, 0, 0]]), "group 0, column 1 holds inf"),
        (np.c_[np.ones((3, 3)), [1.0, np.nan, 1.0]], "group 1, column 3"),
    ],
)
def test_bad_probabilities_are_named(answer, match):
    with pytest.raises(DataError, match=match):
        handle_of(Given(answer))


@pytest.mark.parametrize(
    ("group", "match"),
    [
        ([0, 1], r"Given.groups must return \(6,\) integers"),
        ([0.0, 1, 2, 0, 1, 2], "float64"),
        ([0, 1, -2, 0, 1, 2], "datum 2 has group -2"),
    ],
)
def test_bad_groups_are_named(group, match):
    with pytest.raises(DataError, match=match):
        handle_of(Given(WEIGHT, group))


@pytest.mark.parametrize("floor", [0, 1, -0.1, 1e-9, np.nan, "low"])
def test_bad_floors_are_named(floor):
    with pytest.raises(ValueError, match="Given: floor"):
        handle_of(Given(WEIGHT, floor=floor))


def test_what_is_not_there_is_refused():
    data, model = dataset()
    handle = handle_of(Given(WEIGHT))
    for call in (
        lambda: handle.draw(0, 3, np.random.default_rng(0)),
        lambda: handle.draw(6, 4, np.random.default_rng(0)),
        lambda: handle.log_prob(6, 4, [4]),
        lambda: handle.hold_out(0, 4),
        lambda: ProposalHandle(Given(WEIGHT).bind(model, data, seed=0), "x").draw(0, 4, np.random.default_rng(0)),
        lambda: ProposalHandle(Given(WEIGHT).bind(model, data, seed=0), "x").log_prob(0, 4, [4]),
    ):
        with pytest.raises(PluginError):
            call()
    with pytest.raises(NotImplementedError, match="CellProposal does not implement groups"):
        CellProposal().bind(model, data, seed=0)
    with pytest.raises(CapabilityError, match="removed"):
        CollapsedMetropolis(Given(WEIGHT), mode="removed").init(model, data, seed=0)
    assert CellProposal.modes == {"crossfit", "frozen"}
    assert CellProposal(floor=0.1) == CellProposal(floor=0.1) != CellProposal()
    assert ByRest().floor == 0.02


# ---- exactness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["dirichlet_process", "pitman_yor", "dirichlet_3"])
def test_each_update_is_reversible(weights):
    family, X = FAMILIES["poisson"]
    data = Dataset(X, family)
    model = MixtureModel(data.family, WEIGHTS[weights])
    partitions, pi = exact_posterior(model, X)
    kernel = CollapsedMetropolis(ByRest(), mode="crossfit")

    for i in (0, 1):
        P = update_matrix(kernel, model, data, partitions, i, np.arange(i, 5, 2))
        flow = pi[:, None] * P
        assert np.abs(P.sum(axis=1) - 1).max() < 1e-12
        assert np.abs(flow - flow.T).max() < 1e-12
        assert P.trace() < len(partitions) - 1
    wrong = update_matrix(kernel, model, data, partitions, 0, np.array([1, 2]))  # q that knows the datum's own label
    assert np.abs(pi @ wrong - pi).max() > 1e-4


def test_a_chain_runs_in_both_modes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    data = Dataset(rng.poisson(1 + 8 * np.eye(4)[labels]), Poisson())
    data_cells = DataCells.from_labels(rng.integers(0, 3, 400) + 3 * labels, phi=data.phi(0, 400))
    for mode, weights in (("crossfit", DirichletProcess(alpha=1.0)), ("frozen", SymmetricDirichlet(4))):
        model = MixtureModel(data.family, weights)
        start = np.where(rng.random(400) < 0.3, rng.integers(0, 4, 400), labels)
        state = CollapsedState(model, data, start, seed=0)
        kernel = CollapsedMetropolis(ByMean(data_cells), mode=mode)
        before = model.log_joint(data, state.labels)
        for _ in range(5):
            kernel.step(state)
        state.check()
        assert model.log_joint(data, state.labels) > before + 100
        assert sum(np.bincount(state.labels[labels == k]).max() for k in range(4)) > 360


def test_proposals_by_the_means_of_cells():
    data, model = dataset()
    group = np.array([0, 0, 1, 1, 2, 2])
    with pytest.raises(DataError, match=r"\(6,\) integers"):
        ByMean(DataCells([0, 1], phi=np.zeros((2, 2)))).bind(model, data, seed=0)
    data_cells = DataCells(group, phi=data.phi(0, 6))
    assert ByMean(data_cells) == ByMean(data_cells)
    handle = handle_of(ByMean(data_cells))
    snapshot = view(data)
    score = data.phi(0, 2).mean(axis=0) @ snapshot.Theta.T - snapshot.G + snapshot.log_weight
    p = np.exp(score - score.max())
    assert np.allclose(np.exp(handle.log_prob(1, 4, SLOTS)), np.append(0.98 * p / p.sum(), 0) + 0.005, atol=1e-8)
