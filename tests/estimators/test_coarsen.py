"""Fewer clusters from a fit: merges of its statistics, by number and by weight, with and without labels and data."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import dendrogram, fcluster, is_monotonic, is_valid_linkage
from scipy.special import gammaln
from sklearn.exceptions import NotFittedError

mpl.use("Agg")
from matplotlib import pyplot as plt

from expfam import DirichletProcess, Family, Mixture, MixtureModel, Multinomial, PitmanYor, merge
from expfam.displays import DendrogramDisplay
from expfam.errors import CapabilityError
from expfam.samplers import merged_clusters
from expfam.samplers.starts.greedy_merge import merge_sequence
from expfam.samplers.starts.separable import SeparableStatistics


class Counts(Family):
    """Poisson columns in NumPy, without compiled components and without parts by column."""

    support = "counts"

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return (gammaln(1.0 + S) - (1.0 + S) * np.log1p(n)[:, None]).sum(axis=1)


def documents(seed=0, n_rows=120, n_words=40):
    """Rows of counts of twelve topics in three groups, whose topics share most of their words."""
    rng = np.random.default_rng(seed)
    groups = rng.dirichlet(np.full(n_words, 0.1), 3)
    topics = np.array([0.75 * groups[k // 4] + 0.25 * rng.dirichlet(np.full(n_words, 0.1)) for k in range(12)])
    labels = rng.integers(0, 12, n_rows)
    return np.array([rng.multinomial(60, topics[k]) for k in labels]), labels


def of_labels(family, X, labels, **settings):
    """Return the mixture of a partition, as `fit` keeps it."""
    mixture = Mixture(family, n_steps=0, n_warmup=0, start=labels, partition="last", random_state=0, **settings)
    return mixture.fit(X)


def log_joint(mixture, home):
    """Return the log joint of unions of clusters, written out."""
    S = mixture.S_.toarray() if sparse.issparse(mixture.S_) else mixture.S_
    n = np.bincount(home, weights=mixture.n_)
    S = np.array([S[home == k].sum(axis=0) for k in range(n.size)])
    return mixture.model_.weights.log_prior(n) + mixture.family_.log_marginal(n, S).sum()


def greedy_cuts(mixture):
    """Return home of each cluster after each merge of the best pair of all, by the log joint written out."""
    home, cuts = np.arange(mixture.n_components_), []
    while True:
        cuts.append(np.unique(home, return_inverse=True)[1])
        names = np.unique(home)
        if names.size == 1:
            return cuts
        joined = [np.where(home == b, a, home) for a in names for b in names if a < b]
        home = max(joined, key=lambda other: log_joint(mixture, np.unique(other, return_inverse=True)[1]))


def assert_equal_models(a, b):
    np.testing.assert_array_equal(a.n_, b.n_)
    np.testing.assert_array_equal(a.cluster_sizes_, b.cluster_sizes_)
    dense = [S.toarray() if sparse.issparse(S) else S for S in (a.S_, b.S_)]
    np.testing.assert_array_equal(*dense)
    np.testing.assert_array_equal(a.weights_, b.weights_)


def same_partition(a, b):
    return len(set(zip(a, b))) == len(set(a)) == len(set(b))


FAMILIES = [Multinomial(concentration=0.1), "poisson", Counts(), "gaussian_diag"]


@pytest.mark.parametrize("family", FAMILIES, ids=["multinomial", "poisson", "numpy", "gaussian_diag"])
def test_merges_are_those_of_the_log_joint_written_out(family):
    X, labels = documents()
    mixture = of_labels(family, X.astype(float), labels)
    cuts, Z = greedy_cuts(mixture), mixture.coarsening_
    falls = log_joint(mixture, cuts[0]) - np.array([log_joint(mixture, home) for home in cuts[1:]])
    np.testing.assert_allclose(Z[:, 2], np.maximum.accumulate(np.maximum(falls, 0.0)), rtol=1e-7, atol=1e-6)
    assert Z[-1, 2] > 0
    # that of the rows as they are; counts as real values have the squares of their noise in the statistics
    of_rows = mixture.model_.log_joint(X.astype(float), mixture.labels_)
    assert family == "gaussian_diag" or of_rows == pytest.approx(log_joint(mixture, cuts[0]))
    for k, home in zip(range(12, 0, -1), cuts):
        coarse = mixture.coarsen(n_clusters=k)
        assert coarse.n_components_ == k
        assert same_partition(coarse.labels_, home[mixture.labels_])
        assert coarse.log_joint_ == pytest.approx(of_rows if k == 12 else log_joint(mixture, home))


def test_the_result_is_the_fit_of_the_mapped_labels():
    X, labels = documents()
    for rows in (X.astype(float), sparse.csr_array(X.astype(float))):
        mixture = of_labels(FAMILIES[0], rows, labels)
        for options in ({"n_clusters": 3}, {"robust": 0.1}):
            coarse = mixture.coarsen(**options)
            assert 1 < coarse.n_components_ < 12
            assert_equal_models(coarse, of_labels(mixture.family_, rows, coarse.labels_))
            np.testing.assert_array_equal(
                np.unique(coarse.labels_, return_index=True)[1].argsort(), range(len(coarse.n_))
            )
            np.testing.assert_array_equal(coarse.coarsen(1).n_, [120.0])
            assert coarse.family_ is mixture.family_
            assert coarse.n_features_in_ == 40
            assert np.isfinite(coarse.score(rows))
            assert not hasattr(coarse, "trace_")


def test_statistics_may_be_sparse_or_dense():
    X, labels = documents()
    dense, csr = (of_labels(FAMILIES[0], rows, labels) for rows in (X, sparse.csr_array(X)))
    assert sparse.issparse(csr.S_)
    assert not sparse.issparse(dense.S_)
    np.testing.assert_array_equal(dense.coarsening_, csr.coarsening_)
    assert sparse.issparse(csr.coarsen(n_clusters=3).S_)
    assert_equal_models(dense.coarsen(robust=0.1), csr.coarsen(robust=0.1))


def test_evidences_by_shared_columns_are_those_of_the_family():
    rng = np.random.default_rng(5)
    S = rng.gamma(0.3, 5.0, (9, 30)) * (rng.random((9, 30)) < 0.4)
    S[4], n = 0.0, rng.gamma(5.0, 2.0, 9)
    for name in ("multinomial", "poisson"):
        family = of_labels(name, np.rint(S) + 1, np.arange(9)).family_
        found = SeparableStatistics(family, n, sparse.csr_array(S))
        apart = np.arange(9)
        for k, other in ((2, 6), (4, 2), (0, 4), (0, 8)):
            now_n, now_S = n.copy(), S.copy()
            np.testing.assert_allclose(found.log_marginal(apart), family.log_marginal(now_n[apart], now_S[apart]))
            for one in apart:
                others = apart[apart != one]
                expected = family.log_marginal(now_n[one] + now_n[others], now_S[one] + now_S[others])
                np.testing.assert_allclose(found.log_merged(one, others), expected, rtol=1e-12)
                back = [found.log_merged(two, np.array([one]))[0] for two in others]
                np.testing.assert_array_equal(found.log_merged(one, others), back)
            found.absorb(k, other)
            n[k], S[k] = n[k] + n[other], S[k] + S[other]
            n[other], S[other] = 0.0, 0.0
            apart = apart[apart != other]


def test_cuts_are_nested():
    X, labels = documents(1)
    mixture = of_labels(FAMILIES[0], X, labels)
    finer = mixture.labels_
    for k in range(11, 0, -1):
        coarser = mixture.coarsen(n_clusters=k).labels_
        assert len(set(zip(finer, coarser))) == k + 1
        finer = coarser


def test_a_merged_model_does_not_change_under_full_weight():
    X, _ = documents(2)
    fit = Mixture(FAMILIES[0], random_state=0).fit(X)
    split = of_labels(fit.family_, X, 2 * fit.labels_ + np.arange(len(X)) % 2)
    merged = split.coarsen(robust=1)
    assert merged.n_components_ < split.n_components_
    assert merged.log_joint_ > split.log_joint_
    again = merged.coarsen(robust=1.0)
    assert_equal_models(again, merged)
    np.testing.assert_array_equal(again.labels_, merged.labels_)
    assert again.log_joint_ == merged.log_joint_
    assert split.coarsening_[0, 2] == 0.0  # merges that gain have no height


def test_less_weight_leaves_fewer_clusters_and_equals_merges_under_scaled_statistics():
    X, labels = documents()
    mixture = of_labels(FAMILIES[0], X, labels)
    numbers = []
    for robust in (1.0, 0.2, 0.1, 0.02):
        coarse = mixture.coarsen(robust=robust)
        home = merged_clusters(mixture.model_, robust * mixture.n_, robust * mixture.S_)
        np.testing.assert_array_equal(coarse.labels_, home[mixture.labels_])
        assert coarse.n_.sum() == 120
        numbers.append(coarse.n_components_)
    assert numbers[0] > 8
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] < 6


def test_the_linkage_is_one_of_scipy():
    X, labels = documents()
    mixture = of_labels(FAMILIES[0], X, labels)
    Z = mixture.coarsening_
    assert Z.shape == (11, 4)
    assert is_valid_linkage(Z)
    assert is_monotonic(Z)
    assert Z[-1, 3] == 12
    assert len(dendrogram(Z, no_plot=True)["leaves"]) == 12
    for k in (2, 3, 7):
        cut = fcluster(Z, Z[-k, 2], "distance")  # all merges up to this height
        assert same_partition(cut[mixture.labels_], mixture.coarsen(n_clusters=k).labels_) == (Z[-k, 2] < Z[1 - k, 2])
    assert mixture.coarsen(n_clusters=1).coarsening_.shape == (0, 4)


def test_one_run_serves_all_numbers_until_the_next_fit(monkeypatch):
    X, labels = documents()
    mixture = of_labels(FAMILIES[0], X, labels)
    runs = []
    monkeypatch.setattr(
        "expfam.coarsening.merges.merge_sequence", lambda *args: (runs.append(1), merge_sequence(*args))[1]
    )
    for k in (12, 5, 2):
        mixture.coarsen(n_clusters=k)
    assert mixture.coarsening_ is mixture.coarsening_
    assert len(runs) == 1
    former = mixture.coarsening_
    mixture.set_params(start=labels % 5).fit(X)
    assert mixture.coarsening_.shape == (4, 4)
    assert former.shape == (11, 4)
    assert len(runs) == 2


def test_a_loaded_model_gives_what_the_fit_gives(tmp_path):
    X, labels = documents()
    mixture = of_labels(FAMILIES[0], sparse.csr_array(X), labels)
    mixture.save(tmp_path / "bare")
    mixture.save(tmp_path / "labelled", labels=True)
    for name in ("bare", "labelled"):
        loaded = Mixture.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.coarsening_, mixture.coarsening_)
        for options in ({"n_clusters": 3}, {"robust": 0.1}):
            expected, found = mixture.coarsen(**options), loaded.coarsen(**options)
            assert_equal_models(found, expected)
            assert found.log_joint_ == expected.log_joint_
            if name == "labelled":
                np.testing.assert_array_equal(found.labels_, expected.labels_)
            else:
                with pytest.raises(AttributeError, match="does not hold labels_"):
                    _ = found.labels_
            found.save(tmp_path / "coarse", labels=name == "labelled")
            back = Mixture.load(tmp_path / "coarse")
            assert_equal_models(back, expected)
            np.testing.assert_array_equal(back.predict(X), expected.predict(X))
    given = Mixture.load(tmp_path / "bare").coarsen(n_clusters=3, X=X)
    np.testing.assert_array_equal(given.labels_, given.predict(X))


def test_chunks_merged_and_soft_models_can_be_coarsened():
    X, labels = documents()
    settings = {"sampler": "variational", "n_steps": 10, "random_state": 0, "start": "random"}
    stream = Mixture(Multinomial(concentration=0.1).bind(X), 12, **settings).fit_chunks([X[:60], X[60:]])
    coarse = stream.coarsen(n_clusters=2)
    assert coarse.n_components_ == 2
    np.testing.assert_allclose(coarse.n_.sum(), stream.n_.sum())
    assert np.isnan(coarse.log_joint_)
    assert not hasattr(coarse, "stream_")
    coarse.partial_fit(X[:30])
    np.testing.assert_allclose(coarse.n_.sum(), stream.n_.sum() + 30)
    learned = Mixture(Multinomial(concentration=0.1).bind(X), 12, **settings).partial_fit(X)
    before = learned.coarsening_
    learned.partial_fit(X[::2])
    assert learned.coarsening_ is not before
    assert learned.coarsening_.shape == (learned.n_components_ - 1, 4)

    family = Multinomial(concentration=0.1).bind(X)
    parts = [of_labels(family, X[rows], labels[rows]) for rows in (slice(0, 60), slice(60, 120))]
    apart = merge(parts)
    coarse = apart.coarsen(n_clusters=3)
    assert coarse.n_components_ == 3
    assert coarse.labels_.shape == (120,)
    assert_equal_models(coarse, of_labels(family, X, coarse.labels_))


def test_unfitting_arguments_are_refused_by_name():
    X, labels = documents()
    with pytest.raises(NotFittedError):
        Mixture().coarsen(n_clusters=2)
    with pytest.raises(NotFittedError):
        _ = Mixture().coarsening_
    mixture = of_labels(FAMILIES[0], X, labels)
    with pytest.raises(ValueError, match=r"robust and overlap; got n_clusters=3 and robust=0\.5: write"):
        mixture.coarsen(n_clusters=3, robust=0.5)
    for wrong in (0, 13, -1, 2.0, True, "3"):
        with pytest.raises(ValueError, match="n_clusters must be an integer from 1 to 12"):
            mixture.coarsen(n_clusters=wrong)
    for wrong in (0, -0.5, 1.01, np.nan, np.inf, True, "0.5"):
        with pytest.raises(ValueError, match="robust must be a number above 0 and at most 1"):
            mixture.coarsen(robust=wrong)


def test_clusters_below_the_discount_are_refused():
    X, _ = documents()
    labels = np.minimum(np.arange(120), 3)  # three clusters of one row
    mixture = of_labels(FAMILIES[0], X, labels, weights=PitmanYor(alpha=1.0, discount=0.7))
    assert mixture.coarsen(robust=0.75).n_components_ <= 4
    with pytest.raises(CapabilityError, match=r"a cluster of 0\.5 data is less than one under PitmanYor"):
        mixture.coarsen(robust=0.5)


def test_clusters_that_cannot_be_one_are_named():
    class Apart(Family):
        """Real rows of which all in one cluster are on one side of zero."""

        def sufficient_statistics(self, X):
            return np.column_stack([X < 0, X >= 0]).astype(float)

        def log_marginal(self, n, S):
            return np.where((S > 0).all(axis=1), -np.inf, 0.0)

    model = MixtureModel(Apart().bind([[0.0]]), DirichletProcess())
    S = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    with pytest.raises(CapabilityError, match="of 3 clusters 2 are left, and no two of them can be one"):
        merge_sequence(model, S.sum(axis=1), S)


def test_the_dendrogram_of_a_mixture_shows_its_merges():
    X, labels = documents()
    mixture = of_labels(FAMILIES[0], X, labels)
    display = DendrogramDisplay.from_estimator(mixture)
    ax = display.plot(n_tips=5).ax_
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose([points[1][1] for points in segments], mixture.coarsening_[-4:, 2])
    assert ax.get_title(loc="left") == "120 rows in 12 clusters"
    assert "log joint" in ax.get_ylabel()
    assert ax.get_xlabel() == "cluster, or (number of rows)"
    names = [label.get_text() for label in ax.get_xticklabels()]
    sizes = [int(name[1:-1]) if name[0] == "(" else mixture.cluster_sizes_[int(name)] for name in names]
    assert sorted(sizes) == sorted(mixture.coarsen(n_clusters=5).cluster_sizes_)
    assert len(display.plot(n_tips=50, height="rank").ax_.collections[0].get_segments()) == 11
    with pytest.raises(ValueError, match="height must be 'loss' or 'rank'; got 'odds'"):
        display.plot(height="odds")
    single = DendrogramDisplay.from_estimator(mixture.coarsen(n_clusters=1)).plot()
    assert single.ax_.get_title(loc="left") == "120 rows in 1 cluster"
    plt.close("all")


# ---- classes ---------------------------------------------------------------------------------------------------------


def with_classes(labels="classes"):
    """Return a mixture of five groups, of which two are of class "a", two of "b" and one of none, and its data."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(5), 30))
    centres = np.array([[0.0, 0.0], [30.0, 0.0], [3.5, 0.0], [30.0, 4.0], [15.0, 40.0]])  # a, a, b, b, none
    X = centres[group] + rng.normal(size=(150, 2))
    if labels == "clusters":
        group = np.where(group == 1, 0, np.where(group == 3, 2, group))
    y = np.array(["a", "a", "b", "b", None], dtype=object)[group]
    y[np.arange(150) % 3 > 0] = None
    return Mixture("gaussian_diag", labels=labels, random_state=0).fit(X, y), X, y


