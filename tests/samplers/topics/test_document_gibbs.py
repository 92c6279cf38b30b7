"""Topics of documents in parts: the enumerated posterior, and the same bits for any parts."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse

from expfam import AdmixtureModel, FiniteProcess, Multinomial, Poisson
from expfam.engines import Part, ProcessEngine, SerialEngine
from expfam.errors import ArchiveError, CapabilityError, DataError, SupportError
from expfam.samplers import TopicGibbs, sample
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.document_parts import DocumentParts, DocumentShard
from expfam.samplers.topics.documents import draw_topics
from expfam.structures.ground.rng import generator

RNG = np.random.default_rng(5)
FEW = np.array([[1, 1, 0], [0, 2, 0], [0, 0, 1]])
TEXTS = np.vstack([RNG.multinomial(30, p, 20) for p in RNG.dirichlet(np.full(12, 0.2), 3)])
FULL = TEXTS.copy()
TEXTS[7] = 0  # an empty document


def parts_of(X, bounds):
    bounds = [0, *bounds, X.shape[0]]
    return [Part(a, b - a, X[a:b]) for a, b in itertools.pairwise(bounds)]


def visits(kernel, model, data, n_steps, seed):
    """Share of each assignment of topics to the tokens of all documents."""
    state, counts = kernel.init(model, data, seed=seed), np.zeros(2 ** int(data.lengths.sum()))
    for _ in range(n_steps):
        kernel.move(state)
        state.n_steps += 1
        counts[int("".join(map(str, state.labels)), 2)] += 1
    return counts / n_steps


def law(model, X):
    """Exact posterior of the topics of tokens, document by document."""
    docs, words = (np.repeat(index, X[X > 0]) for index in np.nonzero(X))
    order = np.lexsort((docs, words))  # tokens of `log_joint` are sorted by word
    logs = []
    for topics in itertools.product((0, 1), repeat=len(docs)):
        logs.append(model.log_joint(X, np.array(topics)[order]))
    p = np.exp(np.array(logs) - max(logs))
    return p / p.sum()


@pytest.mark.parametrize("seeds", [None, [[1, 0], [0, 0], [0, 2]]], ids=["plain", "seeded"])
@pytest.mark.parametrize("bounds", [[1], [1, 2]], ids=["2", "3"])
def test_visits_follow_the_enumerated_posterior(bounds, seeds):
    model = AdmixtureModel(Multinomial(0.4), 2, alpha=[0.5, 0.9], seeds=seeds).bind(FEW)
    data = DocumentParts(parts_of(FEW, bounds), model.family)
    found = visits(DocumentGibbs(learn_alpha=False), model, data, 5_000, seed=3)
    expected = law(model, FEW)
    # a step is worth three tenths of an independent draw or more
    independent = RNG.multinomial(1_500, expected) / 1_500
    assert 0.5 * abs(found - expected).sum() < 1.5 * 0.5 * abs(independent - expected).sum()


def test_counts_that_are_out_of_date_have_another_law():
    """Topics given counts of all documents as they were before the sweep, as if these were probabilities."""

    class Stale(DocumentGibbs):
        def move(self, state):
            state.draw_words = lambda topics, n_threads: np.ascontiguousarray(
                (state.word_counts + state.eta[:, None]) / (state.word_counts + state.eta[:, None]).sum(axis=0)
            )
            return super().move(state)

    model = AdmixtureModel(Multinomial(0.4), 2, alpha=[0.5, 0.9]).bind(FEW)
    data = DocumentParts(parts_of(FEW, [1]), model.family)
    found, expected = visits(Stale(learn_alpha=False), model, data, 2_000, seed=3), law(model, FEW)
    assert 0.5 * abs(found - expected).sum() > 0.1


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_parts_do_not_matter(make):
    found = []
    for bounds in ([], [13], [1, 40], [1, 2, 8, 20, 33, 59]):
        data, kernel = DocumentParts(parts_of(make(TEXTS), bounds), Multinomial(0.05)), DocumentGibbs(learn_every=3)
        state = kernel.init(AdmixtureModel(data.family, 4, alpha=0.3), data, seed=11)
        trace = sample(kernel, state, 12)
        state.check()
        found.append((state.labels.tobytes(), state.model.pseudocounts.tobytes(), trace.column("objective").tobytes()))
    assert len(set(found)) == 1


def test_an_array_is_one_part():
    model, kernel = AdmixtureModel(Multinomial(0.05), 4, alpha=0.3), DocumentGibbs(learn_every=3)
    labels = []
    for data in (FULL, sparse.csr_array(FULL), DocumentParts(FULL, model.family, n_parts=3)):
        state = kernel.init(model, data, seed=11)
        sample(kernel, state, 6)
        labels.append(state.labels.tobytes())
    assert len(set(labels)) == 1


def test_processes_give_the_bits_of_one(tmp_path):
    labels = []
    for make in (SerialEngine, lambda: ProcessEngine(2)):
        with make() as engine:
            data, kernel = DocumentParts(TEXTS, Multinomial(0.05), engine=engine, n_parts=4), DocumentGibbs()
            state = kernel.init(AdmixtureModel(data.family, 3), data, seed=2)
            sample(kernel, state, 5)
            labels.append(state.labels.tobytes())
    assert labels[0] == labels[1]


def test_log_joint_is_that_of_the_model():
    model = AdmixtureModel(Multinomial(0.4), 2, alpha=[0.5, 0.9]).bind(FEW)
    state = DocumentGibbs().init(model, FEW, seed=0)
    docs, words = (np.repeat(index, FEW[FEW > 0]) for index in np.nonzero(FEW))
    expected = model.log_joint(FEW, state.labels[np.lexsort((docs, words))])
    assert state.log_joint == pytest.approx(expected, rel=1e-12)


def test_separate_vocabularies_are_found_from_a_start():
    X = np.repeat([[6, 6, 0, 0], [0, 0, 6, 6]], 30, axis=0)
    kernel, model = DocumentGibbs(), AdmixtureModel(Multinomial(0.05), 2, alpha=0.3)
    start = np.array([[0.5, 1e-3], [0.5, 1e-3], [1e-3, 0.5], [1e-3, 0.5]])
    state = kernel.init(model, X, seed=1, start=start)
    assert state.word_counts.tolist() == [[180, 0], [180, 0], [0, 180], [0, 180]]
    with pytest.raises(ValueError, match=r"probabilities of words in topics \(4, 2\)"):
        kernel.init(model, X, start=start[:3])


def test_a_lost_part_is_made_again():
    data, kernel = DocumentParts(TEXTS, Multinomial(0.05), n_parts=2), DocumentGibbs()
    state = kernel.init(AdmixtureModel(data.family, 3), data, seed=2)
    kernel.step(state)
    saved = [pickle.loads(pickle.dumps(part)) for part in data.engine.each("saved")]
    for part, kept, topics in zip(data.engine.parts, saved, data.engine.each("topics_now")):
        again = DocumentShard(part.source, part.first_row)
        again.restore(kept)
        np.testing.assert_array_equal(again.topics_now(), topics)
        np.testing.assert_array_equal(again.lengths(), data.lengths[part.first_row : part.first_row + part.n_rows])


def reference_topics(starts, words, topics, phi, alpha, places, seed, step, first_row):
    """Draw topics one token after the other, with sums over all topics that take part."""
    topics, slots = topics.copy(), np.flatnonzero(places >= 0)
    for d, (start, stop) in enumerate(itertools.pairwise(starts)):
        rng = generator(seed, "move", unit=first_row + d, step=step)
        listed = []  # columns with tokens, in the order of the kernel
        held = [places[k] for k in topics[start:stop]]
        for column in held:
            listed += [column] if column >= 0 and column not in listed else []
        for i, column in enumerate(held):
            if column < 0:
                continue
            held[i] = -1
            if column not in held:
                listed[listed.index(column)] = listed[-1]
                del listed[-1]
            counts, p = np.array([held.count(k) for k in range(len(slots))]), phi[words[start + i]]
            masses = [*(counts[k] * p[k] for k in listed), *(alpha * p)]
            assert np.bincount([*listed, *range(len(slots))], masses) == pytest.approx((counts + alpha) * p)
            held[i] = [*listed, *range(len(slots))][
                np.searchsorted(np.cumsum(masses), rng.random() * sum(masses), "right")
            ]
            listed += [held[i]] if held[i] not in listed else []
            topics[start + i] = slots[held[i]]
    return topics


@pytest.mark.parametrize("left_out", [[], [1, 4]], ids=["all", "some"])
def test_draws_are_those_of_the_reference(left_out):
    rng, K = np.random.default_rng(8), 6
    shard = DocumentShard(TEXTS, 5)
    shard.bind(Multinomial(0.1).bind(FULL))
    topics = rng.integers(0, K, len(shard.words)).astype(np.int32)
    places = np.full(K, -1, dtype=np.int32)
    part = np.setdiff1d(np.arange(K), left_out)
    places[part] = np.arange(len(part))
    phi, alpha = rng.dirichlet(np.full(12, 0.3), len(part)).T.copy(), rng.gamma(0.3, size=len(part))
    shard.topics = topics
    counts = shard.redraw(phi, alpha, places, 7, 3)
    expected = reference_topics(shard.starts, shard.words, topics, phi, alpha, places, 7, 3, 5)
    np.testing.assert_array_equal(shard.topics, expected)
    assert counts.n_moved == (expected != topics).sum() > 300
    docs = np.repeat(np.arange(len(TEXTS)), TEXTS.sum(axis=1))
    words, pairs = np.zeros((12, K), dtype=int), np.zeros((len(TEXTS), K), dtype=int)
    np.add.at(words, (shard.words, expected), 1)
    np.add.at(pairs, (docs, expected), 1)
    np.testing.assert_array_equal(counts.words, words)
    found = np.unique(
        [k << 32 | n for k, n in zip(np.nonzero(pairs)[1].tolist(), pairs[pairs > 0].tolist())], return_counts=True
    )
    np.testing.assert_array_equal(counts.pairs, found[0])
    np.testing.assert_array_equal(counts.times, found[1])


@pytest.mark.parametrize(
    "model", [AdmixtureModel(Multinomial(0.05), 9, 0.3), FiniteProcess(Multinomial(0.05), 30, 0.1)]
)
def test_threads_do_not_matter(model, monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.document_parts._BLOCK_TOKENS", 100)
    monkeypatch.setattr("expfam.samplers.topics.document_parts._BLOCK_CELLS", 40)
    found = set()
    for n_threads in (1, 2, 3):
        kernel = DocumentGibbs(learn_eta=True, learn_every=2, n_threads=n_threads)
        state = kernel.init(model, FULL, seed=11)
        trace = sample(kernel, state, 12)
        state.check()
        numbers = (state.labels, state.model.pseudocounts, state.model.family.concentration, trace.column("objective"))
        found.add(tuple(np.asarray(one).tobytes() for one in numbers))
    assert len(found) == 1


def test_an_empty_topic_of_small_pseudo_counts_has_probabilities():
    state = DocumentGibbs().init(AdmixtureModel(Multinomial(1e-4), 40).bind(FEW), FEW, seed=0)
    phi = state.draw_words(np.arange(40))
    np.testing.assert_allclose(phi.sum(axis=0), 1.0)
    assert (phi >= 0).all()


@pytest.mark.parametrize("least", [0.0, 0.6])
def test_a_learned_pseudo_count_of_words_follows_its_conditional_law(least):
    settings = {"learn_alpha": False, "learn_eta": True, "least_eta": least, "learn_every": 1}
    X, kernel = np.array([[1, 2, 0], [0, 2, 1]]), DocumentGibbs(**settings)
    model = AdmixtureModel(Multinomial(0.4), 2, alpha=[0.5, 0.9]).bind(X)
    state, etas, ones = kernel.init(model, X, seed=0), [], []
    for _ in range(12_000):
        kernel.step(state)
        etas.append(state.model.family.concentration)
        ones.append(state.n_clusters == 1)
    assert min(etas) >= least
    nodes, weights = np.polynomial.laguerre.laggauss(40)  # of an exponential prior
    docs, words = (np.repeat(index, X[X > 0]) for index in np.nonzero(X))
    order, total, mean, one = np.lexsort((docs, words)), 0.0, 0.0, 0.0
    for eta, weight in zip(least + (least or 1.0) * nodes, weights):
        for topics in itertools.product((0, 1), repeat=6):
            bound = model.with_family(model.family.with_hyper(concentration=eta))
            p = weight * np.exp(bound.log_joint(X, np.array(topics)[order]))
            total, mean, one = total + p, mean + p * eta, one + p * (len(set(topics)) == 1)
    assert np.mean(etas) == pytest.approx(mean / total, rel=0.06)
    assert np.mean(ones) == pytest.approx(one / total, abs=0.03)


def test_topics_of_tokens_are_a_start():
    X, topics = np.array([[1, 0, 2], [1, 1, 0]]), [0, 1, 1, 2, 0]  # sorted by word, then by document
    state = DocumentGibbs().init(AdmixtureModel(Multinomial(0.1), 3), X, seed=0, start=topics)
    assert state.labels.tolist() == [0, 2, 0, 1, 1]
    assert state.word_counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    collapsed = TopicGibbs().init(AdmixtureModel(Multinomial(0.1), 3), X, seed=0, start=topics)
    assert state.log_joint == pytest.approx(collapsed.log_joint, rel=1e-12)
    with pytest.raises(ValueError, match="topics must be 5 integers, one for each token"):
        DocumentGibbs().init(AdmixtureModel(Multinomial(0.1), 3), X, seed=0, start=[0, 1])
    with pytest.raises(ValueError, match=r"topics must lie in 0\.\.1; found 0 to 2"):
        DocumentGibbs().init(AdmixtureModel(Multinomial(0.1), 2), X, seed=0, start=topics)
    with pytest.raises(ValueError, match=r"start must be 'random', 'variational' or .*write start='variational'"):
        DocumentGibbs().init(AdmixtureModel(Multinomial(0.1), 2), X, seed=0, start="variatonal")


def test_stored_states_go_on_bit_for_bit():
    for model in (AdmixtureModel(Multinomial(0.05), 4, 0.3), FiniteProcess(Multinomial(0.05), 12, 0.1)):
        kernel = DocumentGibbs(learn_eta=True, learn_every=1)
        state = kernel.init(model, FULL, seed=3)
        sample(kernel, state, 4)
        again = kernel.init(model, FULL, seed=3)
        again.from_arrays(state.to_arrays())
        for each in (state, again):
            sample(kernel, each, 5)
        assert again.labels.tobytes() == state.labels.tobytes()
        assert again.log_joint == state.log_joint
        assert again.model.family.concentration == state.model.family.concentration
        broken = state.to_arrays()
        broken["words"] += 1
        with pytest.raises(ArchiveError, match="counts are not those of the topics"):
            again.from_arrays(broken)


def test_lengths_that_do_not_fit_are_refused():
    starts, words, topics = np.array([0, 2]), np.zeros(2, dtype=np.int32), np.zeros(3, dtype=np.int32)
    phi, places = np.ones((1, 1)), np.zeros(1, dtype=np.int32)
    with pytest.raises(ValueError, match=r"each of 2 tokens, .* in 0\.\.1; got lengths 2 and 3, documents 0 to 1"):
        draw_topics(starts, words, topics, phi, phi, places, 0, 0, 0, 0, 1)
    with pytest.raises(ValueError, match=r"got lengths 2 and 2, documents 0 to 2"):
        draw_topics(starts, words, topics[:2], phi, phi, places, 0, 0, 0, 0, 2)
    with pytest.raises(ValueError, match=r"shape \(1, 1\) of phi, and 1 topic must take part; got \(1, 1\) and 2"):
        draw_topics(starts, words, topics[:2], phi, phi, np.arange(2, dtype=np.int32), 0, 0, 0, 0, 1)


def test_what_cannot_be_used_is_refused():
    X = TEXTS.astype(float)
    X[41, 3] = 1.5
    with pytest.raises((DataError, SupportError), match=r"row 41, column 3 holds 1\.5"):
        DocumentParts(parts_of(X, [20, 40]), Multinomial(0.1))
    with pytest.raises(DataError, match=r"row 41, column 3 holds 1\.5.*write X = numpy\.rint\(X\)"):
        DocumentParts(parts_of(X, [20, 40]), Multinomial(0.1, allow_fractional=True))
    with pytest.raises(DataError, match="begins at row 20 has 11 columns, the first part 12: give all parts"):
        DocumentParts([Part(0, 20, TEXTS[:20]), Part(20, 5, TEXTS[20:25, :11])], Multinomial(0.1))
    with pytest.raises(DataError, match="has 5 rows, not 6 as was said"):
        DocumentParts([Part(0, 6, TEXTS[:5])], Multinomial(0.1))
    with pytest.raises(CapabilityError, match="needs the family Multinomial"):
        DocumentGibbs().init(AdmixtureModel(Poisson(), 2), TEXTS, seed=0)
