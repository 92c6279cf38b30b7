"""Rows in groups learned from chunks that are not kept: against the definition, runs that hold all, and their laws."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from allocated import peak_of
from grouped_by_terms import GroupedReference
from planted import assert_never_falls, planted
from scipy import sparse

from expfam import AdmixtureModel, Dataset, DiagonalGaussian, GroupedMixture, Poisson
from expfam.errors import CapabilityError, DataError, DataWarning, ExpFamError
from expfam.estimators.grouped_chunks import GROUPS
from expfam.fitting.kept_chunks import Chunk
from expfam.model.known import Known
from expfam.samplers import Full, GroupedStream, GroupedVariational, Memoized, Stochastic

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

EXACT = {"dtype": "float64", "bound_tol": 0.0, "tol": 0.0, "n_restarts": 0, "max_iterations": 3}
FREE = {"dtype": "float64", "bound_tol": 0.0}
ALPHA = np.array([0.4, 0.9, 0.2, 0.6, 0.3])
K = len(ALPHA)
ENDS = (0, 90, 170, 240)  # of the chunks


def rows_in_groups(name="poisson", n=240, seed=0):
    """A family that does not look at the data, rows, and chunks of whole groups of them, as (rows, groups)."""
    family, X, _ = planted(name, n=n, seed=seed)
    family = family if name in ("poisson", "multinomial") else Dataset(X, family).family
    rng, chunks = np.random.default_rng(seed + 1), []
    for first, stop in pairwise(np.asarray(ENDS) * n // 240):
        chunks.append((X[first:stop], 2 * rng.integers(0, 8, stop - first)))  # every second group has no rows
    return family, chunks


def joined(chunks):
    """All rows, and their groups numbered one after the other."""
    sizes = [groups.max() + 1 for _, groups in chunks]
    groups = np.concatenate([groups + sum(sizes[:b]) for b, (_, groups) in enumerate(chunks)])
    return np.concatenate([X for X, _ in chunks]), groups


def data_of(family, chunks, weights=None):
    weights = [None] * len(chunks) if weights is None else weights
    return [Dataset(X, family, groups=groups, weight=w) for (X, groups), w in zip(chunks, weights)]


def begin(family, data, *, labels=None, settings=EXACT, **more):
    kernel = GroupedVariational(**({"schedule": Memoized()} | settings | more))
    labels = np.arange(data[0].n_rows) % K if labels is None else labels
    return kernel.stream(AdmixtureModel(family, K, ALPHA), data[0], seed=0, start=labels)


# ---- against the definition ------------------------------------------------------------------------------------------


def in_cold_weights(reference, groups, alpha):
    """The reference with groups that have only the prior's weights."""
    sizes = np.bincount(groups, weights=reference.weight, minlength=groups.max() + 1)
    reference.a = alpha + sizes[:, None] * (alpha / alpha.sum())
    return reference


class Definition:
    """Memoized learning with all responsibilities kept, row by row."""

    def __init__(self, family, data, labels, L):
        self.family, self.data, self.L = family, data, L
        self.r = [None] * len(data)
        self.n, self.S = self.sums(0, np.eye(K)[labels])

    def sums(self, b, r):
        data = self.data[b]
        weighted = r if data.weight is None else r * data.weight[:, None]
        return weighted.sum(axis=0), weighted.T @ data.phi(0, data.n_rows)

    def of_chunk(self, b):
        data = self.data[b]
        X = data.X.toarray() if sparse.issparse(data.X) else data.X
        made = GroupedReference(self.family, X.astype(float), data.groups.of_row, ALPHA, weight=data.weight)
        # scores of this chunk's rows under parameters of all chunks
        theta, g = self.family.expected_natural(self.n, self.S)
        made.w = data.phi(0, data.n_rows) @ theta.T - g
        return made

    def learn(self, b):
        made = self.of_chunk(b)
        if self.r[b] is None:
            in_cold_weights(made, made.groups, ALPHA)
            scores, r = made.scores(), None
            r = top(scores, self.L)
            n_more = EXACT["max_iterations"] - 1
        else:
            r, n_more = self.r[b], EXACT["max_iterations"]
        self.r[b] = made.local_step(r, self.L, n_more)
        parts = [self.sums(b, r) for b, r in enumerate(self.r) if r is not None]
        self.n, self.S = (sum(part[i] for part in parts) for i in (0, 1))

    def bound(self):
        """Term by term, but for the parameters, whose divergence is the family's own."""
        theta, g = self.family.expected_natural(self.n, self.S)
        total = self.family.log_marginal(self.n, self.S).sum() + (self.n @ g - (self.S * theta).sum())
        for b, r in enumerate(self.r):
            if r is None:
                continue
            made = self.of_chunk(b).fit_weights(r)
            made.q = []  # the divergence of the parameters is above
            total += made.bound(r)
        return total


