"""Splits and merges of rows in groups: their law by enumeration, their counters, and what they find."""

import numpy as np
import pytest
from franchises import ROWS, Tiny
from stepping import assert_resumes, stepped
from tiny import FAMILIES
from visits import LIMIT, visited_and_accepted, worst_t

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, HierarchicalProcess, Poisson
from expfam.errors import CapabilityError
from expfam.samplers import Cycle, GroupedProcessGibbs, GroupedProcessSplitMerge
from expfam.samplers.nonparametric import group_moves, group_sweep, slots
from expfam.samplers.nonparametric.row_moves import RowMoves
from expfam.samplers.nonparametric.weights import draw_shared_weights
from expfam.structures.ground.rng import generator

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

LENGTHS = [pytest.param(3000, id="short"), pytest.param(8000, id="long", marks=pytest.mark.slow)]  # of chains
SPLITS = GroupedProcessSplitMerge(n_tries=4, work=100.0)


class Weights(GroupedProcessGibbs):
    """Draw the shared weights, and move no row."""

    def move(self, state):
        rng, model = generator(state.seed, "hyper", step=state.n_steps), state.model
        table, sizes = state.count_table(), state.data.groups.sizes
        state.set_weights(
            draw_shared_weights(state.pseudocounts, model.alpha, model.gamma, table, sizes, rng, learn=False)
        )
        return 0, 0, {}


ALONE = Cycle(SPLITS, Weights())
MIXED = Cycle(GroupedProcessSplitMerge(n_tries=4, work=1.0), GroupedProcessGibbs(learn_alpha=False, order="random"))


@pytest.fixture
def n_steps(is_slow):
    return 8000 if is_slow else 3000


def visits_of(kernel, tiny, n_steps, *, seed=1):
    data = Dataset(tiny.X, tiny.model.family, groups=tiny.groups)
    state = kernel.init(tiny.model, data, seed=seed, start=np.zeros(len(tiny.groups), dtype=int))
    return visited_and_accepted(kernel, state, n_steps)


def patients(K, seed, *, n=1500, n_groups=60):
    rng = np.random.default_rng(seed)
    shares, of_row = rng.dirichlet(np.full(K, 0.5), size=n_groups), rng.integers(n_groups, size=n)
    z = np.array([rng.choice(K, p=shares[g]) for g in of_row])
    return rng.normal(0.0, 6.0, size=(K, 3))[z] + rng.normal(size=(n, 3)), of_row


@pytest.mark.parametrize("kernel", [ALONE, MIXED], ids=["alone", "with_sweeps"])
@pytest.mark.parametrize("name", ROWS)
def test_partitions_of_rows_are_visited_by_their_probability(name, kernel, n_steps):
    tiny = Tiny(name)
    visits, accepted = visits_of(kernel, tiny, n_steps)
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    assert accepted > n_steps / 10


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_where_slots_run_out_the_law_is_the_same(n_steps, monkeypatch):
    for module in (slots, group_sweep):
        monkeypatch.setattr(module, "capacity_for", lambda n: n + 1)
    tiny = Tiny("poisson_rows")
    assert worst_t(visits_of(ALONE, tiny, n_steps)[0], tiny.partitions, tiny.probability) < LIMIT


@pytest.mark.parametrize("fault", ["log_u", "gamma"])
def test_a_mistake_is_seen(fault, n_steps, monkeypatch):
    class Wrong(RowMoves):
        def split(self, u, v, mass, gamma, rng, seed, unit, step, log_u, is_known):
            log_u += 0.4 if fault == "log_u" else 0.0
            return super().split(u, v, mass, gamma, rng, seed, unit, step, log_u, is_known)

        def merge(self, u, v, one, two, gamma, log_u, is_known):
            return super().merge(u, v, one, two, gamma * (2.0 if fault == "gamma" else 1.0), log_u, is_known)

    monkeypatch.setattr(group_moves, "RowMoves", Wrong)
    tiny = Tiny("gaussian_rows")
    assert worst_t(visits_of(ALONE, tiny, n_steps)[0], tiny.partitions, tiny.probability) > LIMIT


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_moved_and_counted(name):
    family, X = FAMILIES[name]
    data = Dataset(X, family, groups=[0, 1, 0, 2, 1])
    state = SPLITS.init(HierarchicalProcess(data.family, 1.0, 2.0), data, seed=1, start=[0, 0, 1, 1, 1])
    n_accepted, alpha = 0, state.model.alpha
    for _ in range(60):
        info = SPLITS.step(state)
        state.check()
        n_accepted += info.accepted
        assert info.n_clusters == np.count_nonzero(state.shared.names >= 0)
        np.testing.assert_allclose(state.shared.pseudocounts.sum(), alpha, rtol=1e-12)
    assert n_accepted > 0


@pytest.mark.parametrize("K", [5, 20])
def test_the_true_number_is_found_from_one_cluster(K):
    X, of_row = patients(K, 1)
    data = Dataset(X, DiagonalGaussian(mean=0.0, mean_strength=0.03, shape=2.0, rate=2.0), groups=of_row)
    kernel = Cycle(GroupedProcessSplitMerge(work=2.0), GroupedProcessGibbs())
    state = kernel.init(HierarchicalProcess(data.family), data, seed=0, start=np.zeros(len(X), dtype=int))
    info = [kernel.step(state) for _ in range(100)][-1]
    assert abs(info.extra["n_large"] - K) <= 1
    state.check()


def test_a_resumed_chain_has_the_bits_of_one_that_never_stopped(tmp_path):
    X, of_row = patients(4, 0, n=300)
    data = Dataset(X, DiagonalGaussian(), groups=of_row)
    kernel, model = Cycle(GroupedProcessSplitMerge(work=4.0), GroupedProcessGibbs()), HierarchicalProcess(data.family)
    whole = stepped(kernel, kernel.init(model, data, seed=4, start=np.zeros(300, dtype=int)), 12)
    again = kernel.init(model, data, seed=4)
    assert_resumes(kernel, whole, again, tmp_path / "run", 12)
    assert whole.model.gamma == again.model.gamma


def test_models_of_another_kind_are_refused_by_the_name_of_the_kernel():
    data = Dataset([[0], [1]], Poisson(), groups=[0, 0])
    with pytest.raises(CapabilityError, match=r"write GroupedProcessSplitMerge\(\)\.init\("):
        GroupedProcessSplitMerge().init(AdmixtureModel(data.family, 2), data, seed=0)
    with pytest.raises(ValueError, match=r"GroupedProcessSplitMerge: work must be"):
        GroupedProcessSplitMerge(work=-1.0).init(HierarchicalProcess(data.family), data, seed=0)
