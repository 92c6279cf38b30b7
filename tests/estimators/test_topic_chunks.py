"""Topics from chunks, with weights, and with learned pseudo-counts: against definitions and whole fits."""

import pickle

import numpy as np
import pytest
from allocated import peak_of
from chunk_faults import check_refusals
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln
from topics_by_terms import Reference

from expfam import AdmixtureModel, Dataset, Multinomial, TopicModel
from expfam.errors import CapabilityError, DataError, ExpFamError
from expfam.samplers import Full, Memoized, Stochastic, TopicStream, TopicVariational
from expfam.samplers.topics.statistics import (
    LEAST,
    TopicSums,
    better_shared_pseudocount,
    log_evidence_of_topics,
    rising_slopes,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

ALPHA, ETA, K = np.linspace(0.1, 0.4, 4), 0.1, 4
EXACT = {"dtype": "float64", "tol": 0.0, "bound_tol": 0.0, "max_iterations": 25, "n_restarts": 0, "local": "dense"}
FREE = {"dtype": "float64", "tol": 1e-3, "bound_tol": 0.0}


def corpus(n_docs=60, n_words=30, length=25, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), size=K)
    weights = rng.dirichlet(np.full(K, 0.3), size=n_docs)
    X = np.array([rng.multinomial(n, p) for n, p in zip(rng.poisson(length, n_docs), weights @ topics)])
    X[7] = 0
    return X


def in_chunks(X, n=3):
    return np.array_split(X, n)


def begin(chunks, *, weights=None, counts=None, settings=EXACT, **more):
    """A stream and its chunks as data sets."""
    weights = [None] * len(chunks) if weights is None else weights
    data = [Dataset(sparse.csr_array(chunks[0]), Multinomial(ETA), weight=weights[0])]
    data += [Dataset(sparse.csr_array(X), data[0].family, weight=w) for X, w in zip(chunks[1:], weights[1:])]
    kernel = TopicVariational(**(settings | more))
    model = AdmixtureModel(data[0].family, K, ALPHA)
    counts = np.random.default_rng(1).gamma(0.4, 20.0, size=(chunks[0].shape[1], K)) if counts is None else counts
    return kernel.stream(model, data[0], seed=0, start=counts), data


class Definition:
    """Chunks learned document by document, all responsibilities kept, in float64."""

    def __init__(self, word_counts):
        V = len(word_counts)
        self.reference, self.word_counts, self.kept = Reference(ALPHA, np.full(V, ETA)), word_counts, {}

    def local(self, X):
        """Responsibilities of the documents of a chunk, and the words by topics."""
        E, found, total = self.reference.expected_logs(self.word_counts), [], np.zeros_like(self.word_counts)
        for x in X:
            words = np.flatnonzero(x)
            c = x[words].astype(float)
            r = self.reference.dense(E[words], c, max_iterations=25, tol=0.0)[0] if len(words) else np.zeros((0, K))
            found.append((words, c, r))
            np.add.at(total, words, c[:, None] * r)
        return found, total

    def learn(self, X, name):
        self.kept[name] = self.local(X)
        self.word_counts = sum(total for _, total in self.kept.values())

    def bound(self):
        E = self.reference.expected_logs(self.word_counts)
        documents = [document for found, _ in self.kept.values() for document in found if len(document[0])]
        topics = self.reference.topics_bound(self.word_counts)
        return topics + sum(self.reference.bound(E[words], c, r) for words, c, r in documents)


# ---- against the definition ------------------------------------------------------------------------------------------


def test_learning_chunks_is_the_memoized_rule():
    chunks = in_chunks(corpus())
    stream, data = begin(chunks, schedule=Memoized())
    definition = Definition(stream.word_counts.copy())
    for batch in (0, 1, 2, 1, 1, 0, 2):  # a chunk may come again at any time
        info = stream.learn(data[batch], batch=batch)
        definition.learn(chunks[batch], batch)
        np.testing.assert_allclose(stream.word_counts, definition.word_counts, atol=1e-8)
        np.testing.assert_allclose(info.objective, definition.bound(), rtol=1e-9)
    assert stream.total_weight == 60
    stream.learn(data[1])  # without a name it is added for good
    assert stream.total_weight == 80
    np.testing.assert_allclose(stream.word_counts.sum(), corpus().sum() + chunks[1].sum())


