"""Mixtures of parts add up to the mixture of the whole, to rounding; what does not add up is refused by name."""

import copy

import numpy as np
import pytest
from scipy import sparse

from expfam import (
    BayesianHierarchy,
    Dataset,
    DirichletProcess,
    Mixture,
    MixtureModel,
    PitmanYor,
    Poisson,
    SymmetricDirichlet,
    TopicModel,
    load_family,
    merge,
    variation_of_information,
)
from expfam.errors import CapabilityError
from expfam.plugins.laws.data_case import made_up_data
from expfam.samplers import SparseVariational, Stochastic, merged_clusters, merged_labels
from expfam.samplers.starts.separable import SeparableStatistics

pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
FAMILIES = ("multinomial", "categorical", "poisson", "gaussian", "gaussian_diag", "gaussian_spherical", "gaussian_zero")
FAMILIES += ("bernoulli", "exponential", "geometric", "negative_binomial", "von_mises_fisher")
OPEN = PitmanYor(alpha=1.0, discount=0.2)


def data_of(name, n_rows=60):
    family = load_family(name)
    X = made_up_data(family.support, 4, np.random.default_rng(0), n_rows=n_rows)
    return family.bind(X), X


def of_labels(family, X, labels, weights=OPEN):
    """The mixture whose partition these labels are."""
    settings = {"n_steps": 0, "n_warmup": 0, "partition": "last", "learn_hyper": False}
    return Mixture(family, weights=weights, start=labels, **settings).fit(X)


def by_label(mixture, labels):
    """Clusters of a mixture in the order of given labels."""
    return np.array([mixture.labels_[np.flatnonzero(labels == k)[0]] for k in np.unique(labels)])


def assert_same(a, b, X, order):
    np.testing.assert_allclose(a.n_, b.n_[order], rtol=1e-12)
    dense = [mixture.S_.toarray() if sparse.issparse(mixture.S_) else mixture.S_ for mixture in (a, b)]
    np.testing.assert_allclose(dense[0], dense[1][order], rtol=1e-12, atol=1e-12 * np.abs(dense[1]).max())
    np.testing.assert_allclose(a.weights_, b.weights_[order], rtol=1e-12)
    np.testing.assert_array_equal(a.cluster_sizes_, b.cluster_sizes_[order])
    assert a.log_joint_ == pytest.approx(b.log_joint_, rel=1e-12)
    assert a.log_weight_new_ == pytest.approx(b.log_weight_new_, rel=1e-12)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X)[:, order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a.score_samples(X), b.score_samples(X), rtol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_with_clusters_of_their_own_make_the_whole(name, tmp_path):
    family, X = data_of(name)
    part = np.arange(60) // 20
    labels = 3 * part + np.random.default_rng(1).integers(3, size=60)
    whole = of_labels(family, X, labels)
    merged = merge([of_labels(family, X[part == p], labels[part == p]) for p in range(3)])
    assert_same(merged, whole, X, whole.labels_[np.unique(merged.labels_, return_index=True)[1]])
    merged.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), merged.predict_proba(X))
    assert loaded.family_ == merged.family_ == family


def test_sparse_statistics_stay_sparse():
    family, X = data_of("multinomial")
    X = sparse.csr_array(X)
    merged = merge([of_labels(family, X[:30], np.arange(30) % 2), of_labels(family, X[30:], np.arange(30) % 3)])
    assert sparse.issparse(merged.S_)
    joined = merge([of_labels(family, X[:30], np.arange(30) % 2), merged], clusters="merged")
    assert sparse.issparse(joined.S_)
    np.testing.assert_allclose(joined.S_.sum(axis=0), X.sum(axis=0) + X[:30].sum(axis=0))


