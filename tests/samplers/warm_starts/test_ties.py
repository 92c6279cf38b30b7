"""Repeated values are spread while a mixture is fitted; its sums are those of the rows as they are."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from expfam import (
    Categorical,
    Columns,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    GroupedMixture,
    LogNormal,
    Mixture,
    MixtureModel,
    Multinomial,
    SphericalGaussian,
    SymmetricDirichlet,
    load_family,
)
from expfam.errors import DataWarning
from expfam.fitting.spread_statistics import OtherSpreads, added_squares, moved_one_by_one, predicted_labels
from expfam.model.assignment import LoadedClusters
from expfam.model.equal_rows import first_equal_rows
from expfam.model.statistics import weighted_statistics
from expfam.samplers.starts.greedy_merge import merged_clusters
from expfam.samplers.warm_starts.settle import Settler
from expfam.samplers.warm_starts.ties import spread_alike, spread_memory, spread_ties, tied_columns

RNG = np.random.default_rng(8)
FINE = RNG.normal(size=(400, 1))


def spread(column, K=4, family=None):
    data = Dataset(np.column_stack([FINE, column]), family or DiagonalGaussian())
    return data, spread_ties(data, K, seed=3)


def test_data_without_ties_are_not_copied():
    data, found = spread(RNG.normal(size=400))
    assert found is data
    assert spread_memory(data, 4) == 0
    fine = np.round(RNG.normal(size=400), 1)  # rounding is a thousandth of the variance
    data, found = spread(fine)
    assert found is data


def test_rounded_columns_are_spread_over_their_rounding():
    data, found = spread(np.round(2.0 * RNG.normal(size=400)))
    moved = found.X - data.X
    assert not moved[:, 0].any()
    assert np.abs(moved[:, 1]).max() <= 0.5
    assert moved[:, 1].var() == pytest.approx(1 / 12, rel=0.2)
    assert found.family is data.family
    again = spread_ties(data, 4, seed=3)
    np.testing.assert_array_equal(found.X, again.X)
    assert not np.array_equal(found.X, spread_ties(data, 4, seed=4).X)


def test_rounding_matters_where_a_value_has_many_rows_however_wide_the_column_is():
    """Three groups far apart, rounded to one of their standard deviations: 8 % of theirs, less than 1 % of all."""
    X, _ = three_rounded_groups(1200)
    assert set(tied_columns(Dataset(X, Gaussian().bind(X)), None)) == {0, 1, 2}
    fine, _ = three_rounded_groups(1200, decimals=1)
    assert tied_columns(Dataset(fine, Gaussian().bind(fine)), None) == {}


def test_where_columns_share_a_variance_rounding_matters_where_whole_rows_are_repeated():
    """Sixteen columns of some fifteen values each, as embeddings in integers: no two rows are equal."""
    X = np.round(4.0 * RNG.normal(size=(5000, 16)))
    assert len(tied_columns(Dataset(X, DiagonalGaussian()), None)) == 16
    assert tied_columns(Dataset(X, SphericalGaussian()), None) == {}
    assert len(tied_columns(Dataset(X[:, :1], SphericalGaussian()), None)) == 1
    few_rows = np.round(1.5 * RNG.normal(size=(50_000, 2)))  # some 5 values of each column
    assert len(tied_columns(Dataset(few_rows, SphericalGaussian()), None)) == 2


def test_a_frequent_value_is_spread_and_its_neighbours_stay():
    column = RNG.normal(size=400) + 5.0
    column[:120] = 0.0
    data, found = spread(column)
    moved = (found.X - data.X)[:, 1]
    assert not moved[120:].any()
    assert moved[:120].var() == pytest.approx(0.03 * column.var(), rel=0.25)


@pytest.mark.parametrize("zeros", [[0.0], [0.0, -0.0]])
def test_a_value_is_frequent_from_its_number_of_rows_on_whatever_its_sign_and_place(zeros):
    """Columns that repeat nothing are told by counts of bits, of which both zeros have their own."""
    rng = np.random.default_rng(4)
    for n_frequent, is_found in ((249, False), (250, True)):  # 5 % of 5,000 rows
        X = rng.normal(size=(5000, 3))
        rows = rng.permutation(5000)[:n_frequent]
        X[rows, 1] = np.resize(zeros, n_frequent)
        found = tied_columns(Dataset(X, DiagonalGaussian()), None)
        assert list(found) == ([1] if is_found else [])


def test_the_number_of_clusters_decides_what_is_frequent():
    column = RNG.normal(size=400) + 5.0
    column[:12] = 0.0  # 3 % of the rows
    assert not tied_columns(Dataset(column[:, None], DiagonalGaussian()), 4)
    assert not tied_columns(Dataset(column[:, None], DiagonalGaussian()), None)
    assert tied_columns(Dataset(column[:, None], DiagonalGaussian()), 20)


def test_a_constant_column_is_spread_by_the_variance_of_the_others():
    for family in (Gaussian(), DiagonalGaussian(alike=False)):
        with pytest.warns(DataWarning, match="column 1 is constant"):
            data, found = spread(np.full(400, 7.0), family=family)
        assert (found.X - data.X)[:, 1].var() == pytest.approx(0.03 * FINE.var(), rel=0.2)
    for knowing in (DiagonalGaussian(), SphericalGaussian()):
        with pytest.warns(DataWarning, match="column 1 is constant"):
            data, found = spread(np.full(400, 7.0), family=knowing)
        assert found is data
    with pytest.warns(DataWarning, match="constant"):
        data = Dataset(np.ones((30, 2)), DiagonalGaussian())
    assert spread_ties(data, 3, seed=0) is data  # equal rows are one cluster


def test_other_kinds_of_data_are_left_alone():
    from scipy import sparse

    counts = RNG.poisson(2.0, (50, 3))
    for data in (
        Dataset(counts, Multinomial()),
        Dataset((counts > 1).astype(float), load_family("bernoulli")),
        Dataset(sparse.csr_array(counts.astype(float)), SphericalGaussian()),
    ):
        assert spread_ties(data, 3, seed=0) is data


def test_columns_with_missing_cells_and_logarithms_are_left_alone():
    rounded = np.round(2.0 * RNG.normal(size=(400, 2)))
    rounded[3, 0] = np.nan
    data = Dataset(rounded, DiagonalGaussian(missing=True))
    found = spread_ties(data, 4, seed=0)
    np.testing.assert_array_equal(found.X[:, 0], rounded[:, 0])
    assert not np.array_equal(found.X[:, 1], rounded[:, 1])
    positive = Dataset(np.round(np.exp(RNG.normal(size=(400, 2)))) + 1.0, LogNormal())
    assert spread_ties(positive, 4, seed=0) is positive


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_types_and_weights_are_kept(dtype):
    X = np.round(2.0 * RNG.normal(size=(100, 2))).astype(dtype)
    data = Dataset(X, DiagonalGaussian(), weight=np.ones(100))
    found = spread_ties(data, 3, seed=0)
    assert found.X.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert found.weight is data.weight
    assert spread_memory(data, 3) >= found.X.nbytes


def test_equal_rows_are_spread_alike_in_any_order():
    X = RNG.integers(0, 3, (60, 2)).astype(float)
    family = DiagonalGaussian().bind(X)
    found = spread_alike(Dataset(X, family)).X
    distinct = np.unique(X, axis=0)
    assert len(np.unique(found, axis=0)) == len(distinct) < len(X)
    assert (np.abs(found - X) <= 0.5).all()
    assert (found != X).all()
    order = RNG.permutation(60)
    np.testing.assert_array_equal(spread_alike(Dataset(X[order], family)).X, found[order])
    np.testing.assert_array_equal(spread_alike(Dataset(2.0 * X, DiagonalGaussian())).X, 2.0 * found)


def test_rows_without_ties_are_the_same_object():
    data = Dataset(FINE, DiagonalGaussian())
    assert spread_alike(data) is data


def test_missing_cells_stay_missing_where_others_are_spread():
    X = np.column_stack([RNG.integers(0, 4, 80), RNG.normal(size=80)]).astype(float)
    X[::7, 1] = np.nan
    found = spread_alike(Dataset(X, DiagonalGaussian(missing=True))).X
    np.testing.assert_array_equal(found[:, 1], X[:, 1])
    assert (found[:, 0] != X[:, 0]).all()


def classes_and_rows(seed, change):
    rng = np.random.default_rng(seed)
    classes = rng.integers(5, size=1000)
    X = 3.0 * rng.normal(size=(5, 4))[classes] + rng.normal(size=(1000, 4))
    return change(X), classes


@pytest.mark.parametrize("family", [Gaussian(), DiagonalGaussian()], ids=["full", "diag"])
@pytest.mark.parametrize("change", [lambda X: np.round(X / 2), lambda X: np.clip(X, -3, 3)], ids=["rounded", "clipped"])
def test_classes_of_rows_with_ties_are_found(family, change):
    """Before, clusters were made of rows that are equal in a column: the agreement was .2 to .7 in most cases."""
    for seed in (1, 2):
        X, classes = classes_and_rows(seed, change)
        mixture = Mixture(family, 5, random_state=seed).fit(X)
        assert adjusted_rand_score(classes, mixture.labels_) > 0.8
        np.testing.assert_array_equal(mixture.labels_, mixture.predict(X))


def three_rounded_groups(n, decimals=0):
    labels = np.arange(n) % 3
    return np.round(6.0 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(n, 3)), decimals), labels


def test_two_columns_whose_groups_overlap_are_not_divided_by_values():
    """17 clusters were found, and an adjusted Rand index of .03."""
    rng = np.random.default_rng(3007)
    labels, centres = rng.integers(0, 5, 2000), 3.0 * rng.normal(size=(5, 2))
    X = np.round(2.0 * (centres[labels] + rng.normal(size=(2000, 2)))) / 2.0
    mixture = Mixture("gaussian", random_state=0).fit(X)
    assert mixture.n_clusters_ <= 5
    assert adjusted_rand_score(labels, mixture.labels_) > 0.5


@pytest.mark.parametrize("family", [Gaussian(), DiagonalGaussian()], ids=["full", "diag"])
@pytest.mark.parametrize("n", [1200, 5000])
def test_an_open_number_of_clusters_of_rounded_rows(family, n):
    """Up to 114 clusters of equal values were found, and an adjusted Rand index of .13."""
    X, labels = three_rounded_groups(n)
    assert adjusted_rand_score(labels, Mixture(family, random_state=0).fit(X).labels_) > 0.95
    groups = np.arange(n) // 50
    grouped = GroupedMixture(family, None, random_state=0, n_steps=60, n_warmup=60).fit(X, groups=groups)
    assert adjusted_rand_score(labels, grouped.labels_) > 0.95


@pytest.mark.parametrize("width", [1.0, 1.5])
def test_one_group_of_coarse_values_is_one_cluster(width):
    """Simple partitions of the rows as they are have a higher log joint: clusters of single values."""
    X = np.round(np.random.default_rng(1).normal(size=(5000, 6)) / width)
    assert Mixture("gaussian", random_state=0).fit(X).n_clusters_ == 1


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
def test_pixels_are_not_divided_by_single_values():
    """k-means of the rows as they are has 2,000 to 7,000 nats more, and agreed with the digits by .21."""
    X, digits = load_digits(return_X_y=True)
    mixture = Mixture("gaussian_diag", 10, random_state=1).fit(X)
    assert adjusted_rand_score(digits, mixture.labels_) > 0.5


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
@pytest.mark.filterwarnings("ignore:.*rows a cluster for:expfam.errors.DataWarning")
@pytest.mark.parametrize("n_constant", [5, 20])
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian"])
def test_constant_columns_say_nothing_of_a_given_number_of_groups_that_overlap(family, n_constant):
    """One cluster of 593 rows and seven single rows were found: large clusters had the narrowest constant columns."""
    rng = np.random.default_rng(2618)
    labels, centres = rng.integers(0, 8, 600), 2.0 * rng.normal(size=(8, 8))
    X = np.column_stack([centres[labels] + rng.normal(size=(600, 8)), np.ones((600, n_constant))])
    mixture = Mixture(family, 8, random_state=0, n_threads=1).fit(X)
    assert adjusted_rand_score(labels, mixture.labels_) > 0.8
    np.testing.assert_array_equal(mixture.predict(X), mixture.labels_)
    np.testing.assert_allclose(mixture.params_["mean"][:, 8:], 1.0)
    other = Mixture(family, 8, random_state=0, n_threads=2).fit(X)
    np.testing.assert_array_equal(mixture.S_, other.S_)
    assert mixture.log_joint_ == pytest.approx(mixture.model_.log_joint(X, mixture.labels_))


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
def test_constant_columns_say_nothing_in_means_over_draws():
    """Labels and means over draws agreed in .957 of the rows."""
    rng = np.random.default_rng(2618)
    labels, centres = rng.integers(0, 8, 600), 2.0 * rng.normal(size=(8, 8))
    X = np.column_stack([centres[labels] + rng.normal(size=(600, 8)), np.ones((600, 20))])
    mixture = Mixture("gaussian_diag", 8, random_state=0, n_draws=20).fit(X)
    assert np.mean(mixture.predict_proba(X).argmax(axis=1) == mixture.labels_) > 0.98


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
def test_what_is_added_is_the_mean_of_the_statistics_of_spread_rows():
    """Of rounded, frequent and constant values, and by the weights of the rows."""
    rng, labels = np.random.default_rng(0), np.arange(300) % 3
    whole, fine = rng.normal(size=300).round(), np.where(rng.random(300) < 0.4, 0.0, rng.normal(size=300))
    X = np.column_stack([rng.normal(size=300), whole, fine, np.full(300, 7.0)])
    for weight in (None, 1.0 + labels):
        data = Dataset(X, Gaussian(), weight=weight)
        ties = tied_columns(data, 3)
        assert set(ties) == {1, 2, 3}
        n, S = weighted_statistics(data, labels, 3)
        found = (S + added_squares(data, ties).of_labels(data, labels, 3)) / n[:, None]
        many = (weighted_statistics(spread_ties(data, 3, seed=seed, tied=ties), labels, 3) for seed in range(400))
        np.testing.assert_allclose(found, sum(S for _, S in many) / 400 / n[:, None], atol=0.02)


def test_nothing_is_added_without_ties_and_to_tables():
    plain = Dataset(FINE, DiagonalGaussian())
    assert added_squares(plain, tied_columns(plain, 3)) is None
    table = Mixture("auto", 2, random_state=0).plan_fit(pd.DataFrame({"a": FINE[:, 0].round(), "b": list("uv") * 200}))
    assert table.seen is not table.data
    assert table.added is None


def test_predicted_labels_join_clusters_of_an_open_number():
    X = np.column_stack([FINE, np.arange(400) % 2])
    labels = (np.arange(400) % 2).astype(np.int32)
    data = Dataset(X, DiagonalGaussian())
    ties = tied_columns(data, None)
    model = MixtureModel(data.family, DirichletProcess())
    given = (model, data, labels, added_squares(data, ties), OtherSpreads(data, None, ties, 0))
    assert not predicted_labels(*given, keep_clusters=False, n_threads=1).any()
    np.testing.assert_array_equal(predicted_labels(*given, keep_clusters=True, n_threads=1), labels)


def test_rows_move_one_by_one_to_the_clusters_that_predict_them():
    groups = (np.arange(400) % 2).astype(np.int32)
    X = np.column_stack([RNG.normal(size=400).round() + 8.0 * groups, FINE.round()])
    data = Dataset(X, DiagonalGaussian())
    model, added = MixtureModel(data.family, SymmetricDirichlet(2)), added_squares(data, tied_columns(data, 2))
    first = first_equal_rows(X)
    begun = np.where(np.isin(first, np.unique(first)[:3]), 1 - groups, groups)
    np.testing.assert_array_equal(moved_one_by_one(model, data, begun, added, n_threads=1), groups)
    np.testing.assert_array_equal(moved_one_by_one(model, data, begun, added, n_threads=1, most=3), groups)
    assert moved_one_by_one(model, data, begun, added, n_threads=1, most=2) is None
    assert moved_one_by_one(model, data, groups, added, n_threads=1) is groups
    n, S = weighted_statistics(data, groups, 2)
    clusters = LoadedClusters(model.family, n, S + added.of_labels(data, groups, 2))
    log_weights = np.log(model.weights.posterior_mean(n)[0])
    np.testing.assert_array_equal(clusters.most_probable(data, log_weights), groups)


@pytest.mark.filterwarnings("ignore:.*:expfam.errors.DataWarning")
def test_labels_of_digits_are_those_of_the_prediction():
    """Moves of all rows together had passed over a partition that a few moves of single rows reach."""
    X = StandardScaler().fit_transform(load_digits().data)
    mixture = Mixture("gaussian_diag", 10, random_state=0).fit(X)
    np.testing.assert_array_equal(mixture.predict(X), mixture.labels_)


def test_clusters_with_narrow_directions_by_chance_are_not_merged():
    """The mean of the statistics of spread rows has no such direction: it would merge all groups."""
    rng, labels = np.random.default_rng(0), (np.arange(900) % 3).astype(np.int32)
    X = np.column_stack([5.0 * np.eye(3)[labels] + rng.normal(size=(900, 3)), rng.random((900, 30)) < 0.02])
    data = Dataset(X, Gaussian())
    ties, free = tied_columns(data, None), MixtureModel(data.family, DirichletProcess())
    added, others = added_squares(data, ties), OtherSpreads(data, None, ties, 0)
    seen = spread_ties(data, None, seed=0, tied=ties)
    model = Settler(free, seen, Gaussian.learned_by_default, adapts_prior=True).fitted(labels).model
    n, S = weighted_statistics(data, labels, 3)
    merged = merged_clusters(model, n, S + added.of_labels(data, labels, 3))[labels].astype(np.int32)
    assert not merged.any()
    assert others.gain(model, labels, merged) < -100.0
    found = predicted_labels(model, data, labels, added, others, keep_clusters=False, n_threads=1)
    assert adjusted_rand_score(labels, found) > 0.9


def test_gains_are_means_over_spreads_that_the_run_has_not_seen():
    labels = (RNG.random(400) < 0.5).astype(np.int32)
    data = Dataset(np.column_stack([FINE, np.arange(400) % 2]), DiagonalGaussian())
    ties, model = tied_columns(data, None), MixtureModel(data.family, DirichletProcess())
    one, others = np.zeros(400, dtype=np.int32), OtherSpreads(data, None, ties, 7)
    spreads = [spread_ties(data, None, seed=8 + number, tied=ties) for number in range(4)]
    joints = [[model.log_joint(rows, each) for each in (labels, one)] for rows in spreads]
    gains = np.array(joints) @ [-1.0, 1.0]
    assert others.log_joint(model, labels) == pytest.approx(np.mean(joints, axis=0)[0])
    decides = abs(gains.mean()) > 3.0 * gains.std(ddof=1) / 2.0
    assert decides
    assert others.gain(model, labels, one) == pytest.approx(gains.mean())


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
@pytest.mark.parametrize("n_clusters", [3, None])
def test_constant_columns_say_nothing_of_rows_in_groups(n_clusters):
    """One cluster was found. Sums and the log joint are those of the rows as they are."""
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    X = np.column_stack([6.0 * np.eye(3)[labels] + rng.normal(size=(600, 3)), np.ones((600, 20))])
    groups = np.arange(600) // 50
    mixture = GroupedMixture("gaussian_diag", n_clusters, random_state=0, n_steps=60, n_warmup=60)
    mixture.fit(X, groups=groups)
    assert adjusted_rand_score(labels, mixture.labels_) > 0.95
    np.testing.assert_allclose(mixture.params_["mean"][:, 3:], 1.0)
    n, S = Dataset(X, mixture.family_).statistics(mixture.labels_, len(mixture.n_))
    np.testing.assert_allclose((mixture.S_ / mixture.n_[:, None])[:, :26], (S / n[:, None])[:, :26])
    np.testing.assert_array_equal(mixture.predict(X, groups), mixture.labels_)
    data = Dataset(X, mixture.family_, groups=groups)
    assert mixture.log_joint_ == pytest.approx(mixture._fitted_model().log_joint(data, mixture.labels_))


def test_a_constant_column_does_not_make_one_cluster_of_all():
    X, classes = classes_and_rows(2, lambda X: np.column_stack([X, np.ones(1000)]))
    for family in ("gaussian", "gaussian_diag"):
        with pytest.warns(DataWarning, match="column 4 is constant"):
            mixture = Mixture(family, 5, random_state=0).fit(X)
        assert adjusted_rand_score(classes, mixture.labels_) > 0.9


@pytest.mark.filterwarnings("ignore:.* constant:expfam.errors.DataWarning")
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian"])
@pytest.mark.parametrize("n_constant", [3, 20])
def test_constant_columns_say_nothing_of_an_open_number_of_clusters(family, n_constant):
    """Of the rows as they are one cluster is more probable: each cluster learns anew how narrow such a column is."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1, 2], 40)
        X = 10.0 * rng.normal(size=(3, 3))[labels] + rng.normal(size=(120, 3))
        mixture = Mixture(family, random_state=0).fit(np.column_stack([X, np.full((120, n_constant), 3.0)]))
        found.append(adjusted_rand_score(labels, mixture.labels_))
    assert np.mean(found) > 0.9