def test_sweeps_over_chunks_are_passes_and_named_as_they_come():
    chunks = in_chunks(corpus())
    stream, data = begin(chunks, schedule=Memoized())
    other, _ = begin(chunks, schedule=Memoized())
    for _ in range(4):
        swept = stream.sweep(data).objective
        learned = [other.learn(one, batch=place).objective for place, one in enumerate(data)][-1]
        np.testing.assert_allclose(swept, learned, rtol=1e-12)
    np.testing.assert_allclose(stream.word_counts, other.word_counts, atol=1e-9)


def test_a_full_schedule_over_chunks_is_that_of_the_whole():
    X = corpus()
    stream, data = begin(in_chunks(X), schedule=Full())
    whole = Dataset(sparse.csr_array(X), Multinomial(ETA))
    kernel = TopicVariational(**EXACT)
    model = AdmixtureModel(whole.family, K, ALPHA)
    state = kernel.init(model, whole, seed=0, start=stream.word_counts.copy())
    for _ in range(4):
        np.testing.assert_allclose(stream.sweep(data).objective, kernel.step(state).objective, rtol=1e-10)
    np.testing.assert_allclose(stream.word_counts, state.word_counts, atol=1e-8)


@pytest.mark.parametrize("n_total", [None, 500])
def test_a_stochastic_schedule_is_the_rule(n_total):
    chunks = in_chunks(corpus())
    schedule = Stochastic(kappa=0.7, delay=2.0, n_total=n_total)
    stream, data = begin(chunks, schedule=schedule)
    definition, before, seen = Definition(stream.word_counts.copy()), 20.0, 0
    for t, batch in enumerate((0, 1, 2), start=1):
        found, total = definition.local(chunks[batch])
        seen += 20
        D, rho = n_total or seen, (t + 2.0) ** -0.7
        definition.word_counts = (1 - rho) * (D / before) * definition.word_counts + rho * D / 20 * total
        before = D
        noisy = stream.learn(data[batch]).objective
        np.testing.assert_allclose(stream.word_counts, definition.word_counts, rtol=1e-8)
        # the bound of the chunk's documents, each so many times
        reference, copies = definition.reference, D / 20 * total
        E = reference.expected_logs(copies)
        documents = sum(reference.bound(E[words], c, r) for words, c, r in found if len(words))
        np.testing.assert_allclose(noisy, D / 20 * documents + reference.topics_bound(copies), rtol=1e-9)


@pytest.mark.parametrize("how", ["dense", "active", "tokens"])
@pytest.mark.parametrize("documents", ["best", "warm"])
def test_the_bound_never_falls_when_chunks_come_again(documents, how):
    stream, data = begin(in_chunks(corpus()), settings=FREE, schedule=Memoized(), documents=documents, local=how)
    stream.sweep(data)
    found = [stream.learn(data[b], batch=b).objective for _ in range(12) for b in (0, 2, 1)]
    assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
    assert found[-1] > found[0]


