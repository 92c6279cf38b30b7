"""`GroupedMixture(family, None)`: clusters, their number and weights, new groups, files, and what is refused."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, GroupedMixture, HierarchicalProcess, Multinomial, merge
from expfam.errors import ArchiveError, CapabilityError
from expfam.evaluation.held_out import held_rows
from expfam.model.groups import Groups
from expfam.samplers import (
    Cycle,
    GroupedGibbs,
    GroupedProcessGibbs,
    GroupedProcessSplitMerge,
    GroupedVariational,
    TopicProcessGibbs,
    UpdateHyper,
    sample,
)

QUICK = {"n_steps": 20, "n_warmup": 20}


def patients(n=300, seed=0):
    rng = np.random.default_rng(seed)
    of_row = rng.integers(0, 9, n)
    weights = rng.dirichlet(np.full(4, 0.7), size=9)
    z = np.array([rng.choice(4, p=weights[g]) for g in of_row])
    return np.array([[0.0, 0], [9, 0], [0, 9], [9, 9]])[z] + rng.normal(size=(n, 2)), of_row, z


@pytest.fixture(scope="module")
def fitted():
    X, of_row, _ = patients()
    return GroupedMixture("gaussian_diag", None, random_state=0).fit(X, groups=of_row)


def test_planted_clusters_and_their_number_are_found(fitted):
    _, _, z = patients()
    assert len(fitted.n_) == 4
    table = np.zeros((4, 4), dtype=int)
    np.add.at(table, (z, fitted.labels_), 1)
    assert table.max(axis=1).sum() > 0.98 * len(z)
    np.testing.assert_array_equal(np.sort(np.bincount(fitted.labels_))[::-1], np.bincount(fitted.labels_))
    assert fitted.trace_.n_clusters_interval(0.9)[0] <= 4
    assert fitted.trace_.column("n_large")[-1] >= 4
    assert fitted.probabilities_.min() > 0


def test_rows_of_weight_zero_leave_the_labels_of_the_others_as_they_are():
    """Groups decide here: clusters overlap, and each group has two of them."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 4, 300)
    of_row = rng.integers(0, 3, 300) + 3 * (z >= 2)
    X, weight = rng.normal(size=(300, 2)) + 3.2 * np.eye(4, 2)[z], (rng.random(300) < 0.6).astype(float)
    model, counts = GroupedMixture("gaussian_diag", None, sampler="variational", n_steps=30, random_state=0), weight > 0
    labels = clone(model).fit(X, groups=of_row, sample_weight=weight).labels_
    np.testing.assert_array_equal(labels[counts], model.fit(X[counts], groups=of_row[counts]).labels_)


def test_weights_sum_to_one_and_say_what_is_left(fitted):
    X, of_row, _ = patients()
    np.testing.assert_allclose(fitted.beta_.sum() + fitted.rest_, 1.0, rtol=1e-12)
    np.testing.assert_allclose(fitted.alpha_, fitted.concentration_ * fitted.beta_, rtol=1e-12)
    assert 0 < fitted.rest_ < 0.8
    assert fitted.group_weights_.shape == (9, 4)
    np.testing.assert_allclose(fitted.group_weights_.sum(axis=1), 1.0, rtol=1e-12)
    new = fitted.transform(X[:50], groups=of_row[:50] + 1)  # group 0 has no rows
    np.testing.assert_allclose(new.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(new[0], fitted.beta_ / fitted.beta_.sum(), rtol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X, groups=of_row), fitted.labels_)
    assert fitted.score(X, groups=of_row) > -6
    assert np.isfinite(fitted.score_samples(X, groups=of_row)).all()


def test_the_mass_of_clusters_that_are_not_listed_is_told(fitted):
    X, of_row, _ = patients()
    whole, spread = fitted.transform(X, groups=of_row, rest=True), fitted.transform(X, groups=of_row)
    assert whole.shape == (9, 5)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(whole[:, :-1] / (1 - whole[:, -1:]), spread, rtol=1e-12)
    sizes = np.bincount(of_row)
    expected = fitted.concentration_ * fitted.rest_ / (sizes + fitted.concentration_)
    np.testing.assert_allclose(whole[:, -1], expected, rtol=1e-3)  # no row of these is of another cluster
    far = fitted.transform(np.array([[90.0, -90.0]] * 5), groups=np.zeros(5, dtype=int), rest=True)
    expected = (5 + fitted.concentration_ * fitted.rest_) / (5 + fitted.concentration_)
    np.testing.assert_allclose(far[0, -1], expected, rtol=1e-3)
    frame = clone(fitted).set_params(**QUICK).set_output(transform="pandas").fit(X, groups=of_row)
    assert frame.transform(X, groups=of_row, rest=True).columns.tolist()[-1] == "rest"
    given = GroupedMixture("gaussian_diag", 2, random_state=0, **QUICK).fit(X, groups=of_row)
    with pytest.raises(ValueError, match=r"unknown number of clusters: write transform\(X, groups=groups\), or"):
        given.transform(X, groups=of_row, rest=True)