def test_clusters_of_two_classes_are_never_merged():
    mixture, X, y = with_classes()
    assert mixture.n_components_ == 5
    blind = Mixture("gaussian_diag", start=mixture.labels_, n_steps=0, n_warmup=0, partition="last").fit(X)
    blind = blind.coarsen(n_clusters=3).labels_
    assert any(len(set(y[(blind == k) & (y != None)])) == 2 for k in range(3))  # noqa: E711  # elementwise
    for options in ({"n_clusters": 3}, {"n_clusters": 2}, {"robust": 0.01}, {"n_clusters": 5}):
        coarse = mixture.coarsen(**options)
        assert coarse.classes_.tolist() == ["a", "b"]
        assert coarse.n_known_ == mixture.n_known_
        known = np.flatnonzero(y != None)  # noqa: E711
        np.testing.assert_array_equal(coarse.classes_[coarse.cluster_classes_[coarse.labels_[known]]], y[known])
        assert set(coarse.predict_class(X[known])) == {"a", "b"}


def test_the_linkage_joins_classes_last():
    mixture, _, _ = with_classes()
    Z = mixture.coarsening_
    assert is_valid_linkage(Z)
    assert is_monotonic(Z)
    two = mixture.coarsen(n_clusters=2)
    assert sorted(two.cluster_classes_) == [0, 1]
    with pytest.raises(ValueError, match=r"of 2 classes \('a', 'b'\), .*: write coarsen\(n_clusters=2\), or more"):
        mixture.coarsen(n_clusters=1)


