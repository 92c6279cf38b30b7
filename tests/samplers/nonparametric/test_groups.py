"""Gibbs sampling of rows in groups, the number of clusters unknown: its law, its counters, and runs to the bit."""

import numpy as np
import pytest
from franchise_slow import posterior
from franchises import ROWS, Tiny, quadrature
from stepping import assert_resumes, assert_seed_decides, stepped
from tiny import FAMILIES
from visits import LIMIT, visited, worst_t

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, HierarchicalProcess, Poisson
from expfam.errors import ArchiveError, CapabilityError
from expfam.samplers import GroupedGibbs, GroupedProcessGibbs, sample
from expfam.samplers.nonparametric import group_sweep, groups
from expfam.samplers.nonparametric import slots as slots_of
from expfam.samplers.nonparametric.weights import first_weights

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

LENGTHS = [pytest.param(6000, id="short"), pytest.param(12_000, id="long", marks=pytest.mark.slow)]  # of chains
FIXED = GroupedProcessGibbs(learn_alpha=False)


@pytest.fixture
def n_steps(is_slow):
    return 12_000 if is_slow else 6000


def visits_of(kernel, tiny, n_steps, *, seed=1):
    data = Dataset(tiny.X, tiny.model.family, groups=tiny.groups)
    state = kernel.init(tiny.model, data, seed=seed, start=np.zeros(len(tiny.groups), dtype=int))
    return visited(kernel, state, n_steps)


def patients(n=300, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 4, n)
    return np.array([[0.0, 0], [6, 0], [0, 6], [6, 6]])[z] + rng.normal(size=(n, 2)), rng.integers(0, 9, n), z


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("name", ROWS)
def test_partitions_of_rows_are_visited_by_their_probability(name, order, n_steps):
    tiny = Tiny(name)
    visits = visits_of(GroupedProcessGibbs(learn_alpha=False, order=order), tiny, n_steps)
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    other = posterior(tiny.model.with_concentrations(1.3, 1.6), tiny.evidence, tiny.groups)[1]
    assert worst_t(visits, tiny.partitions, other) > LIMIT


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_they_are_where_slots_run_out(n_steps, monkeypatch):
    for module in (slots_of, group_sweep):
        monkeypatch.setattr(module, "capacity_for", lambda n: n + 1)
    tiny, capacities = Tiny("poisson_rows"), set()
    data = Dataset(tiny.X, tiny.model.family, groups=tiny.groups)
    state = FIXED.init(tiny.model, data, seed=1, start=np.zeros(6, dtype=int))
    visits = visited(FIXED, state, n_steps, note=lambda info: capacities.add(state.shared.capacity))
    assert worst_t(visits, tiny.partitions, tiny.probability) < LIMIT
    assert {3, 4, 5} <= capacities  # it grew, and became small again


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_learned_concentrations_leave_the_law_over_all_of_them(n_steps):
    tiny, probability = quadrature("gaussian_rows")
    visits = visits_of(GroupedProcessGibbs(), tiny, n_steps)
    assert worst_t(visits, tiny.partitions, probability) < LIMIT
    assert worst_t(visits, tiny.partitions, tiny.probability) > LIMIT


@pytest.mark.parametrize("n_steps", LENGTHS)
def test_weights_that_are_never_drawn_again_are_seen(n_steps, monkeypatch):
    def keep(pseudocounts, alpha, gamma, table, totals, rng, *, learn, n_known):
        sizes = np.bincount(table.group, weights=table.count * table.times, minlength=table.n_groups)
        return first_weights(sizes, alpha, gamma)

    monkeypatch.setattr(groups, "draw_shared_weights", keep)
    tiny = Tiny("poisson_rows")
    assert worst_t(visits_of(FIXED, tiny, n_steps), tiny.partitions, tiny.probability) > LIMIT


