"""`Mixture` as its users meet it: what it fits, predicts, draws and refuses."""

import io
import os
import signal
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from expfam import (
    DiagonalGaussian,
    DirichletProcess,
    Family,
    Gaussian,
    Mixture,
    Multinomial,
    PitmanYor,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
    ZeroMeanGaussian,
)
from expfam.errors import CapabilityError, DataWarning, ResourceError, SupportError
from expfam.evaluation.metrics import variation_of_information
from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge, UncollapsedGibbs


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.3, 8.0, size=(5, 12))
    labels = rng.integers(0, 5, 400)
    return rng.poisson(rates[labels]), labels


@pytest.fixture(scope="module")
def fitted(counts):
    return Mixture("poisson", 12, n_steps=30, random_state=0).fit(counts[0])


def test_finds_the_clusters(fitted, counts):
    X, labels = counts
    assert variation_of_information(labels, fitted.labels_) < 0.2
    assert variation_of_information(labels, fitted.predict(X)) < 0.2


def test_what_is_kept_fits_together(fitted, counts):
    X, _ = counts
    K = fitted.n_components_
    assert fitted.labels_.dtype == np.int32
    first = np.unique(fitted.labels_, return_index=True)[1]
    assert (np.diff(first) > 0).all()  # numbered by first appearance
    assert (fitted.cluster_sizes_ == np.bincount(fitted.labels_)).all()
    assert fitted.S_.shape == (K, 12)
    np.testing.assert_array_equal(fitted.S_[1], X[fitted.labels_ == 1].sum(axis=0))
    assert fitted.weights_.sum() + np.exp(fitted.log_weight_new_) == pytest.approx(1.0)
    assert fitted.log_joint_ == pytest.approx(fitted.model_.log_joint(X, fitted.labels_))
    assert fitted.n_iter_ == len(fitted.trace_) == 60
    assert not fitted.interrupted_


def test_probabilities_are_bayes_rule(fitted, counts):
    X = counts[0][:7]
    log_p = np.log(fitted.weights_) + Family.log_predictive(fitted.family_, X, fitted.n_, fitted.S_)
    expected = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), expected, rtol=1e-9, atol=1e-300)
    assert (fitted.predict(X) == expected.argmax(axis=1)).all()


@pytest.mark.parametrize("n_top", [1, 3, 50])
def test_the_largest_probabilities_as_csr(fitted, counts, n_top):
    X = counts[0]
    dense, top = fitted.predict_proba(X), fitted.predict_proba(X, n_top=n_top)
    assert sparse.issparse(top)
    L = min(n_top, fitted.n_components_)
    assert (np.diff(top.indptr) == L).all()
    kept = top.toarray()
    np.testing.assert_array_equal(kept[kept > 0], dense[kept > 0])
    np.testing.assert_allclose(kept.sum(axis=1), np.sort(dense, axis=1)[:, -L:].sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("n_components", [None, 3])
def test_the_predictive_density_sums_to_one(n_components):
    X = np.random.default_rng(1).poisson([[2.0]] * 30)
    X[:10] += 20
    mixture = Mixture(Poisson(shape=1.0, rate=0.1), n_components, n_steps=10, random_state=0).fit(X)
    support = np.arange(2000)[:, None]
    assert np.exp(mixture.score_samples(support)).sum() == pytest.approx(1.0, abs=1e-6)
    assert mixture.score(X) == pytest.approx(mixture.score_samples(X).mean())


def test_the_predictive_density_integrates_to_one():
    X = np.random.default_rng(1).normal(size=(40, 1)) + 6 * (np.arange(40) % 2)[:, None]
    mixture = Mixture("gaussian", n_steps=10, random_state=0).fit(X)
    grid = np.linspace(-400, 400, 400_001)[:, None]
    assert np.exp(mixture.score_samples(grid)).sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1.0, abs=1e-4)