CHUNKS = [np.random.default_rng(seed).poisson([[1.0, 9.0], [30.0, 2.0], [9.0, 30.0]] * 30) for seed in range(4)]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_chunks_learned_apart_from_one_model_make_one_chunk(form, tmp_path):
    """Each chunk is visited once at the common model: responsibilities, hence statistics, are those of one visit."""
    chunks = [form(chunk) for chunk in CHUNKS]
    sampler = SparseVariational(n_active=2, dtype="float64")
    common = Mixture("poisson", 3, sampler=sampler, n_steps=5, random_state=0).fit(chunks[0])
    common.save(tmp_path / "common")
    parts = [Mixture.load(tmp_path / "common").partial_fit(chunk) for chunk in chunks[1:]]
    stack = sparse.vstack(chunks[1:]) if sparse.issparse(chunks[0]) else np.concatenate(chunks[1:])
    whole = Mixture.load(tmp_path / "common").partial_fit(stack)
    merged = merge(parts, common=common)
    np.testing.assert_allclose(merged.n_, whole.n_, rtol=1e-12)
    np.testing.assert_allclose(abs(merged.S_ - whole.S_).max(), 0.0, atol=1e-12 * whole.S_.max())
    assert merged.n_.sum() == pytest.approx(360.0, rel=1e-6)  # responsibilities are in single precision
    np.testing.assert_allclose(merged.predict_proba(stack), whole.predict_proba(stack), rtol=1e-9, atol=1e-12)
    assert np.isnan(merged.log_joint_)
    assert not hasattr(merged, "labels_")
    merged.save(tmp_path / "merged")
    loaded = Mixture.load(tmp_path / "merged")
    np.testing.assert_array_equal(loaded.n_, merged.n_)
    assert np.isnan(loaded.log_joint_)
    assert loaded.partial_fit(chunks[1]).n_.sum() == pytest.approx(450.0, rel=1e-6)


def test_clusters_of_the_same_kind_are_joined_by_evidence():
    X = np.random.default_rng(0).poisson(np.array([[1.0, 40.0], [40.0, 1.0], [10.0, 10.0]])[np.arange(90) % 3])
    family = load_family("poisson").bind(X)
    weights = DirichletProcess()
    parts = [Mixture(family, weights=weights, n_steps=10, random_state=0).fit(X[a : a + 30]) for a in (0, 30, 60)]
    merged, apart = merge(parts, clusters="merged"), merge(parts)
    assert merged.log_joint_ > apart.log_joint_
    assert merged.n_components_ == 3
    np.testing.assert_array_equal(merged.labels_, np.arange(90) % 3)
    model = MixtureModel(family, weights)
    assert merged.log_joint_ == pytest.approx(model.log_joint(X, merged.labels_), rel=1e-12)
    # of statistics alone as with the data at hand
    labels = merged_labels(model, Dataset(X, family), apart.labels_)
    assert variation_of_information(labels, merged.labels_) == pytest.approx(0.0, abs=1e-12)


def test_no_more_clusters_are_left_than_the_weights_allow():
    family, X = data_of("gaussian_diag")
    weights = SymmetricDirichlet(3)
    parts = [of_labels(family, X[a : a + 30], np.arange(30) % 3, weights) for a in (0, 30)]
    with pytest.raises(CapabilityError, match=r"6 clusters side by side are more than SymmetricDirichlet.*'merged'"):
        merge(parts)
    merged = merge(parts, clusters="merged")
    assert merged.n_components_ <= 3
    assert merged.cluster_sizes_.sum() == 60
    labels = of_labels(family, X, merged.labels_, weights)
    assert_same(merged, labels, X, np.arange(merged.n_components_))


def test_merged_clusters_number_by_appearance_and_block_their_work(monkeypatch):
    model = MixtureModel(Poisson(1.0, 1.0).bind([[0]]), DirichletProcess())
    n, S = np.full(7, 5.0), np.array([[400.0], [3.0], [90.0], [4.0], [410.0], [2.0], [88.0]])
    expected = [0, 1, 2, 1, 0, 1, 2]
    assert merged_clusters(model, n, S).tolist() == expected
    monkeypatch.setattr("expfam.samplers.starts.greedy_merge._BLOCK_BYTES", 16)
    assert merged_clusters(model, n, sparse.csr_array(S)).tolist() == expected
    assert merged_clusters(model, n, S, n_clusters=2).tolist() == [0, 1, 1, 1, 0, 1, 1]
    assert merged_clusters(model, n[:1], S[:1]).tolist() == [0]
    soft = MixtureModel(model.family, PitmanYor(alpha=1.0, discount=0.7))
    with pytest.raises(CapabilityError, match=r"of 0\.6 data is less than one under PitmanYor"):
        merged_clusters(soft, np.array([0.6, 3.0]), S[:2])