@pytest.mark.parametrize(("documents", "has_law"), [("best", True), ("cold", False)])
def test_documents_of_a_chunk_are_remembered_where_the_bound_needs_it(documents, has_law):
    falls = 0
    for seed in range(4):
        X = corpus(60, n_words=40, length=20, seed=seed)
        chunks = [Dataset(sparse.csr_array(x), Multinomial(ETA)) for x in in_chunks(X)]
        kernel = TopicVariational(documents=documents, **(FREE | {"local": "active", "n_restarts": 0}))
        stream = kernel.stream(AdmixtureModel(chunks[0].family, 12, 0.25), chunks[0], seed=seed)
        found = np.array([stream.sweep(chunks).objective for _ in range(30)])
        falls += (np.diff(found) < -1e-9 * abs(found[1:])).sum()
    assert (falls == 0) == has_law


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Full(), Memoized(), Stochastic(20)], ids=["full", "memoized", "stochastic"])
def test_weights_of_documents_stand_for_copies(schedule):
    X, times = corpus(), np.random.default_rng(2).integers(0, 4, 60)
    settings = FREE | {"schedule": schedule, "learn_alpha": True, "learn_eta": True}
    weighted, data = begin(in_chunks(X), weights=in_chunks(times.astype(float)), settings=settings)
    copies = [np.repeat(x, n, axis=0) for x, n in zip(in_chunks(X), in_chunks(times))]
    copied, others = begin(copies, settings=settings)
    for _ in range(8):
        found = [stream.sweep(chunks).objective for stream, chunks in ((weighted, data), (copied, others))]
        np.testing.assert_allclose(*found, rtol=1e-9)
    np.testing.assert_allclose(weighted.word_counts, copied.word_counts, atol=1e-6)
    np.testing.assert_allclose(weighted.model.pseudocounts, copied.model.pseudocounts, rtol=1e-7)
    assert abs(weighted.eta[0] - ETA) > 1e-3
    assert weighted.total_weight == times.sum()


def test_weights_given_to_the_estimator_stand_for_copies():
    X, times = corpus(200), np.random.default_rng(2).integers(1, 4, 100)
    settings = {"n_components": K, "sampler": TopicVariational(local="dense"), "n_steps": 12, "random_state": 0}
    # the first chunk alone draws the start
    weighted = TopicModel(**settings).fit_chunks([X[:100], (X[100:], times)])
    copied = TopicModel(**settings).fit_chunks([X[:100], np.repeat(X[100:], times, axis=0)])
    assert weighted.n_documents_ == copied.n_documents_ == 100 + times.sum()
    np.testing.assert_allclose(weighted.components_, copied.components_, atol=0.05)
    np.testing.assert_allclose(weighted.log_joint_, copied.log_joint_, rtol=1e-5)
    plain = TopicModel(**settings).fit_chunks([X[:100], X[100:]])
    assert abs(plain.log_joint_ - copied.log_joint_) > 1000
    held = TopicModel(**settings).fit(X, sample_weight=np.full(200, 3.0))
    np.testing.assert_allclose(held.components_.sum(), 3 * X.sum() + held.eta_ * K * 30, rtol=1e-4)
    assert held.n_documents_ == 600


def test_documents_of_no_weight_have_no_part():
    X = corpus(100)
    garbage = np.random.default_rng(0).integers(0, 60, size=(40, 30))
    settings = {"n_components": K, "sampler": TopicVariational(local="active"), "n_steps": 10, "random_state": 0}
    both, weight = np.concatenate([X, garbage]), np.repeat([1.0, 0.0], [100, 40])
    a, b = TopicModel(**settings).fit(both, sample_weight=weight), TopicModel(**settings).fit(X)
    np.testing.assert_allclose(a.components_, b.components_, rtol=1e-4, atol=1e-4)


def test_sampling_takes_no_weights_and_says_what_to_do():
    X, weight = corpus(), np.full(60, 2.0)
    with pytest.raises(CapabilityError, match=r"Gibbs sampling cannot use sample_weight.*write TopicModel\(n_comp"):
        TopicModel(K, sampler="gibbs").fit(X, sample_weight=weight)
    quick = {"n_steps": 5, "random_state": 0}
    assert TopicModel(K, **quick).fit(X, sample_weight=weight).method_ == "dense"
    ones, none = (TopicModel(K, **quick).fit(X, sample_weight=w) for w in (np.ones(60), None))
    assert ones.method_ == none.method_ == "gibbs"
    np.testing.assert_array_equal(ones.components_, none.components_)
    for bad, word in ((np.ones(3), "shape"), (np.full(60, -1.0), "non-negative"), (np.zeros(60), "zero")):
        with pytest.raises(DataError, match=word):
            TopicModel(K).fit(X, sample_weight=bad)


# ---- pseudo-counts ---------------------------------------------------------------------------------------------------


def log_polya(alpha, N, weight):
    """Weighted log probability of fractional counts (D, K) under Dirichlet(alpha) weights of topics."""
    total = alpha.sum()
    inner = (gammaln(alpha + N) - gammaln(alpha)).sum(axis=1)
    return float(weight @ (inner + gammaln(total) - gammaln(total + N.sum(axis=1))))


