"""`params_`: parameters of clusters in the units of the data, for every family, table and estimator."""

import numpy as np
import pytest
from scipy import sparse

from expfam import (
    BayesianHierarchy,
    Categorical,
    Columns,
    DiagonalGaussian,
    Family,
    Gaussian,
    GroupedMixture,
    LogNormal,
    Mixture,
    Multinomial,
    TopicModel,
    load_family,
)
from expfam.errors import CapabilityError
from expfam.plugins.laws.data_case import made_up_data

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
SETTINGS = {"n_steps": 0, "n_warmup": 0, "partition": "last", "learn_hyper": False}
NAMES = {
    "multinomial": {"probability": 2},
    "categorical": {"probability": 3},
    "poisson": {"rate": 2},
    "gaussian": {"mean": 2, "covariance": 3},
    "gaussian_diag": {"mean": 2, "variance": 2},
    "lognormal": {"mean": 2, "variance": 2, "median": 2},
    "gaussian_spherical": {"mean": 2, "variance": 1},
    "gaussian_zero": {"mean": 2, "covariance": 3},
    "bernoulli": {"probability": 2},
    "exponential": {"mean": 2, "rate": 2},
    "geometric": {"mean": 2, "probability": 2},
    "negative_binomial": {"mean": 2, "probability": 2},
    "von_mises_fisher": {"mean": 2, "kappa": 1},
}
LABELS = np.arange(4000) % 2


def fitted(family, X, labels=LABELS):
    return Mixture(family, 2, start=labels, **SETTINGS).fit(X)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_has_parameters_of_its_clusters(name, tmp_path):
    support = load_family(name).support
    X = np.abs(made_up_data(support, 3, np.random.default_rng(0), n_rows=60)) + (name == "lognormal")
    mixture = fitted(name, X, LABELS[:60])
    params = mixture.params_
    assert {key: values.ndim for key, values in params.items()} == NAMES[name]
    assert all(len(values) == 2 for values in params.values())
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model").params_
    for key, values in params.items():
        np.testing.assert_array_equal(values, loaded[key])


def test_they_are_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    centers = np.array([[100.0, -7.0], [140.0, 5.0]])[LABELS]
    X = centers + rng.normal(size=(4000, 2)) * [3.0, 0.5]
    params = fitted("gaussian_diag", X).params_
    np.testing.assert_allclose(params["mean"], [[100.0, -7.0], [140.0, 5.0]], atol=0.2)
    np.testing.assert_allclose(params["variance"], [[9.0, 0.25]] * 2, rtol=0.1)
    full = fitted("gaussian", X).params_
    np.testing.assert_allclose(full["covariance"], [np.diag([9.0, 0.25])] * 2, atol=0.6)
    np.testing.assert_allclose(fitted("gaussian_spherical", X).params_["mean"], params["mean"], atol=0.05)
    amounts = np.exp(0.5 * rng.normal(size=(4000, 1)) + LABELS[:, None])
    found = fitted("lognormal", amounts).params_
    np.testing.assert_allclose(found["median"].ravel(), np.exp([0.0, 1.0]), rtol=0.05)
    np.testing.assert_allclose(found["mean"].ravel(), np.exp([0.125, 1.125]), rtol=0.05)
    rates = fitted("poisson", rng.poisson([[2.0, 9.0], [30.0, 1.0]] * 2000)).params_["rate"]
    np.testing.assert_allclose(rates, [[2.0, 9.0], [30.0, 1.0]], rtol=0.05)
    shares = fitted("multinomial", rng.multinomial(20, [0.2, 0.3, 0.5], size=4000)).params_["probability"]
    np.testing.assert_allclose(shares, [[0.2, 0.3, 0.5]] * 2, atol=0.01)


