"""Variational topics of unknown number: the bound by its terms and beside the evidence, moves, and runs to the bit."""

import numpy as np
import pytest
from franchise_slow import log_joints
from franchises import DOCUMENTS, Tiny
from process_by_terms import ProcessReference
from scipy import sparse
from scipy.special import gammaln, logsumexp, psi

from expfam import AdmixtureModel, Dataset, HierarchicalProcess, Multinomial, Poisson
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.samplers import Full, Memoized, Stochastic, TopicGibbs, TopicProcessVariational, sample
from expfam.samplers.nonparametric import topic_variational, variational_moves
from expfam.samplers.nonparametric.stick_posterior import StickPosterior, Tables
from expfam.samplers.nonparametric.stick_value import value_of_sticks
from expfam.samplers.nonparametric.variational_moves import Allocation

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

EXACT = {"dtype": "float64", "tol": 1e-6}


def planted(n_docs=300, n_topics=5, n_words=60, length=60, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), size=n_topics)
    weights = rng.dirichlet(np.full(n_topics, 0.2), size=n_docs)
    return np.array([rng.multinomial(length, p) for p in weights @ topics])


def begun(X=None, *, eta=0.1, n_clusters=8, seed=0, weight=None, start="auto", **settings):
    X = planted(60) if X is None else X
    kernel = TopicProcessVariational(**{**EXACT, "schedule": Memoized(4), **settings})
    model = HierarchicalProcess(Multinomial(eta, allow_fractional=True), 1.3, 0.8)
    data = Dataset(sparse.csr_array(X), model.family, weight=weight)
    model = model.with_family(data.family)
    return kernel, kernel.init(model, data, seed=seed, n_clusters=n_clusters, start=start)


def documents_of(state):
    """Words, counts and responsibilities of each document with words, and their numbers."""
    K, X, found = state.model.n_components, sparse.csr_array(state.data.X), {}
    for part in (part for parts in state.remembered for part in parts):
        pairs = values = 0
        for row, size in zip(part.rows, part.sizes):
            words, c = X.indices[X.indptr[row] : X.indptr[row + 1]], X.data[X.indptr[row] : X.indptr[row + 1]]
            r = np.zeros((len(words), K))
            r[:, part.topics[pairs : pairs + size]] = part.values[values : values + len(words) * size].reshape(
                len(words), size
            )
            pairs, values = pairs + size, values + len(words) * size
            if len(words):
                found[int(row)] = (words, c.astype(float), r)
    rows = sorted(found)
    return [found[row] for row in rows], np.array(rows)


def reference_of(state):
    q = state.sticks
    return ProcessReference(q.mean, q.size, q.alpha, q.gamma, state.eta)


def bound_by_terms(state):
    documents, rows = documents_of(state)
    weight = None if state.data.weight is None else state.data.weight[rows]
    return reference_of(state).bound(documents, state.word_counts, weight)