def tangent(alpha, N, weight):
    sums = TopicSums.zeros(1, N.shape[1])
    sums.rest = log_polya(alpha, N, weight)
    d, k = np.nonzero(N)
    sums.add_tangent(alpha, k, N[d, k], weight[d], (weight, N.sum(axis=1)))
    return sums


def test_the_tangent_touches_the_bound_from_below_and_leads_to_its_maximum():
    rng = np.random.default_rng(0)
    N = rng.gamma(0.3, 8.0, size=(50, 5)) * (rng.random((50, 5)) < [0.9, 0.7, 0.5, 0.3, 0.0])
    weight = rng.integers(0, 3, 50).astype(float)
    alpha = np.linspace(0.05, 0.6, 5)
    sums = tangent(alpha, N, weight)
    np.testing.assert_allclose(sums.documents_bound(alpha), log_polya(alpha, N, weight), rtol=1e-12)
    for other in rng.gamma(1.0, 0.5, size=(200, 5)):
        assert sums.documents_bound(other) <= log_polya(other, N, weight) + 1e-9
    values = []
    for _ in range(400):
        alpha = tangent(alpha, N, weight).best_alpha(alpha)
        values.append(log_polya(alpha, N, weight))
    assert (np.diff(values) >= -1e-9).all()
    assert alpha[4] == LEAST  # nothing ever has this topic
    best = minimize(
        lambda logs: -log_polya(np.append(np.exp(logs), LEAST), N, weight), np.zeros(4), tol=1e-12, method="BFGS"
    )
    np.testing.assert_allclose(alpha[:4], np.exp(best.x), rtol=1e-3)
    np.testing.assert_allclose(values[-1], -best.fun, rtol=1e-9)


def test_what_rounding_leaves_below_zero_of_a_tangent_is_no_slope():
    sums = TopicSums.zeros(1, 2)
    sums.rising[:], sums.falling = [[1e-16, 5.0], [-1e-15, 0.0]], 20.0
    np.testing.assert_allclose(sums.best_alpha(np.ones(2)), [LEAST, 0.25])


def test_the_pseudocount_of_words_climbs_to_its_maximum():
    rng = np.random.default_rng(0)
    counts = rng.poisson(300 * rng.dirichlet(np.full(200, 0.07), size=6)).T * rng.random((200, 6))

    def evidence(eta):
        return log_evidence_of_topics(counts, np.full(200, eta))

    values, eta = [evidence(0.9)], 0.9
    for _ in range(60):
        eta = better_shared_pseudocount(counts, eta)
        values.append(evidence(eta))
    assert (np.diff(values) >= -1e-9).all()
    best = minimize_scalar(lambda log_eta: -evidence(np.exp(log_eta)), bounds=(-9, 2), method="bounded")
    np.testing.assert_allclose(eta, np.exp(best.x), rtol=0.02)
    np.testing.assert_allclose(values[-1], -best.fun, rtol=1e-5)
    assert better_shared_pseudocount(np.zeros((5, 2)), 0.3) == 0.3


def test_slopes_are_those_of_lower_bounds_that_touch():
    a, n = np.geomspace(1e-4, 50, 60), np.geomspace(1e-6, 1e3, 50)
    start, other, n = np.meshgrid(a, a, n, indexing="ij")
    c, d = rising_slopes(start, n)

    def rising(a):
        return gammaln(a + n) - gammaln(a)

    below = rising(start) + c * np.log(other / start) - d * (1 / other - 1 / start)
    assert (below <= rising(other) + 1e-9 * (1 + abs(below))).all()
    step = 1e-6
    slope = (rising(start * (1 + step)) - rising(start * (1 - step))) / (2 * step)
    np.testing.assert_allclose(c + d / start, slope, rtol=1e-4, atol=1e-7)
    # a tangent in the logarithm alone is no bound for counts below 1
    alone = rising(start) + (c + d / start) * np.log(other / start)
    assert (alone > rising(other) + 1e-3).any()
    assert (n[alone > rising(other) + 1e-6] < 1).all()


