"""Lists that rows keep from step to step: the labels of all scores, bit for bit, and bounds that hold."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from coded_states import FAMILIES, embedded, state_of, whole_labels
from instruction_sets import SETS, output_under

import expfam as ef
from expfam.samplers import StochasticEM, UncollapsedGibbs
from expfam.samplers.uncollapsed import remembered
from expfam.samplers.uncollapsed.coded import (
    SCORED_DEPTH,
    coded_scores,
    draw_labels,
    draw_left,
    others_weight,
    task_rows,
)
from expfam.samplers.uncollapsed.kept_lists import NEEDS_PASS, KeptLists
from expfam.samplers.uncollapsed.kept_moves import Moves
from expfam.samplers.uncollapsed.remembered import memory_of


def lists_of(state):
    """Lists of all rows under the state's parameters."""
    coded = coded_scores(state)
    lists = KeptLists(state, coded.scores.centre, coded.column_scale)
    draw_labels(state, 1, coded, lists)
    lists.close()
    return lists


def needs_of(state, lists, n_threads=1, is_restless=False):
    """What lists need, with restless clusters where there are any and they are asked for."""
    moves = Moves(lists, state.Theta, state.log_pi - state.G, SCORED_DEPTH)
    needs = moves.compute(n_threads)
    return (is_restless and moves.compute_restless(n_threads)) or needs


def labels_by_lists(state, lists, n_threads=1, is_restless=False):
    """Labels of all rows, and what lists left of each."""
    need = needs_of(state, lists, n_threads, is_restless)
    labels, left = np.full(state.data.n_rows, -1, dtype=np.int32), np.zeros(state.data.n_rows, dtype=np.uint8)
    for start, stop in task_rows(state.data.n_rows):
        lists.sift(need, labels, left, start, stop, state.seed, state.n_steps, others_weight(state.K))
    assert (labels[left == 0] >= 0).all()
    draw_left(state, n_threads, coded_scores(state), lists, need, labels, left)
    return labels, left


def disturb(state, sweep, rng):
    """Draw parameters; at times one cluster has lost its rows, another has rows of many, and a few no weight."""
    labels = state.labels.copy()
    if sweep % 5 == 1:
        labels[labels == sweep % state.K] = (sweep + 1) % state.K
    if sweep % 5 == 2:
        labels[rng.integers(len(labels), size=3)] = (sweep + 7) % state.K
    state.move_labels(labels)
    state.n_steps += 1
    state.draw_parameters()
    if sweep % 5 == 3:
        state.log_pi[rng.integers(state.K, size=3)] = -np.inf


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["planted", "near", "noise", "ties", "zeros", "one cluster"])
def test_labels_are_those_of_all_scores_over_many_sweeps(name, kind):
    state, rng, n_decided = state_of(name, kind, K=20, n=800), np.random.default_rng(2), 0
    for sweep in range(30):
        if sweep % 6 == 0:
            lists = lists_of(state)
        disturb(state, sweep, rng)
        labels, left = labels_by_lists(state, lists, is_restless=sweep % 2 == 1)
        np.testing.assert_array_equal(labels, whole_labels(state))
        state.move_labels(labels)
        n_decided += np.count_nonzero(left != NEEDS_PASS)
    assert n_decided > 2000 or kind != "planted" or name not in ("spherical", "diagonal")


@pytest.mark.parametrize("K", [1, 2, 7, 9, 64, 333])
def test_any_number_of_clusters_and_of_rows(K):
    for n in (2, 63, 65, 700):
        state = state_of("diagonal", "planted", K=K, n=n)
        lists = lists_of(state)
        disturb(state, 1, np.random.default_rng(0))
        np.testing.assert_array_equal(labels_by_lists(state, lists)[0], whole_labels(state))