# ---- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["dense", "active"])
@pytest.mark.parametrize("n_active", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_is_the_sum_of_its_terms(how, n_active, weighted):
    X = planted(40)
    X[3] = 0  # a document without words
    weight = np.random.default_rng(1).gamma(2.0, size=40) if weighted else None
    kernel, state = begun(X, local=how, n_active=n_active, weight=weight)
    for step in range(8):
        kernel.step(state)
        state.check()
        by_terms = bound_by_terms(state)
        if step < topic_variational._SETTLE:  # the tangents touch
            np.testing.assert_allclose(state.log_joint, by_terms, rtol=1e-10)
        else:
            assert state.log_joint <= by_terms + 1e-8 * abs(by_terms)
            np.testing.assert_allclose(state.log_joint, by_terms, rtol=2e-3)
        documents, _ = documents_of(state)
        assert max((r > 0).sum(axis=1).max() for _, _, r in documents) <= (n_active or 99)


def test_a_pass_makes_the_coordinate_steps_of_the_reference():
    X = planted(20)
    counts = np.random.default_rng(0).gamma(0.4, 20.0, size=(60, 4))
    kernel, state = begun(X, local="dense", schedule=Full(), start=counts, max_iterations=7, tol=0.0)
    reference = reference_of(state).lda
    E, expected = reference.expected_logs(counts), np.zeros_like(counts)
    kernel.step(state)
    for words, c, r in documents_of(state)[0]:
        right, _ = reference.dense(E[words], c, max_iterations=7, tol=0.0)
        np.testing.assert_allclose(r, right, atol=1e-9)
        expected[words] += c[:, None] * right
    np.testing.assert_allclose(state.word_counts, expected, atol=1e-8)


@pytest.mark.parametrize("n_clusters", [1, 2, 3])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_bound_is_below_the_enumerated_evidence(name, n_clusters):
    tiny = Tiny(name)
    evidence = logsumexp(log_joints(tiny.model, tiny.evidence, tiny.groups))
    kernel = TopicProcessVariational(learn_alpha=False, **EXACT)
    state = kernel.init(tiny.model, tiny.X, seed=0, n_clusters=n_clusters)
    priors = tiny.model.alpha + tiny.model.gamma  # of the concentrations, which the bound holds and evidence does not
    found = [kernel.step(state).objective + priors for _ in range(20)]
    assert max(found) < evidence
    assert found[-1] > evidence - 3.0


def test_groups_pay_for_the_spread_of_the_weights():
    tables = Tables(np.array([[3.0, 2.0, 1.0], [0.1, 0.1, 0.1]]), 2.0, 20.0)
    first = StickPosterior.around(np.full(3, 0.2), 20.0, 1.3, 0.8)
    paid, free = first.best(tables, learn=False), first.best(tables._replace(n_groups=0.0), learn=False)
    assert (paid.size > 3.0 * free.size).all()
    assert paid.value(tables) > free.value(tables) + 5.0


@pytest.mark.parametrize("how", ["dense", "active"])
@pytest.mark.parametrize("schedule", [Full(), Memoized(5)])
@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-10), ("float32", 1e-6)])
def test_no_step_lowers_the_bound(schedule, how, dtype, slack):
    kernel, state = begun(planted(120), local=how, schedule=schedule, dtype=dtype, n_clusters=15, learn_eta=True)
    found, n_accepted = [], 0
    for _ in range(15):
        info = kernel.step(state)
        n_accepted += info.accepted
        found.append(info.objective)
        np.testing.assert_allclose(state.log_joint, state.compute_log_joint(), rtol=1e-9)
    assert n_accepted > 3
    assert (np.diff(found) >= -slack * abs(found[0])).all()


# ---- sticks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "n_known"), [(1, 0), (4, 0), (4, 2), (3, 3)])
def test_the_value_of_sticks_is_what_the_reference_says_of_them(K, n_known):
    rng = np.random.default_rng(K)
    q = StickPosterior(rng.uniform(0.2, 0.7, K), rng.gamma(5.0, 5.0, K), 1.3, 0.8, n_known)
    reference = ProcessReference(*q[:4], np.ones(1), n_known)
    counts = rng.poisson(2.0, (12, K)) + rng.random((12, K))
    M, n = q.pseudocounts, counts.sum(axis=1)
    slopes = np.array([M * (psi(M + (x < 1) + x) - psi(M + (x < 1))) for x in counts])
    small = np.where(counts < 1, counts * M / (M + counts), 0.0)
    tables = Tables(np.array([slopes.sum(axis=0), small.sum(axis=0)]), float((psi(1.3 + n) - psi(1.3)).sum()), 12.0)
    touched = (gammaln(M + counts) - gammaln(M)).sum() + (gammaln(1.3) - gammaln(1.3 + n)).sum()
    touched -= (tables.rising[0] * np.log(M) - tables.rising[1] / M).sum() - tables.falling * 1.3
    one = np.ones(1)
    by_terms = sum(reference.document(np.zeros((1, K)), one * x.sum(), x[None] / x.sum()) for x in counts)
    entropy = sum(-(x * np.log(x / x.sum())).sum() for x in counts)
    np.testing.assert_allclose(q.value(tables) + touched, by_terms - entropy + reference.sticks(), rtol=1e-10)


@pytest.mark.parametrize("n_known", [0, 3])
def test_the_best_sticks_are_better_than_their_neighbours(n_known):
    rng = np.random.default_rng(0)
    tables = Tables(rng.gamma(2.0, 5.0, (2, 6)) * [[1.0], [0.05]], 30.0, 40.0)
    first = StickPosterior.around(np.full(6, 0.15), 40.0, 1.0, 1.0, n_known)
    for learn in (False, True):
        best = first.best(tables, learn=learn)
        assert best.value(tables) > first.value(tables) + 1.0
        assert (best.alpha == 1.0) is not learn
        for _ in range(50):
            mean = 1 / (1 + np.exp(-np.log(best.mean / (1 - best.mean)) - rng.normal(0, 0.05, 6)))
            other = best._replace(mean=mean, size=best.size * np.exp(rng.normal(0, 0.1, 6)))
            if learn:
                other = other._replace(alpha=best.alpha * 1.05, gamma=best.gamma * 0.95)
            assert other.value(tables) < best.value(tables)