@pytest.mark.parametrize("name", ["multinomial", "poisson", "bernoulli", "negative_binomial", "geometric"])
def test_sparse_rows_give_the_same_arrays(name):
    X = np.random.default_rng(0).poisson(0.5, (60, 8)).clip(0, 1).astype(float)
    dense, thin = (fitted(name, rows, LABELS[:60]) for rows in (X, sparse.csr_array(X)))
    assert sparse.issparse(thin.S_)
    for key, values in dense.params_.items():
        np.testing.assert_allclose(thin.params_[key], values, rtol=1e-12)
    family = thin.family_
    for method in ("map_natural", "expected_natural"):  # what users call with `S_` themselves
        for found, wanted in zip(
            getattr(family, method)(thin.n_, thin.S_), getattr(family, method)(dense.n_, dense.S_)
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
    drawn = [family.draw_natural(thin.n_, S, np.random.default_rng(1))[0] for S in (thin.S_, dense.S_)]
    np.testing.assert_allclose(*drawn, rtol=1e-12)
    np.testing.assert_allclose(family.log_marginal(thin.n_, thin.S_), family.log_marginal(dense.n_, dense.S_))


def test_levels_of_categories_have_an_axis_of_their_own():
    X = np.column_stack([np.arange(60) % 2, np.arange(60) % 3])
    p = fitted(Categorical(), X, np.arange(60) % 2).params_["probability"]
    assert p.shape == (2, 2, 3)
    np.testing.assert_allclose(p.sum(axis=2), 1.0)
    assert (p[:, 0, 2] == 0).all()  # the first column has two levels
    assert p[0, 0, 0] > 0.9 > 0.1 > p[1, 0, 0]


# ---- tables ----------------------------------------------------------------------------------------------------------


def frame(n_rows=200):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = LABELS[:n_rows]
    table = pd.DataFrame(
        {
            "age": np.where(y, 60.0, 30.0) + rng.normal(size=n_rows),
            "colour": np.where(rng.random(n_rows) < 0.8, np.array(["red", "blue"])[y], "green"),
            "income": np.exp(rng.normal(size=n_rows) + y + 7),
            "smokes": rng.random(n_rows) < np.where(y, 0.9, 0.1),
            "visits": rng.poisson(np.where(y, 30, 4)),
        }
    )
    table.loc[5:15, "age"] = np.nan
    return table, y


def test_a_table_has_a_dict_of_each_column():
    table, y = frame()
    mixture = fitted("auto", table, y)
    params = mixture.params_
    assert list(params) == list(table.columns)
    np.testing.assert_allclose(params["age"]["mean"], [30.0, 60.0], atol=1.0)
    assert set(params["age"]) == {"mean", "variance"}
    colours = params["colour"]
    assert list(colours["levels"]) == ["blue", "green", "red"]
    np.testing.assert_allclose(colours["probability"].sum(axis=1), 1.0)
    np.testing.assert_allclose(colours["probability"][:, [2, 0]], [[0.8, 0.0], [0.0, 0.8]], atol=0.1)
    assert list(params["smokes"]["levels"]) == [False, True]
    np.testing.assert_allclose(params["smokes"]["probability"][:, 1], [0.1, 0.9], atol=0.1)
    np.testing.assert_allclose(mixture.clusters_["age"], params["age"]["mean"])
    np.testing.assert_allclose(mixture.clusters_["age_sd"], np.sqrt(params["age"]["variance"]))


def test_an_offset_of_a_column_is_taken_off():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    amount = np.where(rng.random(400) < 0.1, 0.0, np.exp(2 + rng.normal(size=400)))
    roles = [{"column": "amount", "role": "positive", "family": "lognormal", "offset": 0.5}]
    table = pd.DataFrame({"amount": amount})
    params = fitted(Columns.from_frame(table, roles=roles), table, LABELS[:400]).params_["amount"]
    center = np.exp(np.mean(np.log(amount + 0.5))) - 0.5
    np.testing.assert_allclose(params["median"], [center, center], rtol=0.2)


def test_parts_of_several_columns_and_informative_holes():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 5, 9], [[1, 0.8, 0], [0.8, 1, 0], [0, 0, 4]], size=2000)
    X[::2][:200, 2] = np.nan
    family = Columns([(Gaussian(), (0, 1)), (DiagonalGaussian(), (2,))], missing="informative", names=["a", "b", "c"])
    params = fitted(family, X, LABELS[:2000]).params_
    np.testing.assert_allclose(params["a"]["covariance"], [[1.0, 0.8]] * 2, atol=0.15)
    np.testing.assert_allclose(params["b"]["covariance"], [[0.8, 1.0]] * 2, atol=0.15)
    np.testing.assert_allclose(params["b"]["variance"], params["b"]["covariance"][:, 1])
    assert params["a"]["with"].tolist() == ["a", "b"]
    np.testing.assert_allclose(params["c"]["missing"], [0.2, 0.0], atol=0.01)
    numbered = fitted(
        Columns([(LogNormal(), (0,)), (load_family("bernoulli"), (1,))]),
        np.column_stack([np.abs(X[:, 0]) + 1.0, X[:, 1] > 5]),
        LABELS[:2000],
    )
    assert set(numbered.params_) == {"0", "1"}


def test_an_array_with_holes_is_a_table_of_numbered_columns():
    X = np.random.default_rng(0).normal(size=(60, 2)) + 8.0 * LABELS[:60, None]
    X[3, 1] = np.nan
    params = fitted("auto", X, LABELS[:60]).params_
    assert list(params) == ["0", "1"]
    np.testing.assert_allclose(params["1"]["mean"], [0.0, 8.0], atol=0.6)