def test_rows_that_have_no_bounds():
    state = state_of("spherical", "far")
    lists = lists_of(state)
    disturb(state, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(labels_by_lists(state, lists)[0], whole_labels(state))


def test_parameters_out_of_the_range_of_single_precision_have_no_bounds():
    state = state_of("spherical", "planted")
    lists = lists_of(state)
    state.Theta[3, 0] = 1e60
    assert not Moves(lists, state.Theta, state.log_pi - state.G, SCORED_DEPTH).fits


@pytest.mark.parametrize("isa", SETS)
def test_every_instruction_set_has_the_same_labels(isa):
    code = """
from test_kept_lists import test_labels_are_those_of_all_scores_over_many_sweeps as check
for name in ("spherical", "diagonal"):
    check(name, "planted")
print("same")
"""
    assert output_under(isa, code, file=__file__).strip() == "same"


@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_labels_do_not_depend_on_threads(n_threads):
    state = embedded("apart", n=9000, K=128)
    lists = lists_of(state)
    state.draw_parameters()
    one, many = (labels_by_lists(state, lists, n) for n in (1, n_threads))
    assert np.count_nonzero(one[1]) < 100  # lists alone decide nearly all rows
    np.testing.assert_array_equal(one[0], many[0])
    np.testing.assert_array_equal(one[1], many[1])


# ---- bounds ----------------------------------------------------------------------------------------------------------


def wide_scores(state, rows):
    """Scores of some rows in long double: (n, K)."""
    phi = np.vstack([state.data.phi(row, row + 1) for row in rows]).astype(np.longdouble)
    return phi @ state.Theta.T.astype(np.longdouble) + (state.log_pi - state.G).astype(np.longdouble)


def missed(state, lists, rows, is_restless=False):
    """Number of clusters that may matter and are not in the lists of rows; number of rows whose lists tell enough."""
    need, scores = needs_of(state, lists, is_restless=is_restless), wide_scores(state, rows)
    n_missed = n_told = 0
    for row, score in zip(rows, scores, strict=True):
        listed = lists.listed(row, need)
        if listed is not None:
            assert (np.diff(listed) > 0).all()
            n_missed += np.count_nonzero(np.delete(score, listed) > score.max() - SCORED_DEPTH)
            n_told += 1
    return n_missed, n_told


@pytest.mark.parametrize("name", ["spherical", "diagonal", "full"])
@pytest.mark.parametrize("kind", ["planted", "near"])
def test_no_cluster_that_matters_is_missed(name, kind):
    state, n_told = state_of(name, kind, K=20, n=800), 0
    lists = lists_of(state)
    for _ in range(5):
        state.n_steps += 1
        state.draw_parameters()
        n_missed, n = missed(state, lists, np.arange(800))
        assert not n_missed
        assert not missed(state, lists, np.arange(800), is_restless=True)[0]
        n_told += n
    assert n_told > 2000 or kind != "planted" or name == "full"


def rises_towards_rows(lists, state, n_pairs=200):
    """Let one cluster at a time rise in the direction of a row till it matters; yield the row and the cluster.

    The means of the first clusters keep their scores, so only the distance of the row makes the cluster rise.
    """
    rng, Theta, G = np.random.default_rng(4), state.Theta.copy(), state.G.copy()
    for _ in range(n_pairs):
        row = int(rng.integers(state.data.n_rows))
        phi, scores = state.data.phi(row, row + 1)[0], wide_scores(state, [row])[0]
        first = int(scores.argmax())
        cluster = int(rng.choice(np.argsort(scores)[-12:-1]))
        mean = lists.centre + lists.means[first] / lists.scale
        step = (phi - mean) * lists.scale**2
        lift = float(scores[first] - scores[cluster]) - SCORED_DEPTH + rng.uniform(0.1, 3.0)
        state.Theta[cluster] += lift / (step @ (phi - mean)) * step
        state.G[cluster] += lift / (step @ (phi - mean)) * (step @ mean)
        yield row
        state.Theta[:], state.G[:] = Theta, G


def test_bounds_hold_where_they_are_as_close_as_can_be():
    state = state_of("spherical", "planted", d=40)
    lists = lists_of(state)
    found = np.sum([missed(state, lists, [row]) for row in rises_towards_rows(lists, state)], axis=0)
    assert found[0] == 0
    assert found[1] > 20


def test_a_cluster_that_changes_much_is_scored_for_every_row():
    state = state_of("spherical", "planted", K=20, n=800)
    lists, rows = lists_of(state), np.arange(800)
    state.n_steps += 1
    state.draw_parameters()
    state.Theta[7, :12], state.Theta[7, 12], state.G[7] = 0.0, -0.01, -100.0  # wide, and it would take every row
    needs = needs_of(state, lists, is_restless=True)
    assert needs.restless == (7,)
    (n_missed, few), (n_missed_too, many) = missed(state, lists, rows), missed(state, lists, rows, is_restless=True)
    assert n_missed == n_missed_too == 0
    assert many > few + 300
    np.testing.assert_array_equal(labels_by_lists(state, lists, is_restless=True)[0], whole_labels(state))


def test_distances_that_are_too_small_miss_clusters():
    state = state_of("spherical", "planted", d=40)
    lists = lists_of(state)
    lists.ends[:] *= 0.9
    found = np.sum([missed(state, lists, [row]) for row in rises_towards_rows(lists, state)], axis=0)
    assert found[0] > 0


# ---- when lists are kept ---------------------------------------------------------------------------------------------


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(remembered, "may_pay", lambda data, K: True)


def chain(kernel, state, n_steps):
    """Labels of a chain, and whether lists were used in each step."""
    labels, used = [], []
    for _ in range(n_steps):
        kernel.step(state)
        labels.append(state.labels.copy())
        memory = memory_of(state)
        used.append(memory.lists is not None and not memory.is_trial and memory.least_cost < 1.0)
    return np.array(labels), np.array(used)


def small_chain(kernel, n=4000, K=64, d=60, noise=1.0, seed=3):
    rng = np.random.default_rng(0)
    truth = rng.integers(K, size=n)
    X = (3.0 * rng.normal(size=(K, d))[truth] + noise * rng.normal(size=(n, d))).astype(np.float32)
    model = ef.MixtureModel(ef.SphericalGaussian(), ef.SymmetricDirichlet(K)).bind(X)
    return kernel.init(model, X, seed=seed, start=truth)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "kernel", [UncollapsedGibbs(draw="pruned"), StochasticEM(draw="pruned"), StochasticEM(draw="pruned", theta="mean")]
)
@pytest.mark.parametrize("noise", [1.0, 4.0, 9.0])
def test_chains_have_the_same_bits_without_lists(monkeypatch, kernel, noise):
    labels, used = chain(kernel, small_chain(kernel, noise=noise), 30)
    assert used.any() or noise > 1.0
    monkeypatch.setattr(remembered, "may_pay", lambda data, K: False)
    others, used = chain(kernel, small_chain(kernel, noise=noise), 30)
    assert not used.any()
    np.testing.assert_array_equal(labels, others)


