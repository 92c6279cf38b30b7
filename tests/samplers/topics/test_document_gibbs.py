"""Topics of documents in parts: the enumerated posterior, and the same bits for any parts."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse

from expfam import AdmixtureModel, Multinomial, Poisson
from expfam.engines import Part, ProcessEngine, SerialEngine
from expfam.errors import CapabilityError, DataError, SupportError
from expfam.samplers import sample
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.document_parts import DocumentParts, DocumentShard
from expfam.samplers.topics.documents import draw_topics

RNG = np.random.default_rng(5)
FEW = np.array([[1, 1, 0], [0, 2, 0], [0, 0, 1]])
TEXTS = np.vstack([RNG.multinomial(30, p, 20) for p in RNG.dirichlet(np.full(12, 0.2), 3)])
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
            state.draw_words = lambda: np.ascontiguousarray(
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
    model, state = AdmixtureModel(Multinomial(0.05), 4, alpha=0.3), None
    state = DocumentGibbs(learn_every=3).init(model, TEXTS, seed=11)
    sample(DocumentGibbs(learn_every=3), state, 12)
    assert state.labels.tobytes() == found[0][0]


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


def test_lengths_that_do_not_fit_are_refused():
    starts, words, topics = np.array([0, 2]), np.zeros(2, dtype=np.int32), np.zeros(3, dtype=np.int32)
    with pytest.raises(ValueError, match="each of 2 tokens, alpha for each of 1 topic; got lengths 2, 3 and 1"):
        draw_topics(starts, words, topics, np.ones((1, 1)), np.ones(1), 0, 0, 0)


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
