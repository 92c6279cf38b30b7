"""Greedy Bayesian hierarchies against the plain search over all pairs, bit for bit, and against enumeration."""

import heapq
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln, logsumexp

import expfam as ef
from expfam.errors import CapabilityError, DataWarning
from expfam.families.waiting.exponential import Exponential
from expfam.samplers import HierarchicalClustering, sample
from expfam.samplers.geometry.graphs import hash_graph, leaf_graph, neighbour_graph
from expfam.samplers.hierarchy.kernel import chain_weight, scores_of
from expfam.samplers.hierarchy.pairs import AllPartners
from expfam.samplers.hierarchy.scores import OddsScores


def naive(model, data, labels=None, *, order="odds", leaf_weight=None):
    """Children, log odds and log blocks by scoring every pair of live clusters at every merge."""
    labels = np.arange(data.n_rows, dtype=np.int32) if labels is None else np.asarray(labels, dtype=np.int32)
    scores = scores_of(model.family, data)(model, data, labels, leaf_weight=leaf_weight, by_size=order == "odds_size")
    block, weight = scores.block.tolist(), scores.weight.tolist()
    live, children, odds = [(k, k) for k in range(len(block))], [], []  # (id, slot), ascending
    while len(live) > 1:
        best = None
        for a, (i, k) in enumerate(live[:-1]):
            of_k = scores.score(k, [l for _, l in live[a + 1 :]])
            place = int(np.argmax(of_k))  # the first of equal ones, hence the smallest id
            if best is None or of_k[place] > best[0]:
                best = of_k[place], (i, k), live[a + 1 + place]
        _, (i, k), (j, l) = best
        together, growth = scores.absorb(k, l)
        odds.append(together - (weight[i] + weight[j]))
        weight.append(weight[i] + weight[j] + softplus(odds[-1]))
        assert growth == pytest.approx(weight[-1] - weight[i] - weight[j], abs=1e-8)
        block.append(together)
        children.append((i, j))
        live = [pair for pair in live if pair[1] not in (k, l)] + [(len(block) - 1, k)]
    return children, odds, block


def by_heap(model, data, *, order="odds"):
    """The same from a heap of all pairs, those of dead clusters skipped as they come up."""
    scores = scores_of(model.family, data)(
        model, data, np.arange(data.n_rows, dtype=np.int32), leaf_weight=None, by_size=order == "odds_size"
    )
    block, weight = scores.block.tolist(), scores.weight.tolist()
    slot_of = {i: i for i in range(data.n_rows)}  # of each live id
    heap, children, odds = [], [], []

    def push(j):
        older = [i for i in slot_of if i < j]
        if older:
            for i, score in zip(older, scores.score(slot_of[j], [slot_of[i] for i in older]).tolist()):
                heapq.heappush(heap, (-score, i, j))

    for j in range(data.n_rows):
        push(j)
    while len(slot_of) > 1:
        _, i, j = heapq.heappop(heap)
        if i in slot_of and j in slot_of:
            k, l = slot_of.pop(i), slot_of.pop(j)
            together, _ = scores.absorb(k, l)
            odds.append(together - (weight[i] + weight[j]))
            weight.append(weight[i] + weight[j] + softplus(odds[-1]))
            block.append(together)
            children.append((i, j))
            slot_of[len(block) - 1] = k
            push(len(block) - 1)
    return children, odds, block


def softplus(x):
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


def naive_on_graph(model, data, graph):
    """Slots of the merges by scoring every pair of live clusters with an edge between them, until there is none."""
    scores = scores_of(model.family, data)(
        model, data, np.arange(data.n_rows, dtype=np.int32), leaf_weight=None, by_size=False
    )
    near = (graph + graph.T).astype(bool).toarray() & ~np.eye(data.n_rows, dtype=bool)
    age = dict(enumerate(range(data.n_rows)))  # id of the cluster in each live slot
    merges = []
    while near.any():
        pairs = [
            (-score, age[k], age[l], k, l)
            for k in age
            for l, score in zip(np.flatnonzero(near[k]), scores.score(k, np.flatnonzero(near[k])))
            if age[k] < age[l]
        ]
        *_, k, l = min(pairs)
        scores.absorb(k, l)
        merges.append((age[k], age[l]))
        near[k] |= near[l]
        near[:, k] |= near[:, l]
        near[l] = near[:, l] = near[k, k] = False
        age[k] = data.n_rows + len(merges) - 1
        del age[l]
    return merges


