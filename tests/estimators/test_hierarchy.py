"""`BayesianHierarchy`: predictions against plain sums over nodes, linkages of others, the conventions of estimators."""

import json
import math

import matplotlib as mpl
import numpy as np
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

mpl.use("Agg")
from matplotlib import pyplot as plt

from expfam import (
    BayesianHierarchy,
    Categorical,
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    Mixture,
    MixtureModel,
    Multinomial,
    Poisson,
    SphericalGaussian,
)
from expfam.cli import main
from expfam.displays.dendrogram import DendrogramDisplay
from expfam.errors import ArchiveError, CapabilityError, ResourceError
from expfam.estimators.leaves import has_cluster_leaves
from expfam.samplers import HierarchicalClustering
from expfam.samplers.hierarchy.tuning import tree_evidence, tuned_alpha, ward_state


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.filterwarnings("ignore:multinomial. .* rows are empty")
@parametrize_with_checks(
    [BayesianHierarchy(), BayesianHierarchy("gaussian_spherical", sampler=HierarchicalClustering(order="best"))],
    expected_failed_checks=lambda tree: {
        "check_estimator_sparse_array": "the check takes whatever has predict_proba for a classifier",
        "check_estimator_sparse_matrix": "the check takes whatever has predict_proba for a classifier",
        **({} if tree.family == "auto" else {"check_estimators_nan_inf": "new rows may lack cells"}),
    },
)
def test_follows_the_conventions(estimator, check):
    check(estimator)


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) + 8 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def test_predictions_are_sums_over_nodes():
    X, _ = blobs()
    model = BayesianHierarchy("gaussian_spherical", alpha=0.5).fit(X)
    family, tree = model.family_, model.tree_
    new = blobs(7, seed=1)[0]
    posterior = tree.log_posterior()
    terms = []
    for node in range(tree.n_nodes):
        rows = tree.leaves(node)
        S = family.sufficient_statistics(X[rows]).sum(axis=0)[None]
        density = family.log_predictive(new, np.array([float(len(rows))]), S)[:, 0]
        terms.append(posterior[node] + math.log(len(rows)) + density)
    terms.append(math.log(0.5) + family.log_predictive(new, np.zeros(1), np.zeros((1, tree_width(family, X))))[:, 0])
    expected = logsumexp(terms, axis=0) - math.log(0.5 + len(X)) + family.log_base(new)
    np.testing.assert_allclose(model.score_samples(new), expected, rtol=1e-9)
    weights = np.exp(posterior) * tree.counts
    assert weights.sum() == pytest.approx(len(X), rel=1e-9)  # the weights of the predictive add up to one


def tree_width(family, X):
    return family.sufficient_statistics(X[:1]).shape[1]


def test_predict_finds_the_clusters_of_the_cut():
    X, y = blobs()
    for cut in ("odds", "map"):
        model = BayesianHierarchy(cut=cut).fit(X)
        assert adjusted_rand_score(y, model.labels_) == 1.0
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert BayesianHierarchy(n_components=5).fit(X).n_clusters_ == 5


def test_sparse_counts_and_a_hierarchy_over_a_mixtures_clusters():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(np.repeat([[4.0, 0.1] * 5, [0.1, 4.0] * 5], 20, axis=0)))
    model = BayesianHierarchy(Multinomial(concentration=0.5)).fit(X)
    dense = BayesianHierarchy(Multinomial(concentration=0.5)).fit(X.toarray())
    np.testing.assert_array_equal(model.labels_, dense.labels_)
    np.testing.assert_allclose(model.score_samples(X), dense.score_samples(X.toarray()), rtol=1e-10)
    labels = Mixture("multinomial", 8, random_state=0, n_steps=5).fit(X).labels_
    over = BayesianHierarchy(Multinomial(concentration=0.5), start=labels).fit(X)
    assert over.tree_.n_leaves == len(set(labels))
    assert all(len(set(over.labels_[labels == k])) == 1 for k in set(labels))
    assert over.predict(X).shape == (40,)