def test_draws_look_like_the_data(fitted, counts):
    X, labels = fitted.sample(4000)
    assert X.shape == (4000, 12)
    assert (np.diff(labels) >= 0).all()
    error = counts[0].std(axis=0) * np.sqrt(1 / 400 + 1 / 4000)
    assert (np.abs(X.mean(axis=0) - counts[0].mean(axis=0)) < 5 * error + 0.05).all()
    again, _ = fitted.sample(4000)
    assert (again == X).all()


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_layouts_give_the_same_labels(counts, index, dtype):
    X = counts[0][:150].astype(dtype)
    dense = Mixture("multinomial", 6, n_steps=5, random_state=2).fit(X)
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(index), csr.indptr.astype(index)
    for part in (csr.data, csr.indices, csr.indptr):
        part.flags.writeable = False
    other = Mixture("multinomial", 6, n_steps=5, random_state=2).fit(csr)
    assert (dense.labels_ == other.labels_).all()
    assert (dense.predict(X) == other.predict(csr)).all()
    assert (dense.labels_ == Mixture("multinomial", 6, n_steps=5, random_state=2).fit(csr.tocsc()).labels_).all()


def test_data_frames_name_their_columns(counts):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(counts[0][:50], columns=[f"word{w}" for w in range(12)])
    mixture = Mixture("poisson", 3, n_steps=2, random_state=0).fit(frame)
    assert list(mixture.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        mixture.predict(frame.rename(columns={"word0": "other"}))


@pytest.mark.usefixtures("default_interrupt")
def test_an_interrupt_leaves_a_usable_model(counts):
    X = np.repeat(counts[0], 50, axis=0)

    def interrupt(info, state):
        if info.step == 2:
            os.kill(os.getpid(), signal.SIGINT)

    mixture = Mixture(
        "poisson", 200, n_steps=100_000, n_warmup=0, start="random", random_state=0, callbacks=[interrupt]
    )
    mixture.fit(X)
    assert mixture.interrupted_
    assert 0 < mixture.n_iter_ < 100_000
    assert mixture.predict(X[:5]).shape == (5,)
    assert mixture.log_joint_ == pytest.approx(mixture.model_.log_joint(X, mixture.labels_))


def test_callbacks_see_every_step_and_can_end_the_run(counts):
    seen = []

    class Enough:
        closed = 0

        def __call__(self, info, state):
            seen.append((info.step, state.n_clusters))
            return info.step >= 7

        def close(self):
            self.closed += 1

    enough = Enough()
    mixture = Mixture("poisson", 5, n_steps=20, n_warmup=3, random_state=0, callbacks=[enough]).fit(counts[0])
    assert [step for step, _ in seen] == list(range(1, 8))
    assert mixture.n_iter_ == 7
    assert enough.closed == 1


def test_a_stop_in_the_warm_up_ends_the_run(counts):
    mixture = Mixture(
        "poisson", 5, n_steps=20, n_warmup=6, random_state=0, callbacks=[lambda info, state: info.step >= 2]
    )
    assert mixture.fit(counts[0]).n_iter_ == 2


def on_a_terminal(monkeypatch):
    """Put a terminal in the place of standard error: elsewhere lines take the place of the bar."""
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_progress_bar(counts, monkeypatch):
    screen = on_a_terminal(monkeypatch)
    Mixture("poisson", 5, n_steps=3, n_warmup=2, random_state=0, callbacks="progress").fit(counts[0])
    assert "5/5" in screen.getvalue()


def test_a_progress_bar_has_no_total_where_a_rule_ends_the_run(counts, monkeypatch):
    screen = on_a_terminal(monkeypatch)
    mixture = Mixture("poisson", 5, random_state=0, callbacks=["progress"]).fit(counts[0])
    shown = screen.getvalue()
    assert f"{mixture.n_iter_}step" in shown
    assert f"{mixture.n_iter_}/" not in shown


def test_concentration_is_learned_only_if_asked(counts):
    X = counts[0]
    learned = Mixture("multinomial", 6, n_steps=20, learn_hyper=True, random_state=0).fit(X)
    assert learned.family_.concentration != Multinomial().bind(X).concentration
    kept = Mixture("multinomial", 6, n_steps=20, random_state=0).fit(X)
    assert kept.family_.concentration == Multinomial().bind(X).concentration
    given = Mixture(Multinomial(concentration=0.2), 6, n_steps=20, random_state=0).fit(X)
    assert given.family_.concentration == 0.2
    asked = Mixture(Multinomial(concentration=0.2), 6, n_steps=20, learn_hyper=True, random_state=0).fit(X)
    assert asked.family_.concentration != 0.2
    assert asked.get_params()["family"].concentration == 0.2  # the user's own object is never touched


@pytest.mark.parametrize(
    ("family", "names"),
    [
        (Gaussian(), ["mean_strength", "scale"]),
        (Gaussian(mean_strength=0.2), ["scale"]),
        (ZeroMeanGaussian(), ["scale"]),
        (DiagonalGaussian(), ["alike", "mean_strength", "rate"]),
        (DiagonalGaussian(alike=False), ["mean_strength", "rate"]),
        (SphericalGaussian(), ["mean_strength", "rate"]),
        (SphericalGaussian(rate=0.3), ["mean_strength"]),
        (SphericalGaussian(variance="shared"), ["mean_variance", "shared_variance"]),
        (SphericalGaussian(variance=0.5), ["mean_variance"]),
    ],
)
def test_real_families_learn_what_was_not_given(family, names):
    X = np.random.default_rng(0).normal(size=(60, 2))
    bound, found = family.bind(X), Mixture(family, 3, n_steps=6, random_state=0).fit(X).family_
    assert sorted(name for name in found.differences(bound) if name != "hyper_factors_") == names
    given = Mixture(family, 3, n_steps=6, random_state=0, learn_hyper=False).fit(X).family_
    assert given.differences(bound) == ["scale"] * isinstance(family, Gaussian)  # it has the shape of the clusters


@pytest.mark.parametrize(
    "weights", [DirichletProcess(alpha=3.0), PitmanYor(alpha=1.0, discount=0.3), SymmetricDirichlet(9)]
)
@pytest.mark.parametrize(
    "sampler", ["auto", "uncollapsed_gibbs", CollapsedGibbs(order="random"), UncollapsedGibbs(truncation=40)]
)
def test_weights_and_samplers_combine(counts, weights, sampler):
    X, labels = counts
    mixture = Mixture("poisson", weights=weights, sampler=sampler, n_steps=40, random_state=0).fit(X)
    assert mixture.model_.weights == weights
    assert variation_of_information(labels, mixture.labels_) < 0.8


def test_the_last_partition_or_the_central_one(counts):
    options = {"n_steps": 20, "n_warmup": 5, "random_state": 0}
    last = Mixture("poisson", **options, partition="last").fit(counts[0])
    point = Mixture("poisson", **options, partition="vi").fit(counts[0])
    assert last.trace_.n_kept == 0
    distances = [variation_of_information(point.labels_, kept) for kept in point.trace_.partitions]
    assert min(distances) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("sampler", ["auto", "uncollapsed_gibbs", "fastex", "variational", "em"])
@pytest.mark.parametrize("learn_hyper", [False, True])
def test_the_trace_knows_its_warm_up(counts, sampler, learn_hyper):
    options = {"n_steps": 7, "n_warmup": 5, "learn_hyper": learn_hyper, "start": "one", "random_state": 0}
    mixture = Mixture("poisson", 5, sampler=sampler, **options).fit(counts[0])
    trace, converges = mixture.trace_, sampler in ("variational", "em")
    assert trace.n_warmup == 5 or (converges and trace.n_warmup < len(trace))
    later = trace.column("n_clusters")[trace.n_warmup :]
    assert trace.n_clusters_interval(1.0) == (later.min(), later.max())
    assert (trace.kept_steps > trace.n_warmup).all()


def test_the_interval_of_the_number_of_clusters_does_not_count_the_warm_up(counts):
    mixture = Mixture("poisson", n_steps=20, n_warmup=20, start=np.arange(len(counts[0])), random_state=0)
    trace = mixture.fit(counts[0]).trace_
    high = trace.n_clusters_interval(1.0)[1]
    assert high < trace.column("n_clusters").max()  # the start has one cluster a row


@pytest.mark.parametrize("stops_at", [3, 8])
def test_a_run_that_is_stopped_early_reports_nothing_of_its_warm_up(counts, stops_at):
    stop = lambda info, state: info.step >= stops_at  # noqa: E731
    mixture = Mixture("poisson", 4, n_steps=9, n_warmup=5, callbacks=[stop], random_state=0).fit(counts[0])
    if stops_at > 5:
        assert len(mixture.trace_.counted("n_clusters")) == stops_at - 5
    else:
        with pytest.raises(ValueError, match="no steps are left"):
            mixture.trace_.n_clusters_interval()


def test_columns_far_from_zero_change_nothing():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2)) + 7 * rng.integers(0, 3, (120, 1))
    for family in (Gaussian(), DiagonalGaussian()):
        near = Mixture(family, 3, n_steps=10, random_state=0).fit(X)
        far = Mixture(family, 3, n_steps=10, random_state=0).fit(X + 1e6)
        assert (near.labels_ == far.labels_).all()
        np.testing.assert_allclose(near.score_samples(X), far.score_samples(X + 1e6), atol=1e-5)