def log_probability(rows, family, n, S, alpha):
    """Return the log probability of rows of one new group: the sum over the clusters of all rows, slow and plain."""
    log_density = family.log_predictive(rows, n, S) + family.log_base(rows)[:, None]
    found = []
    for z in product(range(len(n)), repeat=len(rows)):
        counts, log_p = alpha.copy(), 0.0
        for row, k in zip(log_density, z):
            log_p += np.log(counts[k] / counts.sum()) + row[k]
            counts[k] += 1
        found.append(log_p)
    return np.logaddexp.reduce(found)


@pytest.mark.parametrize("seen", [[3], [58, 61], [2, 3, 60], [400, 61]], ids=str)
@pytest.mark.parametrize("held", [2, 60, 400])
def test_a_score_sums_over_the_clusters_of_all_rows_a_new_one_included(seen, held):
    rng = np.random.default_rng(0)
    X = rng.poisson(np.array([2.0, 60.0])[np.arange(60) % 2])[:, None]
    model = GroupedMixture("poisson", None, random_state=0, **QUICK).fit(X, groups=np.arange(60) // 10)
    groups = np.zeros(len(seen) + 1, dtype=int)
    is_held = held_rows(Groups(groups))
    rows = np.empty((len(groups), 1))
    rows[is_held], rows[~is_held] = held, np.array(seen)[:, None]

    def exact(n, S, alpha):
        whole, given = (log_probability(some, model.family_, n, S, alpha) for some in (rows, rows[~is_held]))
        return whole - given

    listed = model.n_, model.S_, model.alpha_
    with_new = (np.append(a, np.zeros_like(a[:1]), axis=0) for a in listed[:2])
    expected = exact(*with_new, np.append(model.alpha_, model.concentration_ * model.rest_))
    np.testing.assert_allclose(model.score(rows, groups=groups), expected, atol=0.02)  # weights are by ascent
    if held == 400:
        assert expected > exact(*listed) + 5  # what it would be of the listed clusters alone


def test_rows_without_cells_change_no_weight(fitted):
    X, of_row, _ = patients()
    rows, groups = X[of_row < 3], of_row[of_row < 3]
    prior = np.append(fitted.beta_, fitted.rest_)
    with_new = np.append(fitted.n_, 0.0), np.vstack([fitted.S_, np.zeros_like(fitted.S_[:1])])
    scores = fitted.family_.log_predictive(rows, *with_new)
    expected = np.logaddexp.reduce(np.log(prior) + scores, axis=1) + fitted.family_.log_base(rows)
    np.testing.assert_allclose(fitted.score_samples(rows, groups, given=[]), expected, rtol=1e-9)
    holes = np.vstack([np.where([True, False], rows, np.nan), np.full((40, 2), np.nan)])
    filled = fitted.impute(holes, groups=np.append(groups, np.repeat([0, 3], 20)))
    np.testing.assert_array_equal(filled[: len(rows)], fitted.impute(holes[: len(rows)], groups=groups))
    mean = fitted.impute(np.full((1, 2), np.nan), groups=np.zeros(1, dtype=int))[0]
    np.testing.assert_array_equal(filled[-20:], np.tile(mean, (20, 1)))  # a group of which nothing is known
    np.testing.assert_allclose(mean, (prior[:, None] * cluster_means(fitted)).sum(axis=0), atol=1e-6)


def cluster_means(fitted):
    """Means of the listed clusters, and of the prior."""
    prior = fitted.family_.cluster_params(np.zeros(1), np.zeros_like(fitted.S_[:1]))["mean"]
    return np.vstack([fitted.params_["mean"], prior])


def test_new_clusters_have_a_part_in_densities_and_labels_are_listed_ones(fitted):
    X, of_row, _ = patients()
    far = np.vstack([X[of_row == 0], np.full((4, 2), -60.0)])
    groups = np.zeros(len(far), dtype=int)
    weights = fitted.transform(far, groups=groups, rest=True)[0]
    prior = fitted.family_.log_predictive(far[-4:], np.zeros(1), np.zeros_like(fitted.S_[:1]))[:, 0]
    expected = np.log(weights[-1]) + prior + fitted.family_.log_base(far[-4:])
    np.testing.assert_allclose(fitted.score_samples(far, groups)[-4:], expected, rtol=1e-6)
    assert (fitted.score_samples(far, groups, given=[0])[-4:] > -20).all()  # below -100 in the listed ones
    holes = np.where(np.arange(2) == 1, np.nan, far[-2:])
    assert np.isfinite(fitted.impute(holes, groups=np.zeros(2, dtype=int))).all()
    p, labels = fitted.predict_proba(far, groups=groups), fitted.predict(far, groups)
    assert p.shape == (len(far), 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(labels, p.argmax(axis=1))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(far, groups=groups)), p, atol=1e-12)


