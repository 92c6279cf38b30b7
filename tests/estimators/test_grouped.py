"""The estimator of rows in groups: fits, weights of groups, held-out scores, files, and what it refuses."""

import numpy as np
import pytest
from planted import PLANTED
from planted import planted as rows_of
from scipy import sparse
from scipy.special import logsumexp, psi
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiny import PlainPoisson

import expfam.fitted.new_groups
from expfam import GroupedMixture, Groups, Mixture, Poisson
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.evaluation.held_out import held_rows
from expfam.samplers import CollapsedGibbs, GroupedGibbs, GroupedVariational, Memoized

QUICK = {"n_steps": 20, "random_state": 0}
SAMPLERS = ["gibbs", "variational"]


def make(n_groups, size, seed=0, n_clusters=6, spread=2.0):
    """Groups of rows of overlapping clusters, of which each group has a few."""
    rng = np.random.default_rng(seed)
    centres = spread * np.random.default_rng(99).normal(size=(n_clusters, 3))
    weights = rng.dirichlet(np.full(n_clusters, 0.3), n_groups)
    groups = rng.permutation(np.repeat(np.arange(n_groups), size))
    labels = (rng.random((len(groups), 1)) > weights[groups].cumsum(axis=1)).sum(axis=1).clip(0, n_clusters - 1)
    return centres[labels] + rng.normal(size=(len(groups), 3)), groups, labels, weights


@pytest.fixture(scope="module")
def planted():
    return make(100, 25), make(60, 25, seed=1)