def top(scores, L):
    kept = np.sort(scores, axis=1)[:, -L][:, None]
    r = np.where(scores >= kept, np.exp(scores - scores.max(axis=1, keepdims=True)), 0.0)
    return r / r.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("L", [1, 2, None])
@pytest.mark.parametrize("name", ["poisson", "gaussian", "multinomial"])
def test_learning_chunks_is_the_memoized_rule(name, L, weighted):
    family, chunks = rows_in_groups(name)
    rng = np.random.default_rng(3)
    weights = [rng.integers(0, 4, len(X)).astype(float) for X, _ in chunks] if weighted else None
    data = data_of(family, chunks, weights)
    family = data[0].family
    labels = np.random.default_rng(1).integers(0, K, data[0].n_rows)
    stream = begin(family, data, labels=labels, n_active=L)
    definition = Definition(family, data, labels, L or K)
    for b in (0, 1, 2, 1, 1, 0, 2):  # a chunk may come again at any time
        info = stream.learn(data[b], batch=b)
        definition.learn(b)
        np.testing.assert_allclose(stream.n, definition.n, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(stream.S, definition.S, rtol=1e-8, atol=1e-8 * abs(definition.S).max())
        assert info.objective == pytest.approx(definition.bound(), rel=1e-9)
        np.testing.assert_array_equal(stream.labels, definition.r[b].argmax(axis=1))
    weight = sum(one.n_rows if one.weight is None else one.weight.sum() for one in data)
    assert stream.total_weight == weight
    stream.learn(data[1])  # without a name it is added for good
    assert stream.n.sum() == pytest.approx(stream.total_weight)
    assert stream.total_weight > weight


@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize("L", [2, None])
def test_passes_over_chunks_are_those_of_the_whole(L, n_batches, monkeypatch):
    """Full and memoized, each group beginning with the prior's weights, in the order in which the chunks come."""
    family, chunks = rows_in_groups("gaussian")
    X, groups = joined(chunks)
    whole = Dataset(X, family, groups=groups)
    labels = np.random.default_rng(1).integers(0, K, len(X))
    schedule = Full() if n_batches == 1 else Memoized(n_batches)
    kernel = GroupedVariational(L, **EXACT, schedule=schedule)
    ends = np.cumsum([0, *(groups.max() + 1 for _, groups in chunks)])
    monkeypatch.setattr(Memoized, "partition", lambda self, n, seed: [np.arange(a, b) for a, b in pairwise(ends)])
    monkeypatch.setattr(Memoized, "order", lambda self, n, seed, step: np.arange(3))
    model = AdmixtureModel(family, K, ALPHA)
    state = kernel.init(model, whole, seed=0, start=labels)
    data = data_of(family, chunks)
    stream = kernel.stream(model, whole, seed=0, start=labels)
    sizes = np.bincount(groups)[:, None] * (ALPHA / ALPHA.sum())
    state.batch_counts = [sparse.csr_array(sizes[chosen]) for chosen in state.batches]
    for place in range(5):
        swept, stepped = stream.sweep(data).objective, kernel.step(state).objective
        if n_batches > 1 and place == 0:  # the start stood for the chunks to come in the one, in the other it did not
            state.batch_counts = [kept.counts.copy() for kept in stream.memo.values()]
            state.batch_sums = [kept.sums.copy() for kept in stream.memo.values()]
            state.sums = state.total_of_batches()
            state.update()
            continue
        assert swept == pytest.approx(stepped, rel=1e-10)
        np.testing.assert_allclose(stream.n, state.n, rtol=1e-8, atol=1e-9)
        counts = sparse.vstack([kept.counts for kept in stream.memo.values()]).toarray()
        np.testing.assert_allclose(counts, state.group_counts().toarray(), atol=1e-8)


def test_known_rows_of_chunks_stay_in_their_clusters():
    family, chunks = rows_in_groups("gaussian")
    classes = [np.where(np.arange(len(X)) % 7 == 0, np.arange(len(X)) % 2, -1) for X, _ in chunks]
    data = [Dataset(X, family, groups=groups, known=Known(y)) for (X, groups), y in zip(chunks, classes)]
    stream = begin(family, data, labels="random", settings=FREE)
    for step in range(9):
        stream.learn(data[step % 3], batch=step % 3)
        y = classes[step % 3]
        np.testing.assert_array_equal(stream.labels[y >= 0], y[y >= 0])
    X, groups = chunks[0]
    more = Dataset(X, family, groups=groups, known=Known(np.arange(len(X)) % (K + 1)))
    with pytest.raises(DataError, match=r"y has 6 classes.*allows 5 clusters"):
        stream.learn(more, batch=0)
    mixture = GroupedMixture("gaussian_diag", 3, labels="clusters", sampler="variational")
    with pytest.raises(
        CapabilityError, match=r"cannot use labels='clusters': write GroupedMixture\(.*\.fit\(X, y, groups="
    ):
        mixture.partial_fit(X, classes[0], groups=groups)


@pytest.mark.parametrize("n_total", [None, 1000.0])
def test_a_stochastic_schedule_is_the_rule(n_total):
    family, chunks = rows_in_groups()
    data = data_of(family, chunks)
    labels = np.random.default_rng(1).integers(0, K, data[0].n_rows)
    stream = begin(
        family, data, labels=labels, n_active=2, schedule=Stochastic(50, kappa=0.8, delay=2.0, n_total=n_total)
    )
    definition, seen, before = Definition(family, data, labels, 2), 0, float(data[0].n_rows)
    for t, one in enumerate(data, start=1):
        n, S = definition.n, definition.S
        mine = Definition(family, data, labels, 2)
        mine.n, mine.S = n, S
        mine.learn(t - 1)
        seen += one.n_rows
        total, rho = n_total or seen, (t + 2.0) ** -0.8
        made = mine.of_chunk(t - 1)
        theta, g = family.expected_natural(n, S)
        made.w = one.phi(0, one.n_rows) @ theta.T - g
        made.fit_weights(mine.r[t - 1]).q = []
        divergence = (S * theta).sum() - n @ g - family.log_marginal(n, S).sum()
        bound = total / one.n_rows * made.bound(mine.r[t - 1]) - divergence
        assert stream.learn(one).objective == pytest.approx(bound, rel=1e-9)
        scale, kept = rho * total / one.n_rows, (1 - rho) * total / before
        definition.n, definition.S = kept * n + scale * mine.n, kept * S + scale * mine.S
        before = total
        np.testing.assert_allclose(stream.n, definition.n, rtol=1e-9)
        np.testing.assert_allclose(stream.S, definition.S, rtol=1e-9)


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"n_restarts": 3}, {"learn_alpha": True}], ids=["", "restarts", "alpha"])
@pytest.mark.parametrize("L", [1, 2, None])
@pytest.mark.parametrize("name", ["multinomial", "gaussian"])
def test_the_bound_never_falls_when_chunks_come_again(name, L, settings):
    family, chunks = rows_in_groups(name)
    data = data_of(family, chunks)
    stream = begin(data[0].family, data, settings=FREE, n_active=L, **settings)
    stream.sweep(data)
    found = [stream.learn(data[b], batch=b).objective for _ in range(8) for b in (0, 2, 1)]
    assert_never_falls(found)
    assert found[-1] > found[0]
    if "learn_alpha" in settings:
        assert abs(stream.model.pseudocounts - ALPHA).max() > 0.05