@pytest.mark.parametrize("family", ["multinomial", DiagonalGaussian(missing=True)], ids=["sparse", "holes"])
def test_so_it_is_of_sparse_counts_and_of_rows_with_holes(family):
    rng = np.random.default_rng(0)
    X = rng.poisson(np.array([[20.0, 1, 1], [1, 20, 1]])[np.arange(80) % 2])
    X = sparse.csr_array(X) if family == "multinomial" else np.where(rng.random(X.shape) < 0.05, np.nan, X)
    model = GroupedMixture(family, None, random_state=0, **QUICK).fit(X, groups=np.arange(80) // 20)
    whole = model.transform(X, groups=np.arange(80) // 20, rest=True)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)
    assert whole[:, -1].max() < 0.2
    np.testing.assert_allclose(whole[:, :-1].argmax(axis=1), model.transform(X, groups=np.arange(80) // 20).argmax(1))


def test_hyper_parameters_are_drawn_beside_an_unknown_number():
    X, of_row, _ = patients()
    data = Dataset(X, DiagonalGaussian(mean=3.0, mean_strength=0.05, shape=2.0, rate=50.0), groups=of_row)
    kernel = Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs(), UpdateHyper())
    state = kernel.init(HierarchicalProcess(data.family), data, seed=0)
    sample(kernel, state, 60)
    state.check()
    assert np.all(state.model.family.rate < 20.0)  # rows vary by 1 in a cluster
    assert GroupedMixture("gaussian_diag", None, sampler=kernel, random_state=0, **QUICK).fit(X, groups=of_row).rest_
    with pytest.raises(CapabilityError, match=r"words of documents.*TopicProcessGibbs\(learn_eta=True\)"):
        Cycle(TopicProcessGibbs(), UpdateHyper()).init(HierarchicalProcess(Multinomial(0.1)), [[1, 2]], seed=0)


def test_a_file_keeps_what_new_groups_need(fitted, tmp_path):
    X, of_row, _ = patients()
    fitted.save(tmp_path / "model", labels=True)
    again = GroupedMixture.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X, groups=of_row), fitted.transform(X, groups=of_row))
    for name in ("labels_", "beta_", "rest_", "concentration_", "gamma_", "n_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    other = GroupedMixture("gaussian_diag", None, random_state=0, **QUICK).fit(X, groups=of_row)
    other.beta_ = other.beta_ * 2
    other.save(tmp_path / "altered")
    with pytest.raises(ArchiveError, match="'beta_' and 'rest_' are no weights"):
        GroupedMixture.load(tmp_path / "altered")


@pytest.mark.parametrize("family", ["poisson", "multinomial", "gaussian"])
def test_other_families(family):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 240)
    X = rng.poisson(np.array([[20, 1, 1], [1, 20, 1], [1, 1, 20]])[z])
    X = X.astype(float) + (rng.normal(size=X.shape) if family == "gaussian" else 0)
    model = GroupedMixture(family, None, random_state=0, **QUICK).fit(X, groups=np.arange(240) % 6)
    table = np.zeros((3, len(model.n_)), dtype=int)
    np.add.at(table, (z, model.labels_), 1)
    assert len(set(table.argmax(axis=1))) == 3
    assert table.max(axis=1).sum() > 0.95 * len(z)


def test_a_frame_with_names_of_groups():
    X, of_row, _ = patients(120)
    frame = pd.DataFrame(X, columns=["size", "age"]).assign(patient=[f"p{g}" for g in of_row])
    model = GroupedMixture("gaussian_diag", None, random_state=0, **QUICK).fit(frame, groups="patient")
    assert list(model.group_names_) == sorted(set(frame["patient"]))
    assert model.group_weights_.shape == (len(model.group_names_), len(model.n_))


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads():
    X, of_row, _ = patients()
    first, second = (
        GroupedMixture("gaussian_diag", None, random_state=3, n_threads=n, **QUICK).fit(X, groups=of_row)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.S_, second.S_)


def test_known_rows_keep_their_clusters_and_others_are_found_beside_them(tmp_path):
    X, of_row, z = patients()
    y = np.where((z < 2) & (np.arange(300) % 10 == 0), z, -1)
    names = np.array([None, "sick", "well"], dtype=object)[y + 1]
    model = GroupedMixture("gaussian_diag", None, labels="clusters", random_state=0, **QUICK)
    model.fit(X, names, groups=of_row)
    assert model.classes_.tolist() == ["sick", "well"]
    np.testing.assert_array_equal(model.labels_[y >= 0], y[y >= 0])
    assert len(model.n_) == 4
    for k in range(2):
        assert (model.labels_[z == k] == k).mean() > 0.98
    assert adjusted_rand_score(z, model.labels_) > 0.98
    np.testing.assert_array_equal(model.n_[2:], np.sort(model.n_[2:])[::-1])
    np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0, rtol=1e-12)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(GroupedMixture.load(tmp_path / "model").predict(X, of_row), model.predict(X, of_row))
    assert model.n_known_ == (y >= 0).sum()