@pytest.mark.usefixtures("always")
def test_a_chain_that_is_taken_up_again_has_the_same_bits():
    kernel = UncollapsedGibbs(draw="pruned")
    state = small_chain(kernel)
    chain(kernel, state, 8)
    again = small_chain(kernel)
    again.from_arrays(state.to_arrays())
    np.testing.assert_array_equal(chain(kernel, state, 6)[0], chain(kernel, again, 6)[0])


@pytest.mark.usefixtures("always")
def test_lists_are_given_up_where_they_decide_few_rows_and_tried_again():
    kernel = UncollapsedGibbs(draw="pruned")
    state = embedded("noise", n=4000, K=64)
    memory, waits = memory_of(state), []
    for _ in range(25):
        kernel.step(state)
        waits.append(memory.wait)
        assert memory.lists is None or memory.is_trial
    assert max(waits) == 15  # after a second trial twice as long as after the first one


@pytest.mark.usefixtures("always")
def test_lists_are_made_anew_where_parameters_have_moved_away():
    kernel = UncollapsedGibbs(draw="pruned")
    state = small_chain(kernel)
    chain(kernel, state, 4)
    memory = memory_of(state)
    lists = memory.lists
    assert not memory.is_trial
    memory.lost = 1.1
    kernel.step(state)
    assert memory.lists is not lists
    assert not memory.is_trial
    assert memory.lost == 0.0


@pytest.mark.usefixtures("always")
def test_lists_are_not_those_of_other_rows_or_other_numbers_of_clusters():
    kernel = UncollapsedGibbs(draw="pruned")
    state = small_chain(kernel)
    chain(kernel, state, 4)
    lists, data = memory_of(state).lists, state.data
    state.data = state.data.rows(0, data.n_rows)
    state.draw_parameters()
    kernel.draw_labels(state)
    assert memory_of(state).lists is not lists
    assert not lists.suit(small_chain(kernel, K=65))


def test_lists_go_with_their_state():
    state = embedded("apart", n=2000, K=64)
    memory = weakref.ref(memory_of(state))
    assert memory() is memory_of(state)
    del state
    gc.collect()
    assert memory() is None


def test_lists_pay_where_clusters_have_many_rows():
    rng = np.random.default_rng(0)
    data = {n: ef.Dataset(rng.normal(size=(n, 60)), ef.SphericalGaussian()) for n in (100, 20_000)}
    assert [remembered.may_pay(data[n], K) for n, K in ((100, 64), (20_000, 64), (20_000, 63), (20_000, 4000))] == [
        False,
        True,
        False,
        False,
    ]


def peak_of(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.usefixtures("always")
def test_the_memory_of_lists_is_as_said():
    state = embedded("apart", n=60_000, K=64, d=8)
    coded = coded_scores(state)
    without = peak_of(lambda: draw_labels(state, 1, coded))
    peak = peak_of(lambda: labels_by_lists(state, lists_of(state)))
    said = remembered.bytes_of_lists(state.data, state.K)
    assert 33 * 60_000 < peak - without < said
    kernels = UncollapsedGibbs(draw="pruned"), UncollapsedGibbs(draw="dense")
    assert np.subtract(*(kernel.memory(state.model, state.data, state.K) for kernel in kernels)) == said