@pytest.mark.parametrize("schedule", [Full(), Memoized(4)], ids=["full", "memoized"])
@pytest.mark.parametrize(
    "settings", [{"local": "active", "documents": "best"}, {"local": "dense", "documents": "warm"}]
)
def test_the_bound_never_falls_while_pseudocounts_are_learned(schedule, settings):
    X = corpus(120)
    fits = {}
    for learns in (False, True):
        kernel = TopicVariational(schedule=schedule, learn_alpha=learns, learn_eta=learns, **FREE, **settings)
        state = kernel.init(AdmixtureModel(Multinomial(ETA), K, ALPHA), sparse.csr_array(X), seed=0)
        found = np.array([kernel.step(state).objective for _ in range(30)])
        assert (np.diff(found[1:]) >= -1e-9 * abs(found[1:-1])).all()
        state.check()
        fits[learns] = state, found
    state, found = fits[True]
    assert found[-1] > fits[False][1][-1] + 1.0
    assert np.ptp(state.model.pseudocounts) > 0.01
    assert state.eta[0] != ETA
    assert (fits[False][0].model.pseudocounts == ALPHA).all()


def test_the_bound_never_falls_while_a_stream_learns_pseudocounts():
    chunks = in_chunks(corpus(120), 5)
    stream, data = begin(chunks, settings=FREE, schedule=Memoized(), documents="best", learn_alpha=True, learn_eta=True)
    stream.sweep(data)
    found = [stream.learn(data[b], batch=b).objective for _ in range(10) for b in range(5)]
    assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
    assert np.ptp(stream.model.pseudocounts) > 0.01
    assert stream.eta[0] != ETA


def test_learned_pseudocounts_are_near_those_of_the_planted_documents():
    rng = np.random.default_rng(0)
    topics, alpha = rng.dirichlet(np.full(80, 0.05), size=4), np.array([0.6, 0.3, 0.15, 0.05])
    X = np.array([rng.multinomial(80, w @ topics) for w in rng.dirichlet(alpha, size=1500)])
    settings = {"eta": "auto", "n_steps": 60}
    dense = TopicVariational(local="dense", learn_alpha=True, learn_eta=True)
    fits = [TopicModel(4, sampler=dense, random_state=seed, **settings).fit(X) for seed in range(3)]
    model = max(fits, key=lambda fit: fit.log_joint_)
    found = model.components_ / model.components_.sum(axis=1, keepdims=True)
    order = abs(topics[:, None] - found[None]).sum(axis=2).argmin(axis=1)
    assert sorted(order) == [0, 1, 2, 3]
    assert (np.diff(model.alpha_[order]) < 0).all()
    assert 0.5 * alpha.sum() < model.alpha_.sum() < 1.5 * alpha.sum()
    assert 0.02 < model.eta_ < 0.1
    fixed = TopicModel(4, alpha=0.3, eta=0.2, sampler=TopicVariational(local="dense"), n_steps=5).fit(X)
    assert (fixed.alpha_ == 0.3).all()
    assert fixed.eta_ == 0.2
    quick = {"sampler": "variational", "n_steps": 8, "random_state": 0}
    by_default = TopicModel(4, eta="auto", **quick).fit(X)
    assert (by_default.alpha_ == 0.1).all()
    assert by_default.eta_ != 0.01
    words = TopicModel(4, learn_hyper=True, **quick).fit(X)
    assert (words.alpha_ == 0.1).all()
    assert words.eta_ != 0.01
    assert TopicModel(4, **quick).fit(X).eta_ == 0.01
    neither = TopicModel(4, alpha=0.1, eta="auto", learn_hyper=False, n_steps=30).fit(X[:50])
    assert (neither.alpha_.round(12) == 0.1).all()
    assert neither.eta_ == 0.01
    for learn_hyper in ("auto", False):
        found = TopicModel(4, sampler="gibbs", n_steps=30, learn_hyper=learn_hyper).fit(X[:50])
        assert len(set(found.alpha_)) == 4
    with pytest.raises(ValueError, match="'auto', a positive number, or one for each component; got 'often'"):
        TopicModel(4, alpha="often").fit(X)
    with pytest.raises(ValueError, match="learn_hyper must be 'auto', True or False; got 'often'"):
        TopicModel(4, learn_hyper="often").fit(X)