def test_a_class_of_one_row_stays_a_cluster():
    X, of_row, _ = patients()
    y = np.full(300, -1)
    y[0], y[1] = 0, 1
    X[0] = [40.0, 40.0]
    model = GroupedMixture("gaussian_diag", None, labels="clusters", random_state=0, **QUICK).fit(X, y, groups=of_row)
    assert (model.labels_ == 0).sum() == 1
    assert model.labels_[:2].tolist() == [0, 1]
    assert len(model.n_) == 5


def test_a_fit_with_a_given_number_leaves_nothing_behind():
    X, of_row, _ = patients()
    model = GroupedMixture("gaussian_diag", None, random_state=0, **QUICK).fit(X, groups=of_row)
    model.set_params(n_components=5).fit(X, groups=of_row)
    assert not hasattr(model, "rest_")
    assert model.group_weights_.shape == (9, 5)


def test_settings_reach_the_sampler():
    X, of_row, _ = patients()
    held = GroupedMixture("gaussian_diag", None, alpha=0.7, random_state=0, **QUICK).fit(X, groups=of_row)
    assert held.concentration_ == pytest.approx(0.7)
    assert held.gamma_ == pytest.approx(1.0)
    kernel = GroupedProcessGibbs(order="random", learn_alpha=False)
    own = GroupedMixture("gaussian_diag", None, sampler=kernel, start="random", random_state=0, **QUICK)
    assert own.fit(X, groups=of_row).concentration_ == pytest.approx(1.0)


def test_variational_inference_finds_the_planted_clusters_and_their_number(tmp_path):
    X, of_row, z = patients()
    model = GroupedMixture("gaussian_diag", None, sampler="variational", random_state=0).fit(X, groups=of_row)
    assert len(model.n_) == 4
    assert adjusted_rand_score(z, model.labels_) > 0.97
    assert (np.diff(model.n_) <= 0).all()
    np.testing.assert_allclose(model.n_.sum(), 300.0, rtol=1e-5)
    np.testing.assert_allclose(model.group_counts_.sum(axis=0), model.n_, rtol=1e-4)
    np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.alpha_, model.concentration_ * model.beta_, rtol=1e-12)
    np.testing.assert_allclose(model.group_weights_.sum(axis=1), 1.0, rtol=1e-12)
    whole = model.transform(X[:40], groups=of_row[:40], rest=True)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)
    bounds = model.trace_.column("objective")
    assert (np.diff(bounds) >= -1e-6 * abs(bounds[0])).all()
    assert model.log_joint_ == bounds[-1]
    model.save(tmp_path / "model")
    loaded = GroupedMixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X, groups=of_row), model.predict(X, groups=of_row))