@pytest.mark.filterwarnings("ignore:Mixture. two clusters explain:expfam.errors.DataWarning")
@pytest.mark.parametrize("trusts", [False, True])
def test_classes_stay_where_a_class_is_one_cluster_and_after_a_file(tmp_path, trusts):
    mixture, X, y = with_classes("clusters")
    mixture.save(tmp_path / "m")
    mixture = Mixture.load(tmp_path / "m") if trusts else mixture
    coarse = mixture.coarsen(n_clusters=2, X=X)
    assert coarse.cluster_classes_.tolist() == [0, 1]
    coarse.save(tmp_path / "c")
    loaded = Mixture.load(tmp_path / "c")
    np.testing.assert_array_equal(loaded.predict_class(X), coarse.predict_class(X))
    assert loaded.n_known_ == mixture.n_known_ == (y != None).sum()  # noqa: E711


def test_chunks_with_classes_are_coarsened_and_learned_on():
    rng = np.random.default_rng(1)
    group = np.arange(90) % 3
    X = np.array([[0.0], [9.0], [11.0]])[group] + rng.normal(size=(90, 1)) / 3
    y = np.where(group < 2, group, -1)
    mixture = Mixture("gaussian_diag", 3, labels="clusters", sampler="variational", random_state=0).partial_fit(X, y)
    coarse = mixture.coarsen(n_clusters=2)
    assert coarse.cluster_classes_.tolist() == [0, 1]
    assert not hasattr(coarse, "n_known_")
    coarse.partial_fit(X, y)
    assert coarse.classes_.tolist() == [0, 1]
    assert (coarse.predict_class(X)[y >= 0] == y[y >= 0]).all()


def test_groups_of_texts_read_texts():
    texts = ["red apple pie", "green apple tart", "apple pie crust", "stock market fall", "market shares rise"] * 6
    coarse = Mixture(random_state=0).fit(texts).coarsen(n_clusters=2)
    assert coarse.predict(["apple tart", "market fall"]).tolist() == [0, 1]
    assert coarse.vectorizer_.transform(["apple pie"]).sum() == 2