def test_equal_clusters_cost_no_more_evidences_than_others(monkeypatch):
    """About one for each pair of clusters that ever exist: (B - 1)**2."""
    n_pairs, log_merged = 0, SeparableStatistics.log_merged

    def counted(self, k, slots):
        nonlocal n_pairs
        n_pairs += len(slots)
        return log_merged(self, k, slots)

    monkeypatch.setattr(SeparableStatistics, "log_merged", counted)
    model = MixtureModel(Poisson(1.0, 1.0).bind([[0]]), DirichletProcess())
    B = 150
    assert not merged_clusters(model, np.ones(B), np.full((B, 1), 3.0), n_clusters=1).any()
    assert (B - 1) ** 2 <= n_pairs <= 1.1 * (B - 1) ** 2


def other_families():
    family, X = data_of("poisson")
    gauss, Y = data_of("gaussian_diag")
    fit = of_labels(family, X, np.arange(60) % 2)
    learned = family.with_hyper(rate=2.0 * family.rate)
    centred = load_family("gaussian_diag", mean=0.0, mean_strength=1.0, rate=1.0)
    yield "family", [fit, of_labels(gauss, Y, np.arange(60) % 2)], "another family .'gaussian_diag', not 'poisson'."
    yield (
        "hyper",
        [fit, of_labels(learned, X, np.arange(60) % 2)],
        r"family \(rate\) .*Mixture\(models\[0\]\.family_, weights=models",
    )
    yield (
        "auto",
        [of_labels(load_family("poisson"), part, np.arange(30) % 2) for part in (X[:30], X[30:])],
        r"\(shape\)",
    )
    yield (
        "centre",
        [of_labels(centred, part, np.arange(30) % 2) for part in (Y[:30], Y[30:])],
        r"other hyper-parameters of its family \(center_",
    )
    yield "width", [fit, of_labels(load_family("poisson"), X[:, :3], np.arange(60) % 2)], "features .3, not 4."
    yield "weights", [fit, of_labels(family, X, np.arange(60) % 2, DirichletProcess())], "another prior on weights"


@pytest.mark.parametrize(("models", "said"), [pytest.param(*case[1:], id=case[0]) for case in other_families()])
def test_models_that_do_not_add_up_are_refused_with_what_differs(models, said):
    with pytest.raises(CapabilityError, match=f"model 1 has .*{said}"):
        merge(models)


