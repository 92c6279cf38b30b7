"""`TopicModel(None)`: topics, their number and their weights, new documents, files, and what is refused."""

import numpy as np
import pytest
from sklearn.base import clone

from expfam import TopicModel, merge
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.estimators.unknown_numbers import MeansBySweeps, StillFalling
from expfam.samplers import (
    Cycle,
    TopicGibbs,
    TopicProcessGibbs,
    TopicProcessSplitMerge,
    TopicProcessVariational,
    TopicVariational,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

QUICK = {"n_steps": 20, "n_warmup": 40}


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=5)
    X = np.array([rng.multinomial(60, w @ topics) for w in rng.dirichlet(np.full(5, 0.2), size=300)])
    X[7] = 0
    return X, topics


@pytest.fixture(scope="module")
def fitted(planted):
    return TopicModel(None, random_state=0).fit(planted[0])


def test_planted_topics_are_found_and_hold_nearly_all_tokens(planted, fitted):
    X, topics = planted
    phi = fitted.params_["probability"]
    distance = abs(topics[:, None] - phi[None]).sum(axis=2)
    assert len(set(distance.argmin(axis=1))) == 5
    assert distance.min(axis=1).max() < 0.25
    large = fitted.sizes_ > 0.01 * X.sum()
    assert 5 <= large.sum() < 15
    assert fitted.sizes_.sum() > 0.95 * X.sum()
    assert (np.diff(fitted.sizes_) <= 0).all()
    assert 0.01 < fitted.eta_ < 0.2  # learned; the true one is .05