@pytest.mark.parametrize("settings", [{}, {"learn_alpha": True}], ids=["", "alpha"])
def test_full_passes_never_lower_the_bound_for_groups_remember_their_weights(settings):
    falls = {}
    for remembers in (True, False):
        falls[remembers] = 0
        for seed in range(6):
            family, chunks = rows_in_groups("gaussian", seed=seed)
            data = data_of(family, chunks)
            stream = begin(family, data, settings=EXACT, schedule=Full(), n_active=2, max_iterations=2, **settings)
            found = []
            for _ in range(15):
                found.append(stream.sweep(data).objective)
                if not remembers:
                    stream.memo.clear()
            falls[remembers] += (np.diff(found[1:]) < -1e-9 * abs(found[0])).sum()
            assert stream.memo == {} or all(kept.sums is None for kept in stream.memo.values())
    assert falls[True] == 0
    assert settings or falls[False] > 0


def test_learned_pseudocounts_are_those_of_a_run_that_holds_all():
    rng, size = np.random.default_rng(0), 60
    alpha = np.array([0.8, 0.4, 0.2])
    weights = rng.dirichlet(alpha, 120)
    labels = np.array([rng.choice(3, size=size, p=w) for w in weights])
    X = 12.0 * np.arange(3)[labels][..., None] + rng.normal(size=(120, size, 1))
    groups = np.repeat(np.arange(40), size)
    chunks = [(X[a : a + 40].reshape(-1, 1), groups) for a in (0, 40, 80)]
    sampler = GroupedVariational(learn_alpha=True, bound_tol=1e-9)
    swept = GroupedMixture(DiagonalGaussian(), 3, sampler=sampler, n_steps=100, random_state=0).fit_chunks(chunks)
    held = GroupedMixture(DiagonalGaussian(), 3, sampler=sampler, n_steps=100, random_state=0)
    held.fit(X.reshape(-1, 1), groups=np.repeat(np.arange(120), size))
    np.testing.assert_allclose(np.sort(swept.alpha_), np.sort(held.alpha_), rtol=0.02)
    np.testing.assert_allclose(np.sort(swept.alpha_), np.sort(alpha), rtol=0.35)