# ---- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_sampled_and_counted(name):
    family, X = FAMILIES[name]
    data = Dataset(X, family, groups=[0, 1, 0, 2, 1])
    model = HierarchicalProcess(data.family, 1.0, 2.0)
    state = GroupedProcessGibbs().init(model, data, seed=1, start=[0, 1, 2, 3, 4])
    numbers = set()
    for _ in range(60):
        info = GroupedProcessGibbs().step(state)
        state.check()
        numbers.add(info.n_clusters)
        assert info.n_clusters == np.count_nonzero(state.shared.names >= 0)
        np.testing.assert_allclose(state.shared.pseudocounts.sum(), state.model.alpha, rtol=1e-12)
    assert len(numbers) > 1


def test_planted_clusters_are_found_and_their_number():
    X, of_row, z = patients()
    data = Dataset(X, DiagonalGaussian(mean=3.0, mean_strength=0.05, shape=2.0, rate=2.0), groups=of_row)
    state = GroupedProcessGibbs().init(HierarchicalProcess(data.family), data, seed=0)
    sample(GroupedProcessGibbs(), state, 100)
    table = np.zeros((4, state.shared.capacity), dtype=int)
    np.add.at(table, (z, state.labels), 1)
    assert table.max(axis=1).sum() > 0.93 * len(z)
    assert len(set(table.argmax(axis=1))) == 4
    assert state.n_clusters < 9
    state.check()


def test_clusters_that_end_free_their_slots():
    X, of_row, _ = patients()
    data = Dataset(X, DiagonalGaussian(mean=3.0, mean_strength=0.05, shape=2.0, rate=2.0), groups=of_row)
    state = FIXED.init(HierarchicalProcess(data.family), data, seed=0, n_clusters=200)
    first = state.shared.capacity
    sample(FIXED, state, 40)
    assert state.shared.capacity < first / 2
    state.check()


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    X, of_row, _ = patients()
    data = Dataset(X, DiagonalGaussian(), groups=of_row)
    kernel, model = GroupedProcessGibbs(), HierarchicalProcess(data.family)
    assert_seed_decides(kernel, lambda seed: kernel.init(model, data, seed=seed))


def test_a_resumed_chain_has_the_bits_of_one_that_never_stopped(tmp_path):
    X, of_row, _ = patients()
    data = Dataset(X, DiagonalGaussian(), groups=of_row)
    kernel, model = GroupedProcessGibbs(order="random"), HierarchicalProcess(data.family)
    whole = stepped(kernel, kernel.init(model, data, seed=4, n_clusters=100), 12)
    again = kernel.init(model, data, seed=4)
    assert_resumes(kernel, whole, again, tmp_path / "run", 12)
    np.testing.assert_array_equal(whole.shared.pseudocounts, again.shared.pseudocounts)
    assert whole.model.gamma == again.model.gamma
    arrays = whole.to_arrays()
    arrays["shared"]["names"] = arrays["shared"]["names"][::-1].copy()
    with pytest.raises(ArchiveError, match="slots are not those of the labels"):
        again.from_arrays(arrays)
    again.check()


def test_what_cannot_be_sampled_is_refused():
    data = Dataset([[0], [1], [5]], Poisson(), groups=[0, 0, 1])
    model = HierarchicalProcess(data.family)
    with pytest.raises(CapabilityError, match=r"write GroupedProcessGibbs\(\)\.init\("):
        GroupedProcessGibbs().init(AdmixtureModel(data.family, 2), data, seed=0)
    with pytest.raises(CapabilityError, match="AdmixtureModel"):
        GroupedGibbs().init(model, data, seed=0)
    with pytest.raises(CapabilityError, match="needs the group of each row"):
        GroupedProcessGibbs().init(model, [[0], [1], [5]], seed=0)
    weighted = Dataset([[0], [1]], Poisson(), groups=[0, 0], weight=[1.0, 2.0])
    with pytest.raises(CapabilityError, match="weights of rows"):
        GroupedProcessGibbs().init(HierarchicalProcess(weighted.family), weighted, seed=0)
    for start, words in (([0, 1], "3 integers"), ([0, -1, 2], "from 0 on; found -1")):
        with pytest.raises(ValueError, match=words):
            GroupedProcessGibbs().init(model, data, seed=0, start=start)
    with pytest.raises(ValueError, match="order"):
        GroupedProcessGibbs(order="backward").init(model, data, seed=0)
