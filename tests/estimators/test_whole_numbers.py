"""Ratings, counts and other whole numbers: arrays and frames get the family that held-out rows prefer, the same one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import GroupedMixture, Mixture, merge
from expfam.fitting.candidates import name_of
from expfam.fitting.whole_numbers import columns_of_array, has_many_values, whole_candidates


def ratings(seed, k=3, n_columns=10, n_levels=5, n_rows=400):
    """Rows of k classes, each with its own shares of the levels from 1 on."""
    rng, classes = np.random.default_rng(seed), np.arange(n_rows) % k
    shares = rng.dirichlet(np.full(n_levels, 0.5), (k, n_columns))[classes].cumsum(axis=2)
    return 1 + (rng.random((n_rows, n_columns, 1)) > shares[:, :, :-1]).sum(axis=2), classes


X, CLASSES = ratings(0)
NAMES = [f"q{j}" for j in range(X.shape[1])]
KINDS = {
    "integers": X,
    "small integers": X.astype(np.int8),
    "floats": X.astype(float),
    "lists": X.tolist(),
    "pandas": pd.DataFrame(X, columns=NAMES),
    "pandas floats": pd.DataFrame(X.astype(float), columns=NAMES),
    "without names": pd.DataFrame(X),
    "polars": pl.DataFrame(X, schema=NAMES),
}


@pytest.fixture(scope="module")
def mixture():
    return Mixture(random_state=0).fit(X)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(2, 10, 3), (3, 10, 5), (4, 20, 7), (3, 12, 10)], ids=str)
def test_ratings_are_categories(shape, seed):
    data, classes = ratings(seed, *shape, n_rows=300)
    found = Mixture(random_state=0).fit(data)
    scores = found.family_scores_
    assert max(scores, key=scores.get) == "categorical"
    gaussian = Mixture("gaussian_diag", random_state=0).fit(data)
    assert adjusted_rand_score(classes, found.labels_) > max(adjusted_rand_score(classes, gaussian.labels_), 0.6)


@pytest.mark.parametrize(("seed", "n_columns", "least"), [(3, 3, 0.25), (4, 3, 0.25), (3, 4, 0.4)], ids=str)
def test_ratings_of_which_categories_find_no_groups_are_numbers(seed, n_columns, least):
    """Rounded and clipped Gaussians: their order tells classes apart, of which the levels alone are one cluster."""
    rng, classes = np.random.default_rng(5000 + seed), np.arange(400) % 3
    means = rng.normal(3, 1.5, (3, n_columns))
    data = np.clip(np.rint(means[classes] + rng.normal(size=(400, n_columns))), 1, 5).astype(int)
    assert Mixture(columns_of_array(data), random_state=0).fit(data).n_components_ == 1
    array, _ = one_answer(data)
    assert array.family_.name == "gaussian_diag"
    assert set(array.family_scores_) == {"gaussian_diag", "gaussian", "poisson", "negative_binomial"}
    assert "categorical" not in array.summary()
    assert adjusted_rand_score(classes, array.labels_) > least


@pytest.mark.parametrize("size", [2.0, 5.0, 20.0])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_how_much_counts_vary_within_groups_is_found(size, n_groups):
    rng = np.random.default_rng(1)
    mean, groups = np.exp(3.0 + 1.5 * rng.normal(size=(n_groups, 8))), rng.integers(n_groups, size=900)
    found = Mixture(random_state=0).fit(rng.negative_binomial(size, size / (size + mean[groups])))
    assert found.family_.name == "negative_binomial"
    assert 0.6 < found.family_.r / size < 1.7
    assert found.n_components_ == n_groups
    assert adjusted_rand_score(groups, found.labels_) > 0.9


def test_counts_that_vary_more_than_poisson_ones_are_no_pieces():
    rng = np.random.default_rng(0)
    found = Mixture(random_state=0).fit(rng.negative_binomial(1.5, 0.2, size=(1000, 4)))
    assert (found.family_.name, found.n_components_) == ("negative_binomial", 1)
    assert found.family_scores_["negative_binomial"] > found.family_scores_["poisson"] + 0.1
    groups = rng.integers(3, size=1000)
    counts = Mixture(random_state=0).fit(rng.poisson(np.array([[2, 30, 5], [20, 3, 5], [9, 9, 40]])[groups]))
    assert counts.family_.name == "poisson"
    assert adjusted_rand_score(groups, counts.labels_) > 0.99


@pytest.mark.parametrize("n_columns", [3, 12])
def test_ratings_without_groups_are_one_cluster_of_categories(n_columns):
    rng = np.random.default_rng(7)
    data = np.column_stack([1 + rng.choice(5, 400, p=rng.dirichlet(np.ones(5))) for _ in range(n_columns)])
    found = Mixture(random_state=0).fit(data)
    assert found.n_components_ == 1
    assert "family categorical: held-out rows have" in found.summary()


@pytest.mark.parametrize("given", KINDS.values(), ids=KINDS)
def test_arrays_and_frames_have_one_answer(given, mixture):
    found = Mixture(random_state=0).fit(given)
    assert np.array_equal(found.labels_, mixture.labels_)
    assert found.family_scores_ == mixture.family_scores_
    assert found.summary() == mixture.summary()
    assert np.array_equal(found.predict(given), mixture.predict(X))
    assert found.score(given) == pytest.approx(mixture.score(X), rel=1e-9)


def test_the_summary_says_what_was_chosen_and_by_how_much(mixture):
    gain = mixture.family_scores_["categorical"] - mixture.family_scores_["gaussian_diag"]
    assert f"family categorical: held-out rows have {gain:.2g} nats more than under gaussian_diag" in mixture.summary()
    assert mixture.roles_["column"].tolist() == [str(j) for j in range(10)]
    assert mixture.n_features_in_ == 10


def test_rows_of_an_array_come_back_as_rows_of_an_array(mixture):
    drawn, labels = mixture.sample(200)
    assert drawn.shape == (200, 10)
    assert set(np.unique(drawn[~np.isnan(drawn)])) <= set(range(1, 6))
    assert np.mean(mixture.predict(np.nan_to_num(drawn, nan=1.0)) == labels) > 0.8
    holes = X[:5].astype(float)
    holes[0, 3] = holes[4, 9] = np.nan
    filled = mixture.impute(holes)
    assert isinstance(filled, np.ndarray)
    assert np.array_equal(filled[~np.isnan(holes)], holes[~np.isnan(holes)])
    assert set(filled[np.isnan(holes)]) <= set(range(1, 6))
    framed = mixture.impute(pd.DataFrame(holes))
    assert np.array_equal(framed.to_numpy(dtype=float), filled)


def test_new_values_are_a_level_of_their_own_and_holes_are_integrated_out(mixture):
    new = X[:3].astype(float)
    new[0, 0], new[1, 1], new[2, 2] = 9, 2.5, np.nan
    assert np.isfinite(mixture.score_samples(new)).all()
    with pytest.raises(ValueError, match="10 features"):
        mixture.predict(X[:, :9])


def test_files_coarser_and_merged_models_read_arrays_as_the_fit_did(mixture, tmp_path):
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.summary() == mixture.summary()
    coarse = mixture.coarsen(n_clusters=2)
    joined = merge([mixture.coarsen(n_clusters=2), loaded.coarsen(n_clusters=2)], clusters="merged")
    for model in (loaded, coarse, joined):
        assert adjusted_rand_score(model.predict(X), model.predict(X.astype(np.float32))) == 1.0
    assert np.array_equal(loaded.predict(X), mixture.predict(X))
    assert np.array_equal(coarse.predict(X), loaded.coarsen(n_clusters=2).predict(X))
    again = Mixture(mixture.family_, random_state=0).fit(X)
    assert np.array_equal(again.labels_, mixture.labels_)


def test_constant_columns_are_left_out_and_come_back():
    wide = np.column_stack([X[:, :4], np.full(len(X), 7), X[:, 4:]])
    found = Mixture(random_state=0).fit(wide)
    assert found.n_features_in_ == 11
    assert found.roles_["role"].tolist().count("dropped") == 1
    assert (found.sample(20)[0][:, 4] == 7).all()
    assert np.array_equal(found.predict(wide), found.labels_) or adjusted_rand_score(CLASSES, found.labels_) > 0.9


@pytest.mark.parametrize(("mean", "family"), [(0.5, "negative_binomial"), (2.0, "poisson"), (8.0, "poisson")])
def test_counts_are_no_categories(mean, family):
    """Of so few counts as .5 nothing tells the groups: they are one cluster, whose counts vary more."""
    rng = np.random.default_rng(1)
    rate = rng.gamma(1.5, mean / 1.5, (3, 8))[np.arange(500) % 3]
    assert Mixture(random_state=0).fit(rng.poisson(rate)).family_.name == family


def test_large_whole_numbers_with_a_spread_of_their_own_are_gaussian():
    rng = np.random.default_rng(0)
    ages = np.rint(rng.normal([40.0, 60.0], [9.0, 6.0], (400, 2)) + 30.0 * (np.arange(400) % 2)[:, None])
    assert Mixture(random_state=0).fit(ages).family_.name.startswith("gaussian")


def test_rows_in_groups_choose_too():
    groups = np.arange(len(X)) // 40
    found = GroupedMixture(n_components=3, random_state=0).fit(X, groups=groups)
    assert max(found.family_scores_, key=found.family_scores_.get) == "categorical"
    assert adjusted_rand_score(CLASSES, found.labels_) > 0.8


def test_numbers_of_rows_and_many_values_are_left_to_the_other_rules():
    assert columns_of_array(np.column_stack([X, np.arange(len(X))])) is None
    assert columns_of_array(X + 0.5) is None
    pixels = np.random.default_rng(0).integers(0, 17, (300, 64))
    assert has_many_values(pixels)
    assert columns_of_array(pixels) is None


def test_densities_of_cells_are_compared_whatever_the_unit():
    """Values at steps of 10 have the same probabilities as at steps of 1, and Gaussians the same bound on them."""
    from expfam import DiagonalGaussian

    one, ten = (whole_candidates(factor * X, [DiagonalGaussian()], columns_of_array(X), seed=0) for factor in (1, 10))
    assert ten[0].log_base - one[0].log_base == pytest.approx(X.shape[1] * np.log(10.0))
    assert np.allclose(ten[0].X, 10 * one[0].X)
    assert abs(one[0].X - X).max() <= 0.5


def one_answer(X, **settings):
    """Return the fits of an array and of a frame of it, whose results must be the same."""
    found = [Mixture(random_state=0, **settings).fit(given) for given in (X, pd.DataFrame(X).add_prefix("q"))]
    assert np.array_equal(found[0].labels_, found[1].labels_)
    assert getattr(found[0], "family_scores_", None) == getattr(found[1], "family_scores_", None)
    assert found[0].family_.name == found[1].family_.name
    return found


def with_holes(data, share=0.05):
    cells = data.astype(float)
    cells[np.random.default_rng(7).random(data.shape) < share] = np.nan
    return cells


@pytest.mark.parametrize("columns", ["all", "one"])
def test_ratings_with_holes_are_categories_in_arrays_and_frames(columns):
    cells = with_holes(X)
    if columns == "one":
        cells = np.column_stack([X[:, :9], cells[:, 9]])
    for found in one_answer(cells):
        assert max(found.family_scores_, key=found.family_scores_.get) == "categorical"
        assert adjusted_rand_score(CLASSES, found.labels_) > 0.9


@pytest.mark.parametrize("kind", ["ratings", "counts"])
def test_fractions_beside_whole_numbers_with_holes_are_read_by_roles_in_arrays_and_frames(kind):
    rng = np.random.default_rng(3)
    rates = rng.gamma(2, 4, (3, 6))[CLASSES]
    whole = X[:, :6] if kind == "ratings" else rng.poisson(rates)
    cells = with_holes(np.column_stack([whole, rng.normal(size=(3, 3))[CLASSES] + rng.normal(size=(400, 3))]))
    array, frame = one_answer(cells)
    assert array.roles_["family"].tolist() == frame.roles_["family"].tolist()
    assert array.roles_["family"].tolist()[6:] == ["gaussian_diag"] * 3
    assert adjusted_rand_score(CLASSES, array.labels_) > 0.9
    assert np.array_equal(array.predict(cells), frame.predict(pd.DataFrame(cells).add_prefix("q")))
    assert np.allclose(array.impute(cells), frame.impute(pd.DataFrame(cells).add_prefix("q")).to_numpy(dtype=float))
    new = np.where(np.arange(9) < 3, np.nan, np.full((1, 9), 9.0))  # a value that the fit has not seen
    assert np.isfinite(array.score_samples(new)).all()


def test_counts_with_holes_leave_them_out_under_poisson():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.where(np.arange(300)[:, None] % 2, [2, 3, 9, 4], [8, 3, 2, 1]))
    array, frame = one_answer(with_holes(counts))
    assert {part[0].name for part in array.family_.parts} == {"poisson"}
    assert adjusted_rand_score(np.arange(300) % 2, array.labels_) > 0.8
    new = np.array([[np.nan, 3.0, 9.0, np.nan]])
    assert array.score_samples(new) == frame.score_samples(pd.DataFrame(new).add_prefix("q"))


@pytest.mark.parametrize("n_rows", [8, 12, 20, 24])
def test_few_rows_have_one_answer(n_rows):
    data, classes = ratings(0, n_rows=n_rows)
    array, _ = one_answer(data)
    gaussian = Mixture("gaussian_diag", random_state=0).fit(data)
    assert adjusted_rand_score(classes, array.labels_) >= adjusted_rand_score(classes, gaussian.labels_)
    rng = np.random.default_rng(n_rows)
    ages = np.rint(rng.normal([40, 60, 170], [5, 6, 8], (n_rows, 3)) + 40 * (np.arange(n_rows) % 2)[:, None])
    array, _ = one_answer(ages.astype(int))
    assert array.family_.name.startswith("gaussian")  # a level for each value says nothing of new rows


@pytest.mark.parametrize("settings", [{}, {"n_components": 3}], ids=["open", "three"])
@pytest.mark.parametrize("shape", [(3, 2), (5, 4), (300, 64)], ids=str)
def test_too_few_rows_and_many_values_are_numbers_in_arrays_and_frames(shape, settings):
    data = np.random.default_rng(0).integers(0, 17, shape)
    array, frame = one_answer(data, **settings, n_steps=3)
    assert array.family_.name.startswith("gaussian")
    assert np.array_equal(array.predict(data), frame.predict(pd.DataFrame(data).add_prefix("q")))
    array, _ = one_answer(with_holes(data, 0.01), **settings, n_steps=3)
    assert name_of(array.family_) == "gaussian_diag"


def test_one_column_has_one_answer():
    array, _ = one_answer(ratings(0, n_columns=1)[0])
    assert set(array.family_scores_) == {"gaussian_diag", "poisson", "negative_binomial"}