@pytest.mark.parametrize("schedule", [Full(), Memoized(), Stochastic(10)], ids=["full", "memoized", "stochastic"])
def test_weights_of_rows_stand_for_copies_in_their_group(schedule):
    family, chunks = rows_in_groups()
    rng = np.random.default_rng(2)
    times = [rng.integers(0, 4, len(X)) for X, _ in chunks]
    labels = rng.integers(0, K, len(chunks[0][0]))
    settings = FREE | {"n_active": 2, "schedule": schedule, "learn_alpha": True}
    data = data_of(family, chunks, times)
    weighted = begin(family, data, labels=labels, settings=settings)
    copies = [tuple(np.repeat(part, n, axis=0) for part in chunk) for chunk, n in zip(chunks, times)]
    others = data_of(family, copies)
    copied = begin(family, others, labels=np.repeat(labels, times[0]), settings=settings)
    for _ in range(5):
        assert weighted.sweep(data).objective == pytest.approx(copied.sweep(others).objective, rel=1e-9)
    np.testing.assert_allclose(weighted.S, copied.S, rtol=1e-8)
    np.testing.assert_allclose(weighted.model.pseudocounts, copied.model.pseudocounts, rtol=1e-7)
    assert weighted.total_weight == sum(n.sum() for n in times)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("expfam.samplers.variational.local_step.PART_ROWS", 10)
    family, chunks = rows_in_groups("gaussian")
    data, results = data_of(family, chunks), []
    for n_threads in (1, 3):
        stream = begin(family, data, settings={"n_threads": n_threads, "n_active": 2, "learn_alpha": True})
        for visit in range(6):
            stream.learn(data[visit % 3], batch=visit % 3)
        results.append((stream.n, stream.S, stream.log_joint, stream.model.pseudocounts))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


def test_batches_and_chunks_whose_groups_have_no_rows():
    family, chunks = rows_in_groups()
    X, _ = chunks[0]
    data = [Dataset(X, family, groups=np.full(len(X), 40))]  # 40 groups of no rows, then one
    stream = begin(family, data, n_active=2)
    stream.learn(data[0], batch=0)
    assert stream.group_counts.shape == (41, K)
    assert stream.group_counts.sum(axis=1)[40] == pytest.approx(len(X))
    kernel = GroupedVariational(2, **EXACT, schedule=Memoized(8))
    state = kernel.init(AdmixtureModel(family, K, ALPHA), data[0], seed=0, start=np.arange(len(X)) % K)
    kernel.step(state)
    state.check()