def test_weights_sum_to_one_and_say_what_is_left(planted, fitted):
    K = len(fitted.components_)
    np.testing.assert_allclose(fitted.beta_.sum() + fitted.rest_, 1.0, rtol=1e-12)
    np.testing.assert_allclose(fitted.alpha_, fitted.concentration_ * fitted.beta_, rtol=1e-12)
    assert 0 < fitted.rest_ < 1
    new = np.vstack([planted[0][:9], np.zeros((1, 60), dtype=int)])
    weights, whole = fitted.transform(new), fitted.transform(new, rest=True)
    assert weights.shape == (10, K)
    assert whole.shape == (10, K + 1)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(whole[:, :K] / whole[:, :K].sum(axis=1, keepdims=True), weights, rtol=1e-12)
    np.testing.assert_allclose(weights[[7, 9]], np.tile(fitted.beta_ / (1 - fitted.rest_), (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(whole[9, K], fitted.rest_, rtol=1e-6)
    assert fitted.transform(new, n_top=2).shape == (10, K)


def test_words_that_no_topic_has_are_of_the_rest(planted, fitted):
    strange = np.zeros((1, 60), dtype=int)
    strange[0, planted[0].sum(axis=0).argmin()] = 40
    usual = planted[0][:1]
    assert fitted.transform(strange, rest=True)[0, -1] > fitted.transform(usual, rest=True)[0, -1]


def test_scores_are_of_a_proper_law(planted, fitted):
    X = planted[0]
    assert fitted.score(X) > np.log(1 / 60)
    assert fitted.score(X) > TopicModel(1, random_state=0, **QUICK).fit(X).score(X) + 0.1
    assert np.isfinite(fitted.score_samples(X[:20])).all()
    assert fitted.score_samples(X[:20]).mean() < 0


def test_results_that_all_topic_models_have(planted, fitted):
    K = len(fitted.components_)
    assert fitted.top_words(3).shape == (K, 3)
    assert len(fitted.clusters_) == K
    assert len(fitted.get_feature_names_out()) == K
    assert fitted.method_ == "gibbs"
    low, high = fitted.trace_.n_clusters_interval(0.9)
    assert low <= K <= high + 1
    assert fitted.trace_.column("n_large")[-1] <= fitted.trace_.column("n_clusters")[-1]
    assert len(fitted.trace_) == fitted.n_iter_ <= 700
    assert fitted.n_iter_ > 180


def test_a_file_keeps_what_a_document_needs(planted, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = TopicModel.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(planted[0], rest=True), fitted.transform(planted[0], rest=True))
    assert again.score(planted[0]) == fitted.score(planted[0])
    for name in ("beta_", "sizes_", "rest_", "concentration_", "gamma_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    other = TopicModel(None, random_state=0, **QUICK).fit(planted[0])
    other.rest_ += 0.5
    other.save(tmp_path / "altered")
    with pytest.raises(ArchiveError, match="'beta_' and 'rest_' are no weights"):
        TopicModel.load(tmp_path / "altered")


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(planted):
    first, second = (TopicModel(None, random_state=3, n_threads=n, **QUICK).fit(planted[0]) for n in (1, 2))
    np.testing.assert_array_equal(first.components_, second.components_)
    other = TopicModel(None, random_state=4, **QUICK).fit(planted[0])
    assert other.components_.shape != first.components_.shape or (other.components_ != first.components_).any()


def test_seeds_name_the_first_topics_and_others_are_found_beside_them(planted, tmp_path):
    X, words = planted[0], planted[1]
    seeds = {k: np.argsort(-words[k])[:3].tolist() for k in (0, 1)}
    model = TopicModel(None, seeds=seeds, seed_tokens=20, random_state=0, **QUICK).fit(X)
    shares = model.params_["probability"]
    similar = shares @ words.T / np.linalg.norm(shares, axis=1)[:, None] / np.linalg.norm(words, axis=1)
    assert similar.argmax(axis=1)[:2].tolist() == [0, 1]
    large = model.sizes_ > 0.01 * X.sum()
    assert set(similar.argmax(axis=1)[large]) == set(range(len(words)))
    assert model.seeds_.shape == (X.shape[1], len(model.sizes_))
    assert model.seeds_.toarray()[:, 2:].sum() == 0
    np.testing.assert_allclose(model.cluster_sizes_, model.sizes_, atol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(TopicModel.load(tmp_path / "model").transform(X), model.transform(X))
    second = TopicModel(None, seeds={1: [0]}, random_state=0, **QUICK).fit(X).seeds_
    assert second.nonzero()[1].tolist() == [1]


def test_a_fit_with_a_given_number_leaves_nothing_behind(planted):
    model = TopicModel(None, random_state=0, **QUICK).fit(planted[0])
    model.set_params(n_components=4).fit(planted[0])
    assert not hasattr(model, "rest_")
    assert model.transform(planted[0]).shape == (300, 4)
    assert clone(model).eta is None


def test_settings_reach_the_sampler(planted):
    X = planted[0]
    held = TopicModel(None, alpha=0.7, eta=0.05, random_state=0, **QUICK).fit(X)
    assert (held.concentration_, held.gamma_, held.eta_) == (pytest.approx(0.7), pytest.approx(1.0), 0.05)
    kernel = TopicProcessGibbs(learn_alpha=False, learn_eta=True)
    own = TopicModel(None, sampler=kernel, random_state=0, **QUICK).fit(X)
    assert own.concentration_ == pytest.approx(1.0)
    assert own.eta_ != 0.01
    cycle = Cycle(TopicProcessSplitMerge(), kernel)
    assert TopicModel(None, sampler=cycle, random_state=0, **QUICK).fit(X).eta_ != 0.01
    given = TopicModel(None, start=np.zeros(X.sum(), dtype=int), random_state=0, n_steps=2, n_warmup=0).fit(X)
    assert given.sizes_[0] > 0.5 * X.sum()


def test_variational_inference_finds_the_planted_topics_and_their_number(planted, fitted):
    X, topics = planted
    model = TopicModel(None, sampler="variational", random_state=0).fit(X)
    assert len(model.components_) == len(topics)
    distance = abs(topics[:, None] - model.params_["probability"][None]).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(len(topics)))
    assert distance.min(axis=1).max() < 0.3
    assert (np.diff(model.sizes_) <= 0).all()
    np.testing.assert_allclose(model.sizes_.sum(), X.sum(), rtol=1e-4)
    np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0)
    np.testing.assert_allclose(model.transform(X, rest=True).sum(axis=1), 1.0)
    assert model.score(X) > fitted.score(X) - 0.05
    assert model.converged_
    assert model.method_ == "dense"


def test_variational_inference_takes_fractions_and_weights(planted):
    X = planted[0]
    halved = TopicModel(None, random_state=0, n_steps=8).fit(X / 2.0)
    assert halved.method_ == "dense"
    np.testing.assert_allclose(halved.sizes_.sum(), X.sum() / 2.0, rtol=1e-4)
    weighted = TopicModel(None, random_state=0, n_steps=8).fit(X, sample_weight=np.full(300, 2.0))
    np.testing.assert_allclose(weighted.sizes_.sum(), 2.0 * X.sum(), rtol=1e-4)
    assert weighted.n_documents_ == 600.0


def test_chunks_find_the_planted_topics(planted):
    X, topics = planted
    chunks = [X[i::3] for i in range(3)]
    model = TopicModel(None, n_steps=15, random_state=0).fit_chunks(chunks)
    assert 5 <= len(model.components_) <= 7
    phi = model.params_["probability"]
    assert abs(topics[:, None] - phi[None]).sum(axis=2).min(axis=1).max() < 0.25
    assert (np.diff(model.sizes_) <= 0).all()
    assert model.sizes_.sum() == pytest.approx(X.sum(), rel=1e-4)
    assert model.n_documents_ == 300.0  # one has no words
    np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.transform(X[:9]).sum(axis=1), 1.0, rtol=1e-12)
    bounds = model.trace_.column("objective")
    assert (np.diff(bounds) >= -1e-6 * abs(bounds[0])).all()
    given = model.set_params(n_components=5).fit_chunks(chunks)
    assert not hasattr(given, "rest_")
    assert given.transform(X[:2]).shape == (2, 5)


def test_chunks_go_on_from_a_file_to_the_bit(planted, tmp_path):
    X = planted[0]
    model = TopicModel(None, random_state=0)
    for name in "ab":
        model.partial_fit(X["ab".index(name) :: 2][:60], batch=name)
    model.save(tmp_path / "model")
    loaded = TopicModel.load(tmp_path / "model")
    assert np.array_equal(loaded.components_, model.components_)
    for one in (model, loaded):
        one.partial_fit(X[:60:2], sample_weight=np.full(30, 2.0)).partial_fit(X[::2][:60], batch="a")
    assert model.log_joint_ == loaded.log_joint_
    assert np.array_equal(loaded.components_, model.components_)
    model.set_params(sampler=TopicProcessVariational(learn_eta=True, n_births=1))
    with pytest.raises(CapabilityError, match="n_births changed"):
        model.partial_fit(X[:60])


def test_a_variational_fit_is_read_from_its_file(planted, tmp_path):
    model = TopicModel(None, sampler="variational", n_steps=6, random_state=0).fit(planted[0])
    model.save(tmp_path / "model")
    again = TopicModel.load(tmp_path / "model")
    assert np.array_equal(again.transform(planted[0], rest=True), model.transform(planted[0], rest=True))
    assert again.method_ == model.method_


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"alpha": [0.1, 0.2]}, ValueError, r"got 2 numbers: write TopicModel\(n_components=2"),
        ({"seeds": {-1: [1]}}, ValueError, r"seeds name the topic -1"),
        ({"seeds": ["goal"]}, ValueError, r"seeds must be a dict"),
        ({"sampler": TopicGibbs()}, CapabilityError, r"sampler=TopicGibbs needs.*TopicModel\(None, sampler='gibbs'\)"),
        ({"sampler": TopicVariational()}, CapabilityError, r"sampler=TopicVariational needs.*sampler='variational'\)"),
        ({"sampler": "variational", "seeds": {0: [1]}}, CapabilityError, r"takes no seeds: write.*sampler='gibbs'"),
        ({"sampler": "variational", "n_warmup": 3}, CapabilityError, "n_warmup=3"),
        ({"sampler": TopicProcessVariational(), "learn_hyper": True}, CapabilityError, "learn_hyper"),
        ({"eta": "best"}, ValueError, "eta must be 'auto'"),
        ({"learn_hyper": "often"}, ValueError, "learn_hyper must be"),
        ({"sampler": TopicProcessGibbs(), "learn_hyper": True}, CapabilityError, "learn_hyper"),
    ],
)
def test_settings_that_need_a_given_number_are_refused(planted, settings, error, words):
    with pytest.raises(error, match=words):
        TopicModel(None, **settings).fit(planted[0])


