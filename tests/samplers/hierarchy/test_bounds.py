"""Candidates of a growing cluster by bounds of their scores: the bounds hold, and the merges are those without them."""

import heapq

import numpy as np
import pytest

from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel, SphericalGaussian
from expfam.families.components import Components
from expfam.samplers import HierarchicalClustering
from expfam.samplers.geometry.graphs import leaf_graph, neighbour_graph
from expfam.samplers.hierarchy import kernel as hierarchy
from expfam.samplers.hierarchy import pairs as graph_partners
from expfam.samplers.hierarchy.scores import OddsScores


class Unbounded(OddsScores):
    """Scores without bounds, so that all candidates of a cluster are scored whenever it has grown."""

    parts = None


def zipf_sizes(n, d, *, n_clusters=3, spread=4.0, seed=0, digits=None):
    """A third of the data and more in the first cluster; with few digits many are equal, or as far from others."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, n_clusters + 1)
    label = rng.choice(n_clusters, size=n, p=share / share.sum())
    X = spread * rng.normal(size=(n_clusters, d))[label] + rng.normal(size=(n, d))
    return X if digits is None else X.round(digits)


def problem(X, shift=0.0, shape=None):
    family = DiagonalGaussian() if shape is None else DiagonalGaussian(shape=shape)
    data = Dataset(X + shift, family)
    return MixtureModel(data.family, DirichletProcess()).bind(data), data


def grown(model, data, graph, *, order="odds", start="auto"):
    kernel = HierarchicalClustering(candidates=graph, order=order)
    state = kernel.init(model, data, start=start)
    while kernel.step(state).accepted:
        pass
    return state


def replayed(model, data, graph, labels, *, by_size=False):
    """Children of all merges on a graph, each new cluster scored with all its candidates, from a heap of all pairs."""
    scores = OddsScores(model, data, labels, leaf_weight=None, by_size=by_size)
    graph = leaf_graph(graph, labels)
    near = [set(graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()) - {i} for i in range(graph.shape[0])]
    slot_of, heap, children, n_scores = {i: i for i in range(len(near))}, [], [], 0
    near = dict(enumerate(near))  # ids of the candidates of each live id

    def push(j):
        nonlocal n_scores
        older = sorted(i for i in near[j] if i < j)
        n_scores += len(older)
        for i, score in zip(older, scores.score(slot_of[j], [slot_of[i] for i in older]).tolist()):
            heapq.heappush(heap, (-score, i, j))

    for j in range(len(near)):
        push(j)
    while heap:
        _, i, j = heapq.heappop(heap)
        if i not in slot_of or j not in slot_of:
            continue
        k, new = slot_of.pop(i), len(scores.block) + len(children)
        scores.absorb(k, slot_of.pop(j))
        children.append((i, j))
        near[new] = (near.pop(i) | near.pop(j)) - {i, j}
        for other in near[new]:
            near[other] -= {i, j}
            near[other].add(new)
        slot_of[new] = k
        push(new)
    return children, n_scores


PAIRED = np.where(np.arange(1500) < 400, np.arange(1500) // 2, np.arange(1500))
CASES = {
    "columns": ({"d": 10}, {}, {}),
    "overlapping clusters": ({"d": 4, "n_clusters": 12, "spread": 1.5}, {}, {}),
    "far from zero": ({"d": 10, "seed": 1}, {"shift": 1e5}, {}),
    "many ties": ({"d": 3, "digits": 0}, {}, {}),
    "by size": ({"d": 6, "seed": 2}, {}, {"order": "odds_size"}),
    "shapes of columns": ({"d": 4, "seed": 3}, {"shape": [0.7, 1.0, 2.0, 5.0]}, {}),
    "leaves of several data": ({"d": 10, "seed": 4}, {}, {"start": PAIRED}),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_change_no_merge(name, monkeypatch):
    sizes, of_family, options = CASES[name]
    model, data = problem(zipf_sizes(1500, **sizes), **of_family)
    graph = neighbour_graph(data, 10)
    monkeypatch.setattr(graph_partners, "_LEAST_PARTNERS", 20)
    found = grown(model, data, graph, **options)
    children, n_scores = replayed(model, data, graph, found.leaf, by_size="order" in options)
    assert found.children[: len(children)] == children
    monkeypatch.setattr(hierarchy, "OddsScores", Unbounded)
    plain = grown(model, data, graph, **options)
    assert found.children == plain.children
    assert found.log_block == plain.log_block
    assert found.log_joint == plain.log_joint
    assert plain.n_scores >= n_scores
    assert found.n_scores < 0.9 * n_scores


def test_bounds_save_most_scores_of_a_large_cluster(monkeypatch):
    model, data = problem(zipf_sizes(10_000, 10, n_clusters=4))
    graph = neighbour_graph(data, 10)
    found = grown(model, data, graph)
    monkeypatch.setattr(hierarchy, "OddsScores", Unbounded)
    plain = grown(model, data, graph)
    assert found.children == plain.children
    assert found.log_block == plain.log_block
    assert found.n_scores < 0.3 * plain.n_scores


def test_a_search_with_bounds_is_checked_and_goes_on_from_its_arrays(monkeypatch):
    monkeypatch.setattr(graph_partners, "_LEAST_PARTNERS", 20)
    model, data = problem(zipf_sizes(1200, 4, n_clusters=6, spread=1.5, seed=5))
    graph = neighbour_graph(data, 10)
    whole = grown(model, data, graph)
    kernel = HierarchicalClustering(candidates=graph, n_merges=100)
    half = kernel.init(model, data)
    while kernel.step(half).accepted:
        half.check()
        other = kernel.init(model, data)
        other.from_arrays(half.to_arrays())
        while kernel.step(other).accepted:
            pass
        assert other.children == whole.children
        assert other.log_joint == whole.log_joint


@pytest.mark.parametrize("make", [DiagonalGaussian, SphericalGaussian])
@pytest.mark.parametrize("seed", range(60))
def test_lines_bound_what_a_datum_gains_by_growth(seed, make):
    rng = np.random.default_rng(seed)
    d, n_large, n_data = rng.integers(1, 12), int(np.exp(rng.uniform(0, 7))), 200
    n_small = int(rng.choice([1, 1, 2, n_large]))
    small = rng.normal(size=(n_small, d)) * rng.choice([0.01, 1, 10])
    others = rng.normal(size=(n_data, d)) * np.exp(2 * rng.normal(size=(n_data, 1)))
    X = np.vstack([rng.normal(size=(n_large, d)), small, others])
    X = X * np.exp(rng.normal(size=d) * rng.choice([0.1, 1, 3])) + rng.normal(size=d) * rng.choice([0, 10, 1e4])
    data = Dataset(X, make())
    components = Components(data.family, data, n_data + 2, layout="clusters")
    labels = np.concatenate([np.zeros(n_large), np.ones(n_small), np.arange(2, n_data + 2)]).astype(np.int32)
    components.refresh(labels)
    slots = np.arange(2, n_data + 2)

    def log_density():
        return components.log_merged(0, slots) - components.log_marginal([0])

    before = log_density()
    lines = [components.growth_line(0, 1, depth) for depth in np.quantile(before, [0.0, 0.5, 1.0])]
    components.absorb(0, 1)
    gain = log_density() - before
    for slope, level in lines:
        assert 0 <= slope < 1
        assert (gain <= level - slope * before).all()
    if n_small == 1 and n_large > 300 and np.abs(small).max() < 4 and not seed % 2:
        slope, level = lines[-1]
        assert (level - slope * before - gain)[before.argmax()] < 100 / n_large  # of use