@pytest.mark.filterwarnings("ignore:.*clusters that overlap")  # so they do
@pytest.mark.parametrize(
    ("sampler", "settings"),
    [
        ("gibbs", {}),
        ("variational", {}),
        (GroupedGibbs(order="random"), {}),
        (GroupedVariational(None, schedule=Memoized(5), learn_alpha=True), {"start": "random"}),
        ("gibbs", {"alpha": 0.3}),
        ("variational", {"alpha": np.linspace(0.2, 0.4, 6)}),
    ],
)
def test_groups_tell_overlapping_clusters_apart(planted, sampler, settings):
    (X, groups, labels, weights), (X_new, new_groups, _, new_weights) = planted
    mixture = GroupedMixture("gaussian_diag", 6, sampler=sampler, **{**QUICK, "n_steps": 60, **settings})
    mixture.fit(X, groups=groups)
    plain = Mixture("gaussian_diag", 6, random_state=0).fit(X)
    nmi = normalized_mutual_info_score
    assert nmi(labels, mixture.labels_) > nmi(labels, plain.labels_) + 0.02
    assert mixture.score(X_new, groups=new_groups) > plain.score(X_new) + 0.2
    np.testing.assert_allclose(mixture.group_counts_.toarray().sum(axis=1), 25, rtol=1e-5)
    np.testing.assert_allclose(mixture.group_weights_.sum(axis=1), 1.0)
    assert mixture.group_counts_.shape == (100, 6)
    # clusters are matched by their rows; optimisation may end with two of them joined
    least = 0.6 if isinstance(sampler, GroupedGibbs) or sampler == "gibbs" else 0.5
    place = np.array([np.bincount(labels[mixture.labels_ == k], minlength=6).argmax() for k in range(6)])
    assert (place[mixture.group_weights_.argmax(axis=1)] == weights.argmax(axis=1)).mean() > least
    new = mixture.transform(X_new, new_groups)
    assert (place[new.argmax(axis=1)] == new_weights.argmax(axis=1)).mean() > least
    assert mixture.n_iter_ == len(mixture.trace_)


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_the_trace_knows_its_warm_up(planted, sampler):
    (X, groups, _, _), _ = planted
    sweeps = {"n_warmup": 5} if sampler == "gibbs" else {}
    mixture = GroupedMixture("gaussian_diag", 3, sampler=sampler, n_steps=4, **sweeps, random_state=0)
    trace = mixture.fit(X, groups=groups).trace_
    assert trace.n_warmup == (5 if sampler == "gibbs" else 0)
    assert len(trace.counted("objective")) == 4


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", PLANTED)
def test_every_family_fits_and_is_used(name, sampler, tmp_path):
    family, X, labels = rows_of(name, n=300)
    groups = 2 * (labels // 2 * 10 + np.random.default_rng(0).integers(0, 10, 300))  # groups of two kinds each; gaps
    mixture = GroupedMixture(family, 6, sampler=sampler, **QUICK).fit(X, groups=groups)
    assert normalized_mutual_info_score(labels, mixture.labels_) > 0.3
    assert mixture.transform(X, groups).shape == (groups.max() + 1, 6)
    again = mixture.predict(X, groups)
    assert (again == mixture.labels_).mean() > 0.7
    score = mixture.score(X, groups=groups)
    mixture.save(tmp_path / "model", labels=True)
    back = GroupedMixture.load(tmp_path / "model")
    assert back.score(X, groups=groups) == score
    np.testing.assert_array_equal(back.predict(X, groups), again)
    np.testing.assert_array_equal(back.labels_, mixture.labels_)
    np.testing.assert_array_equal(back.group_weights_, mixture.group_weights_)
    assert back.get_params()["sampler"] == sampler


def reference_counts(mixture, X, groups, n_iterations=300):
    """Expected rows of groups in clusters by coordinate ascent, dense, all groups side by side."""
    scores = mixture.family_.log_predictive(X, mixture.n_, mixture.S_)
    member = (groups == np.arange(groups.max() + 1)[:, None]).astype(float)
    counts = member.sum(axis=1, keepdims=True) * mixture.alpha_ / mixture.alpha_.sum()
    for _ in range(n_iterations):
        r = scores + psi(mixture.alpha_ + counts)[groups]
        counts = member @ np.exp(r - logsumexp(r, axis=1, keepdims=True))
    return counts, scores


@pytest.mark.parametrize("long", [False, True])
def test_new_groups_are_placed_by_coordinate_ascent(planted, long, monkeypatch):
    (X, groups, _, _), (X_new, new_groups, _, _) = planted
    mixture = GroupedMixture("gaussian_diag", 6, **QUICK).fit(X, groups=groups)
    monkeypatch.setattr(expfam.fitted.new_groups, "_TOLERANCE", 1e-9)
    monkeypatch.setattr(expfam.fitted.new_groups, "_ITERATIONS", 300)
    if long:  # more rows than a block holds
        monkeypatch.setattr(expfam.fitted.new_groups, "_SCORES", 6 * 16)
    counts, scores = reference_counts(mixture, X_new, new_groups)
    weights = (counts + mixture.alpha_) / (counts + mixture.alpha_).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.transform(X_new, new_groups), weights, atol=1e-6)
    labels = (scores + psi(mixture.alpha_ + counts)[new_groups]).argmax(axis=1)
    assert (mixture.predict(X_new, new_groups) == labels).mean() > 0.999
    is_held = held_rows(Groups(new_groups))
    seen, _ = reference_counts(mixture, X_new[~is_held], new_groups[~is_held])
    seen = (seen + mixture.alpha_) / (seen + mixture.alpha_).sum(axis=1, keepdims=True)
    exact = logsumexp(scores + np.log(seen)[new_groups], axis=1) + mixture.family_.log_base(X_new)
    assert mixture.score(X_new, groups=new_groups) == pytest.approx(exact[is_held].mean(), abs=1e-6)