def problems():
    """Data with many exact ties: few distinct items."""
    rng = np.random.default_rng(3)
    words = rng.poisson(0.7, size=(8, 12))
    counts = words[rng.integers(8, size=60)].astype(np.int32)
    points = rng.normal(size=(60, 2)) + 4 * rng.integers(3, size=(60, 1))
    return {
        "multinomial": (ef.Multinomial(concentration=0.1), counts),
        "multinomial, sparse": (ef.Multinomial(concentration=0.1), sparse.csr_array(counts)),
        "poisson": (ef.Poisson(), counts[:, :3]),
        "spherical": (ef.SphericalGaussian(), points.round()),
        "diagonal": (ef.DiagonalGaussian(), points),
        "full": (ef.Gaussian(), points),
        "mean zero": (ef.ZeroMeanGaussian(), points - 4),
        "categorical": (ef.Categorical(), counts[:, :4].clip(max=2)),
        "categorical with holes": (ef.Categorical(), counts[:, :4].clip(max=2) - (counts[:, 4:8] == 1)),
        "numpy": (Exponential(), counts[:25, :1]),
    }


def model_of(name, alpha=1.0):
    family, X = problems()[name]
    data = ef.Dataset(X, family)
    return ef.MixtureModel(data.family, ef.DirichletProcess(alpha)), data


def grown(kernel, model, data, **options):
    state = kernel.init(model, data, **options)
    while kernel.step(state).accepted:
        pass
    return state


def same(state, expected):
    children, odds, block = expected
    tree = state.tree()
    return (
        tree.children.tolist() == [list(pair) for pair in children]
        and tree.log_odds.tolist() == odds
        and tree.log_block.tolist() == block
    )


VARIANTS = {
    "default": {},
    "one partner kept": {"n_kept": 1},
    "threads": {"n_threads": 3},
    "all pairs": {"index": None},
    "all pairs in threads": {"index": None, "n_threads": 2, "n_kept": 2},
    "all pairs as candidates": {"candidates": sparse.csr_array(np.ones((60, 60)))},
}


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("order", ["odds", "odds_size"])
def test_merges_are_those_of_the_plain_search_to_the_bit(name, order):
    model, data = model_of(name, alpha=0.5)
    expected = naive(model.bind(data), data, order=order)
    assert by_heap(model.bind(data), data, order=order) == expected
    for variant, options in VARIANTS.items():
        if "candidates" in options:
            options = {"candidates": sparse.csr_array(np.ones((data.n_rows, data.n_rows)))}
        state = grown(HierarchicalClustering(order=order, n_merges=7, **options), model, data)
        assert same(state, expected), variant
        assert state.log_joint == pytest.approx(state.tree().log_evidence, rel=1e-12)
        state.check()