def test_variational_inference_takes_weights_and_tables():
    X, of_row, z = patients()
    weight = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)
    weight[5] = 0.0
    model = GroupedMixture("gaussian_diag", None, sampler="variational", random_state=0)
    assert len(model.fit(X, groups=of_row, sample_weight=weight).n_) == 4
    np.testing.assert_allclose(model.n_.sum(), weight.sum(), rtol=1e-5)
    counts = np.random.default_rng(0).poisson(np.array([[1, 20, 3], [20, 1, 3], [5, 5, 30], [40, 40, 1]])[z])
    for values in (counts, sparse.csr_array(counts)):
        found = GroupedMixture("poisson", None, sampler="variational", random_state=0).fit(values, groups=of_row)
        assert adjusted_rand_score(z, found.labels_) > 0.95
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "kind": np.array(["a", "b"])[z % 2]})
    table = GroupedMixture("auto", None, sampler="variational", random_state=0).fit(frame, groups=of_row)
    assert adjusted_rand_score(z, table.labels_) > 0.9


@pytest.mark.parametrize("n_components", [None, 4])
def test_variational_inference_keeps_known_rows_and_names_the_doubtful_ones(n_components, tmp_path):
    X, of_row, z = patients()
    y = np.where((z < 2) & (np.arange(300) % 10 == 0), z, -1)
    wrong = np.flatnonzero(z == 0)[1]
    y[wrong] = 1
    names = np.array([None, "sick", "well"], dtype=object)[y + 1]
    settings = {"labels": "clusters", "sampler": "variational", "random_state": 0}
    model = GroupedMixture("gaussian_diag", n_components, **settings).fit(X, names, groups=of_row)
    assert model.classes_.tolist() == ["sick", "well"]
    np.testing.assert_array_equal(model.labels_[y >= 0], y[y >= 0])
    assert model.doubtful_known_.tolist() == [wrong]
    assert model.likelier_classes_.tolist() == ["sick"]
    assert model.n_known_ == (y >= 0).sum()
    assert len(model.n_) == 4
    assert adjusted_rand_score(z, model.labels_) > 0.95
    for k in range(2):
        assert (model.labels_[z == k] == k).mean() > 0.95
    if n_components is None:
        assert model.n_[2] >= model.n_[3]
        np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0, rtol=1e-12)
    bounds = model.trace_.column("objective")
    assert (np.diff(bounds) >= -1e-6 * abs(bounds[0])).all()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(GroupedMixture.load(tmp_path / "model").predict(X, of_row), model.predict(X, of_row))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (
            {"alpha": [0.1, 0.2]},
            ValueError,
            r"got 2 numbers: write GroupedMixture\(family='gaussian_diag', n_components=2",
        ),
        ({"sampler": GroupedGibbs()}, CapabilityError, r"sampler=GroupedGibbs needs.*GroupedProcessGibbs\(\)"),
        (
            {"sampler": GroupedVariational()},
            CapabilityError,
            r"sampler=GroupedVariational needs a given number.*n_components=None, sampler='auto'\)",
        ),
        ({"sampler": "variational", "n_warmup": 3}, CapabilityError, "n_warmup=3"),
        ({"sampler": GroupedProcessGibbs(), "learn_hyper": "often"}, ValueError, "learn_hyper must be"),
    ],
)
def test_settings_that_need_a_given_number_are_refused(settings, error, words):
    X, of_row, _ = patients()
    with pytest.raises(error, match=words):
        GroupedMixture("gaussian_diag", None, **settings).fit(X, groups=of_row)


def test_what_an_unknown_number_does_not_take_is_refused():
    X, of_row, z = patients()
    model = GroupedMixture("gaussian_diag", None, random_state=0, **QUICK)
    with pytest.raises(CapabilityError, match=r"n_components=None, sampler='variational'"):
        model.fit(X, groups=of_row, sample_weight=np.full(300, 2.0))
    with pytest.raises(CapabilityError, match=r"links needs.*n_components=10,.*\.fit\(X, groups=groups, links=links\)"):
        model.fit(X, groups=of_row, links=np.where(z == 0, 0, -1))
    with pytest.raises(AttributeError, match="chunks are learned with a given number of clusters"):
        model.partial_fit(X, groups=of_row)
    fit = GroupedMixture("gaussian_diag", None, random_state=0, **QUICK).fit(X, groups=of_row)
    with pytest.raises(TypeError, match=r"sampler='variational', .*\.fit_chunks\(\[\(X, groups\)"):
        merge([fit, fit])
    with pytest.raises(CapabilityError, match="HierarchicalProcess"):
        GroupedMixture("gaussian_diag", 3, sampler=GroupedProcessGibbs()).fit(X, groups=of_row)