def test_the_result_has_the_statistics_of_the_data():
    X, _ = classes_and_rows(0, lambda X: np.round(X / 2))
    mixture = Mixture("gaussian_diag", 5, random_state=0).fit(X)
    n, S = Dataset(X, mixture.family_).statistics(mixture.labels_, 5)
    np.testing.assert_array_equal(mixture.n_, n)
    np.testing.assert_array_equal(mixture.S_[:, :4], S[:, :4])
    np.testing.assert_allclose(mixture.S_[:, 4:], S[:, 4:] + n[:, None] / 12.0)  # of values that stand for an interval
    assert np.mean(mixture.predict(X) == mixture.labels_) > 0.99  # a mode; one row lies between two clusters
    assert mixture.log_joint_ == pytest.approx(mixture.model_.log_joint(X, mixture.labels_))


def test_a_named_sampler_takes_the_data_as_they_are(monkeypatch):
    monkeypatch.setattr("expfam.fitting.plan.spread_ties", None)
    X, _ = classes_and_rows(0, lambda X: np.round(X / 2))
    assert Mixture("gaussian_diag", 5, sampler="gibbs", n_steps=5, random_state=0).fit(X).n_components_ == 5


def table_with_ties(offset=0.0):
    rng = np.random.default_rng(0)
    years = rng.integers(1, 20, 300).astype(float)
    years[::7] = np.nan
    amount = np.rint(np.exp(rng.normal(2, 1, 300))) + 0.5
    return np.column_stack([years + offset, amount, rng.integers(0, 3, 300)])


def test_columns_of_a_table_are_spread_over_their_resolution():
    X = table_with_ties()
    data = Dataset(X, Columns([(DiagonalGaussian(), (0,)), (LogNormal(), (1,)), (Categorical(), (2,))]))
    spread = spread_ties(data, None, seed=0).X
    moved = np.abs(spread - X)
    assert np.array_equal(np.isnan(spread), np.isnan(X))
    assert 0.45 < np.nanmax(moved[:, 0]) <= 0.5
    assert spread[:, 1].min() > 0
    assert np.all(np.abs(np.log(spread[:, 1] / X[:, 1])) <= np.log1p(0.5 / X[:, 1]) + 1e-12)
    assert np.unique(spread[:, 1]).size == 300
    assert np.array_equal(spread[:, 2], X[:, 2])


def test_a_table_without_ties_is_not_copied():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    X[3, 0] = np.nan
    data = Dataset(X, Columns([(DiagonalGaussian(), (0, 1))]))
    assert spread_ties(data, None, seed=0) is data