@pytest.mark.parametrize("name", ["multinomial", "poisson", "diagonal", "full", "spherical", "categorical"])
def test_merges_are_those_of_the_plain_search_on_many_ties(name):
    """Few distinct items, other ones for each seed."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        family, X = problems()[name]
        X = X[rng.choice(len(X), 6)][rng.integers(6, size=50)]
        if X.dtype.kind == "f":
            X = X.round()
        data = ef.Dataset(X, family)
        model = ef.MixtureModel(data.family, ef.DirichletProcess(rng.choice([0.1, 1.0, 5.0])))
        expected = naive(model.bind(data), data)
        assert by_heap(model.bind(data), data) == expected
        for options in ({}, {"index": None}, {"n_kept": 1, "n_threads": 2}):
            kernel = HierarchicalClustering(order="odds", **options)
            assert same(grown(kernel, model, data), expected), (seed, options)


@pytest.mark.parametrize("name", problems())
def test_the_automatic_order_looks_at_sizes_where_values_are_no_real_numbers(name):
    model, data = model_of(name)
    order = "odds_size" if data.family.name in ("multinomial", "poisson", "geometric", "categorical") else "odds"
    state = HierarchicalClustering().init(model, data)
    assert state.order == order
    assert same(grown(HierarchicalClustering(), model, data), naive(model.bind(data), data, order=order))


@pytest.mark.parametrize("name", problems())
def test_copies_have_one_score(name):
    """To the bit, on either side of what they are scored with, in any company, beside leaves and merged clusters."""
    family, X = problems()[name]
    X = X[np.arange(24) % 8]
    data = ef.Dataset(X, family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess()).bind(data)
    scores = OddsScores(model, data, np.arange(24, dtype=np.int32), leaf_weight=None, by_size=False)
    for l in (9, 17, 12):
        scores.absorb(1, l)
    for datum in (0, 2, 3, 5):
        slots = datum + 8 * np.arange(3)
        for other in (1, 4, 6, 7, 14, 15, 22, 23):
            alone = [scores.score(k, [other])[0] for k in slots]
            assert len({*alone, *scores.score(other, slots).tolist()}) == 1, (datum, other)


@pytest.mark.parametrize("name", ["spherical", "diagonal", "full", "mean zero", "categorical", "numpy", "poisson"])
def test_copies_that_share_their_scores_change_nothing(name, monkeypatch):
    """Merges, ties and bits; for lists of every length, and when the search is written and read back."""
    from expfam.samplers.hierarchy import kernel as hierarchy

    rng = np.random.default_rng(5)
    family, X = problems()[name]
    X = X[rng.permutation(np.concatenate([np.arange(60) % 9, np.arange(9, 20)]) % len(X))]
    data = ef.Dataset(X, family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.5))
    for order in ("odds", "odds_size"):
        expected = naive(model.bind(data), data, order=order)
        for n_kept in (1, 3, 8, 40):
            kernel = HierarchicalClustering(index=None, order=order, n_kept=n_kept, n_merges=9, n_threads=2)
            state = kernel.init(model, data)
            groups = np.asarray(state.partners.to_arrays()["group"])
            assert groups.max() + 1 == len(np.unique(data.X, axis=0)) < 30
            while kernel.step(state).accepted:
                state.check()
                other = kernel.init(model, data)
                other.from_arrays(state.to_arrays())
                state = other
            assert same(state, expected), (order, n_kept)
    kernel = HierarchicalClustering(index=None, n_kept=1)  # longer lists hold more copies
    shared = grown(kernel, model, data).n_scores
    monkeypatch.setattr(hierarchy, "_FEWER", 0.0)
    monkeypatch.setattr(hierarchy, "all_partners", AllPartners)
    assert shared < 0.8 * grown(kernel, model, data).n_scores
    state = kernel.init(model, data, start=np.arange(len(X)) // 2)  # leaves of several data have no copies
    assert max(state.partners.to_arrays()["group"]) == -1


@pytest.mark.parametrize("has_copies", [False, True])
@pytest.mark.parametrize("name", ["diagonal", "full", "spherical"])
def test_the_order_by_size_takes_over_the_scores_of_the_first_pairs(name, has_copies):
    """All that a search reads is that of a forest made anew."""
    rng = np.random.default_rng(2)
    family, X = problems()[name]
    X = X[rng.integers(X.shape[0], size=300)]
    data = ef.Dataset(X if has_copies else X + rng.normal(size=X.shape), family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.5)).bind(data)
    first = HierarchicalClustering(order="odds").init(model, data)
    shared, anew = first.by_size(n_threads=1), HierarchicalClustering(order="odds_size").init(model, data)
    assert same_search(shared.to_arrays(), anew.to_arrays())
    while anew.merge():
        assert shared.merge()
    assert same_search(shared.to_arrays(), anew.to_arrays())
    shared.check()
    assert first.n_clusters == 300, "the first forest has merges"
    assert first.merge()
    assert first.by_size() is None


def same_search(one, other):
    """The same to the bit, but for floors: bounds of what was left out, which have their own rounding."""
    floors = [arrays["queue"].pop("floor") for arrays in (one, other)]
    np.testing.assert_allclose(*floors, rtol=1e-9)
    return same_arrays(one, other)


def same_arrays(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_arrays(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def test_scores_of_other_forests_are_not_taken_over():
    model, data = model_of("diagonal")
    model, labels = model.bind(data), np.arange(data.n_rows) // 2
    kernel = HierarchicalClustering(order="odds")
    assert kernel.init(model, data, start=labels).by_size() is None  # clusters of several data have other sizes
    assert HierarchicalClustering(order="odds_size").init(model, data).by_size() is None
    assert HierarchicalClustering(order="odds", candidates="knn").init(model, data).by_size() is None
    model, data = model_of("poisson")
    assert kernel.init(model.bind(data), data).by_size() is None


@pytest.mark.parametrize("name", ["multinomial, sparse", "poisson", "diagonal", "full", "spherical"])
def test_threads_change_nothing(name):
    """More leaves than one task of the first scans has."""
    rng = np.random.default_rng(0)
    family, X = problems()[name]
    X = X[rng.integers(X.shape[0], size=500)]
    data = ef.Dataset(X + rng.normal(size=X.shape) if X.dtype.kind == "f" else X, family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.5))
    for index in ("exact", None):
        one, three = (
            grown(HierarchicalClustering(index=index, n_threads=n_threads), model, data) for n_threads in (1, 3)
        )
        assert one.children == three.children
        assert one.log_block == three.log_block
        assert one.n_scores == three.n_scores


@pytest.mark.filterwarnings("ignore:multinomial. 2 of 40 rows are empty")
def test_fractional_counts_and_priors_of_each_word_have_an_index_too():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, size=(40, 9)) * rng.choice([0.5, 1.0, 1.7], size=(40, 9))
    X[3] = 0.0  # a row without words
    X = sparse.csr_array(X)
    for family, Y in (
        (ef.Multinomial(concentration=rng.gamma(1.0, size=9), allow_fractional=True), X),
        (ef.Poisson(shape=rng.gamma(1.0, size=9), rate=2.0), sparse.csr_array(np.ceil(X.toarray()))),
    ):
        data = ef.Dataset(Y, family)
        model = ef.MixtureModel(data.family, ef.DirichletProcess(0.2)).bind(data)
        expected = naive(model, data)
        assert same(grown(HierarchicalClustering(order="odds"), model, data), expected)
        assert same(grown(HierarchicalClustering(order="odds", index=None), model, data), expected)


@pytest.mark.parametrize("name", [name for name in problems() if name != "numpy"])
def test_scores_are_those_of_the_evidence(name):
    """Of clusters of several data, with leaves that are groups, by the recursion in plain numbers."""
    model, data = model_of(name, alpha=0.7)
    model = model.bind(data)
    labels = np.arange(data.n_rows, dtype=np.int32) % 20
    scores = scores_of(model.family, data)(model, data, labels, leaf_weight=None, by_size=True)
    for k, l in ((0, 5), (1, 9), (0, 1)):
        scores.absorb(k, l)
        labels[labels == l] = k
    live = np.unique(labels)
    n, S = data.statistics(labels, 20)
    S = S.toarray() if sparse.issparse(S) else S
    for k in live[:6]:
        others = live[live != k]
        together = data.family.log_marginal(n[k] + n[others], S[k] + S[others])
        expected = math.log(0.7) + gammaln(n[k] + n[others]) + together - scores.weight[k] - scores.weight[others]
        expected -= np.log(n[k] + n[others])
        np.testing.assert_allclose(scores.score(k, others), expected, rtol=1e-9, atol=1e-9)
        alone = [scores.score(l, [k])[0] for l in others]
        assert alone == scores.score(k, others).tolist()  # from the other side, and one by one


@pytest.mark.parametrize(
    "family",
    [
        ef.DiagonalGaussian(),
        ef.Gaussian(),
        ef.ZeroMeanGaussian(),
        ef.SphericalGaussian(),
        ef.SphericalGaussian(variance="shared"),
    ],
)
def test_scores_of_large_clusters_are_those_of_the_evidence(family):
    """Beyond the tables by number of data, with partners of many sizes whose terms share a place."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(22), [4999, *range(1, 19), 33, 5000, 1])
    data = ef.Dataset(rng.normal(size=(len(labels), 3)), family)
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.7)).bind(data)
    scores = OddsScores(model, data, labels.astype(np.int32), leaf_weight=None, by_size=False)
    n, S = data.statistics(labels, 22)
    others = rng.permutation(np.arange(1, 22))
    expected = math.log(0.7) + gammaln(n[0] + n[others]) + data.family.log_marginal(n[0] + n[others], S[0] + S[others])
    expected -= scores.weight[0] + scores.weight[others]
    np.testing.assert_allclose(scores.score(0, others), expected, rtol=1e-9, atol=1e-7)
    assert [scores.score(l, [0])[0] for l in others] == scores.score(0, others).tolist()