def test_the_mean_over_sweeps_predicts_better_than_the_last_one():
    """Where clusters have few rows; with many of them the last sweep says as much."""
    X, groups, _, _ = make(20, 10)
    X_new, new_groups, _, _ = make(100, 25, seed=1)
    gains = []
    for seed in range(4):
        long, last = (
            GroupedMixture("gaussian_diag", 8, n_steps=n, n_warmup=100 - n, random_state=seed)
            .fit(X, groups=groups)
            .score(X_new, groups=new_groups)
            for n in (60, 0)
        )
        gains.append(long - last)
    assert np.mean(gains) > 0.02


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_threads_and_order_of_rows_in_groups(planted, sampler):
    (X, groups, _, _), (X_new, new_groups, _, _) = planted
    one, two = (
        GroupedMixture("gaussian_diag", 6, sampler=sampler, n_threads=n, **QUICK).fit(X, groups=groups) for n in (1, 2)
    )
    np.testing.assert_array_equal(one.S_, two.S_)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.transform(X_new, new_groups), two.transform(X_new, new_groups))
    assert one.score(X_new, groups=new_groups) == two.score(X_new, groups=new_groups)
    order = np.argsort(new_groups, kind="stable")
    sorted_rows = Groups.of_offsets(np.concatenate([[0], np.cumsum(np.bincount(new_groups))]))
    np.testing.assert_array_equal(one.transform(X_new[order], sorted_rows), one.transform(X_new, new_groups))


def test_sparse_rows_and_families_of_plain_numpy():
    _, X, _ = rows_of("poisson", n=200)
    groups = np.arange(200) % 20
    plain = GroupedMixture(Poisson(0.8, 0.3), 4, **QUICK).fit(X, groups=groups)
    rows = GroupedMixture(Poisson(0.8, 0.3), 4, **QUICK).fit(sparse.csr_array(X), groups=groups)
    assert sparse.issparse(rows.S_)
    np.testing.assert_allclose(rows.S_.toarray(), plain.S_)
    np.testing.assert_allclose(rows.transform(sparse.csr_array(X), groups), plain.transform(X, groups), rtol=1e-9)
    slow = GroupedMixture(PlainPoisson(0.8, 0.3), 4, n_threads=2, **QUICK).fit(X, groups=groups)
    np.testing.assert_array_equal(slow.labels_, plain.labels_)
    np.testing.assert_allclose(slow.transform(X, groups), plain.transform(X, groups), rtol=1e-8)


def test_sample_weight_is_multiplicity():
    _, X, _ = rows_of("poisson", n=100)
    groups, start = np.arange(100) % 10, np.arange(100) % 4
    options = {"alpha": 0.4, "sampler": GroupedVariational(dtype="float64", bound_tol=0.0), "n_steps": 5}
    weighted = GroupedMixture(Poisson(0.8, 0.3), 4, start=start, **options)
    weighted.fit(X, groups=groups, sample_weight=np.full(100, 3.0))
    repeated = GroupedMixture(Poisson(0.8, 0.3), 4, start=np.repeat(start, 3), **options)
    repeated.fit(np.repeat(X, 3, axis=0), groups=np.repeat(groups, 3))
    np.testing.assert_allclose(weighted.S_, repeated.S_, rtol=1e-8)
    np.testing.assert_allclose(weighted.group_weights_, repeated.group_weights_, rtol=1e-8)
    with pytest.raises(CapabilityError, match="sample_weight"):
        GroupedMixture(Poisson(), 4).fit(X, groups=groups, sample_weight=np.full(100, 3.0))


def test_scikit_learn_knows_the_groups(planted):
    import sklearn

    (X, groups, _, _), _ = planted
    mixture = GroupedMixture("gaussian_diag", 3, **QUICK)
    assert clone(mixture).get_params() == mixture.get_params()
    assert repr(mixture).startswith("GroupedMixture(")
    labels = mixture.fit_predict(X, groups=groups)
    np.testing.assert_array_equal(labels, mixture.labels_)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(mixture).set_fit_request(groups=True).set_transform_request(groups=True)
        pipeline = make_pipeline(StandardScaler(), routed).fit(X, groups=groups)
    assert pipeline[-1].labels_.shape == labels.shape