@pytest.mark.parametrize(("K", "n_known"), [(1, 0), (4, 0), (4, 2)])
def test_the_slopes_of_sticks_are_differences_of_their_value(K, n_known):
    rng = np.random.default_rng(K)
    x = np.concatenate([rng.normal(size=K), rng.normal(2.0, 1.0, K), np.log([1.3, 0.8])])
    tables, slopes = Tables(rng.gamma(2.0, 5.0, (2, K)) * [[1.0], [0.05]], 30.0, 40.0), np.empty(2 * K + 2)

    def value(x, slopes=None):
        mean, size = 1.0 / (1.0 + np.exp(-x[:K])), np.exp(x[K : 2 * K])
        return value_of_sticks(mean, size, *np.exp(x[2 * K :]), n_known, *tables, slopes)

    value(x, slopes)
    differences = [(value(x + step) - value(x - step)) / 2e-5 for step in 1e-5 * np.eye(len(x))]
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-5)


def test_means_of_weights_sum_to_one():
    q = StickPosterior.around([0.5, 0.2, 0.1], 10.0, 2.0, 1.0)
    np.testing.assert_allclose(q.beta, [0.5, 0.2, 0.1, 0.2])
    np.testing.assert_allclose(q.pseudocounts, [1.0, 0.4, 0.2])


# ---- moves -----------------------------------------------------------------------------------------------------------

MOVES = {
    "merge": lambda allocation, rng: variational_moves.try_merges(allocation),
    "delete": lambda allocation, rng: variational_moves.try_deletions(allocation, 6, rng),
    "birth": lambda allocation, rng: variational_moves.try_births(allocation, 6, rng),
}


def settled(n_clusters, **settings):
    kernel, state = begun(planted(120), n_clusters=n_clusters, merge=False, n_deletions=0, n_births=0, **settings)
    for _ in range(7):
        kernel.step(state)
    return state


@pytest.mark.parametrize(("name", "n_clusters"), [("merge", 14), ("delete", 9), ("birth", 2)])
def test_moves_are_accepted_only_where_the_bound_from_nothing_rises(name, n_clusters):
    state = settled(n_clusters)
    before, K = bound_by_terms(state), state.model.n_components
    allocation = Allocation(state)
    rest = state.log_joint - allocation.bound  # what no move changes
    n_tried, n_accepted = MOVES[name](allocation, np.random.default_rng(0))
    assert 0 < n_accepted <= n_tried
    bound = allocation.bound
    state.take_moves(allocation)
    state.check()
    assert state.model.n_components == len(allocation.columns) == K + (n_accepted if name == "birth" else -n_accepted)
    assert state.log_joint >= bound + rest - 1e-9 * abs(rest)  # tangents of the new weights touch again
    np.testing.assert_allclose(state.log_joint, bound_by_terms(state), rtol=1e-10)
    assert bound_by_terms(state) > before


@pytest.mark.parametrize(("name", "n_clusters"), [("merge", 3), ("delete", 3), ("birth", 5)])
def test_moves_that_nobody_judges_are_seen(name, n_clusters, monkeypatch):
    state = settled(n_clusters)
    before = bound_by_terms(state)
    monkeypatch.setattr(variational_moves, "_GAIN", -1.0)
    monkeypatch.setattr(variational_moves, "_HOPELESS", np.inf)
    allocation = Allocation(state)
    assert MOVES[name](allocation, np.random.default_rng(0))[1] > 0
    state.take_moves(allocation)
    assert bound_by_terms(state) < before - 10.0


def test_an_allocation_that_no_move_changed_is_the_state():
    state = settled(7)
    before, counts = state.log_joint, state.word_counts.copy()
    state.take_moves(Allocation(state))
    np.testing.assert_allclose(state.word_counts, counts, rtol=1e-10, atol=1e-10)
    assert before <= state.log_joint + 1e-8 * abs(before)
    np.testing.assert_allclose(state.log_joint, before, rtol=1e-4)