def test_every_merge_of_a_larger_run_is_the_best_there_is():
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(400, 0.02), size=20)
    X = sparse.csr_array(np.array([rng.multinomial(5, topics[i % 20]) for i in range(1500)]))
    for family, Y in ((ef.Multinomial(concentration=0.05), X), (ef.DiagonalGaussian(), rng.normal(size=(800, 3)))):
        data = ef.Dataset(Y, family)
        kernel = HierarchicalClustering(n_merges=1)
        state = kernel.init(ef.MixtureModel(data.family, ef.DirichletProcess(0.3)), data)
        for step in range(data.n_rows - 1):
            pair = state.queue.best()
            if step % 97 == 0:
                live = state.queue.slots
                best = max(state.scores.score(k, live[:a]).max() for a, k in enumerate(live) if a)
                assert pair[2] == best
            kernel.step(state)


def test_the_index_scores_far_fewer_pairs():
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(2000, 0.01), size=60)
    X = sparse.csr_array(np.array([rng.multinomial(5, topics[i % 60]) for i in range(1200)]))
    data = ef.Dataset(X, ef.Multinomial(concentration=0.01))
    model = ef.MixtureModel(data.family, ef.DirichletProcess(1.0))
    found, all_pairs = (grown(HierarchicalClustering(index=index), model, data) for index in ("exact", None))
    assert found.tree().children.tolist() == all_pairs.tree().children.tolist()
    assert found.n_scores < 0.2 * all_pairs.n_scores
    assert all_pairs.n_scores <= 1.002 * (data.n_rows - 1) ** 2