def test_one_pseudocount_of_words_is_learned_not_a_vector():
    with pytest.raises(CapabilityError, match="learn_eta needs one concentration"):
        TopicVariational(learn_eta=True).init(AdmixtureModel(Multinomial(np.full(30, 0.1)), K), corpus())


# ---- the estimator ---------------------------------------------------------------------------------------------------


def held_score(model):
    return model.score(corpus(300, seed=0)[200:])


def test_named_chunks_replace_themselves_and_reach_a_fit():
    X = corpus(200)
    sampler = TopicVariational(local="dense", schedule=Memoized(3))
    settings = {"n_components": K, "alpha": 0.2, "sampler": sampler, "random_state": 0}
    model = TopicModel(**settings)
    for _ in range(15):
        for place, chunk in enumerate(in_chunks(X)):
            assert model.partial_fit(chunk, batch=place) is model
    assert model.n_documents_ == 200
    assert model.n_iter_ == len(model.trace_) == 45
    np.testing.assert_allclose(model.components_.sum(), X.sum() + model.eta_ * K * 30, rtol=1e-4)
    swept = TopicModel(n_steps=15, **settings).fit_chunks(in_chunks(X))
    whole = TopicModel(n_steps=15, **settings).fit(X)
    for other in (swept, whole):
        assert other.log_joint_ == pytest.approx(model.log_joint_, rel=0.01)
        assert held_score(other) == pytest.approx(held_score(model), abs=0.1)
    assert not hasattr(whole, "stream_")
    again = model.log_joint_
    model.partial_fit(X[:50])
    assert model.n_documents_ == 250
    assert model.log_joint_ < again


@pytest.mark.parametrize("schedule", [None, Full(), Stochastic(50)], ids=["default", "full", "stochastic"])
def test_chunks_may_come_once_or_again(schedule):
    X = corpus(200)
    model = TopicModel(K, sampler=TopicVariational(schedule=schedule), n_steps=8, random_state=0)
    once = model.fit_chunks(x for x in in_chunks(X, 4))
    assert (once.n_iter_, once.n_documents_) == (1, 200)
    first = held_score(once)
    again = model.fit_chunks(in_chunks(X, 4))
    assert (again.n_iter_, again.n_documents_) == (8, 200)
    assert held_score(again) > first - 0.05
    sampler = TopicVariational(local="dense", documents="best")
    settled = TopicModel(K, alpha=0.2, sampler=sampler, n_steps=300, random_state=0)
    assert settled.fit_chunks(in_chunks(X, 4)).n_iter_ < 300


def test_callbacks_see_and_end_passes_over_chunks():
    seen = []

    def stop(info, state):
        seen.append((info.objective, info.extra["active"]))
        return len(seen) == 2

    model = TopicModel(K, n_steps=20, callbacks=[stop], random_state=0).fit_chunks(in_chunks(corpus()))
    assert len(seen) == model.n_iter_ == 2
    assert 0 < seen[-1][1] <= K