def test_data_and_methods_that_are_refused(planted, fitted):
    X = planted[0]
    line = r"write TopicModel\(None, sampler='variational'\)"
    with pytest.raises(CapabilityError, match=line + ".*repeat the rows"):
        TopicModel(None, sampler="gibbs").fit(X, sample_weight=np.full(300, 2.0))
    with pytest.raises(DataError, match="needs whole counts.*" + line):
        TopicModel(None, sampler="gibbs").fit(X + 0.5)
    with pytest.raises(DataError, match="no words"):
        TopicModel(None).fit(np.zeros((3, 4), dtype=int))
    with pytest.raises(AttributeError, match=r"Gibbs sampling needs all documents.*n_components=None, sampler='varia"):
        TopicModel(None, sampler="gibbs").partial_fit(X)
    with pytest.raises(CapabilityError, match=r"does not go on from a fit.*sampler='variational'.*fit_chunks\(\[X, X2"):
        clone(fitted).set_params(sampler="variational", n_steps=3).fit(X).partial_fit(X)
    with pytest.raises(CapabilityError, match="takes no seeds"):
        TopicModel(None, seeds={0: [1]}).partial_fit(X)
    with pytest.raises(DataError, match="first chunk has no words"):
        TopicModel(None).partial_fit(np.zeros((3, 4), dtype=int))
    with pytest.raises(CapabilityError, match=r"unknown number of topics.*write TopicModel\(n_components=\d, alpha"):
        merge([fitted, fitted])
    frames = clone(fitted).set_params(**QUICK).set_output(transform="pandas").fit(X)
    with pytest.raises(ValueError, match=r"write set_output\(transform='default'\)\.transform\(X, rest=True\)"):
        frames.transform(X, rest=True)
    assert frames.set_output(transform="default").transform(X, rest=True).shape[1] == len(frames.components_) + 1
    with pytest.raises(ValueError, match=r"or None for an unknown number of topics; got 0"):
        TopicModel(0).fit(X)
    given = TopicModel(2, random_state=0, **QUICK).fit(X)
    with pytest.raises(ValueError, match=r"rest=True\) needs a fit with an unknown number.*write transform\(X\)"):
        given.transform(X, rest=True)
    with pytest.raises(CapabilityError, match="HierarchicalProcess"):
        TopicModel(2, sampler=TopicProcessGibbs()).fit(X)


