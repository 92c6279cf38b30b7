"""Linked rows in groups move as one, by the exact conditional law: against enumeration."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from tiny import FAMILIES
from visits import LIMIT, worst_t

from expfam import AdmixtureModel, Dataset, Known, Poisson
from expfam.samplers import GroupedGibbs, GroupedState, sample
from expfam.samplers.grouped.linked import draw_linked_groups, linked_law

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

GROUPS = np.array([1, 0, 1, 0, 1])
ALPHA = {2: np.array([0.7, 0.3]), 3: np.array([0.4, 0.9, 0.2])}
LINKS = {
    "across groups": [0, 0, -1, -1, -1],
    "within a group": [5, -1, 5, -1, -1],
    "three rows": [2, -1, 2, 2, -1],
    "two link groups": [0, 4, 0, 4, -1],
    "all": [0, 0, 0, 0, 0],
}


def tiny(name, n_clusters, links):
    family, X = FAMILIES[name]
    data = Dataset(X, family, groups=GROUPS, known=Known(links=links))
    return AdmixtureModel(data.family, n_clusters, ALPHA[n_clusters]), data


def agreeing(data, n_clusters):
    """All labels in which linked rows are together."""
    every = (np.array(labels) for labels in product(range(n_clusters), repeat=data.n_rows))
    return [labels for labels in every if data.known.agrees(labels)]


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_law_of_linked_rows_is_that_of_the_log_joint(name, links):
    model, data = tiny(name, 3, LINKS[links])
    for labels in agreeing(data, 3)[::7]:
        for rows in data.known.groups:
            state = GroupedState(model, data, labels.astype(np.int32), seed=0)
            state.components.reserve(4)
            own, m = np.unique(GROUPS[rows], return_counts=True)
            counts, old = state.group_counts().toarray()[own], int(labels[rows[0]])
            counts[:, old] -= m
            is_emptied = np.count_nonzero(labels == old) == len(rows)
            mass = linked_law(state, rows, old, m, counts, is_emptied=is_emptied)
            exact = np.empty(3)
            for k in range(3):
                moved = labels.copy()
                moved[rows] = k
                exact[k] = model.log_joint(data, moved)
            exact = np.exp(exact - exact.max())
            np.testing.assert_allclose(mass / mass.sum(), exact / exact.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", FAMILIES)
def test_sweeps_keep_the_state_in_order(name, links):
    model, data = tiny(name, 3, LINKS[links])
    kernel = GroupedGibbs(learn_alpha=False)
    state = kernel.init(model, data, seed=1)
    for _ in range(20):
        kernel.step(state)
        state.check()
        assert data.known.agrees(state.labels)
        assert state.log_joint == pytest.approx(model.log_joint(data, state.labels), abs=1e-9)
    again = GroupedState(model, data, state.labels, seed=1)
    again.from_arrays(state.to_arrays())
    kernel.step(state)
    kernel.step(again)
    np.testing.assert_array_equal(again.labels, state.labels)
    assert again.log_joint == state.log_joint


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("links", ["across groups", "two link groups"])
def test_labels_are_visited_as_often_as_the_posterior_says(links, order):
    known = Known(links=LINKS[links])  # counts that are alike: the clusters change their places often
    data = Dataset([[0], [1], [2], [1], [0]], Poisson(), groups=GROUPS, known=known)
    model = AdmixtureModel(data.family, 2, ALPHA[2])
    every = agreeing(data, 2)
    scores = np.array([model.log_joint(data, labels) for labels in every])
    exact = np.exp(scores - scores.max())
    kernel = GroupedGibbs(order=order, learn_alpha=False)
    state = kernel.init(model, data, seed=3)
    visited = []
    for _ in range(6000):
        kernel.step(state)
        visited.append(tuple(state.labels.tolist()))
    assert worst_t(visited, [tuple(labels.tolist()) for labels in every], exact / exact.sum()) < LIMIT


def test_a_link_group_that_stays_is_no_move():
    data = Dataset([[0], [0], [50]], Poisson(), groups=[0, 1, 0], known=Known(links=[0, 0, -1]))
    state = GroupedState(AdmixtureModel(data.family, 2, [1.0, 1.0]), data, [0, 0, 1], seed=0)
    assert draw_linked_groups(state) in (0, 1)
    trace = sample(GroupedGibbs(), state, 5)
    assert trace.column("proposed").tolist() == [2] * 5


def test_groups_without_links_cost_no_memory():
    """A hundred thousand groups, of which two have linked rows."""
    n = 100_000
    links = np.where(np.arange(n) < 2, 0, -1)
    data = Dataset(np.arange(n)[:, None] % 7, Poisson(), groups=np.arange(n), known=Known(links=links))
    labels = np.maximum(np.arange(n) - 1, 0) % 40
    state = GroupedState(AdmixtureModel(data.family, 40, np.ones(40)), data, labels, seed=0)
    tracemalloc.start()
    draw_linked_groups(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * 40 / 2  # half of a table of all groups and clusters
    state.check()