# ---- the estimator ---------------------------------------------------------------------------------------------------


def mixture_of(schedule="auto", alpha=0.3, **settings):
    sampler = GroupedVariational(2, schedule=schedule, learn_alpha=isinstance(alpha, str))
    return GroupedMixture(Poisson(0.8, 0.3), K, alpha=alpha, sampler=sampler, **{"random_state": 0, **settings})


def test_named_chunks_replace_themselves_and_reach_a_fit():
    _, chunks = rows_in_groups(n=1200)
    X, groups = joined(chunks)
    mixture = mixture_of("auto", "auto")
    for _ in range(12):
        for place, (rows, own) in enumerate(chunks):
            assert mixture.partial_fit(rows, groups=own, batch=place) is mixture
    assert mixture.n_.sum() == pytest.approx(1200, rel=1e-4)
    assert mixture.n_iter_ == len(mixture.trace_) == 36
    assert mixture.labels_.shape == (len(chunks[2][0]),)
    assert mixture.group_weights_.shape == (chunks[2][1].max() + 1, K)
    assert (mixture.predict(*chunks[2]) == mixture.labels_).mean() > 0.9
    swept = mixture_of("auto", "auto", n_steps=12).fit_chunks(chunks)
    assert swept.log_joint_ == pytest.approx(mixture.log_joint_, rel=1e-3)
    assert not hasattr(swept, "labels_")
    with pytest.raises(AttributeError, match="use transform"):
        swept.group_weights_  # noqa: B018
    held = mixture_of("auto", "auto", start=mixture.predict(X, groups)).fit(X, groups=groups)
    assert not hasattr(held, "stream_")
    for other in (swept, held):
        assert other.score(X, groups=groups) == pytest.approx(mixture.score(X, groups=groups), abs=0.05)
    mixture.partial_fit(*chunks[0][:1], groups=chunks[0][1])
    assert mixture.n_.sum() == pytest.approx(1200 + len(chunks[0][0]), rel=1e-4)


@pytest.mark.parametrize("schedule", [Full(), Memoized(), Stochastic(50)], ids=["full", "memoized", "stochastic"])
def test_chunks_may_come_once_or_again_and_have_weights(schedule):
    _, chunks = rows_in_groups(n=1200)
    held_out, own = joined(rows_in_groups(n=600, seed=0)[1])
    mixture = mixture_of(schedule, n_steps=6, start="random")  # far from its end, so that passes pay
    once = mixture.fit_chunks(iter(chunks))
    assert once.n_iter_ == 1
    assert once.n_.sum() == pytest.approx(1200, rel=1e-4)
    first = once.score(held_out, groups=own)
    again = mixture.fit_chunks(chunks)
    assert again.n_iter_ == 6
    assert again.n_.sum() == pytest.approx(1200, rel=1e-4)
    assert again.score(held_out, groups=own) > first - 0.01
    weighted = mixture.fit_chunks([(X, groups, np.full(len(X), 2.0)) for X, groups in chunks])
    assert weighted.n_.sum() == pytest.approx(2400, rel=1e-4)


def test_passes_over_chunks_end_where_the_bound_has_settled_or_a_callback_says_so():
    _, chunks = rows_in_groups()
    assert mixture_of(n_steps=200).fit_chunks(chunks).n_iter_ < 200
    seen = []

    def stop(info, state):
        seen.append(state.n.sum())
        return len(seen) == 2

    assert mixture_of(n_steps=20, callbacks=[stop]).fit_chunks(chunks).n_iter_ == len(seen) == 2
    assert seen[-1] == pytest.approx(240, rel=1e-5)