def test_callbacks_end_a_run_and_no_steps_are_fine(planted):
    (X, groups, _, _), _ = planted
    mixture = GroupedMixture("gaussian_diag", 3, callbacks=[lambda info, state: info.step == 4], **QUICK)
    assert mixture.fit(X, groups=groups).n_iter_ == 4
    none = GroupedMixture("gaussian_diag", 3, n_steps=0, random_state=0).fit(X, groups=groups)
    assert none.n_iter_ == 0
    assert none.score(X, groups=groups) < 0


def test_a_fit_ends_with_a_pass_over_all_clusters(planted):
    (X, groups, _, _), _ = planted
    seen = []

    def look(info, state):
        seen.append((state, state.since_all))

    sampler = GroupedVariational(2, n_candidates=3, full_every=50, bound_tol=0.0)
    settings = {"callbacks": [look], "n_steps": 30, "random_state": 0, "start": "kmeans++"}  # far from its end
    mixture = GroupedMixture("gaussian_diag", 6, sampler=sampler, **settings)
    mixture.fit(X, groups=groups)
    state, since_all = seen[-1]
    assert since_all > 0 == state.since_all
    assert mixture.log_joint_ == state.log_joint
    np.testing.assert_array_equal(mixture.labels_, state.labels)


def test_held_rows_leave_a_fifth_out():
    groups = Groups(np.array([0] * 10 + [2] * 2 + [3] * 1 + [5] * 27))
    is_held = held_rows(groups)
    np.testing.assert_array_equal(np.bincount(groups.of_row, weights=is_held), [2, 0, 1, 0, 0, 5])
    np.testing.assert_array_equal(is_held, held_rows(groups))


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": [0.1, 0.2]}, "alpha"),
        ({"n_components": 0}, "n_components"),
        ({"sampler": "other"}, "sampler"),
        ({"sampler": "em"}, "sampler must be 'auto', 'gibbs', 'uncollapsed_gibbs', 'variational', or a kernel"),
        ({"sampler": CollapsedGibbs()}, r"GroupedGibbs\(...\) or GroupedUncollapsedGibbs\(...\) or GroupedVariational"),
        ({"n_steps": -1}, "n_steps"),
        ({"n_warmup": 1.5}, "n_warmup"),
        ({"start": "other"}, "start"),
    ],
)
def test_bad_settings_are_named(settings, words):
    _, X, _ = rows_of("poisson", n=20)
    with pytest.raises(ValueError, match=words):
        GroupedMixture(**{"family": "poisson", "n_components": 3, **settings}).fit(X, groups=np.arange(20) % 3)


def test_bad_groups_are_named(planted):
    (X, groups, _, _), _ = planted
    mixture = GroupedMixture("gaussian_diag", 3, **QUICK)
    with pytest.raises(ValueError, match="needs groups="):
        mixture.fit(X)
    with pytest.raises(DataError, match=f"{len(X)} rows; got 3"):
        mixture.fit(X, groups=[0, 1, 2])
    with pytest.raises(DataError, match="row 1 holds -2"):
        mixture.fit(X, groups=np.where(np.arange(len(X)) == 1, -2, groups))
    with pytest.raises(DataError, match="integers"):
        mixture.fit(X, groups=groups[:, None])
    mixture.fit(X, groups=groups)
    for use in (mixture.transform, mixture.predict, lambda X, g=None: mixture.score(X, groups=g)):
        with pytest.raises(ValueError, match="needs groups="):
            use(X)
        with pytest.raises(DataError, match="got 2"):
            use(X, [0, 1])
    with pytest.raises(DataError, match="at least two rows"):
        mixture.score(X, groups=np.arange(len(X)))


def test_files_of_others_are_refused(planted, tmp_path):
    (X, _, _, _), _ = planted
    Mixture("gaussian_diag", 3, n_steps=2).fit(X).save(tmp_path / "other")
    with pytest.raises(ArchiveError, match="kind"):
        GroupedMixture.load(tmp_path / "other")