@pytest.mark.parametrize("n_clusters", [1, 5, 30])
def test_the_planted_number_is_found_from_one_topic_and_from_many(n_clusters):
    X, settings = planted(200), {"n_clusters": n_clusters, "learn_eta": True, "dtype": "float32", "tol": 0.05}
    kernel, state = begun(X, **settings)
    sample(kernel, state, 30)
    assert state.n_clusters == state.model.n_components == 5
    if n_clusters != 5:
        without, stays = begun(X, merge=False, n_deletions=0, n_births=0, **settings)
        sample(without, stays, 12)
        assert stays.n_clusters != 5
        assert stays.log_joint < state.log_joint - 100.0


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_weights_are_repeated_documents():
    X, start = planted(30), np.random.default_rng(0).gamma(0.5, 9.0, size=(60, 5))
    quiet = {"merge": False, "n_deletions": 0, "n_births": 0, "schedule": Full(), "start": start}
    kernel, weighted = begun(X, weight=np.full(30, 2.0), **quiet)
    _, repeated = begun(np.repeat(X, 2, axis=0), **quiet)
    for _ in range(8):
        a, b = kernel.step(weighted), kernel.step(repeated)
        np.testing.assert_allclose(a.objective, b.objective, rtol=1e-8)


def test_the_result_does_not_depend_on_threads_but_on_the_seed(monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.local_step._TASK_ENTRIES", 1)  # else all is one task
    states = []
    for seed, n_threads in ((0, 1), (0, 2), (1, 1)):
        kernel, state = begun(planted(120), n_clusters=12, seed=seed, n_threads=n_threads)
        sample(kernel, state, 8)
        states.append(state)
    assert np.array_equal(states[0].word_counts, states[1].word_counts)
    assert states[0].log_joint == states[1].log_joint != states[2].log_joint


def test_a_run_goes_on_from_its_arrays_to_the_bit():
    kernel, state = begun(planted(120), n_clusters=12, learn_eta=True)
    sample(kernel, state, 6)
    _, other = begun(planted(120), n_clusters=12, learn_eta=True)
    assert other.model.n_components != state.model.n_components
    other.from_arrays(state.to_arrays())
    for _ in range(3):
        assert kernel.step(state).objective == kernel.step(other).objective
    assert np.array_equal(state.word_counts, other.word_counts)
    arrays = state.to_arrays()
    with pytest.raises(ArchiveError, match="below 1"):
        other.from_arrays(arrays | {"sticks": np.ones_like(arrays["sticks"])})


def test_a_run_ends_where_nothing_is_gained():
    kernel, state = begun(planted(120), n_clusters=5, tol=0.05)
    trace = sample(kernel, state, 100)
    assert state.converged
    assert len(trace.column("objective")) < 60


def test_another_model_is_taken():
    _, state = begun()
    state.set_model(HierarchicalProcess(state.model.family.with_hyper(concentration=0.3), 2.0, 3.0))
    assert (state.process.alpha, state.process.gamma, state.eta[0]) == (2.0, 3.0, 0.3)
    np.testing.assert_allclose(state.model.pseudocounts, 2.0 * state.sticks.beta[:-1])


def test_what_it_cannot_do_is_refused():
    X, kernel = planted(20), TopicProcessVariational()
    family = Multinomial(0.1)
    for model, words in (
        (AdmixtureModel(family, 3), r"works on a HierarchicalProcess.*write TopicProcessVariational\(\)\.init"),
        (HierarchicalProcess(Poisson()), "needs the family Multinomial"),
        (HierarchicalProcess(family, n_known=2), r"known topics and seeds: write TopicProcessGibbs\(\)"),
    ):
        with pytest.raises(CapabilityError, match=words):
            kernel.init(model, X)
    with pytest.raises(CapabilityError, match="learn_eta needs one concentration"):
        TopicProcessVariational(learn_eta=True).init(HierarchicalProcess(Multinomial(np.full(60, 0.1))), X)
    with pytest.raises(ValueError, match=r"schedule must be Full\(\) or Memoized\(\)"):
        TopicProcessVariational(schedule=Stochastic()).init(HierarchicalProcess(family), X)
    with pytest.raises(ValueError, match=r"schedule must be Memoized\(\) or Stochastic\(\) for chunks"):
        TopicProcessVariational(schedule=Full()).stream(HierarchicalProcess(family), X)
    with pytest.raises(CapabilityError):
        TopicGibbs().init(HierarchicalProcess(family), X)
    with pytest.raises((DataError, ValueError), match="start must be"):
        kernel.init(HierarchicalProcess(family), X, start=np.ones((3, 4)))