@pytest.mark.parametrize("alpha", [0.3, "auto"])
@pytest.mark.parametrize("schedule", ["auto", Stochastic(100)], ids=["memoized", "stochastic"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian_zero"])
def test_learning_goes_on_after_files_and_pickles_with_the_same_bits(name, schedule, alpha, tmp_path):
    family, chunks = rows_in_groups(name)
    chunks = [(sparse.csr_array(X) if name == "multinomial" else X, groups) for X, groups in chunks]
    mixture = mixture_of(schedule, alpha).set_params(family=family)
    turns = [(*chunk, place if schedule == "auto" else None) for place, chunk in enumerate(chunks)]
    for X, groups, batch in 2 * turns:
        mixture.partial_fit(X, groups=groups, batch=batch)
    mixture.save(tmp_path / "model")
    others = [GroupedMixture.load(tmp_path / "model"), pickle.loads(pickle.dumps(mixture))]
    for X, groups, batch in turns:
        mixture.partial_fit(X, groups=groups, batch=batch)
        for other in others:
            other.partial_fit(X, groups=groups, batch=batch)
            assert other.log_joint_ == mixture.log_joint_
            assert np.array_equal(other.n_, mixture.n_)
            assert (other.S_ != mixture.S_).sum() == 0
            assert np.array_equal(other.alpha_, mixture.alpha_)
    assert others[0].n_iter_ == 9
    assert sparse.issparse(mixture.S_) == (name == "multinomial")


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_learning_goes_on_from_a_fit(sampler, tmp_path):
    _, chunks = rows_in_groups(n=1200)
    X, groups = joined(chunks[:2])
    mixture = GroupedMixture(Poisson(0.8, 0.3), K, sampler=sampler, n_steps=30, random_state=0).fit(X, groups=groups)
    mixture.set_params(sampler="variational")
    before, labels, bound = mixture.score(X, groups=groups), mixture.predict(X, groups), mixture.log_joint_
    mixture.save(tmp_path / "model")
    for fitted in (GroupedMixture.load(tmp_path / "model"), mixture):
        fitted.partial_fit(chunks[2][0], groups=chunks[2][1])
        assert fitted.n_.sum() == pytest.approx(1200, rel=1e-4)
        assert fitted.score(X, groups=groups) > before - 0.1
        assert (fitted.predict(X, groups) == labels).mean() > 0.9
        assert fitted.log_joint_ == pytest.approx(bound * 1200 / len(X), rel=0.1)


def test_the_bound_of_a_fit_is_where_learning_goes_on():
    _, chunks = rows_in_groups(n=1200)
    X, groups = chunks[0]
    sampler = GroupedVariational(2, dtype="float64", n_restarts=0, schedule=Memoized())
    mixture = GroupedMixture(Poisson(0.8, 0.3), K, alpha=0.3, sampler=sampler, n_steps=20, random_state=0)
    mixture.fit(X, groups=groups)
    stream = GROUPS.plan(mixture, is_first=False).opened(Chunk(X, {"groups": groups})).stream
    assert stream.compute_log_joint() == pytest.approx(mixture.log_joint_, rel=1e-12)
    assert stream.entropy > 0


def test_misuse_is_named():
    family, chunks = rows_in_groups()
    X, groups = chunks[0]
    sampling = GroupedMixture(family, K)
    assert not hasattr(sampling, "partial_fit")
    assert not hasattr(sampling, "fit_chunks")
    with pytest.raises(AttributeError, match="partial_fit"):
        sampling.partial_fit(X, groups=groups)
    with pytest.raises(CapabilityError, match=r"sampler='auto' cannot use sample_weight.*sampler='variational'\)"):
        sampling.fit(X, groups=groups, sample_weight=np.full(len(X), 2.0))
    mixture = mixture_of()
    with pytest.raises(DataError, match="no chunks"):
        mixture.fit_chunks([])
    for chunk, found in ((X, "1 part$"), ((X, groups, None, None), "4 parts$")):
        with pytest.raises(DataError, match=found):
            mixture.fit_chunks([chunk])
    for use in (lambda: mixture.fit_chunks([(X, None)]), lambda: mixture.partial_fit(X)):
        with pytest.raises(ValueError, match="needs groups="):
            use()
    with pytest.raises(DataError, match="got 3"):
        mixture.partial_fit(X, groups=[0, 1, 2])
    mixture.partial_fit(X, groups=groups, batch="a")
    with pytest.raises(DataError, match=r"batch 'a' had 90 rows.* 10 rows"):
        mixture.partial_fit(X[:10], groups=groups[:10], batch="a")
    with pytest.raises(DataError, match=f"{groups.max() + 1} groups when it was learned; got 1"):
        mixture.partial_fit(X, groups=np.zeros(len(X), dtype=int), batch="a")
    with pytest.raises(ValueError, match="features"):
        mixture.partial_fit(X[:, :2], groups=groups)
    with pytest.raises(DataError, match="dense, this one is sparse"):
        mixture.partial_fit(sparse.csr_array(X), groups=groups)
    with pytest.raises(DataError, match="needs the group of each row"):
        mixture.stream_.learn(Dataset(X, mixture.family_))
    mixture.sampler = GroupedVariational(3)
    with pytest.raises(CapabilityError, match="n_active changed"):
        mixture.partial_fit(X, groups=groups)
    with pytest.raises(CapabilityError, match=r"Full\(\) updates after a pass"):
        mixture_of(Full()).partial_fit(X, groups=groups)
    with pytest.raises(ValueError, match="leave the name out"):
        mixture_of(Stochastic(9)).partial_fit(X, groups=groups, batch=1)
    with pytest.raises(ValueError, match="n_total"):
        mixture_of(Stochastic(9, n_total=0)).partial_fit(X, groups=groups)
    with pytest.raises(ValueError, match="learn them in chunks"):
        mixture_of(Stochastic(9)).fit(X, groups=groups)
    with pytest.warns(DataWarning, match="5 clusters for 3 data in the first chunk"):
        mixture_of().partial_fit(X[:3], groups=groups[:3])
    stream = begin(family, data_of(family, chunks))
    stream.learn(data_of(family, chunks)[0])
    with pytest.raises(ExpFamError, match="5 clusters, the sampler 4"):
        GroupedStream.from_arrays(AdmixtureModel(stream.model.family, 4), stream.settings, stream.to_arrays())


# ---- data that are not held ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_memory_map_is_not_copied(dtype, tmp_path):
    rng, N, d = np.random.default_rng(0), 400_000 // np.dtype(dtype).itemsize, 100
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=dtype, shape=(N, d))
    X[:] = rng.normal(size=(4, d))[rng.integers(0, 4, N)] * 3 + rng.normal(size=(N, d))
    X.flush()
    mapped, groups = np.load(tmp_path / "X.npy", mmap_mode="r"), np.arange(N) // 100
    size = mapped.nbytes
    for schedule in (Full(), Memoized(4)):
        sampler = GroupedVariational(2, schedule=schedule)
        mixture = GroupedMixture(DiagonalGaussian(), 4, sampler=sampler, n_steps=2, random_state=0)
        peak = peak_of(lambda mixture=mixture: mixture.fit(mapped, groups=groups))
        assert peak < 36e6 < size, f"{peak / 1e6:.0f} MB beside {size / 1e6:.0f}"
        peak = peak_of(lambda mixture=mixture: mixture.predict(mapped, groups))
        assert peak < 36e6 < size, f"{peak / 1e6:.0f} MB beside {size / 1e6:.0f}"
        labels = mixture.labels_
        assert np.array_equal(mixture.fit(np.array(mapped), groups=groups).labels_, labels)


def test_memory_does_not_grow_with_the_number_of_chunks():
    def chunks(n):
        rng = np.random.default_rng(0)
        for _ in range(n):
            X = rng.poisson(rng.choice([1.0, 9.0], size=(2000, 1)), size=(2000, 20)).astype(float)
            yield X, np.arange(2000) % 50

    peaks = []
    for n in (3, 3, 30):
        mixture = mixture_of(Stochastic(2000), "auto")
        peaks.append(peak_of(lambda mixture=mixture, n=n: mixture.fit_chunks(chunks(n))))
        assert mixture.n_.sum() == pytest.approx(2000 * n, rel=1e-4)
    assert peaks[2] < 1.2 * peaks[1]


def test_streams_hold_no_chunk():
    family, chunks = rows_in_groups("gaussian")
    data = data_of(family, chunks)
    stream = begin(family, data)
    stream.learn(data[0], batch=0)
    assert stream.phi.data is None
    size = len(pickle.dumps(stream))
    stream.learn(data[1])
    assert len(pickle.dumps(stream)) < size + 2000