# ---- estimators ------------------------------------------------------------------------------------------------------


def test_all_estimators_have_them():
    X = np.random.default_rng(0).normal(size=(80, 2)) + 30.0 * LABELS[:80, None]
    wanted = [[0.0, 0.0], [30.0, 30.0]]
    tree = BayesianHierarchy("gaussian", n_components=2).fit(X)
    groups = GroupedMixture("gaussian", 2, random_state=0).fit(X, groups=np.arange(80) // 20)
    learned = Mixture("gaussian", 2, sampler="variational", start="kmeans", random_state=0).partial_fit(X)
    for estimator in (tree, groups, learned):
        means = estimator.params_["mean"]
        np.testing.assert_allclose(means[np.argsort(means[:, 0])], wanted, atol=1.0)
        assert estimator.params_["covariance"].shape == (2, 2, 2)
    np.testing.assert_allclose(tree.params_["mean"][0], tree.node_params(node_of(tree))["mean"][0])


def node_of(tree):
    """Node of the cluster with label 0."""
    rows = np.flatnonzero(tree.labels_ == 0)
    return next(node for node in range(len(tree.counts_)) if set(tree.tree_.leaves(node)) == set(tree.leaf_[rows]))


def test_topics_have_the_probabilities_of_their_words():
    X = np.repeat([[4, 4, 0, 0], [0, 0, 4, 4]], 20, axis=0)
    model = TopicModel(2, random_state=0).fit(X)
    p = model.params_["probability"]
    np.testing.assert_allclose(p, model.components_ / model.components_.sum(axis=1, keepdims=True))
    assert set(p.argmax(axis=1) // 2) == {0, 1}


# ---- families of others ----------------------------------------------------------------------------------------------


class Plain(Family):
    """Two methods, as a beginner writes them."""

    support = "counts"

    def __init__(self, a=1.0):
        self.a = a

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return -np.log1p(n / self.a) * (1 + 0 * S.sum(axis=1))


class Hooked(Plain):
    def cluster_params(self, n, S):
        return {"mean": S / n[:, None]}


class Wrong(Plain):
    def cluster_params(self, n, S):
        return {"mean": (S / n[:, None]).sum(axis=0)}


COUNTS = np.random.default_rng(0).poisson(3.0, (60, 3)).astype(float)


def test_a_family_without_parameters_says_what_to_write():
    mixture = fitted(Plain(), COUNTS, LABELS[:60])
    with pytest.raises(
        AttributeError, match=r"Mixture has no params_: family 'plain' .* write map_natural\(n, S\) and"
    ):
        mixture.params_  # noqa: B018
    with pytest.raises(CapabilityError, match="map_natural and to_params"):
        mixture.family_.cluster_params(mixture.n_, mixture.S_)
    assert not hasattr(mixture, "params_")


def test_a_family_may_have_a_method_of_its_own():
    mixture = fitted(Hooked(), COUNTS, LABELS[:60])
    np.testing.assert_allclose(mixture.params_["mean"][0], COUNTS[::2].mean(axis=0))
    with pytest.raises(AttributeError, match=r"'mean' of cluster_params must return .* of shape \(2, \.\.\.\)"):
        fitted(Wrong(), COUNTS, LABELS[:60]).params_  # noqa: B018
    table = Columns([(Hooked(), (0, 1)), (Multinomial(), (2,))])
    assert fitted(table, COUNTS, LABELS[:60]).params_["1"]["mean"].shape == (2,)


def test_informative_holes_have_a_probability_in_every_column_that_may_lack_cells():
    X = np.column_stack([np.repeat([0.0, 9.0], 30), np.tile([0.0, 1.0, 2.0], 20), np.arange(60.0)])
    X += np.array([0.1, 0.0, 0.0]) * np.random.default_rng(0).normal(size=(60, 1))
    X[:15, 1] = np.nan
    X[45:, 0] = np.nan
    table = Columns([(DiagonalGaussian(), (0, 2)), (Categorical(), (1,))], missing="informative")
    mixture = fitted(table, X, np.repeat([0, 1], 30))
    p = mixture.params_
    assert "missing" not in p["2"]
    np.testing.assert_allclose(p["0"]["missing"], [0.5 / 31, 15.5 / 31])
    # the prior of categories is worth four observations: a quarter of the cells lack one
    np.testing.assert_allclose(p["1"]["missing"], [(15 + 1) / (30 + 4), 1 / (30 + 4)])
    assert p["1"]["probability"].shape == (2, 3)