def test_one_row_and_equal_rows():
    assert (
        Mixture("gaussian", n_steps=2, random_state=0).fit(np.array([[1.0, 2.0]] * 8) + np.eye(8, 2)).n_components_ >= 1
    )
    single = Mixture("poisson", n_steps=2, random_state=0).fit([[3, 4]])
    assert single.labels_.tolist() == [0]
    with pytest.warns(DataWarning, match="n_components=4, but 1 row is distinct"):
        same = Mixture("poisson", 4, n_steps=30, random_state=0).fit([[3, 4]] * 50)
    assert same.cluster_sizes_.sum() == 50


def test_what_is_refused_before_any_work(counts):
    X = counts[0]
    with pytest.raises(SupportError, match=r"row 0, column 0 holds 3\.5"):
        Mixture("multinomial").fit(X + 0.5)
    with pytest.raises(ValueError, match="disagree"):
        Mixture("poisson", 3, weights=SymmetricDirichlet(4)).fit(X)
    with pytest.raises(ResourceError, match="limit"):
        Mixture("poisson", 300, memory_limit=1000).fit(X)
    with pytest.raises(ValueError, match="sampler must be"):
        Mixture("poisson", sampler="gibs").fit(X)
    with pytest.raises(ValueError, match="n_steps"):
        Mixture("poisson", n_steps=-1).fit(X)
    with pytest.raises(ValueError, match="n_warmup"):
        Mixture("poisson", n_warmup=2.5).fit(X)
    with pytest.raises(ValueError, match="partition"):
        Mixture("poisson", partition="best").fit(X)
    with pytest.raises(ValueError, match="start"):
        Mixture("poisson", start="middle").fit(X)
    with pytest.raises(TypeError, match="family"):
        Mixture(family=3).fit(X)
    with pytest.raises(ImportError, match="poisson"):
        Mixture("poison").fit(X)
    with pytest.raises(ValueError, match="n_top"):
        Mixture("poisson", n_steps=1, random_state=0).fit(X).predict_proba(X, n_top=0)

    class Bare(Family):
        support = "counts"

        def __init__(self):
            pass

        def sufficient_statistics(self, X):
            return X

        def log_marginal(self, n, S):
            return (gammaln(1.0 + S) - (1.0 + S) * np.log(1.0 + n[:, None])).sum(axis=1)

    with pytest.raises(CapabilityError, match=r"draw_natural\(\), which family 'bare'"):
        Mixture(Bare(), 3, sampler="uncollapsed_gibbs").fit(X)
    with pytest.raises(CapabilityError, match="posterior_predictive_sample needs draw_natural"):
        Mixture(Bare(), 3, n_steps=2, random_state=0).fit(X).sample(2)


