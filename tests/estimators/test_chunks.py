"""Variational fits from chunks that are not kept, from memory maps and with weights, against fits that hold all."""

import pickle
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from chunk_faults import check_refusals
from scipy import sparse
from variational_by_terms import FAMILIES as REFERENCES
from variational_by_terms import Reference, reference_weights

import expfam as ef
from expfam.errors import CapabilityError, DataError, DataWarning, ExpFamError
from expfam.samplers import Full, Memoized, SparseVariational, Stochastic, VariationalState
from expfam.samplers.variational import stream

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty", "ignore:.*clusters? for .* dat")
EXACT = {"dtype": "float64", "tol": 0.0}


def planted(name, n=240, seed=0):
    """A family whose hyper-parameters do not depend on the data, and rows of about five clusters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, n)
    if name == "multinomial":
        topics = rng.dirichlet(np.full(12, 0.2), 5)
        return ef.Multinomial(concentration=0.3), np.array([rng.multinomial(12, topics[k]) for k in labels])
    if name == "poisson":
        return ef.Poisson(shape=0.8, rate=0.3), rng.poisson(rng.gamma(1.0, 5.0, (5, 4))[labels])
    if name == "gaussian_zero":
        axes = rng.normal(size=(5, 3, 3))
        family = ef.ZeroMeanGaussian(dof=5.0, scale=np.eye(3))
        return family, np.einsum("nij,nj->ni", axes[labels], rng.normal(size=(n, 3)))
    X = rng.normal(scale=4.0, size=(5, 2))[labels] + rng.normal(size=(n, 2)) + 20.0
    return ef.Gaussian(), X


def in_chunks(X, sizes=(100, 80, 60)):
    bounds = np.cumsum([0, *sizes])
    return [X[a:b] for a, b in pairwise(bounds)]


def begin(family, chunks, weights, *, labels=None, weight=None, **settings):
    """A stream of bound data sets."""
    kernel = SparseVariational(**(EXACT | {"schedule": Memoized(), "truncation": 6} | settings))
    weight = [None] * len(chunks) if weight is None else weight
    first = ef.Dataset(chunks[0], family, weight=weight[0])
    data = [first, *(ef.Dataset(X, first.family, weight=w) for X, w in zip(chunks[1:], weight[1:]))]
    model = ef.MixtureModel(first.family, weights)
    start = "auto" if labels is None else labels
    return kernel.stream(model, first, seed=0, start=start), data


# ---- against the definition ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [ef.SymmetricDirichlet(6, alpha=0.4), ef.DirichletProcess()], ids=["dir", "dp"])
@pytest.mark.parametrize("L", [1, 2, None])
@pytest.mark.parametrize("name", ["multinomial", "poisson", "gaussian", "gaussian_zero"])
def test_learning_chunks_is_the_memoized_rule(name, L, weights):
    family, X = planted(name)
    labels = np.random.default_rng(1).integers(0, 6, 100)
    run, data = begin(family, in_chunks(X), weights, labels=labels, n_active=L)
    bound = run.model.family
    reference = Reference(REFERENCES[name](bound, X.astype(float)), reference_weights(weights))
    r = np.zeros((240, 6))
    r[np.arange(100), labels] = 1.0
    reference.fit(r)
    places, phi = np.cumsum([0, 100, 80, 60]), ef.Dataset(X, bound).phi(0, 240)
    base = ef.Dataset(X, bound).log_base
    for _ in range(3):
        for b, chunk in enumerate(data):
            rows = slice(places[b], places[b + 1])
            new = reference.r.copy()
            new[rows] = reference.rows(L or 6)[rows]
            reference.fit(new)
            info = run.learn(chunk, batch=b)
            np.testing.assert_allclose(run.n, new.sum(0), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(run.S, new.T @ phi, rtol=1e-8, atol=1e-8 * abs(phi).max())
            seen = new.sum(1) > 0
            assert info.objective + base[seen].sum() == pytest.approx(reference.bound(), rel=1e-9)
            assert run.total_weight == seen.sum()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_full_schedule_over_chunks_is_that_of_the_whole(dtype):
    family, X = planted("gaussian")
    labels = np.random.default_rng(1).integers(0, 6, 240)
    whole = ef.Dataset(X, family)
    model = ef.MixtureModel(whole.family, ef.SymmetricDirichlet(6))
    kernel = SparseVariational(2, schedule=Full(), tol=0.0, dtype=dtype)
    state = kernel.init(model, whole, seed=0, start=labels)
    run = kernel.stream(model, whole, seed=0, start=labels)  # the start of all rows, then chunks
    chunks = [ef.Dataset(part, whole.family) for part in in_chunks(X)]
    slack = 1e-10 if dtype == "float64" else 1e-5
    for _ in range(4):
        assert run.sweep(chunks).objective == pytest.approx(kernel.step(state).objective, rel=slack)
    np.testing.assert_allclose(run.n, state.n, rtol=10 * slack)


def test_a_stochastic_schedule_is_the_rule_with_known_and_unknown_totals():
    family, X = planted("poisson")
    for n_total in (None, 1000.0):
        schedule = Stochastic(50, kappa=0.8, delay=2.0, n_total=n_total)
        run, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(6), schedule=schedule)
        n, seen = run.n.copy(), 0
        for t, chunk in enumerate(data, start=1):
            mine = run.passes_over(run.phi.over(chunk), None).local_step(slice(0, len(chunk)), run.tables()).sums.n
            seen += len(chunk)
            total, rho = n_total or seen, (t + 2.0) ** -0.8
            n = (1 - rho) * n * total / n.sum() + rho * total / len(chunk) * mine
            run.learn(chunk)
            np.testing.assert_allclose(run.n, n, rtol=1e-12)
        assert run.n.sum() == pytest.approx(n_total or 240)
        assert run.total_weight == 240
    again, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(6), schedule=Stochastic(50))
    infos = list(again.sweeps(data, lambda: data, 5))
    assert len(infos) == 5
    assert again.n.sum() == pytest.approx(240)  # rows that come again are not more rows


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memo", ["rows", "statistics"])
@pytest.mark.parametrize("n_candidates", [None, 2])
@pytest.mark.parametrize("name", ["multinomial", "gaussian"])
def test_the_bound_never_falls_when_chunks_come_again(name, n_candidates, memo, monkeypatch):
    monkeypatch.setattr(stream, "SETTLED_SHARE", 1.1)  # candidates at once
    family, X = planted(name)
    for L in (1, 2, 4):
        settings = {"n_active": L, "memo": memo} | ({"n_candidates": 2, "full_every": 4} if n_candidates else {})
        run, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(8), **settings)
        values, wide = [], []
        for visit in range(21):
            info = run.learn(data[visit % 3], batch=str(visit % 3))
            values.append(info.objective)
            wide.append(info.extra["all_clusters"])
        assert (np.diff(values[3:]) >= -1e-9 * abs(values[3])).all()
        assert all(wide) == (n_candidates is None or memo == "statistics")


def test_a_narrow_pass_scores_fewer_clusters_and_sweeps_end_wide():
    family, X = planted("gaussian")
    run, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(6), n_active=2, n_candidates=3, memo="rows", tol=1e-6)
    infos = list(run.sweeps(data, lambda: data, 60))
    assert len(infos) < 60
    assert infos[-1].extra["all_clusters"] == 1
    assert any(info.extra["all_clusters"] == 0 for info in infos)
    gain = np.diff([info.objective for info in infos])
    assert (gain >= -1e-9 * abs(infos[0].objective)).all()
    assert gain[-1] < 1e-6 * abs(infos[-1].objective)


def test_both_memos_give_the_same():
    family, X = planted("gaussian")
    results = []
    for memo in ("rows", "statistics"):
        run, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(6), n_active=2, memo=memo)
        for visit in range(9):
            run.learn(data[visit % 3], batch=visit % 3)
        assert (run.memo[0].sums is None) == (memo == "rows")
        results.append((run.n, run.S, run.log_joint))
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("expfam.samplers.variational.local_step.PART_ROWS", 10)
    family, X = planted("gaussian")
    results = []
    for n_threads in (1, 3):
        run, data = begin(
            family, in_chunks(X), ef.SymmetricDirichlet(4), n_active=2, n_threads=n_threads, dtype="float32"
        )
        for visit in range(6):
            run.learn(data[visit % 3], batch=visit % 3)
        results.append((run.n, run.S, run.log_joint))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Memoized(), Stochastic(10), Full()], ids=["memoized", "stochastic", "full"])
@pytest.mark.parametrize("name", ["multinomial", "poisson", "gaussian_zero"])
def test_weights_of_rows_stand_for_copies(name, schedule):
    family, X = planted(name)
    times = np.random.default_rng(0).integers(0, 4, 240)
    labels = np.random.default_rng(1).integers(0, 6, 100)
    settings = {"n_active": 2, "schedule": schedule}
    weight = in_chunks(times)
    weighted, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(6), labels=labels, weight=weight, **settings)
    copies = [np.repeat(part, w, axis=0) for part, w in zip(in_chunks(X), weight)]
    repeated, others = begin(family, copies, ef.SymmetricDirichlet(6), labels=np.repeat(labels, weight[0]), **settings)
    for _ in range(3):
        a, b = weighted.sweep(data), repeated.sweep(others)
        assert a.objective == pytest.approx(b.objective, rel=1e-10)
        np.testing.assert_allclose(weighted.n, repeated.n, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weighted.S, repeated.S, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("schedule", [Full(), "auto"], ids=["full", "auto"])
@pytest.mark.parametrize("X_kind", [np.array, sparse.csr_array])
def test_weights_given_to_fit_stand_for_copies(X_kind, schedule):
    family, X = planted("multinomial")
    times = np.random.default_rng(0).integers(0, 4, 240)
    labels = np.random.default_rng(1).integers(0, 5, 240)
    sampler = SparseVariational(2, schedule=schedule, **EXACT)
    settings = {"sampler": sampler, "n_steps": 30, "learn_hyper": False, "random_state": 0}
    a = ef.Mixture(family, 5, start=labels, **settings).fit(X_kind(X), sample_weight=times)
    repeated = np.repeat(np.arange(240), times)
    b = ef.Mixture(family, 5, start=labels[repeated], **settings).fit(X_kind(X[repeated]))
    assert a.log_joint_ == pytest.approx(b.log_joint_, rel=1e-9)
    assert a.n_.sum() == pytest.approx(times.sum())
    np.testing.assert_allclose(a.score_samples(X), b.score_samples(X), rtol=1e-6)
    doubled = ef.Mixture(family, 5, start=labels, **settings).fit(X_kind(X), sample_weight=2 * times)
    assert abs(doubled.log_joint_ - a.log_joint_) > 1.0


def test_samplers_that_take_no_weights_say_so():
    family, X = planted("poisson")
    weight = np.arange(240.0)
    for sampler in ("gibbs", "uncollapsed_gibbs", "fastex"):
        with pytest.raises(CapabilityError, match=r"cannot use sample_weight.*variational"):
            ef.Mixture(family, 5, sampler=sampler).fit(X, sample_weight=weight)
    a, b = (ef.Mixture(family, 5, n_steps=3, random_state=0).fit(X, sample_weight=w) for w in (None, np.ones(240)))
    assert np.array_equal(a.labels_, b.labels_)
    for bad, word in ((np.ones(3), "shape"), (np.full(240, -1.0), "non-negative"), (np.zeros(240), "zero")):
        with pytest.raises(DataError, match=word):
            ef.Mixture(family, 5, sampler="variational").fit(X, sample_weight=bad)


# ---- the estimator ---------------------------------------------------------------------------------------------------


def mixture_of(name, schedule="auto", **settings):
    family, X = planted(name, n=600)
    sampler = SparseVariational(2, schedule=schedule, n_candidates=4)
    return ef.Mixture(family, 6, sampler=sampler, **{"random_state": 0, **settings}), X


@pytest.mark.parametrize("schedule", ["auto", Stochastic(100)], ids=["memoized", "stochastic"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian", "gaussian_zero"])
def test_partial_fit_predicts_and_scores(name, schedule):
    mixture, X = mixture_of(name, schedule)
    X = sparse.csr_array(X) if name == "multinomial" else X
    before = None
    for _ in range(3):
        for start in range(0, 600, 200):
            assert mixture.partial_fit(X[start : start + 200]) is mixture
            before = mixture.score(X) if before is None else before
    assert mixture.n_iter_ == len(mixture.trace_) == 9
    assert mixture.n_.sum() == pytest.approx(1800, rel=1e-3)  # chunks without a name are new rows
    assert mixture.cluster_sizes_.sum() == pytest.approx(1800, abs=6)
    assert mixture.labels_.shape == (200,)
    assert (mixture.predict(X[400:]) == mixture.labels_).mean() > 0.9
    assert sparse.issparse(mixture.S_) == (name == "multinomial")
    assert mixture.score(X) > before


def sizes_after(learn, n=200):
    """A mixture that has learned two clusters far apart, n rows each."""
    X = np.repeat([[0.0], [90.0]], n, axis=0) + np.random.default_rng(0).normal(size=(2 * n, 1))
    mixture = ef.Mixture("gaussian_diag", 2, sampler="variational", n_steps=5, random_state=0)
    learn(mixture, X)
    return mixture


WEIGHTED = np.repeat([2.5, 0.5], 200)  # 500 and 100 in all
LEARNERS = {
    "fit": lambda mixture, X, w: mixture.fit(X, sample_weight=w),
    "partial_fit": lambda mixture, X, w: mixture.partial_fit(X, sample_weight=w),
    "fit_chunks": lambda mixture, X, w: mixture.fit_chunks([X if w is None else (X, w)]),
    "passes": lambda mixture, X, w: mixture.set_params(sampler=SparseVariational(schedule=Full())).fit_chunks(
        [X if w is None else (X, w)] * 2
    ),
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_sizes_are_rows_or_weights_however_they_were_learned(learner):
    times = 2 if learner == "passes" else 1
    rows = sizes_after(lambda mixture, X: LEARNERS[learner](mixture, X, None))
    assert rows.cluster_sizes_.dtype == np.int64
    assert sorted(rows.cluster_sizes_.tolist()) == [200 * times, 200 * times]
    weighted = sizes_after(lambda mixture, X: LEARNERS[learner](mixture, X, WEIGHTED))
    assert weighted.cluster_sizes_.dtype == np.float64
    np.testing.assert_allclose(sorted(weighted.cluster_sizes_), [100 * times, 500 * times], rtol=1e-4)
    small = sizes_after(lambda mixture, X: LEARNERS[learner](mixture, X, WEIGHTED / 600.0))
    np.testing.assert_allclose(small.cluster_sizes_.sum(), times, rtol=1e-4)  # not rounded away


@pytest.mark.parametrize("is_saved", [False, True], ids=["held", "loaded"])
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_sizes_stay_weights_when_learning_goes_on(first, is_saved, tmp_path):
    mixture = sizes_after(lambda mixture, X: LEARNERS[first](mixture, X, WEIGHTED))
    if is_saved:
        mixture.save(tmp_path / "model")
        mixture = ef.Mixture.load(tmp_path / "model")
    mixture.partial_fit(np.array([[90.0]] * 7))
    assert mixture.cluster_sizes_.dtype == np.float64
    np.testing.assert_allclose(sorted(mixture.cluster_sizes_), [107, 500], rtol=1e-4)


@pytest.mark.parametrize("n_rows", [9, 20])
def test_a_batch_of_more_rows_than_there_are_is_all_of_them(n_rows):
    X = np.random.default_rng(0).poisson([[2.0], [40.0]] * n_rows)
    whole, clipped = (
        ef.Mixture("poisson", 2, sampler=SparseVariational(2, schedule=Stochastic(b)), n_steps=3, random_state=0).fit(X)
        for b in (2 * n_rows, 1024)
    )
    np.testing.assert_array_equal(whole.n_, clipped.n_)
    assert whole.log_joint_ == clipped.log_joint_


@pytest.mark.parametrize("name", ["multinomial", "gaussian"])
def test_named_chunks_replace_themselves_and_reach_a_fit(name):
    mixture, X = mixture_of(name, random_state=4)
    for _ in range(12):
        for place in range(3):
            mixture.partial_fit(X[200 * place : 200 * place + 200], batch=place)
    assert mixture.n_.sum() == pytest.approx(600, abs=2)
    chunks = [X[:200], X[200:400], X[400:]]
    swept = mixture_of(name, n_steps=12, random_state=4)[0].fit_chunks(chunks)
    assert swept.log_joint_ == pytest.approx(mixture.log_joint_, rel=1e-4)
    assert swept.score(X) == pytest.approx(mixture.score(X), rel=1e-3)
    assert not hasattr(swept, "labels_")
    held = mixture_of(name, start=mixture.predict(X), learn_hyper=False)[0].set_params(family=mixture.family_).fit(X)
    assert held.log_joint_ == pytest.approx(mixture.log_joint_, rel=5e-3)


@pytest.mark.parametrize("schedule", [Full(), Memoized(), Stochastic(50)], ids=["full", "memoized", "stochastic"])
def test_chunks_may_come_once_or_again_and_have_weights(schedule):
    mixture, X = mixture_of("poisson", schedule, n_steps=6, start="random")  # far from its end, so that passes pay
    once = mixture.fit_chunks(X[a : a + 100] for a in range(0, 600, 100))
    assert once.n_iter_ == 1
    assert once.n_.sum() == pytest.approx(600, abs=3)
    first = once.score(X)
    again = mixture.fit_chunks([X[a : a + 100] for a in range(0, 600, 100)])
    assert again.n_iter_ > 1
    assert again.n_.sum() == pytest.approx(600, abs=3)
    assert again.score(X) > first
    weighted = mixture.fit_chunks([(X[a : a + 100], np.full(100, 2.0)) for a in range(0, 600, 100)])
    assert weighted.n_.sum() == pytest.approx(1200, abs=3)


def test_callbacks_see_and_end_passes_over_chunks():
    mixture, X = mixture_of("poisson", n_steps=20)
    seen = []

    def stop(info, state):
        seen.append((info.objective, state.n.sum()))
        return len(seen) == 2

    mixture.set_params(callbacks=[stop]).fit_chunks([X[:300], X[300:]])
    assert len(seen) == mixture.n_iter_ == 2
    assert seen[-1][1] == pytest.approx(600)


@pytest.mark.parametrize("schedule", ["auto", Stochastic(100)], ids=["memoized", "stochastic"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian_zero"])
def test_learning_goes_on_after_files_and_pickles_with_the_same_bits(name, schedule, tmp_path):
    mixture, X = mixture_of(name, schedule)
    X = sparse.csr_array(X) if name == "multinomial" else X
    chunks = [(X[a : a + 200], a if schedule == "auto" else None) for a in range(0, 600, 200)]
    for chunk, batch in chunks:
        mixture.partial_fit(chunk, batch=batch)
    mixture.save(tmp_path / "model")
    others = [ef.Mixture.load(tmp_path / "model"), pickle.loads(pickle.dumps(mixture))]
    for chunk, batch in chunks:
        mixture.partial_fit(chunk, batch=batch)
        for other in others:
            other.partial_fit(chunk, batch=batch)
            assert other.log_joint_ == mixture.log_joint_
            assert np.array_equal(other.n_, mixture.n_)
            assert (other.S_ != mixture.S_).sum() == 0
    assert others[0].n_iter_ == 6


def test_learning_goes_on_from_a_fit():
    for name in ("multinomial", "gaussian_zero"):
        for schedule in ("auto", Stochastic(100)):
            mixture, X = mixture_of(name, schedule)
            mixture.fit(X[:400])
            labels, before = mixture.predict(X), mixture.score(X)
            mixture.partial_fit(X[400:])
            assert mixture.n_.sum() == pytest.approx(600, abs=4)
            assert mixture.score(X) > before - 0.2
            assert (mixture.predict(X) == labels).mean() > 0.9
            mixture.fit(X)
            assert not hasattr(mixture, "stream_")


def test_misuse_is_named():
    family, X = planted("poisson")
    assert not hasattr(ef.Mixture(family, 5), "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        ef.Mixture(family, 5).partial_fit(X)
    mixture = ef.Mixture(family, 5, sampler=SparseVariational(2), random_state=0)
    check_refusals(mixture, X, n_few=100, n_columns=2, sampler=SparseVariational(3))
    with pytest.raises(DataError, match="dense, this one is sparse"):
        mixture.partial_fit(sparse.csr_array(X))
    with pytest.raises(CapabilityError, match="learn_hyper"):
        ef.Mixture(family, 5, sampler="variational", learn_hyper=True).partial_fit(X)
    with pytest.raises(CapabilityError, match=r"Full\(\) updates after a pass"):
        ef.Mixture(family, 5, sampler=SparseVariational(2, schedule=Full())).partial_fit(X)
    with pytest.raises(ValueError, match="leave the name out"):
        ef.Mixture(family, 5, sampler=SparseVariational(2, schedule=Stochastic(9))).partial_fit(X, batch=1)
    with pytest.raises(ValueError, match="n_total"):
        ef.Mixture(family, 5, sampler=SparseVariational(2, schedule=Stochastic(9, n_total=0))).partial_fit(X)
    with pytest.raises(ValueError, match="run_length"):
        ef.Mixture(family, 5, sampler=SparseVariational(2, schedule=Memoized(2, run_length=0))).fit(X)
    other, data = begin(family, [X], ef.SymmetricDirichlet(4))
    other.learn(data[0])
    model = ef.MixtureModel(other.model.family, ef.SymmetricDirichlet(5))
    with pytest.raises(ExpFamError, match="4 clusters, the sampler 5"):
        stream.VariationalStream.from_arrays(model, other.settings, other.to_arrays())


@pytest.mark.filterwarnings("default:.*clusters for .* data")
def test_a_first_chunk_of_few_rows_is_warned_of():
    family, X = planted("poisson")
    with pytest.warns(DataWarning, match="5 clusters for 3 data in the first chunk"):
        mixture = ef.Mixture(family, 5, sampler="variational", random_state=0).partial_fit(X[:3])
    assert mixture.n_.sum() == pytest.approx(3)
    mixture.partial_fit(X[:1])
    assert mixture.n_.sum() == pytest.approx(4)


def test_only_what_rounding_leaves_below_zero_is_made_zero():
    family, X = planted("poisson")
    run, _ = begin(family, [X], ef.SymmetricDirichlet(4))
    S = np.zeros((4, run.model.family.n_statistics_))
    S[:, :2] = [[5.0, 1e4], [-1e-14, -1e-9], [0.0, 3.0], [-1e-3, 0.0]]
    run.phi.mend_sums(np.ones(4), S)
    assert np.array_equal(S[:, :2], [[5.0, 1e4], [0.0, 0.0], [0.0, 3.0], [-1e-3, 0.0]])
    family, X = planted("gaussian")
    real, _ = begin(family, [X], ef.SymmetricDirichlet(4))
    S = np.full((4, real.model.family.n_statistics_), -1e-14)
    real.phi.mend_sums(np.ones(4), S)
    assert (S == -1e-14).all()


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian_spherical", "gaussian", "gaussian_zero", "lognormal"])
def test_rows_that_are_all_equal_in_single_precision(family, offset):
    rng = np.random.default_rng(0)
    X = np.zeros((2000, 8), dtype=np.float32)
    X[::3] = 8.0 + 0.5 * rng.normal(size=(667, 8))
    X += offset + (family == "lognormal")
    mixture = ef.Mixture(family, 2, sampler="variational", random_state=0).fit_chunks(np.array_split(X, 4))
    if family != "gaussian_zero":
        assert sorted(mixture.cluster_sizes_) == [667, 1333]
    ef.Mixture(family, 2, sampler="variational", random_state=0).fit(X)


# ---- data that are not held ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Memoized(5), Memoized(5, run_length=7), Stochastic(60, run_length=20)], ids=repr)
def test_batches_of_neighbours_are_a_partition(schedule):
    batches = schedule.partition(303, 1) if isinstance(schedule, Memoized) else schedule.batches(303, 1, 4)
    assert sorted(np.concatenate(batches)) == list(range(303))
    for rows in batches:
        whole = rows // schedule.run_length
        assert all(np.count_nonzero(whole == run) in (schedule.run_length, 303 % schedule.run_length) for run in whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_memory_map_is_not_copied(dtype, tmp_path):
    rng = np.random.default_rng(0)
    N, d = 600_000 // np.dtype(dtype).itemsize, 100
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=dtype, shape=(N, d))
    X[:] = rng.normal(size=(4, d))[rng.integers(0, 4, N)] * 3 + rng.normal(size=(N, d))
    X.flush()
    size = X.nbytes
    del X
    for schedule in (Full(), Memoized(4, run_length=1000)):
        sampler = SparseVariational(2, schedule=schedule)
        options = {"start": "kmeans++", "n_steps": 2, "n_warmup": 0, "random_state": 0}
        mixture = ef.Mixture(ef.DiagonalGaussian(), 4, sampler=sampler, **options)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        tracemalloc.start()
        mixture.fit(mapped)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 45e6 < size, f"{peak / 1e6:.0f} MB beside {size / 1e6:.0f}"
        held = mixture.score(mapped[:100])
        assert mixture.fit(np.array(mapped)).score(mapped[:100]) == held


def test_memory_does_not_grow_with_the_number_of_chunks():
    def chunks(n):
        rng = np.random.default_rng(0)
        for _ in range(n):
            yield rng.poisson(rng.choice([1.0, 9.0], size=(2000, 1)), size=(2000, 20)).astype(float)

    peaks = []
    for n in (3, 3, 30):
        sampler = SparseVariational(2, schedule=Stochastic(2000))
        mixture = ef.Mixture(ef.Poisson(1.0, 0.2), 3, sampler=sampler, random_state=0)
        tracemalloc.start()
        mixture.fit_chunks(chunks(n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert mixture.n_.sum() == pytest.approx(2000 * n)
    assert peaks[2] < 1.2 * peaks[1]


def test_states_hold_no_chunk():
    family, X = planted("gaussian")
    run, data = begin(family, in_chunks(X), ef.SymmetricDirichlet(4))
    run.learn(data[0], batch=0)
    assert run.phi.data is None
    assert not isinstance(run, VariationalState)
    size = len(pickle.dumps(run))
    run.learn(data[1])
    assert len(pickle.dumps(run)) < size + 2000