def test_a_linkage_made_by_others_is_rescored():
    X, y = blobs()
    Z = linkage(X, "ward")
    model = BayesianHierarchy.from_linkage(Z, X, SphericalGaussian(), alpha=2.0)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    own = BayesianHierarchy(SphericalGaussian(), alpha=2.0).fit(X)
    again = BayesianHierarchy.from_linkage(own.linkage_matrix("rank"), X, SphericalGaussian(), alpha=2.0)
    np.testing.assert_allclose(again.log_odds_, own.log_odds_, rtol=1e-9, atol=1e-9)
    assert again.log_evidence_ == pytest.approx(own.log_evidence_, rel=1e-12)
    for bad, message in ((Z[:-1], "has 59 merges; got 58"), (np.zeros_like(Z), "be joined once")):
        with pytest.raises(ValueError, match=message):
            BayesianHierarchy.from_linkage(bad, X)


def overlapping(seed=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(300, 2)) + 2.0 * rng.normal(size=(20, 2))[rng.integers(20, size=300)]


def test_the_best_order_has_most_evidence():
    X = overlapping()
    models = {
        order: BayesianHierarchy(sampler=HierarchicalClustering(order=order)).fit(X)
        for order in ("odds", "odds_size", "best")
    }
    evidence = {order: model.log_evidence_ for order, model in models.items()}
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    evidence["ward"] = BayesianHierarchy.from_linkage(linkage(standard, "ward"), X).log_evidence_
    assert evidence["odds"] != evidence["odds_size"]
    rivals = {name: value for name, value in evidence.items() if name != "best"}
    assert evidence["best"] == pytest.approx(max(rivals.values()), rel=1e-12)
    assert models["best"].order_ == max(rivals, key=rivals.get)
    assert BayesianHierarchy(sampler=HierarchicalClustering(order="best", candidates="knn")).fit(X).order_ in (
        "odds",
        "odds_size",
    )


def test_wards_tree_wins_where_clusters_overlap():
    """Large clusters swallow their neighbours in the order of odds."""
    rng = np.random.default_rng(4)
    X = 3 * rng.normal(size=(20, 2))[rng.integers(20, size=800)] + rng.normal(size=(800, 2))
    model = BayesianHierarchy(sampler=HierarchicalClustering(order="best")).fit(X)
    assert model.order_ == "ward"
    assert (
        model.log_evidence_ > BayesianHierarchy(sampler=HierarchicalClustering(order="odds")).fit(X).log_evidence_ + 50
    )


@pytest.mark.parametrize("duplicates", ["exact", "collapse"])
def test_wards_tree_over_leaves_that_hold_several_data(duplicates):
    X, _ = blobs()
    X[5] = X[4]
    data = Dataset(X, SphericalGaussian())
    model = MixtureModel(data.family, DirichletProcess()).bind(data)
    is_collapsed = duplicates == "collapse"
    labels = np.arange(60) - (np.arange(60) > 4) if is_collapsed else np.arange(60) // 2
    state = ward_state(model, data, labels, collapse=is_collapsed)
    tree = state.tree()
    assert len(tree.roots) == 1
    assert tree.counts[: tree.n_leaves].tolist() == np.bincount(labels).tolist()
    Z = linkage(standardised(X), "ward") if is_collapsed else None
    if Z is not None:  # two equal points are the first merge of SciPy's tree, and a leaf of ours
        assert np.allclose(np.sort(tree.counts[tree.n_leaves :]), np.sort(Z[1:, 3]))
    sampler = HierarchicalClustering(order="best", duplicates=duplicates)
    start = "auto" if is_collapsed else labels
    best = BayesianHierarchy(SphericalGaussian(), sampler=sampler, start=start).fit(X)
    assert best.log_evidence_ >= state.log_joint - 1e-9


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_hyper_parameters_by_evidence():
    X, y = blobs(200)
    given = BayesianHierarchy("gaussian_spherical", alpha=50.0).fit(X)
    found = BayesianHierarchy("gaussian_spherical", alpha="auto", random_state=3).fit(X)
    assert found.log_evidence_ > given.log_evidence_
    assert found.alpha_ in np.geomspace(1e-3, 1e3, 13)
    tuned = BayesianHierarchy("gaussian_diag", learn_hyper={"mean_strength": [1e-3, 1e-2, 0.1, 1.0, 9.0, 90.0]}).fit(X)
    assert set(tuned.family_.mean_strength) < {1e-2, 0.1, 1.0, 9.0}
    assert adjusted_rand_score(y, tuned.labels_) > 0.95
    again = BayesianHierarchy("gaussian_spherical", alpha="auto", random_state=3).fit(X)
    assert again.log_evidence_ == found.log_evidence_


