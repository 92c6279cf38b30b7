"""Which trees a hierarchy makes by default, which one it keeps, and what it says of a single cluster."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from expfam import (
    BayesianHierarchy,
    Categorical,
    Columns,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    MixtureModel,
    Poisson,
)
from expfam.errors import DataWarning
from expfam.estimators.tree_choice import best_tree, has_ward_tree, order_for
from expfam.families.directions.von_mises_fisher import VonMisesFisher
from expfam.families.gaussian.lognormal import LogNormal
from expfam.families.trials.bernoulli import Bernoulli
from expfam.samplers import HierarchicalClustering
from expfam.samplers.hierarchy.tuning import tree_evidence, tuned_worth


def four_groups(n_rows, seed, *, gap):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n_rows)
    return (rng.normal(size=n_rows) + gap * labels)[:, None], labels


def directions(n_rows=200, n_columns=128, n_groups=5, noise=2.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_groups, n_rows)
    centre = rng.normal(size=(n_groups, n_columns))
    rows = centre[labels] + noise * rng.normal(size=(n_rows, n_columns))
    return rows / np.linalg.norm(rows, axis=1)[:, None], labels


def purity(children, labels):
    """Dendrogram purity: over pairs of one class, the mean share of that class below the node that joins them."""
    N = len(labels)
    below = np.zeros((2 * N - 1, labels.max() + 1))
    below[np.arange(N), labels] = 1.0
    total = 0.0
    for t, (i, j) in enumerate(np.asarray(children, dtype=int)):
        a, b = below[i], below[j]
        below[N + t] = a + b
        total += (a * b * (a + b)).sum() / (a + b).sum()
    n = np.bincount(labels)
    return total / (n * (n - 1) / 2).sum()


# ---- which order -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (DiagonalGaussian(), "best"),
        (LogNormal(), "best"),
        (VonMisesFisher(), "best"),
        (Bernoulli(), "best"),
        (Poisson(), "auto"),
        (Categorical(), "auto"),
    ],
)
def test_the_order_follows_the_kind_of_values(family, expected):
    assert order_for("auto", family) == expected
    assert order_for("odds", family) == "odds"


@pytest.mark.parametrize("values", ["real", "table", "positive", "unit", "binary"])
def test_the_default_is_the_best_of_three_trees(values):
    rng = np.random.default_rng(0)
    X, family = {
        "real": (rng.normal(size=(60, 2)), "gaussian_diag"),
        "table": (np.column_stack([rng.normal(size=60), rng.integers(0, 3, 60)]), None),
        "positive": (rng.lognormal(size=(60, 2)), "lognormal"),
        "unit": (directions(60, 8)[0], "von_mises_fisher"),
        "binary": (rng.integers(0, 2, (60, 5)), "bernoulli"),
    }[values]
    family = Columns([(DiagonalGaussian(), (0,)), (Categorical(), (1,))]) if family is None else family
    default = BayesianHierarchy(family).fit(X)
    bound = default.family_
    named = [BayesianHierarchy(bound, sampler=HierarchicalClustering(order=o)).fit(X) for o in ("odds", "odds_size")]
    assert default.log_evidence_ >= max(each.log_evidence_ for each in named) - 2.0
    assert default.order_ in ("odds", "odds_size", "ward")
    assert default.n_scores_ > sum(each.n_scores_ for each in named)  # and those of Ward's tree
    if values == "real":
        standard = (X - X.mean(axis=0)) / X.std(axis=0)
        given = BayesianHierarchy.from_linkage(linkage(standard, "ward"), X, bound)
        assert default.log_evidence_ >= given.log_evidence_ - 2.0


def test_counts_and_categories_make_one_tree():
    rng = np.random.default_rng(0)
    for family, X in (("poisson", rng.poisson(3, (40, 4))), ("categorical", rng.integers(0, 3, (40, 4)))):
        default = BayesianHierarchy(family).fit(X)
        assert default.order_ == "odds_size"
        assert not has_ward_tree(Dataset(X, default.family_))


class Tree:
    def __init__(self, log_joint):
        self.log_joint = log_joint


def test_ward_is_kept_unless_another_tree_is_clearly_better():
    trees = {"odds": Tree(-10.0), "odds_size": Tree(-9.0), "ward": Tree(-10.9)}
    assert best_tree(trees)[0] == "ward"
    trees["odds_size"] = Tree(-8.8)
    assert best_tree(trees) == ("odds_size", trees["odds_size"])
    assert best_tree({"odds": Tree(-1.0), "odds_size": Tree(-1.5)})[0] == "odds"


@pytest.mark.parametrize("gap", [4.0, 6.0])
@pytest.mark.parametrize("n_rows", [60, 200, 600, 2000])
def test_groups_of_one_column_are_found_as_well_as_by_ward(n_rows, gap):
    """Merges by the odds alone let the large clusters swallow their neighbours, more so with more rows."""
    found, wanted = [], []
    for seed in range(6):
        X, labels = four_groups(n_rows, seed, gap=gap)
        hierarchy = BayesianHierarchy(n_components=4).fit(X)
        found.append(adjusted_rand_score(labels, hierarchy.labels_))
        wanted.append(adjusted_rand_score(labels, fcluster(linkage(X, "ward"), 4, "maxclust")))
    # 60 rows of groups that overlap: the most probable cut may be of uneven sizes, Ward's never is
    assert np.mean(found) >= np.mean(wanted) - (0.05 if (n_rows, gap) == (60, 4.0) else 1e-12)


def test_an_open_number_of_groups_is_found_in_many_rows():
    X, labels = four_groups(2000, 0, gap=6.0)
    assert adjusted_rand_score(labels, BayesianHierarchy().fit(X).labels_) > 0.98


# ---- repeated values -------------------------------------------------------------------------------------------------


def three_groups(seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], 40)
    return 10.0 * rng.normal(size=(3, 3))[labels] + rng.normal(size=(120, 3)), labels


@pytest.mark.filterwarnings("ignore:gaussian_diag. .* constant")
def test_constant_columns_do_not_hide_groups():
    """Each of them made every merge more probable: twenty left one cluster of far groups."""
    found = []
    for seed in range(5):
        X, labels = three_groups(seed)
        tree = BayesianHierarchy("gaussian_diag").fit(np.column_stack([X, np.full((120, 20), 3.0)]))
        found.append(adjusted_rand_score(labels, tree.labels_))
    assert np.mean(found) > 0.8


@pytest.mark.filterwarnings("ignore:gaussian_diag. .* constant")
def test_trees_of_digits_are_not_led_by_single_pixels():
    """Black pixels, which have infinite density, made trees of purity .57 and labels of adjusted Rand index .33."""
    X, digits = load_digits(return_X_y=True)
    of_trees, of_labels = [], []
    for seed in range(6):
        rows = np.random.default_rng(seed).choice(len(X), 200, replace=False)
        tree = BayesianHierarchy("gaussian_diag").fit(X[rows])
        of_trees.append(purity(tree.children_, digits[rows]))
        of_labels.append(adjusted_rand_score(digits[rows], tree.labels_))
    assert np.mean(of_trees) > 0.6
    assert np.mean(of_labels) > 0.44


def test_the_tree_does_not_depend_on_the_order_of_rows_with_repeated_values():
    X, _ = three_groups(0)
    X[:, 1] = np.round(X[:, 1] / 5.0)
    order = np.random.default_rng(1).permutation(120)
    first, second = BayesianHierarchy().fit(X), BayesianHierarchy().fit(X[order])
    assert first.log_evidence_ == pytest.approx(second.log_evidence_, rel=1e-12)
    assert adjusted_rand_score(first.labels_[order], second.labels_) == 1.0


def test_clusters_are_those_of_the_rows_as_they_are():
    X, _ = three_groups(0)
    X[:, 1] = np.round(X[:, 1] / 5.0)
    tree = BayesianHierarchy("gaussian_diag").fit(X)
    data = Dataset(X, tree.family_)
    n, S = data.statistics(tree.labels_, tree.n_components_)
    wanted = tree.family_.to_params(*tree.family_.map_natural(n, S))
    for name, values in tree.params_.items():
        np.testing.assert_allclose(values, wanted[name], rtol=1e-9)


def test_a_linkage_of_others_has_the_odds_of_the_same_tree():
    X, _ = three_groups(0)
    X[:, 1] = np.round(X[:, 1] / 5.0)
    tree = BayesianHierarchy("gaussian_diag", sampler=HierarchicalClustering(order="odds")).fit(X)
    Z = np.column_stack([tree.children_, np.arange(len(tree.children_)), np.zeros(len(tree.children_))])
    again = BayesianHierarchy.from_linkage(Z, X, "gaussian_diag")
    np.testing.assert_allclose(again.log_odds_, tree.log_odds_, rtol=1e-9, atol=1e-9)


# ---- what a prior is worth -------------------------------------------------------------------------------------------


def binary_digits(seed):
    X, digits = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).choice(len(X), 200, replace=False)
    return (X[rows] > 7).astype(int), digits[rows]


@pytest.mark.parametrize("kind", ["bernoulli", "categorical", "frame"])
def test_trees_of_binary_digits_are_as_pure_as_average_linkage(kind):
    found, wanted = [], []
    for seed in range(10):
        X, digits = binary_digits(seed)
        wanted.append(purity(linkage(X, "average")[:, :2], digits))
        family, rows = ("auto", pd.DataFrame(X.astype(bool)).rename(columns=str)) if kind == "frame" else (kind, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # columns with one value
            found.append(purity(BayesianHierarchy(family).fit(rows).children_, digits))
    assert np.mean(found) > np.mean(wanted)


def test_the_worth_of_a_prior_has_more_evidence_than_that_at_binding():
    X, _ = binary_digits(0)
    bound = Bernoulli().bind(X)
    found = tuned_worth(bound, X)
    assert tree_evidence(Dataset(X, found), 1.0) > tree_evidence(Dataset(X, bound), 1.0) + 100.0
    np.testing.assert_allclose(found.a / (found.a + found.b), bound.a / (bound.a + bound.b), rtol=1e-12)
    factor = found.a / bound.a
    assert np.ptp(factor) < 1e-12
    assert 0.05 <= factor[0] < 1.0


def test_noise_makes_the_prior_worth_more():
    X = np.random.default_rng(0).integers(0, 2, (150, 10))
    assert (tuned_worth(Bernoulli().bind(X), X).a > 2.0 * Bernoulli().bind(X).a).all()


def test_given_priors_stay_as_they_are():
    X, _ = binary_digits(0)
    assert np.ndim(BayesianHierarchy(Bernoulli(a=1.0, b=2.0)).fit(X).family_.a) == 0
    assert BayesianHierarchy(Categorical(concentration=0.5)).fit(X).family_.concentration == 0.5
    fixed = BayesianHierarchy("bernoulli", learn_hyper=False).fit(X)
    np.testing.assert_array_equal(fixed.family_.a, Bernoulli().bind(X).a)
    np.testing.assert_array_equal(BayesianHierarchy("poisson").fit(X).family_.shape, Poisson().bind(X).shape)
    half = BayesianHierarchy(Bernoulli(a=1.0)).fit(X)
    np.testing.assert_array_equal(half.family_.b, Bernoulli(a=1.0).bind(X).b)


def test_parts_of_a_table_have_a_worth_of_their_own():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=120), np.repeat([0, 1], 60), np.repeat([0, 1], 60), rng.integers(0, 2, 120)])
    given = Columns([(DiagonalGaussian(), (0,)), (Categorical(), (1, 2)), (Categorical(concentration=0.5), (3,))])
    bound = given.bind(X)
    assert given.worth_hyper == bound.worth_hyper == (("categorical.concentration",), ("categorical_2.concentration",))
    found = tuned_worth(bound, X, given=given)
    assert (getattr(found, "categorical.concentration") < getattr(bound, "categorical.concentration")).all()
    np.testing.assert_array_equal(getattr(found, "categorical_2.concentration"), 0.5)


def test_nothing_is_random_without_a_seed():
    X = np.random.default_rng(0).integers(0, 2, (400, 6))  # more than the subsample
    first, second = (BayesianHierarchy("bernoulli").fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.children_, second.children_)
    np.testing.assert_array_equal(first.family_.a, second.family_.a)


# ---- one cluster -----------------------------------------------------------------------------------------------------


def test_one_cluster_of_embeddings_is_told_with_the_line_that_helps():
    X, labels = directions()
    with pytest.warns(DataWarning, match="all 200 rows are one cluster") as told:
        assert BayesianHierarchy("gaussian_diag").fit(X).n_clusters_ == 1
    message = str(told[0].message)
    line = "BayesianHierarchy('gaussian_diag', learn_hyper=True)"
    assert line in message
    assert "BayesianHierarchy('gaussian_diag', n_components=5)" in message
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the edge of a grid
        found = eval(line).fit(X)
    assert adjusted_rand_score(labels, found.labels_) > 0.9


@pytest.mark.filterwarnings("error")
def test_one_cluster_is_not_always_worth_a_word():
    rng = np.random.default_rng(0)
    assert BayesianHierarchy("gaussian_diag").fit(rng.normal(size=(100, 2))).n_clusters_ == 1
    assert BayesianHierarchy("gaussian_diag", 1).fit(rng.normal(size=(60, 40))).n_clusters_ == 1
    X, _ = directions(noise=0.1)
    assert BayesianHierarchy("gaussian_diag").fit(X).n_clusters_ > 1


def test_a_chosen_prior_that_finds_one_cluster_is_not_advised_again():
    X = np.random.default_rng(0).normal(size=(80, 20))
    with pytest.warns(DataWarning) as told:
        hierarchy = BayesianHierarchy("gaussian_diag", learn_hyper=True).fit(X)
    said = [str(each.message) for each in told if "one cluster" in str(each.message)]
    assert hierarchy.n_clusters_ > 1 or (len(said) == 1 and "by evidence" not in said[0])


def test_a_kernel_by_itself_makes_one_tree():
    data = Dataset(np.random.default_rng(0).integers(0, 3, (30, 3)), Categorical())
    model = MixtureModel(data.family, DirichletProcess())
    assert HierarchicalClustering().init(model, data).order == "odds_size"
    real = Dataset(np.random.default_rng(0).normal(size=(30, 3)), DiagonalGaussian())
    assert HierarchicalClustering().init(MixtureModel(real.family, DirichletProcess()), real).order == "odds"