def parts_of(form):
    """Rows and settings of two default fits of one kind of data."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(40, 2)), rng.normal(6.0, 1.0, size=(40, 2))][rng.permutation(80)]
    if form == "counts":
        return [np.abs(X[:40]).round(), np.abs(X[40:]).round()], {"family": "poisson", "n_components": 2}
    if form == "full":
        return [X[:40], X[40:]], {"family": "gaussian", "n_components": 2}
    if form == "array":
        return [X[:40], X[40:]], {"n_components": 2}
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["u", "v"])
    if form == "table":
        table["kind"] = np.where(X[:, 0] > 3, "a", "b")
        table.loc[[3, 50], "u"] = np.nan
    return [table[:40], table[40:]], {"n_components": 2}


@pytest.mark.parametrize("form", ["counts", "full", "array", "frame", "table"])
def test_default_fits_are_refused_in_one_sentence_with_a_line_that_mends_it(form):
    rows, settings = parts_of(form)
    models = [Mixture(**settings, random_state=0).fit(part) for part in rows]
    with pytest.raises(CapabilityError) as found:
        merge(models)
    text = str(found.value)
    assert len(text) < 300
    assert text.startswith("model 1 has other hyper-parameters of its family (")
    line = text.partition("those of model 0: ")[2]
    known = {"Mixture": Mixture, "models": models, "rows_of_this_part": rows[1]}
    models[1] = eval(line, known)  # what the message says is what helps
    merged = merge(models, clusters="merged")
    assert merged.cluster_sizes_.sum() == 80


def test_a_part_that_differs_from_the_common_model_is_compared_with_it():
    family, X = data_of("poisson")
    common = of_labels(family, X, np.arange(60) % 2)
    parts = [common, of_labels(family.with_hyper(rate=9.0 * family.rate), X, np.arange(60) % 2)]
    with pytest.raises(CapabilityError, match=r"model 1 has .* \(rate\) than `common`.*Mixture\(common\.family_"):
        merge(parts, common=common)


def test_column_names_have_to_agree():
    pandas = pytest.importorskip("pandas")
    family, X = data_of("poisson")
    parts = [
        of_labels(family, pandas.DataFrame(X, columns=list(names)), np.zeros(60, int)) for names in ("abcd", "abdc")
    ]
    with pytest.raises(CapabilityError, match="other feature names"):
        merge(parts)
    assert merge([parts[0], parts[0]]).feature_names_in_.tolist() == list("abcd")


def test_other_kinds_of_models_are_refused():
    X = CHUNKS[0]
    fit = of_labels(load_family("poisson"), X, np.zeros(90, int))
    for other in (TopicModel(2, n_steps=2).fit(X), BayesianHierarchy("poisson").fit(X[:10]), fit.model_, None):
        with pytest.raises(TypeError, match=f"takes fitted Mixtures; got {type(other).__name__}"):
            merge([fit, other])
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        merge([fit, Mixture()])
    with pytest.raises(ValueError, match="at least one model"):
        merge([])
    with pytest.raises(ValueError, match="'apart' or 'merged'"):
        merge([fit], clusters="same")


def test_a_model_that_did_not_go_on_from_the_common_one_is_refused():
    sampler = SparseVariational(schedule=Stochastic(50))
    common = Mixture("poisson", 3, sampler="variational", n_steps=5, random_state=0).fit(CHUNKS[0])
    fresh = Mixture(common.family_, 3, sampler="variational", n_steps=5, random_state=0).fit(CHUNKS[1][:10])
    with pytest.raises(CapabilityError, match="model 0 did not go on from `common`"):
        merge([fresh], common=common)
    noisy = Mixture(common.family_, 3, sampler=sampler, n_steps=5, random_state=0).fit(CHUNKS[0])
    before = merge([noisy])
    noisy.partial_fit(CHUNKS[1] * 0 + [1, 9])
    with pytest.raises(CapabilityError, match="memoized schedule"):
        merge([noisy], common=before)


def greedy(model, n, S):
    """Merges by the log joint written out: the best pair of all as long as one gains."""
    home = np.arange(n.size)

    def log_joint(home):
        used, place = np.unique(home, return_inverse=True)
        counts = np.bincount(place, weights=n)
        sums = np.array([S[place == k].sum(axis=0) for k in range(used.size)])
        return model.weights.log_prior(counts) + model.family.total_log_marginal(counts, sums)

    while True:
        names = np.unique(home)
        joined = [np.where(home == b, a, home) for a in names for b in names if a < b]
        best = max(joined, key=log_joint, default=home)
        if log_joint(best) <= log_joint(home):
            return home
        home = best


@pytest.mark.parametrize("weights", [DirichletProcess(), PitmanYor(alpha=0.5, discount=0.7), SymmetricDirichlet(12)])
def test_merges_are_those_of_the_log_joint(weights):
    model, seen = MixtureModel(Poisson(1.0, 1.0).bind([[0]]), weights), set()
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n = rng.integers(1, 4, size=6).astype(np.float64)
        S = rng.poisson(n * rng.gamma(2.0, 2.0, size=6)).astype(np.float64)[:, None]
        expected = greedy(model, n, S)
        found = merged_clusters(model, n, S)
        assert variation_of_information(expected, found) == pytest.approx(0.0, abs=1e-12), seed
        seen.add(found.max() + 1)
    assert len(seen) >= 3


@pytest.mark.parametrize("common", [False, True], ids=["apart", "in common"])
def test_sizes_of_parts_with_weights_are_weights(common):
    X = np.random.default_rng(0).poisson([[2.0], [60.0]] * 30)

    def learned(weight):
        mixture = Mixture(Poisson(1.0, 0.1), 2, sampler="variational", random_state=0)
        return mixture.partial_fit(X, sample_weight=weight)

    shared = learned(None)
    parts = [learned(None), learned(np.full(60, 0.37))]
    if common:
        parts = [copy.deepcopy(shared).partial_fit(X, sample_weight=np.full(60, 0.37)) for _ in range(2)]
    merged = merge(parts, common=shared) if common else merge(parts, clusters="merged")
    assert merged.cluster_sizes_.dtype == np.float64
    np.testing.assert_allclose(merged.cluster_sizes_.sum(), 104.4 if common else 82.2, rtol=1e-4)
    assert np.isnan(merged.log_joint_)  # statistics are soft, although they are the sizes


# ---- classes ---------------------------------------------------------------------------------------------------------


def classed_parts(labels, names=("a", "b")):
    """Return mixtures of two halves of the same rows, with classes of some rows, and these rows."""
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(3), 40))
    X = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 9.0]])[group] + rng.normal(size=(120, 2))
    y = np.array([*names, None], dtype=object)[group]
    y[np.arange(120) % 3 > 0] = None
    first = Mixture("gaussian_diag", labels=labels, random_state=0).fit(X[::2], y[::2])
    return [first, Mixture(first.family_, labels=labels, random_state=0).fit(X[1::2], y[1::2])], X, y


@pytest.mark.parametrize("labels", ["clusters", "classes"])
@pytest.mark.parametrize("clusters", ["apart", "merged"])
def test_classes_of_the_parts_stay(labels, clusters):
    parts, X, y = classed_parts(labels)
    merged = merge(parts, clusters=clusters)
    assert merged.classes_.tolist() == ["a", "b"]
    assert merged.n_known_ == sum(part.n_known_ for part in parts) == (y != None).sum()  # noqa: E711  # elementwise
    halves = np.concatenate([y[::2], y[1::2]])
    known = np.flatnonzero(halves != None)  # noqa: E711
    of_row = merged.classes_[merged.cluster_classes_[merged.labels_[known]]]
    np.testing.assert_array_equal(of_row, halves[known])
    assert (merged.predict_class(X[y == "a"]) == "a").all()
    if labels == "clusters" and clusters == "merged":
        assert merged.cluster_classes_[:2].tolist() == [0, 1]
        assert (merged.cluster_classes_[2:] == -1).all()


def test_clusters_of_two_classes_stay_apart():
    rng = np.random.default_rng(0)
    X, quick = rng.normal(size=(40, 2)), {"start": "one", "n_steps": 2, "random_state": 0}
    # one group, in which the first part knows "a" and the second knows "b"
    first = Mixture("gaussian_diag", labels="classes", **quick).fit(X[:20], np.repeat(["a"], 20))
    other = Mixture(first.family_, labels="classes", **quick).fit(X[20:], np.repeat(["b"], 20))
    blind = [Mixture(first.family_, **quick).fit(rows) for rows in (X[:20], X[20:])]
    assert merge(blind, clusters="merged").n_components_ == 1
    merged = merge([first, other], clusters="merged")
    assert merged.classes_.tolist() == ["a", "b"]
    assert merged.cluster_classes_.tolist() == [0, 1]
    half_known = merge([first, blind[1]], clusters="merged")
    assert half_known.cluster_classes_.tolist() == [0]
    assert half_known.n_known_ == 20


def test_classes_of_two_types_are_refused():
    parts = [classed_parts("classes", names)[0] for names in (("a", "b"), (1, 2))]
    again = Mixture(parts[0][0].family_, labels="classes", random_state=0)
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(CapabilityError, match="text, such as 'a', and those of another are not, such as 1"):
        merge([parts[0][0], again.fit(X, np.arange(20) % 2 + 1)])