def test_overlap_alone_leaves_roots_that_are_joined_exactly():
    X = sparse.csr_array(np.kron(np.eye(4), np.ones((3, 2))).astype(np.int32))  # four vocabularies
    data = ef.Dataset(X, ef.Multinomial(concentration=2.0))
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.01))
    kernel = HierarchicalClustering(index="overlap", n_merges=1)
    state = kernel.init(model, data)
    for merged in range(8):
        kernel.step(state)
        state.check()
        below = state.tree().leaves(12 + merged)
        assert len(set(below // 3)) == 1
    assert state.queue.best() is None
    while kernel.step(state).accepted:
        state.check()
    assert state.n_clusters == 1
    exact = grown(HierarchicalClustering(), model, data)
    assert exact.tree().children.tolist() != state.tree().children.tolist()  # disjoint pairs do win at such an alpha
    with pytest.raises(CapabilityError, match="index='overlap' needs multinomial or Poisson"):
        HierarchicalClustering(index="overlap").init(*model_of("full"))


def blobs(n, d, n_clusters, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_clusters, size=n)
    return 9 * rng.normal(size=(n_clusters, d))[labels] + rng.normal(size=(n, d)), labels


def test_neighbours_are_enough_where_clusters_are_apart():
    X, _ = blobs(400, 3, 8)
    data = ef.Dataset(X, ef.DiagonalGaussian())
    model = ef.MixtureModel(data.family, ef.DirichletProcess())
    exact = grown(HierarchicalClustering(), model, data)
    near = grown(HierarchicalClustering(candidates="knn", n_neighbors=10), model, data)
    assert near.n_clusters == 1
    assert near.n_scores < 0.2 * data.n_rows**2  # of which the exact search scores what bounds do not decide
    np.testing.assert_array_equal(near.labels, exact.labels)
    assert near.log_joint == pytest.approx(exact.log_joint, abs=0.1)


def test_candidates_of_any_graph():
    """Edges within two halves: each is joined first, then the halves; and a graph without edges is the exact search."""
    model, data = model_of("diagonal")
    halves = sparse.csr_array(np.kron(np.eye(2), np.ones((30, 30))))
    kernel = HierarchicalClustering(candidates=halves, n_merges=1)
    state = kernel.init(model, data)
    for _ in range(58):
        kernel.step(state)
        state.check()
    assert [set(state.tree().leaves(root) // 30) for root in state.tree().roots] in ([{0}, {1}], [{1}, {0}])
    grown_all = grown(HierarchicalClustering(candidates=sparse.csr_array((60, 60))), model, data)
    assert same(grown_all, naive(model.bind(data), data))
    for wrong in (sparse.csr_array((59, 60)), np.ones((60, 60))):
        with pytest.raises(ValueError, match=r"must be a sparse \(60, 60\) matrix"):
            HierarchicalClustering(candidates=wrong).init(model, data)
    with pytest.raises(ValueError, match="candidates must be None, 'knn', 'hash' or a sparse matrix; got 'near'"):
        HierarchicalClustering(candidates="near").init(model, data)


@pytest.mark.parametrize("name", ["multinomial", "diagonal", "full"])
def test_merges_on_a_graph_are_those_of_the_plain_search_on_it(name):
    """Lists of edges that outgrow their room and are moved together, thinned, written and read back."""
    model, data = model_of(name)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph = sparse.random_array((60, 60), density=rng.choice([0.02, 0.06, 0.3]), rng=rng, format="csr")
        if seed == 5:  # a star: one list takes up all others
            graph = sparse.csr_array((np.ones(59), (np.zeros(59, dtype=int), np.arange(1, 60))), shape=(60, 60))
        expected = naive_on_graph(model.bind(data), data, graph)
        kernel = HierarchicalClustering(order="odds", candidates=graph, n_merges=1)
        state = kernel.init(model, data)
        for n_merged in range(len(expected)):
            kernel.step(state)
            if n_merged % 9 == 4:
                state.check()
                other = kernel.init(model, data)
                other.from_arrays(state.to_arrays())
                state = other
        assert state.children == expected, seed
        assert state.queue.best() is None


@pytest.mark.parametrize("name", ["multinomial, sparse", "multinomial", "diagonal"])
def test_neighbours_are_the_nearest(name):
    _, data = model_of(name)
    graph = neighbour_graph(data, 4, n_threads=2)
    assert graph.shape == (60, 60)
    assert not graph.diagonal().any()
    if name == "diagonal":
        X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
        distance = ((X[:, None] - X) ** 2).sum(axis=2)
        np.fill_diagonal(distance, np.inf)
        expected = np.sort(distance, axis=1)[:, :4]
        found = np.sort(distance[np.arange(60)[:, None], graph.indices.reshape(60, 4)], axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        P = np.sqrt(data.X.toarray() if sparse.issparse(data.X) else data.X)
        P /= np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-300)
        near = P @ P.T
        np.fill_diagonal(near, -1.0)
        for i in range(60):
            rows = graph[[i]].indices
            if len(rows) == 4 and sparse.issparse(data.X):  # a cover tree knows the others by a projection only
                np.testing.assert_allclose(np.sort(near[i, rows]), np.sort(near[i])[-4:], atol=1e-6)


def nearest_by(distance, n_neighbors):
    """The edges that `hash_graph` aims at, by all distances."""
    graph = np.zeros(distance.shape, dtype=bool)
    np.put_along_axis(graph, np.argsort(distance, axis=1)[:, :n_neighbors], True, axis=1)
    return graph


def test_hashes_find_most_of_the_nearest():
    """More of them with more tables, the same ones for any number of threads; far more than chance would."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.03), size=12)
    X = np.array([rng.multinomial(9, topics[i % 12]) for i in range(700)])
    roots = np.sqrt(X)
    points = blobs(700, 8, 12)[0]
    standard = (points - points.mean(axis=0)) / points.std(axis=0)
    onto = {
        "sparse counts": (ef.Dataset(sparse.csr_array(X), ef.Multinomial()), roots / 3),
        "counts": (ef.Dataset(X, ef.Poisson()), roots),
        "columns": (ef.Dataset(points, ef.DiagonalGaussian()), standard),
    }
    for name, (data, rows) in onto.items():
        distance = ((rows[:, None] - rows) ** 2).sum(axis=2)
        np.fill_diagonal(distance, np.inf)
        expected = nearest_by(distance, 6)
        reached = []
        for n_tables in (1, 8):
            graph = hash_graph(data, 6, n_tables=n_tables, n_threads=1)
            assert not graph.diagonal().any()
            assert graph.sum(axis=1).max() <= 6
            found = graph.toarray().astype(bool)
            reached.append(np.mean(np.where(found, distance, 0).sum() / np.where(expected, distance, 0).sum()))
            np.testing.assert_array_equal(
                found, hash_graph(data, 6, n_tables=n_tables, n_threads=3).toarray().astype(bool), name
            )
        share = (found & expected).sum() / expected.sum()
        assert share > 0.6, name  # chance: under 0.01; ties of documents count as missed
        assert 1.0 <= reached[1] < 1.1, name
        assert reached[1] <= reached[0], name


def test_hashed_candidates_are_enough_where_clusters_are_apart():
    X, _ = blobs(400, 4, 8)
    for family, Y in ((ef.DiagonalGaussian(), X), (ef.Poisson(), np.exp(X / 9).round())):
        data = ef.Dataset(Y, family)
        model = ef.MixtureModel(data.family, ef.DirichletProcess())
        exact = grown(HierarchicalClustering(), model, data)
        near = grown(HierarchicalClustering(candidates="hash", n_neighbors=10), model, data)
        assert near.n_clusters == 1
        assert near.log_joint > exact.log_joint - 1e-4 * abs(exact.log_joint)
        if family.support == "real":
            np.testing.assert_array_equal(near.labels, exact.labels)
            assert near.n_scores < 0.2 * data.n_rows**2
    for rows in ([[1, 2]], [[1, 2], [3, 0]], [[1, 2]] * 30):  # nobody to meet, one, nobody else
        graph = hash_graph(ef.Dataset(np.array(rows), ef.Poisson()), 5)
        assert graph.shape == (len(rows), len(rows))
        assert not graph.diagonal().any()
    with pytest.raises(CapabilityError, match="'gaussian_diag' got one: 'knn' costs little"):
        HierarchicalClustering(candidates="hash").init(
            ef.MixtureModel(ef.DiagonalGaussian(), ef.DirichletProcess()), X[:, :1]
        )
    one = ef.Dataset(np.array([[0], [1], [0], [9], [8]]), ef.Poisson())  # counts of one word are hashed by their size
    state = grown(HierarchicalClustering(candidates="hash"), ef.MixtureModel(one.family, ef.DirichletProcess()), one)
    assert state.n_clusters == 1


def test_leaves_are_candidates_where_their_data_are():
    graph = sparse.csr_array(([1.0, 1.0, 0.0], ([0, 2, 3], [2, 1, 0])), shape=(4, 4))
    leaf = np.array([0, 0, 1, 2], dtype=np.int32)
    assert leaf_graph(graph, leaf).toarray().astype(bool).tolist() == [
        [False, True, False],
        [True, False, False],
        [False, False, False],
    ]


def test_many_leaves_are_warned_of(monkeypatch):
    from expfam.samplers.hierarchy import kernel as hierarchy

    monkeypatch.setattr(hierarchy, "_MANY", 50)
    model, data = model_of("diagonal")
    with pytest.warns(DataWarning, match=r"all pairs of 60 leaves need 3.6e\+03 scores: candidates='knn'"):
        HierarchicalClustering().init(model, data)
    HierarchicalClustering().init(*model_of("multinomial"))  # an index scores fewer
    HierarchicalClustering(candidates="knn").init(model, data)


def test_the_order_by_size_is_another_one():
    model, data = model_of("diagonal")
    trees = [grown(HierarchicalClustering(order=order), model, data).tree() for order in ("odds", "odds_size")]
    assert trees[0].children.tolist() != trees[1].children.tolist()


def test_invariants_hold_after_each_merge():
    for name, options in (
        ("poisson", {}),
        ("poisson", {"index": None, "n_kept": 1}),
        ("poisson", {"candidates": "knn", "n_neighbors": 2}),
        ("full", {}),
        ("multinomial, sparse", {"n_kept": 1}),
    ):
        model, data = model_of(name)
        kernel = HierarchicalClustering(n_merges=1, **options)
        state = kernel.init(model, data)
        while kernel.step(state).accepted:
            state.check()


def test_scores_are_not_reducible():
    """Three equal binary items: together they are more probable than the pair that was merged first."""
    data = ef.Dataset(np.ones((3, 1)), _bernoulli())
    state = grown(HierarchicalClustering(), ef.MixtureModel(data.family, ef.DirichletProcess(1.0)), data)
    np.testing.assert_allclose(state.tree().log_odds, [math.log(4 / 3), math.log(12 / 7)], rtol=1e-12)


def _bernoulli():
    from expfam.families.trials.bernoulli import Bernoulli

    return Bernoulli(a=1.0, b=1.0)


def test_numpy_family_gives_the_compiled_ones_tree():
    class PlainPoisson(ef.Poisson):
        def components(self, data, capacity, *, layout="features"):
            from expfam.families.generic import GenericComponents

            return GenericComponents(self, data, capacity)

    X = np.random.default_rng(5).poisson(np.repeat([[2.0, 9.0], [9.0, 2.0]], 15, axis=0))
    trees = []
    for family in (ef.Poisson(shape=1.3, rate=0.7), PlainPoisson(shape=1.3, rate=0.7)):
        data = ef.Dataset(X, family)
        trees.append(grown(HierarchicalClustering(), ef.MixtureModel(data.family, ef.DirichletProcess()), data).tree())
    assert trees[0].log_evidence == pytest.approx(trees[1].log_evidence, rel=1e-9)
    same_cuts = [tree.cut(n_clusters=k).tolist() for tree in trees for k in (2, 5)]
    assert same_cuts[:2] == same_cuts[2:]


def test_a_hierarchy_over_given_clusters():
    model, data = model_of("diagonal")
    labels = np.arange(60) % 5
    state = grown(HierarchicalClustering(), model, data, start=labels)
    assert same(state, naive(state.model, data, labels))
    assert state.tree().counts[:5].tolist() == [12] * 5
    for k in range(5):
        assert len(set(state.labels[labels == k])) == 1


def test_weight_over_given_clusters_is_that_of_coarser_partitions():
    """By enumeration of everything that the tree over three clusters can be cut into."""
    model, data = model_of("spherical", alpha=0.6)
    labels = np.arange(60) % 3
    state = grown(HierarchicalClustering(), model, data, start=labels)
    tree, phi = state.tree(), data.phi(0, 60)
    (i, j), (k, _) = tree.children.tolist()

    def block(*clusters):
        rows = np.isin(labels, clusters)
        n = np.array([float(rows.sum())])
        return math.log(0.6) + gammaln(n[0]) + data.family.log_marginal(n, phi[rows].sum(axis=0)[None])[0]

    partitions = [block(0) + block(1) + block(2), block(i, j) + block(k), block(0, 1, 2)]
    assert tree.log_weight[-1] == pytest.approx(logsumexp(partitions), rel=1e-12)


def test_copies_collapsed_first_weigh_like_a_chain_of_merges():
    X = np.repeat([[0.0], [3.0], [3.5]], [3, 1, 2], axis=0)
    data = ef.Dataset(X, ef.SphericalGaussian())
    model = ef.MixtureModel(data.family, ef.DirichletProcess(0.7)).bind(data)
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
    assert same(state, naive(state.model, data, labels, leaf_weight=chain_weight(model, data, labels)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("multinomial, sparse", {}),
        ("multinomial, sparse", {"index": "overlap"}),
        ("multinomial, sparse", {"index": None}),
        ("poisson", {"candidates": "knn", "n_neighbors": 1}),
        ("full", {}),
        ("diagonal", {"candidates": "knn", "n_neighbors": 1}),
        ("numpy", {}),
    ],
)
def test_a_search_goes_on_from_its_arrays(name, options):
    model, data = model_of(name)
    kernel = HierarchicalClustering(n_merges=9, **options)
    whole = grown(kernel, model, data)
    half = kernel.init(model, data)
    while kernel.step(half).accepted:
        other = kernel.init(model, data)
        other.from_arrays(half.to_arrays())
        other.check()
        while kernel.step(other).accepted:
            pass
        assert other.tree().children.tolist() == whole.tree().children.tolist()
        assert other.tree().log_odds.tolist() == whole.tree().log_odds.tolist()
        assert other.log_joint == whole.log_joint


def test_interrupted_in_a_score_the_merge_is_made_whole():
    class Interrupted(Exponential):
        def log_marginal(self, n, S):
            calls["n"] += 1
            if calls["n"] in calls["stop_at"]:
                raise KeyboardInterrupt
            return super().log_marginal(n, S)

    data = ef.Dataset(np.arange(12)[:, None] % 5, Interrupted())
    model = ef.MixtureModel(data.family, ef.DirichletProcess())
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
    for weights in (ef.SymmetricDirichlet(3), ef.PitmanYor(alpha=1.0, discount=0.3)):
        with pytest.raises(CapabilityError, match="needs the prior of a DirichletProcess"):
            HierarchicalClustering().init(ef.MixtureModel(ef.Poisson(), weights), X)
    model = ef.MixtureModel(ef.Poisson(), ef.DirichletProcess())
    with pytest.raises(ValueError, match="order must be 'auto', 'odds' or 'odds_size'"):
        HierarchicalClustering(order="best of all").init(model, X)
    with pytest.raises(ValueError, match="starts from its data or from labels"):
        HierarchicalClustering().init(model, X, start="kmeans++")
    with pytest.raises(ValueError, match="makes leaves of its own"):
        HierarchicalClustering(duplicates="collapse").init(model, X, start=np.zeros(6, dtype=int))
    with pytest.raises(ValueError, match="n_merges must be an integer of at least 1"):
        HierarchicalClustering(n_merges=0).init(model, X)


def test_one_datum_and_two():
    model = ef.MixtureModel(ef.Poisson(), ef.DirichletProcess(2.0))
    one = grown(HierarchicalClustering(), model, [[4]])
    assert one.tree().log_evidence == pytest.approx(one.tree().log_block[0] - math.log(2.0))
    assert one.labels.tolist() == [0]
    two = grown(HierarchicalClustering(), model, [[4], [4]])
    assert two.n_clusters == 1
    assert two.tree().children.tolist() == [[0, 1]]