def test_the_warm_up_goes_on_while_the_number_falls():
    class Info:
        def __init__(self, n):
            self.extra = {"n_large": n}

    falling, still = StillFalling(), StillFalling()
    assert not any(falling(Info(500 - n), None) for n in range(400))
    ends = [still(Info(max(20, 60 - n)), None) for n in range(400)]
    assert ends.index(True) < 120


def test_means_are_of_the_clusters_that_were_there_in_half_of_the_sweeps():
    class Shared:
        capacity, n_known = 4, 0

        def __init__(self, labels, pseudocounts):
            self.pseudocounts = np.array(pseudocounts)
            self.names = np.where(np.bincount(labels, minlength=4) > 0, np.arange(4), -1)

    class State:
        class model:
            alpha, gamma = 2.0, 3.0

        def __init__(self, labels, pseudocounts):
            self.labels, self.shared = np.array(labels), Shared(labels, pseudocounts)

    means = MeansBySweeps(lambda state, slots: [np.bincount(state.labels, minlength=4)[slots] * 1.0])
    means.keep(State([0, 0, 0, 2, 2, 2, 3], [0.4, 0.0, 0.2, 0.7]))
    means.keep(State([2, 2, 0, 1, 1, 1, 1], [0.1, 0.9, 0.6, 0.0]))  # the first is divided, the last one has joined
    means.keep(State([2, 2, 2, 1, 1, 3, 3], [0.0, 0.3, 0.5, 0.2]))  # 3 has no more than half of any cluster
    (sizes,), pseudocounts, alpha, gamma = means.means(None)
    np.testing.assert_allclose(sizes, [(3 + 3 + 3) / 3, (3 + 4 + 2) / 3])
    np.testing.assert_allclose(pseudocounts, [(0.4 + 0.7 + 0.5) / 3, (0.2 + 0.9 + 0.3) / 3])
    assert (alpha, gamma) == (2.0, 3.0)