@pytest.mark.parametrize("learn_hyper", ["auto", False])
def test_clusters_of_random_labels_are_not_merged_before_sweeps_have_parted_them(learn_hyper):
    rng = np.random.default_rng(0)
    usual = np.arange(1, 2001) ** -1.05
    topics = rng.standard_gamma(np.broadcast_to(500 * usual / usual.sum(), (20, 2000)))
    labels = rng.integers(20, size=1500)
    X = sparse.csr_array(np.array([rng.multinomial(30, topics[k] / topics[k].sum()) for k in labels]))
    settings = {"n_steps": 10, "n_warmup": 20, "learn_hyper": learn_hyper, "random_state": 0}
    mixture = Mixture(Multinomial(0.1) if learn_hyper is False else "multinomial", **settings).fit(X)
    assert mixture.n_components_ > 1
    at_once = Mixture(mixture.family, sampler=Cycle(SplitMerge(), CollapsedGibbs()), **settings).fit(X)
    assert mixture.log_joint_ > at_once.log_joint_


@pytest.mark.parametrize("bad", ["bar", print, [1], ["progress", "bar"], 1])
def test_callbacks_that_are_none_are_refused_before_the_fit(counts, bad):
    said = r"callbacks must be 'progress', or a list of functions callback\(info, state\); got .*: write callbacks="
    with pytest.raises(ValueError, match=said):
        Mixture("poisson", 5, callbacks=bad).fit(counts[0])


def test_verbose_is_a_callback():
    with pytest.raises(TypeError, match=r"write Mixture\(n_components=3, callbacks='progress'\)"):
        Mixture(n_components=3, verbose=1)
