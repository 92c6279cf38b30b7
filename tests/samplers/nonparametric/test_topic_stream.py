"""Topics of unknown number from chunks: bound, divisions, merges, and bits."""

import numpy as np
import pytest
from franchise_slow import log_joints
from franchises import DOCUMENTS, Tiny
from process_by_terms import ProcessReference
from scipy import sparse
from scipy.special import logsumexp, xlogy

from expfam import Dataset, HierarchicalProcess, Multinomial
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.samplers import Memoized, Stochastic, TopicProcessVariational
from expfam.samplers.nonparametric import topic_variational, variational_moves
from expfam.samplers.nonparametric.memo_merges import MemoAllocation, Remembered
from expfam.samplers.nonparametric.topic_stream import TopicProcessStream
from expfam.samplers.nonparametric.variational_moves import try_merges

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

FAMILY = Multinomial(0.1, allow_fractional=True)


def texts(n_chunks=4, n_docs=25, seed=0):
    """Chunks whose documents have three of six topics, others in each chunk."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(60, 0.05), size=6)
    found = []
    for i in range(n_chunks):
        weights = rng.dirichlet(np.full(3, 0.3), size=n_docs)
        rows = weights @ topics[[i % 4, (i + 1) % 4, 4 + i % 2]]
        found.append(np.array([rng.multinomial(50, p) for p in rows]))
    return found


def chunks_of(parts, weights=None):
    weights = [None] * len(parts) if weights is None else weights
    return [Dataset(sparse.csr_array(X), FAMILY, weight=w) for X, w in zip(parts, weights)]


def begun(chunks, *, n_clusters=1, seed=0, **settings):
    """A stream whose topics have not settled in the first chunk."""
    settings = {"dtype": "float64", "tol": 1e-6, "schedule": Memoized(), "n_births": 3, **settings}
    kernel = TopicProcessVariational(**settings)
    model = HierarchicalProcess(chunks[0].family, 1.3, 0.8)
    return kernel.stream(model, chunks[0], seed=seed, n_clusters=n_clusters)


@pytest.fixture(autouse=True)
def _unsettled(monkeypatch):
    monkeypatch.setattr(topic_variational, "_FIRST_STEPS", 1)


def watched(stream):
    """Keep the responsibilities of each chunk as they are remembered."""
    parts, remembers = {}, stream.contribution

    def contribution(local, data, last, scores_all):
        found = remembers(local, data, last, scores_all)
        parts[id(data)] = (data, local.parts)
        return found

    stream.contribution = contribution
    return parts


def documents_of(parts, K):
    """Words, counts and responsibilities of each document, and its weight."""
    found, weights = [], []
    for data, pieces in parts.values():
        X = sparse.csr_array(data.X)
        for part in pieces:
            pairs = values = 0
            for row, size in zip(part.rows, part.sizes):
                entries = slice(X.indptr[row], X.indptr[row + 1])
                words, c = X.indices[entries], X.data[entries].astype(float)
                r = np.zeros((len(words), K))
                r[:, part.topics[pairs : pairs + size]] = part.values[values : values + len(words) * size].reshape(
                    len(words), size
                )
                pairs, values = pairs + size, values + len(words) * size
                if len(words):
                    found.append((words, c, r))
                    weights.append(1.0 if data.weight is None else data.weight[row])
    return found, np.array(weights)


def bound_by_terms(stream, parts):
    q = stream.sticks
    reference = ProcessReference(q.mean, q.size, q.alpha, q.gamma, stream.eta)
    documents, weights = documents_of(parts, stream.model.n_components)
    return reference.bound(documents, stream.word_counts, weights)


# ---- the bound -------------------------------------------------------------------------------------------------------


def test_the_bound_is_at_most_that_by_its_terms_and_near_it():
    parts = texts()
    parts[1][3] = 0
    weights = [None, np.linspace(0.5, 2.0, 25), None, None]
    weights[1][7] = 0.0
    chunks = chunks_of(parts, weights)
    stream = begun(chunks, merge=False, n_births=0, n_deletions=0, n_clusters=4, learn_alpha=False)
    kept = watched(stream)
    for step in range(12):
        stream.learn(chunks[step % 4], batch=step % 4)
    by_terms = bound_by_terms(stream, kept)
    # tangents of chunks that were learned at other pseudo-counts lie below
    assert by_terms - 2e-3 * abs(by_terms) < stream.log_joint <= by_terms + 1e-9 * abs(by_terms)


def test_the_bound_of_one_chunk_that_is_divided_is_that_by_its_terms():
    chunks = chunks_of(texts(1, n_docs=80))
    stream = begun(chunks, learn_alpha=False)
    kept = watched(stream)
    for _ in range(6):
        stream.learn(chunks[0], batch="all")
    assert stream.model.n_components >= 3
    by_terms = bound_by_terms(stream, kept)
    assert by_terms - 1e-4 * abs(by_terms) < stream.log_joint <= by_terms + 1e-9 * abs(by_terms)


@pytest.mark.parametrize("n_clusters", [1, 2])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_bound_is_below_the_enumerated_evidence(name, n_clusters):
    tiny = Tiny(name)
    evidence = logsumexp(log_joints(tiny.model, tiny.evidence, tiny.groups))
    X = sparse.csr_array(tiny.X)
    chunks = [Dataset(X[i : i + 1], tiny.model.family) for i in range(X.shape[0])]
    model = tiny.model.with_family(chunks[0].family)
    kernel = TopicProcessVariational(learn_alpha=False, dtype="float64", tol=1e-6)
    stream = kernel.stream(model, chunks[0], seed=0, n_clusters=n_clusters)
    priors = tiny.model.alpha + tiny.model.gamma  # of the concentrations, which the bound holds and evidence does not
    for step in range(10 * len(chunks)):
        info = stream.learn(chunks[step % len(chunks)], batch=step % len(chunks))
        if step >= len(chunks) - 1:
            assert info.objective + priors < evidence
    assert info.objective + priors > evidence - 4.0


@pytest.mark.parametrize("n_clusters", [1, 12])
@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-10), ("float32", 1e-6)])
def test_no_chunk_that_comes_again_lowers_the_bound(n_clusters, dtype, slack):
    chunks = chunks_of(texts())
    stream = begun(chunks, n_clusters=n_clusters, dtype=dtype, learn_eta=True)
    found, numbers = [], []
    for step in range(28):
        info = stream.learn(chunks[step % 4], batch=step % 4)
        found.append(info.objective)
        numbers.append(stream.model.n_components)
        np.testing.assert_allclose(stream.log_joint, stream.compute_log_joint(), rtol=1e-9)
    assert (np.diff(found[3:]) >= -slack * abs(found[3])).all()
    moves = np.diff(numbers)
    assert (moves > 0).any() if n_clusters == 1 else (moves < 0).any()
    np.testing.assert_allclose(stream.word_counts.sum(), 4 * 25 * 50, rtol=1e-5)


def test_passes_over_all_chunks_do_not_lower_the_bound_and_end():
    chunks = chunks_of(texts())
    stream = begun(chunks, learn_eta=True, bound_tol=1e-4)
    found = [info.objective for info in stream.sweeps(iter(chunks), lambda: chunks, 60)]
    assert 3 < len(found) < 60
    assert (np.diff(found) >= -1e-10 * abs(found[0])).all()
    assert 4 <= stream.n_clusters <= 12


def test_a_chunk_that_is_learned_again_and_again_is_a_run_that_holds_it():
    X = texts(1, n_docs=60)
    chunks, settings = (
        chunks_of(X),
        {"merge": False, "n_births": 0, "n_deletions": 0, "n_clusters": 4, "learn_alpha": False},
    )
    stream = begun(chunks, **settings)
    for _ in range(60):
        stream.learn(chunks[0], batch=0)
    settings.pop("n_clusters")
    kernel = TopicProcessVariational(dtype="float64", tol=1e-6, schedule=Memoized(1), **settings)
    start = stream.word_counts.copy()
    state = kernel.init(HierarchicalProcess(chunks[0].family, 1.3, 0.8), chunks[0], seed=0, start=start)
    for _ in range(60):
        kernel.step(state)
    np.testing.assert_allclose(state.log_joint, stream.log_joint, rtol=2e-3)


# ---- moves -----------------------------------------------------------------------------------------------------------


def test_the_entropy_of_a_union_is_never_above_that_of_its_responsibilities():
    rng = np.random.default_rng(0)
    for _ in range(200):
        r = rng.dirichlet(np.full(4, rng.choice([0.05, 0.5, 5.0])), size=6)
        c = rng.integers(1, 4, 6).astype(float)
        a, b = (
            Remembered(np.array([0]), np.array([c @ x]), np.array([-(c * xlogy(x, x)).sum()]), np.array([c @ x**2]))
            for x in (r[:, 0], r[:, 1])
        )
        both, z = Remembered.joined(a, b), r[:, 0] + r[:, 1]
        assert both.N[0] == pytest.approx(c @ z)
        assert both.entropy[0] <= -(c * xlogy(z, z)).sum() + 1e-12
        assert both.squares[0] >= c @ z**2 - 1e-12
    apart = Remembered.joined(a, b._replace(docs=np.array([1])))
    assert apart.entropy.tolist() == [a.entropy[0], b.entropy[0]]


def test_responsibilities_that_are_alike_keep_their_entropy():
    x, c = np.full(5, 0.3), np.ones(5)
    one = Remembered(np.array([0]), np.array([1.5]), np.array([-(c * xlogy(x, x)).sum()]), np.array([c @ x**2]))
    z = 2.0 * x
    assert Remembered.joined(one, one).entropy[0] == pytest.approx(-(c * xlogy(z, z)).sum())


def unmerged(named=True):
    """A stream with more topics than there are, which has learned each chunk three times."""
    chunks = chunks_of(texts())
    stream = begun(chunks, n_clusters=14, merge=False, n_births=0, n_deletions=0)
    for step in range(12):
        stream.learn(chunks[step % 4], batch=step % 4 if named else None)
    return stream


@pytest.mark.parametrize("named", [True, False])
def test_merges_by_what_is_remembered_raise_the_bound(named):
    stream = unmerged(named)
    before, K = stream.log_joint, stream.model.n_components
    stream.settings.merge = True
    stream.end_pass()
    assert stream.model.n_components < K
    assert stream.log_joint > before
    np.testing.assert_allclose(stream.log_joint, stream.compute_log_joint(), rtol=1e-10)
    words, rest = stream.word_counts, sum(kept.sums.rest for kept in (*stream.memo.values(), *stream.unnamed))
    np.testing.assert_allclose(stream.sums.rest, rest)
    if named:
        np.testing.assert_allclose(words, sum(kept.sums.dense().counts for kept in stream.memo.values()), atol=1e-8)


def test_merges_that_nobody_judges_are_seen(monkeypatch):
    stream = unmerged()
    stream.settings.merge = True
    for _ in range(3):
        stream.end_pass()
    monkeypatch.setattr(variational_moves, "_GAIN", -1.0)
    monkeypatch.setattr(variational_moves, "_HOPELESS", np.inf)
    allocation = MemoAllocation(stream, list(stream.memo.values()))
    before = allocation.bound
    assert try_merges(allocation)[1] > 0
    assert allocation.bound < before - 10.0


def test_an_allocation_of_what_is_remembered_has_the_bound_of_the_stream():
    stream = unmerged()
    for place in range(4):  # so that all tangents are at the same pseudo-counts
        stream.learn(chunks_of(texts())[place], batch=place)
    allocation = MemoAllocation(stream, list(stream.memo.values()))
    entropy = sum(
        float((np.repeat(kept.occupied.weight, np.diff(kept.counts.starts)) * kept.spread[0]).sum())
        for kept in stream.memo.values()
    )
    mine = sum(float(column.pairs.entropy.sum()) for column in allocation.columns)
    np.testing.assert_allclose(mine, entropy, rtol=1e-10)
    tables = allocation.tables_of(allocation.columns)
    np.testing.assert_allclose(tables.rising, stream.sums.rising, rtol=0.05, atol=1.0)


def test_births_that_nobody_judges_are_seen(monkeypatch):
    chunks = chunks_of(texts())
    stream = begun(chunks)
    monkeypatch.setattr(variational_moves, "_GAIN", -1.0)
    for step in range(8):
        stream.learn(chunks[step % 4], batch=step % 4)
    honest = begun(chunks)
    monkeypatch.setattr(variational_moves, "_GAIN", 1e-9)
    for step in range(8):
        honest.learn(chunks[step % 4], batch=step % 4)
    assert stream.model.n_components > honest.model.n_components
    assert stream.log_joint < honest.log_joint


# ---- deletions -------------------------------------------------------------------------------------------------------


def without_one(named=True, *, others=True):
    """A stream that has left out a topic, its responsibilities before, homes of topics and chunk, its last bound."""
    chunks = chunks_of(texts() if others else texts(1, n_docs=80))
    stream = begun(chunks, n_clusters=14, merge=False, n_births=0, n_deletions=0)
    kept, found = watched(stream), []
    n = len(chunks)
    first = 3 * n if named else 1  # a chunk without a name is new each time, and soon has no topic for itself
    for step in range(first):
        stream.learn(chunks[step % n], batch=step % n if named else None)
    take = stream._take_deletion

    def noted(batch, allocation, local):
        take(batch, allocation, local)
        found.append((allocation.homes(), batch.data))

    stream._take_deletion = noted
    stream.settings.n_deletions = 3
    K = stream.model.n_components
    for step in range(first, first + 17 * n):
        before = stream.log_joint
        stream.learn(chunks[step % n], batch=step % n if named else None)
        if found:
            break
    assert stream.model.n_components == K - 1
    return stream, kept, found[0], before


@pytest.mark.parametrize("others", [True, False])
def test_the_bound_of_topics_without_one_is_that_by_its_terms(others):
    stream, kept, (homes, data), before = without_one(others=others)
    assert (len(kept) > 1) == others
    q, K = stream.sticks, stream.model.n_components
    documents, weights = documents_of({id(data): kept.pop(id(data))}, K)
    rest, more = documents_of(kept, K + 1)
    for words, c, r in rest:
        joined = np.zeros((len(words), K))
        np.add.at(joined.T, homes, r.T)
        documents.append((words, c, joined))
    reference = ProcessReference(q.mean, q.size, q.alpha, q.gamma, stream.eta)
    by_terms = reference.bound(documents, stream.word_counts, np.append(weights, more))
    assert before < stream.log_joint <= by_terms + 1e-9 * abs(by_terms)
    assert stream.log_joint > by_terms - 2e-3 * abs(by_terms)
    words = sum(c.sum() for _, c, _ in documents)
    np.testing.assert_allclose(stream.word_counts.sum(), words, rtol=1e-10)


@pytest.mark.parametrize("named", [True, False])
def test_every_chunk_has_the_topics_that_a_deletion_leaves(named):
    stream = without_one(named)[0]
    np.testing.assert_allclose(stream.log_joint, stream.compute_log_joint(), rtol=1e-10)
    kept, K = [*stream.memo.values(), *stream.unnamed], stream.model.n_components
    for name in ("rest", "falling", "weight"):
        np.testing.assert_allclose(getattr(stream.sums, name), sum(getattr(one.sums, name) for one in kept))
    np.testing.assert_allclose(stream.sums.rising, sum(one.sums.rising for one in kept))
    for one in kept:
        assert one.counts.topics.max() < K
        assert one.spread.shape == (2, len(one.counts.N))
        sizes = np.add.reduceat(one.counts.N, one.counts.starts[:-1])
        np.testing.assert_allclose(sizes, one.occupied.lengths, rtol=1e-6)
    if named:
        np.testing.assert_allclose(stream.word_counts, sum(one.sums.dense().counts for one in kept), atol=1e-6)
    assert ((stream.labels >= 0) & (stream.labels < K)).all()


def test_deletions_that_nobody_judges_are_seen(monkeypatch):
    stream = unmerged()
    stream.settings.n_births, stream.settings.n_deletions = 0, 1
    chunks = chunks_of(texts())
    for step in range(24):
        stream.learn(chunks[step % 4], batch=step % 4)
    settled, K = stream.log_joint, stream.model.n_components
    assert K < 14
    monkeypatch.setattr(variational_moves, "_GAIN", -1.0)
    for step in range(4):
        stream.learn(chunks[step % 4], batch=step % 4)
    assert stream.model.n_components < K
    assert stream.log_joint < settled - 10.0


@pytest.mark.parametrize("n_clusters", [1, 20])
def test_a_first_chunk_gives_the_number_to_begin_with(n_clusters, monkeypatch):
    monkeypatch.setattr(topic_variational, "_FIRST_STEPS", 20)
    chunks = chunks_of(texts(1, n_docs=120))
    assert begun(chunks, n_clusters=n_clusters, n_births=10).model.n_components == 3


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Memoized(), Stochastic(n_total=100)])
@pytest.mark.parametrize("named", [True, False])
def test_a_run_goes_on_from_its_arrays_to_the_bit(schedule, named):
    chunks = chunks_of(texts())
    named = named and not isinstance(schedule, Stochastic)
    stream = begun(chunks, schedule=schedule, learn_eta=True)
    for step in range(5):
        stream.learn(chunks[step % 4], batch=step % 4 if named else None)
    arrays = stream.to_arrays()
    other = TopicProcessStream.from_arrays(stream.process, stream.settings, arrays)
    for step in range(5, 10):
        infos = [one.learn(chunks[step % 4], batch=step % 4 if named else None) for one in (stream, other)]
        assert infos[0].objective == infos[1].objective
    assert np.array_equal(stream.word_counts, other.word_counts)
    assert np.array_equal(stream.sticks.size, other.sticks.size)
    with pytest.raises(ArchiveError, match="below 1"):
        TopicProcessStream.from_arrays(
            stream.process, stream.settings, arrays | {"sticks": np.ones_like(arrays["sticks"])}
        )


def test_the_result_does_not_depend_on_threads_but_on_the_seed(monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else all is one task
    chunks, found = chunks_of(texts()), []
    for seed, n_threads in ((0, 1), (0, 2), (1, 1)):
        stream = begun(chunks, seed=seed, n_threads=n_threads, n_clusters=8)
        for step in range(6):
            stream.learn(chunks[step % 4], batch=step % 4)
        found.append(stream)
    assert np.array_equal(found[0].word_counts, found[1].word_counts)
    assert found[0].log_joint == found[1].log_joint != found[2].log_joint


def test_random_batches_find_topics_that_the_first_did_not_have():
    rng = np.random.default_rng(0)
    X = np.concatenate(texts(8))
    X = X[rng.permutation(len(X))]
    chunks = chunks_of([X[i::8] for i in range(8)])
    stream = begun(chunks, schedule=Stochastic(delay=4.0, n_total=200), n_births=10, learn_eta=True)
    for step in range(40):
        stream.learn(chunks[step % 8])
    assert 4 <= stream.n_clusters <= 9
    np.testing.assert_allclose(stream.word_counts.sum(), len(X) * 50, rtol=1e-6)


def test_what_it_cannot_do_is_refused():
    chunks = chunks_of(texts(1))
    stream = begun(chunks)
    with pytest.raises(CapabilityError, match="do not go on from a fit"):
        stream.resume(None)
    stream.learn(chunks[0], batch="a")
    with pytest.raises(DataError, match="batch 'a' had 25 rows"):
        stream.learn(chunks_of(texts(1, n_docs=7))[0], batch="a")


def test_chunks_without_words_change_nothing():
    chunks = chunks_of([*texts(2), np.zeros((3, 60), dtype=int)])
    for schedule in (Memoized(), Stochastic(n_total=50)):
        stream = begun(chunks, schedule=schedule)
        for chunk in chunks:
            info = stream.learn(chunk)
        assert np.isfinite(info.objective)
        assert stream.labels.tolist() == [-1, -1, -1]
        assert stream.total_weight == 50.0