def test_alpha_is_chosen_by_the_evidence_of_a_subsample():
    X, _ = blobs(80)
    data = Dataset(X, SphericalGaussian())
    alphas = [0.01, 0.3, 1.0, 30.0]
    evidence = [tree_evidence(data, alpha) for alpha in alphas]
    assert tuned_alpha(data, alphas=alphas) == alphas[int(np.argmax(evidence))]
    published = BayesianHierarchy(SphericalGaussian(), sampler=HierarchicalClustering(order="odds"))
    assert evidence[2] == pytest.approx(published.fit(X).log_evidence_)
    assert tuned_alpha(data, subsample=20, seed=1) == tuned_alpha(data, subsample=20, seed=1)


def test_neighbours_and_threads_change_little_and_nothing():
    X, y = blobs(150)
    exact = BayesianHierarchy().fit(X)
    threads = BayesianHierarchy(n_threads=3).fit(X)
    np.testing.assert_array_equal(exact.children_, threads.children_)
    near = BayesianHierarchy(sampler=HierarchicalClustering(candidates="knn", n_neighbors=8), n_threads=2).fit(X)
    assert adjusted_rand_score(y, near.labels_) == 1.0
    assert near.n_scores_ < 0.75 * len(X) ** 2  # half of what two orders have


def test_interrupted_it_is_a_forest_of_use():
    X, _ = blobs(600)

    def stop(info, state):
        if info.step == 1:
            raise KeyboardInterrupt

    model = BayesianHierarchy(sampler=HierarchicalClustering(order="best"), callbacks=[stop]).fit(X)
    assert model.interrupted_
    assert len(model.tree_.roots) == 600 - 256
    assert model.predict(X).shape == (600,)
    assert np.isfinite(model.score(X))
    assert model.to_newick().count(";") == 344


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_saved_and_read_back(name, tmp_path):
    X, _ = blobs()
    X = np.abs(X).round() if name == "poisson" else X
    model = BayesianHierarchy(name, alpha="auto", start=np.arange(60) // 2, n_components=4).fit(X)
    model.save(tmp_path / "tree")
    back = BayesianHierarchy.load(tmp_path / "tree")
    for attribute in ("children_", "log_odds_", "log_weight_", "counts_", "labels_", "leaf_"):
        np.testing.assert_array_equal(getattr(back, attribute), getattr(model, attribute))
    assert back.log_evidence_ == model.log_evidence_
    assert back.alpha_ == model.alpha_
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    assert back.get_params()["n_components"] == 4
    with pytest.raises(ArchiveError, match="kind 'hierarchy'; 'mixture' was asked for"):
        Mixture.load(tmp_path / "tree")


def test_a_dendrogram_shows_the_highest_merges():
    X, _ = blobs()
    model = BayesianHierarchy(sampler=HierarchicalClustering(order="odds")).fit(X)
    display = DendrogramDisplay.from_estimator(model, names=[f"row {i}" for i in range(60)])
    ax = display.plot(n_tips=12).ax_
    lines = ax.collections[0]
    assert len(lines.get_segments()) == 11
    top = sorted(model.log_odds_[-11:].clip(-9.2, 9.2))
    np.testing.assert_allclose(sorted(lines.get_array()), top)
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert sum(int(n[1:-1].replace(",", "")) if n[0] == "(" else 1 for n in names) == 60
    assert ax.get_xlabel() == "row, or (number of rows)"
    heights = [points[1][1] for points in lines.get_segments()]
    assert heights == sorted(heights)
    whole = display.plot(n_tips=100, height="rank").ax_
    assert len(whole.collections[0].get_segments()) == 59
    assert sorted(label.get_text() for label in whole.get_xticklabels()) == sorted(f"row {i}" for i in range(60))
    assert whole.get_xlabel() == "row"
    with pytest.raises(ValueError, match="2 names for 60 leaves"):
        DendrogramDisplay(model.tree_, names=["a", "b"])
    with pytest.raises(ValueError, match="height must be"):
        display.plot(height="odd")
    with pytest.raises(ValueError, match="n_tips must be a positive integer; got 0"):
        display.plot(n_tips=0)


def test_the_command(tmp_path, capsys):
    X, _ = blobs()
    np.savez(tmp_path / "rows.npz", X=X)
    paths = {name: tmp_path / f"{name}{end}" for name, end in FORMS.items()}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    data = str(tmp_path / "rows.npz")
    assert main(["tree", data, "--family", "gaussian_diag", "--order", "best", "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    model = BayesianHierarchy(sampler=HierarchicalClustering(order="best")).fit(X)
    assert result["log_evidence"] == model.log_evidence_
    assert result["n_clusters"] == model.n_clusters_ == 3
    np.testing.assert_array_equal(np.load(paths["linkage"]), model.linkage_matrix())
    assert paths["newick"].read_text() == model.to_newick() + "\n"
    assert paths["figure"].stat().st_size > 10_000
    np.testing.assert_array_equal(np.load(paths["labels"]), model.labels_)
    assert BayesianHierarchy.load(paths["output"]).log_evidence_ == model.log_evidence_
    assert main(["tree", data, "--family", "gaussian_diag", "--neighbors", "5", "-k", "2", "--alpha", "auto"]) == 0
    assert "2 clusters" in capsys.readouterr().out
    assert main(["tree", data, "--family", "gaussian_diag", "--newick", str(tmp_path / "tree.doc")]) == 2
    assert "must end in .nwk or .newick or .txt" in capsys.readouterr().err
    assert main(["tree", data, "--family", "gaussian_diag", "--alpha", "much"]) == 2
    assert "must be a positive number or auto; got 'much'" in capsys.readouterr().err


FORMS = {"output": "", "labels": ".npy", "linkage": ".npy", "newick": ".nwk", "figure": ".png"}


def test_forms_of_the_tree():
    X, _ = blobs(12)
    model = BayesianHierarchy(Gaussian()).fit(X)
    assert sorted(dendrogram(model.linkage_matrix(), no_plot=True)["leaves"]) == list(range(12))
    assert model.to_newick().endswith(";")
    mean = model.node_params(model.tree_.n_nodes - 1)["mean"][0]
    assert np.linalg.norm(mean - X.mean(axis=0)) < 1.0


def documents(n_rows, n_tokens, *, K=3, n_columns=30, seed=0):
    """Counts of K clusters with words of their own, and the clusters."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(n_columns, 0.05), size=K)
    y = rng.integers(K, size=n_rows)
    return sparse.csr_array(np.array([rng.multinomial(n_tokens, words[k]) for k in y])), y


def test_counts_are_merged_by_odds_less_sizes():
    X, _ = documents(40, 12)
    assert BayesianHierarchy("multinomial").fit(X).order_ == "odds_size"
    published = HierarchicalClustering(order="odds")
    assert BayesianHierarchy("gaussian_diag", sampler=published).fit(blobs()[0]).order_ == "odds"
    plain = BayesianHierarchy("multinomial", sampler=HierarchicalClustering(order="odds")).fit(X)
    assert plain.order_ == "odds"


@pytest.mark.parametrize(
    ("family", "shape", "value", "expected"),
    [
        ("multinomial", (1000, 3), 3, True),
        ("multinomial", (999, 3), 3, False),
        ("multinomial", (1000, 5), 2, False),
        ("poisson", (1000, 9), 1, True),
        ("gaussian_diag", (20_000, 1), 1, False),
        ("gaussian_diag", (20_001, 1), 1, True),
        ("multinomial", (20_001, 20), 1, True),
        ("categorical", (1000, 2), 1, False),
    ],
)
def test_leaves_are_chosen_by_sizes_alone(family, shape, value, expected):
    kinds = {"multinomial": Multinomial, "poisson": Poisson, "gaussian_diag": DiagonalGaussian}
    X = np.full(shape, value)
    if family not in ("multinomial", "poisson"):
        X[::2] = 0
    assert has_cluster_leaves(Dataset(X, kinds.get(family, Categorical)())) == expected


def test_few_words_make_leaves_of_a_mixtures_clusters():
    X, y = documents(1200, 8)
    settings = {"random_state": 3, "n_threads": 2}
    model = BayesianHierarchy("multinomial", **settings).fit(X)
    expected = Mixture("multinomial", **settings).fit(X).labels_
    np.testing.assert_array_equal(model.leaf_, expected)
    asked = BayesianHierarchy("multinomial", leaves="clusters", random_state=3).fit(X)
    np.testing.assert_array_equal(asked.children_, model.children_)
    assert asked.log_evidence_ == model.log_evidence_
    rows = BayesianHierarchy("multinomial", leaves="rows").fit(X)
    assert (rows.tree_.n_leaves, model.tree_.n_leaves) == (1200, expected.max() + 1)
    np.testing.assert_array_equal(rows.leaf_, np.arange(1200))
    assert adjusted_rand_score(y, model.labels_) > 0.9
    near = BayesianHierarchy("multinomial", sampler=HierarchicalClustering(candidates="knn")).fit(X)
    assert near.tree_.n_leaves == 1200  # candidates are rows
    given = BayesianHierarchy("multinomial", start=y).fit(X)
    assert given.tree_.n_leaves == 3  # labels that are given take precedence


@pytest.mark.parametrize("leaves", ["rows", "clusters"])
@pytest.mark.parametrize("name", ["multinomial", "gaussian_diag"])
def test_both_leaves_have_one_interface(name, leaves, tmp_path):
    X, y = documents(300, 20) if name == "multinomial" else blobs(300)
    model = BayesianHierarchy(name, 3, leaves=leaves, random_state=0).fit(X)
    L = model.tree_.n_leaves
    assert (L == 300) == (leaves == "rows")
    assert model.leaf_.shape == model.labels_.shape == model.predict(X).shape == (300,)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert adjusted_rand_score(model.labels_, model.predict(X)) > 0.95
    assert np.isfinite(model.score_samples(X)).all()
    assert model.linkage_matrix().shape == (L - 1, 4)
    assert model.to_newick().count(",") == L - 1
    assert model.counts_[model.tree_.roots].sum() == 300
    assert DendrogramDisplay.from_estimator(model).plot().ax_.get_title(loc="left").endswith("300 rows in 3 clusters")
    model.save(tmp_path / "tree")
    back = BayesianHierarchy.load(tmp_path / "tree")
    for attribute in ("children_", "log_odds_", "labels_", "leaf_"):
        np.testing.assert_array_equal(getattr(back, attribute), getattr(model, attribute))
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    assert back.get_params()["leaves"] == leaves


def test_clusters_as_leaves_have_the_settings_of_the_tree():
    X, _ = documents(200, 9)
    family = Multinomial(concentration=0.3)
    model = BayesianHierarchy(family, alpha=7.0, leaves="clusters", random_state=1).fit(X)
    mixture = Mixture(family, weights=DirichletProcess(7.0), random_state=1).fit(X)
    np.testing.assert_array_equal(model.leaf_, mixture.labels_)
    tuned = BayesianHierarchy("multinomial", learn_hyper=True, leaves="clusters", random_state=1).fit(X)
    mixture = Mixture(tuned.family_, random_state=1).fit(X)
    np.testing.assert_array_equal(tuned.leaf_, mixture.labels_)


def test_limits_hold_for_a_mixture_and_the_tree_over_it():
    X, _ = documents(400, 9)
    with pytest.raises(ResourceError, match=r"\(memory_limit\)"):
        BayesianHierarchy("multinomial", leaves="clusters", memory_limit="1kB").fit(X)
    with pytest.raises(ResourceError, match=r"\(time_limit\)"):
        BayesianHierarchy("multinomial", leaves="clusters", time_limit=1e-9).fit(X)
    free, limited = (
        BayesianHierarchy("multinomial", leaves="clusters", random_state=0, time_limit=limit).fit(X)
        for limit in (None, "1h")
    )
    np.testing.assert_array_equal(free.children_, limited.children_)


def test_a_stopped_mixture_leaves_a_forest_of_its_clusters(monkeypatch):
    X, y = documents(60, 9)
    monkeypatch.setattr("expfam.estimators.tree_run.fitted_leaves", lambda *args, **options: (y, True))
    for order in ("auto", "best"):
        sampler = HierarchicalClustering(order=order)
        model = BayesianHierarchy("multinomial", leaves="clusters", sampler=sampler).fit(X)
        assert model.interrupted_
        assert len(model.tree_.roots) == model.n_clusters_ == 3
        assert model.predict(X).shape == (60,)


def test_leaves_that_cannot_be_made():
    X, y = documents(60, 9)
    with pytest.raises(ValueError, match="leaves must be one of 'auto', 'rows', 'clusters'; got 'cells'"):
        BayesianHierarchy("multinomial", leaves="cells").fit(X)
    for leaves in ("rows", "clusters"):
        with pytest.raises(CapabilityError, match=f"labels of start does not use leaves='{leaves}': leave it out"):
            BayesianHierarchy("multinomial", start=y, leaves=leaves).fit(X)
    collapse = HierarchicalClustering(duplicates="collapse")
    with pytest.raises(CapabilityError, match=r"duplicates='collapse', .* does not use leaves='clusters'"):
        BayesianHierarchy("multinomial", sampler=collapse, leaves="clusters").fit(X)
    with pytest.raises(ValueError, match=r"starts from its data or from labels; got start='kmeans\+\+'"):
        BayesianHierarchy("multinomial", start="kmeans++", leaves="clusters").fit(X)
    message = r"n_components=40 is more than the \d+ leaves of the tree, which are {}: write .*, or .*leaves='rows'"
    with pytest.raises(ValueError, match=message.format("clusters of a mixture")):
        BayesianHierarchy("multinomial", 40, leaves="clusters", random_state=0).fit(X)
    with pytest.raises(ValueError, match=message.format("the labels of start")):
        BayesianHierarchy("multinomial", 40, start=y).fit(X)
    with pytest.raises(ValueError, match="the leaves of a linkage are the rows"):
        BayesianHierarchy.from_linkage(linkage(X.toarray(), "ward"), X, "multinomial", leaves="clusters")


def test_the_command_takes_clusters_as_leaves(tmp_path, capsys):
    X, _ = documents(300, 9)
    sparse.save_npz(tmp_path / "words.npz", sparse.csr_matrix(X))
    paths = {name: tmp_path / f"{name}{end}" for name, end in FORMS.items()}
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    data = ["tree", str(tmp_path / "words.npz"), "--family", "multinomial", "--seed", "2"]
    assert main([*data, "--leaves", "clusters", "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    model = BayesianHierarchy("multinomial", leaves="clusters", random_state=2).fit(X)
    assert (result["n_leaves"], result["order"]) == (model.tree_.n_leaves, "odds_size")
    assert result["log_evidence"] == model.log_evidence_
    np.testing.assert_array_equal(np.load(paths["linkage"]), model.linkage_matrix())
    assert paths["newick"].read_text() == model.to_newick() + "\n"
    np.testing.assert_array_equal(np.load(paths["labels"]), model.labels_)
    assert main(data) == 0
    assert "300 leaves" in capsys.readouterr().out


def test_bad_settings():
    X = np.arange(8)[:, None]
    with pytest.raises(ValueError, match="cut must be"):
        BayesianHierarchy(Poisson(), cut="best").fit(X)
    with pytest.raises(ValueError, match="n_components must be from 1 to the 8 data"):
        BayesianHierarchy(Poisson(), n_components=9).fit(X)
    with pytest.raises(ValueError, match="alpha must be a positive number or 'auto'; got 'much'"):
        BayesianHierarchy(Poisson(), alpha="much").fit(X)
    with pytest.raises(ValueError, match="alpha"):
        BayesianHierarchy(Poisson(), alpha=-1.0).fit(X)
