"""Greedy Bayesian hierarchies against the plain search over all pairs, bit for bit, and against enumeration."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    MixtureModel,
    Multinomial,
    PitmanYor,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.errors import CapabilityError
from expfam.families.components import Components
from expfam.plugins.families import Geometric
from expfam.samplers import HierarchicalClustering, sample
from expfam.samplers.hierarchy import chain_weight


def naive(model, data, labels=None, *, by_size=False, leaf_weight=None):
    """Children, log odds and log blocks by scoring every pair of live clusters at every merge."""
    labels = np.arange(data.n_rows) if labels is None else labels
    L, alpha = labels.max() + 1, model.weights.alpha
    parts = Components(model.family, data, L, layout="clusters")
    for i, k in enumerate(labels):
        parts.add(i, k)
    count = np.bincount(labels)
    gamma = [0.0, *(math.lgamma(n) for n in range(1, data.n_rows + 1))]
    block = [math.log(alpha) + gamma[count[k]] + parts.log_marginal([k])[0] for k in range(L)]
    weight = list(block if leaf_weight is None else leaf_weight)
    ids, live, children, odds = list(range(L)), list(range(L)), [], []

    def together(k, l):
        return math.log(alpha) + gamma[count[k] + count[l]] + parts.log_merged(k, [l])[0]

    while len(live) > 1:
        best = None
        for a, k in enumerate(live):
            for l in live[a + 1 :]:
                score = together(k, l) - (weight[k] + weight[l])
                key = (score - math.log(count[k] + count[l]) if by_size else score, -ids[k], -ids[l])
                if best is None or key > best[0]:
                    best = key, k, l, score
        _, k, l, score = best
        block.append(together(k, l))
        parts.absorb(k, l)
        children.append((ids[k], ids[l]))
        odds.append(score)
        apart = weight[k] + weight[l]
        weight[k] = apart + (score + math.log1p(math.exp(-score)) if score > 0 else math.log1p(math.exp(score)))
        count[k] += count[l]
        ids[k] = L + len(children) - 1
        live = [m for m in live if m not in (k, l)] + [k]  # ascending by id: the youngest is last
    return children, odds, block


def problems():
    """Data with many exact ties: few distinct items."""
    rng = np.random.default_rng(3)
    words = rng.poisson(0.7, size=(8, 12))
    counts = words[rng.integers(8, size=60)].astype(np.int32)
    points = rng.normal(size=(60, 2)) + 4 * rng.integers(3, size=(60, 1))
    return {
        "multinomial": (Multinomial(concentration=0.1), counts),
        "multinomial, sparse": (Multinomial(concentration=0.1), sparse.csr_array(counts)),
        "poisson": (Poisson(), counts[:, :3]),
        "spherical": (SphericalGaussian(), points.round()),
        "diagonal": (DiagonalGaussian(), points),
        "full": (Gaussian(), points),
        "numpy": (Geometric(), counts[:25, :1]),
    }


def model_of(name, alpha=1.0):
    family, X = problems()[name]
    data = Dataset(X, family)
    return MixtureModel(data.family, DirichletProcess(alpha)), data


def grown(kernel, model, data, **options):
    state = kernel.init(model, data, **options)
    while kernel.step(state).accepted:
        pass
    return state


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("order", ["odds", "odds_size"])
@pytest.mark.parametrize("n_kept", [1, 4])
def test_merges_are_those_of_the_plain_search_to_the_bit(name, order, n_kept):
    model, data = model_of(name, alpha=0.5)
    state = grown(HierarchicalClustering(order=order, n_kept=n_kept, n_merges=7), model, data)
    children, odds, block = naive(state.model, data, by_size=order == "odds_size")
    tree = state.tree()
    assert tree.children.tolist() == [list(pair) for pair in children]
    assert tree.log_odds.tolist() == odds
    assert tree.log_block.tolist() == block
    assert state.log_joint == pytest.approx(tree.log_evidence, rel=1e-12)
    state.check()


def test_the_order_by_size_is_another_one():
    model, data = model_of("diagonal")
    trees = [grown(HierarchicalClustering(order=order), model, data).tree() for order in ("odds", "odds_size")]
    assert trees[0].children.tolist() != trees[1].children.tolist()


def test_invariants_hold_after_each_merge():
    model, data = model_of("poisson")
    kernel = HierarchicalClustering(n_merges=1)
    state = kernel.init(model, data)
    for _ in range(40):
        kernel.step(state)
        state.check()


def test_scores_are_not_reducible():
    """Three equal binary items: together they are more probable than the pair that was merged first."""
    data = Dataset(np.ones((3, 1)), _bernoulli())
    state = grown(HierarchicalClustering(), MixtureModel(data.family, DirichletProcess(1.0)), data)
    np.testing.assert_allclose(state.tree().log_odds, [math.log(4 / 3), math.log(12 / 7)], rtol=1e-12)


def _bernoulli():
    from expfam.plugins.families import Bernoulli

    return Bernoulli(a=1.0, b=1.0)


def test_numpy_family_gives_the_compiled_ones_tree():
    class PlainPoisson(Poisson):
        def components(self, data, capacity, *, layout="features"):
            from expfam.families.generic import GenericComponents

            return GenericComponents(self, data, capacity)

    X = problems()["poisson"][1]
    trees = []
    for family in (Poisson(shape=1.3, rate=0.7), PlainPoisson(shape=1.3, rate=0.7)):
        data = Dataset(X, family)
        trees.append(grown(HierarchicalClustering(), MixtureModel(data.family, DirichletProcess()), data).tree())
    assert trees[0].log_evidence == pytest.approx(trees[1].log_evidence, rel=1e-9)


def test_a_hierarchy_over_given_clusters():
    model, data = model_of("diagonal")
    labels = np.arange(60) % 5
    state = grown(HierarchicalClustering(), model, data, start=labels)
    children, odds, _ = naive(state.model, data, labels)
    assert state.tree().children.tolist() == [list(pair) for pair in children]
    assert state.tree().log_odds.tolist() == odds
    assert state.tree().counts[:5].tolist() == [12] * 5
    for k in range(5):
        assert len(set(state.labels[labels == k])) == 1


def test_copies_collapsed_first_weigh_like_a_chain_of_merges():
    X = np.repeat([[0.0], [3.0], [3.5]], [3, 1, 2], axis=0)
    data = Dataset(X, SphericalGaussian())
    model = MixtureModel(data.family, DirichletProcess(0.7)).bind(data)
    labels = np.repeat([0, 1, 2], [3, 1, 2])
    block = {}
    for n in (1, 2, 3):
        S = data.phi(0, 6)[[0, 3, 4]] * n
        block[n] = math.log(0.7) + math.lgamma(n) + data.family.log_marginal(np.full(3, float(n)), S)
    # the chain's partitions of three copies: {3}, {2, 1}, {1, 1, 1}
    three = logsumexp([block[3][0], block[2][0] + block[1][0], 3 * block[1][0]])
    two = logsumexp([block[2][2], 2 * block[1][2]])
    np.testing.assert_allclose(chain_weight(model, data, labels), [three, block[1][1], two], rtol=1e-12)
    state = grown(HierarchicalClustering(duplicates="collapse"), model, data)
    assert state.tree().n_leaves == 3
    children, odds, _ = naive(state.model, data, labels, leaf_weight=chain_weight(model, data, labels))
    assert state.tree().children.tolist() == [list(pair) for pair in children]
    assert state.tree().log_odds.tolist() == odds


@pytest.mark.parametrize("name", ["multinomial, sparse", "full", "numpy"])
def test_a_search_goes_on_from_its_arrays(name):
    model, data = model_of(name)
    kernel = HierarchicalClustering(n_merges=9)
    whole = grown(kernel, model, data)
    half = kernel.init(model, data)
    kernel.step(half)
    other = kernel.init(model, data)
    other.from_arrays(half.to_arrays())
    while kernel.step(other).accepted:
        pass
    assert other.tree().children.tolist() == whole.tree().children.tolist()
    assert other.tree().log_odds.tolist() == whole.tree().log_odds.tolist()
    assert other.log_joint == whole.log_joint


def test_interrupted_in_a_score_the_merge_is_made_whole():
    class Interrupted(Geometric):
        def log_marginal(self, n, S):
            calls["n"] += 1
            if calls["n"] in calls["stop_at"]:
                raise KeyboardInterrupt
            return super().log_marginal(n, S)

    data = Dataset(np.arange(12)[:, None] % 5, Interrupted())
    model = MixtureModel(data.family, DirichletProcess())
    heard = 0
    for stop_at in range(20, 80, 3):
        calls = {"n": 0, "stop_at": {stop_at}}
        state = None
        try:
            state = HierarchicalClustering().init(model, data)
        except KeyboardInterrupt:
            continue
        trace = sample(HierarchicalClustering(n_merges=1), state, 30)
        heard += trace.interrupted
        state.check()
        assert len(state.tree().roots) == state.n_clusters == 12 - len(state.children)
    assert heard


def test_refusals():
    X = np.arange(6)[:, None]
    for weights in (SymmetricDirichlet(3), PitmanYor(alpha=1.0, discount=0.3)):
        with pytest.raises(CapabilityError, match="needs the prior of a DirichletProcess"):
            HierarchicalClustering().init(MixtureModel(Poisson(), weights), X)
    model = MixtureModel(Poisson(), DirichletProcess())
    with pytest.raises(ValueError, match="order must be one of"):
        HierarchicalClustering(order="best of all").init(model, X)
    with pytest.raises(ValueError, match="starts from its data or from labels"):
        HierarchicalClustering().init(model, X, start="kmeans++")
    with pytest.raises(ValueError, match="makes leaves of its own"):
        HierarchicalClustering(duplicates="collapse").init(model, X, start=np.zeros(6, dtype=int))
    with pytest.raises(ValueError, match="n_merges must be a positive integer"):
        HierarchicalClustering(n_merges=0).init(model, X)


def test_one_datum_and_two():
    model = MixtureModel(Poisson(), DirichletProcess(2.0))
    one = grown(HierarchicalClustering(), model, [[4]])
    assert one.tree().log_evidence == pytest.approx(one.tree().log_block[0] - math.log(2.0))
    assert one.labels.tolist() == [0]
    two = grown(HierarchicalClustering(), model, [[4], [4]])
    assert two.n_clusters == 1
    assert two.tree().children.tolist() == [[0, 1]]