@pytest.mark.parametrize(
    "settings",
    [
        {"sampler": TopicVariational(schedule=Memoized(), documents="best")},
        {"sampler": TopicVariational(schedule=Stochastic(50, n_total=400))},
        {"eta": "auto"},
    ],
    ids=["memoized", "stochastic", "default"],
)
def test_learning_goes_on_after_files_and_pickles_with_the_same_bits(settings, tmp_path):
    chunks = in_chunks(corpus(200), 4)
    is_memoized = "sampler" in settings and isinstance(settings["sampler"].schedule, Memoized)
    model = TopicModel(K, random_state=0, **settings)
    turns = [(chunk, place if is_memoized else None) for place, chunk in enumerate(chunks)]
    for chunk, batch in 3 * turns:
        model.partial_fit(chunk, batch=batch)
    model.save(tmp_path / "model")
    others = [TopicModel.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for chunk, batch in turns:
        model.partial_fit(chunk, batch=batch)
        for other in others:
            other.partial_fit(chunk, batch=batch)
            assert other.log_joint_ == model.log_joint_
            np.testing.assert_array_equal(other.components_, model.components_)
            np.testing.assert_array_equal(other.alpha_, model.alpha_)
    assert others[0].n_iter_ == 16


def test_learning_goes_on_after_passes_over_chunks(tmp_path):
    chunks = in_chunks(corpus(200), 4)
    model = TopicModel(K, n_steps=4, random_state=0).fit_chunks(chunks)
    model.save(tmp_path / "model")
    again = TopicModel.load(tmp_path / "model")
    for fitted in (model, again):
        fitted.partial_fit(chunks[2], batch=2)  # the schedule is still that of the passes
        assert fitted.n_documents_ == 200
    np.testing.assert_array_equal(model.components_, again.components_)


@pytest.mark.parametrize("sampler", ["auto", TopicVariational(local="dense")], ids=["auto", "dense"])
def test_learning_goes_on_from_a_fit(sampler, tmp_path):
    X = corpus(200)
    model = TopicModel(K, sampler=sampler, n_steps=30, random_state=0).fit(X[:150])
    before, bound = held_score(model), model.log_joint_
    model.save(tmp_path / "model")
    for fitted in (TopicModel.load(tmp_path / "model"), model):
        fitted.set_params(sampler=TopicVariational(schedule=Memoized())).partial_fit(X[150:])
        assert fitted.n_documents_ == 200
        assert held_score(fitted) > before - 0.05
        assert fitted.log_joint_ == pytest.approx(bound * 200 / 150, rel=0.1)
    model.set_params(sampler=sampler).fit(X)
    assert not hasattr(model, "stream_")


def test_misuse_is_named():
    X = corpus()
    assert not hasattr(TopicModel(K, sampler="gibbs"), "partial_fit")
    assert not hasattr(TopicModel(K, sampler="gibbs"), "fit_chunks")
    model = TopicModel(K, sampler=TopicVariational(schedule=Memoized()), random_state=0)
    check_refusals(model, X, n_few=10, n_columns=20, sampler=TopicVariational(2, schedule=Memoized()))
    with pytest.raises(ValueError, match="leave the name out"):
        TopicModel(K).partial_fit(X, batch=1)
    with pytest.raises(CapabilityError, match=r"Full\(\) updates after a pass"):
        TopicModel(K, sampler=TopicVariational(schedule=Full())).partial_fit(X)
    with pytest.raises(ValueError, match="n_total"):
        TopicModel(K, sampler=TopicVariational(schedule=Stochastic(n_total=-1))).partial_fit(X)
    with pytest.raises(ValueError, match="documents='best'"):
        TopicModel(K, sampler=TopicVariational(documents="best", schedule=Stochastic(10))).partial_fit(X)
    stream, data = begin(in_chunks(X), schedule=Memoized())
    stream.learn(data[0])
    with pytest.raises(ExpFamError, match="4 topics, the model 5"):
        TopicStream.from_arrays(AdmixtureModel(stream.model.family, 5), stream.settings, stream.to_arrays())


# ---- data of every kind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("local", ["gibbs", "dense", "active", "tokens"])
def test_arrays_and_sparse_matrices_give_the_same_bits(local):
    X = corpus()
    kinds = [X, X.astype(np.float32), np.asfortranarray(X), sparse.csr_array(X), sparse.csc_array(X)]
    kinds.append(sparse.csr_matrix(X.astype(np.int32)))
    unsorted = sparse.csr_array(X.astype(float))
    unsorted.indices[: unsorted.indptr[1]] = unsorted.indices[: unsorted.indptr[1]][::-1]
    unsorted.data[: unsorted.indptr[1]] = unsorted.data[: unsorted.indptr[1]][::-1]
    kinds.append(sparse.csr_array((unsorted.data, unsorted.indices, unsorted.indptr), shape=X.shape))
    sampler = local if local == "gibbs" else TopicVariational(local=local)
    fits = [TopicModel(K, sampler=sampler, n_steps=6, random_state=0).fit(kind) for kind in kinds]
    for fit, kind in zip(fits, kinds):
        np.testing.assert_array_equal(fit.components_, fits[0].components_)
        np.testing.assert_array_equal(fit.transform(kind), fits[0].transform(X))
        assert fit.score(kind) == fits[0].score(X)


def on_disk(folder, n_docs, n_types, n_words, dtype):
    """CSR parts of documents as memory maps, and their bytes.

    A third of the words is frequent in each document: weights of documents without a topic converge slowly.
    """
    rng = np.random.default_rng(0)
    indices = np.sort(rng.random((n_docs, n_words)).argpartition(n_types, axis=1)[:, :n_types].astype(np.int32), axis=1)
    frequent = indices % 3 == np.arange(n_docs)[:, None] % 3
    arrays = {
        "data": (rng.integers(1, 4, size=indices.shape) + 9 * frequent).astype(dtype).ravel(),
        "indices": indices.ravel(),
        "indptr": np.arange(n_docs + 1, dtype=np.int32) * n_types,
    }
    for name, array in arrays.items():
        np.save(folder / name, array)
    parts = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays]
    return sparse.csr_array(tuple(parts), shape=(n_docs, n_words)), sum(part.nbytes for part in parts)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_memory_maps_are_not_held(dtype, tmp_path, monkeypatch):
    for place in ("samplers.topics.local_step._CHUNK_ENTRIES", "samplers.topics.variational._SUMMED"):
        monkeypatch.setattr(f"expfam.{place}", 1 << 15)
    for place in ("counts.pseudocounts", "support"):
        monkeypatch.setattr(f"expfam.families.{place}._BLOCK", 1 << 15)
    X, size = on_disk(tmp_path, 30_000, 60, 90, dtype)

    class Chunks:
        def __iter__(self):
            return (X[a : a + 1000] for a in range(0, X.shape[0], 1000))

    dense = {"local": "dense", "n_restarts": 0, "max_iterations": 2}  # the blocks are the same in every iteration
    shared = {"n_components": 3, "n_steps": 1, "alpha": 0.1, "random_state": 0}
    settings = shared | {"sampler": TopicVariational(**dense)}
    in_batches = shared | {"sampler": TopicVariational(schedule=Stochastic(2000), **dense)}
    runs = {
        "whole": lambda: TopicModel(**settings).fit(X),
        "in batches": lambda: TopicModel(**in_batches).fit(X),
        "in chunks": lambda: TopicModel(**settings).fit_chunks(Chunks()),
        "once": lambda: TopicModel(**settings).fit_chunks(iter(Chunks())),
    }
    models = {}
    for name, action in runs.items():
        peak = peak_of(lambda name=name, action=action: models.update({name: action()}))
        assert peak < 0.3 * size, f"{name}: {peak / 1e6:.1f} MB beside {size / 1e6:.1f}"
    in_memory = sparse.csr_array((np.array(X.data), np.array(X.indices), np.array(X.indptr)), shape=X.shape)
    np.testing.assert_array_equal(models["whole"].components_, TopicModel(**settings).fit(in_memory).components_)


def test_memory_does_not_grow_with_the_number_of_chunks():
    def chunks(n):
        for seed in range(n):
            yield np.random.default_rng(seed).poisson(0.3, size=(1000, 100))

    peaks = []
    for n in (3, 3, 30):
        model = TopicModel(4, sampler=TopicVariational(schedule=Stochastic(), learn_eta=True), random_state=0)
        peaks.append(peak_of(lambda model=model, n=n: model.fit_chunks(chunks(n))))
        assert model.n_documents_ == 1000 * n
    assert peaks[2] < 1.2 * peaks[1]


def test_a_model_of_chunks_says_how_to_have_labels(tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, (30, 12))
    model = TopicModel(3, random_state=0).partial_fit(counts)
    with pytest.raises(
        AttributeError, match=r"it has no labels_; for the rows of a chunk X, write model\.predict\(X\)"
    ):
        model.save(tmp_path / "m", labels=True)
    assert model.predict(counts).shape == (30,)
