"""`TopicModel(sampler="documents")`: topics of documents on threads, their number given or not."""

import numpy as np
import pytest

from expfam import TopicModel
from expfam.errors import CapabilityError, DataError, ResourceError
from expfam.samplers import DocumentGibbs
from expfam.samplers.chain.callbacks import Checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")

QUICK = {"n_steps": 12, "n_warmup": 12}
LEARNED = ("components_", "alpha_", "eta_", "log_joint_", "labels_", "probabilities_")


def planted_documents(K, n_documents, n_words, seed):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), size=K)
    shares = rng.dirichlet(np.full(K, 2.0 / K), size=n_documents)
    return np.array([rng.multinomial(80, share @ topics) for share in shares]), topics


@pytest.fixture(scope="module")
def few():
    X, topics = planted_documents(5, 250, 60, 0)
    X[7] = 0
    return X, topics


def bits(model):
    found = [np.asarray(getattr(model, name)).tobytes() for name in LEARNED]
    return (*found, model.trace_.column("objective").tobytes())


@pytest.mark.parametrize("n_components", [4, None])
def test_threads_do_not_matter(few, n_components, monkeypatch):
    monkeypatch.setattr("expfam.samplers.topics.document_parts._BLOCK_TOKENS", 500)
    monkeypatch.setattr("expfam.samplers.topics.document_parts._BLOCK_CELLS", 200)
    settings = {"sampler": "documents", "random_state": 3, "eta": "auto", **QUICK}
    models = [TopicModel(n_components, n_threads=n, **settings).fit(few[0]) for n in (1, 2, 3)]
    assert len({bits(model) for model in models}) == 1
    own = DocumentGibbs(learn_eta=True, learn_every=10 if n_components else 1, n_threads=2)
    given = TopicModel(n_components, **settings | {"sampler": own, "eta": 0.01 if n_components else None})
    if n_components is not None:
        assert bits(given.fit(few[0])) == bits(models[0])
    assert models[0].method_ == "gibbs"
    other = TopicModel(n_components, **settings | {"random_state": 4}).fit(few[0])
    assert bits(other) != bits(models[0])


def test_20_topics_are_found():
    X, topics = planted_documents(20, 600, 400, 1)
    model = TopicModel(None, sampler="documents", n_threads=2, random_state=0).fit(X)
    assert (model.sizes_ > 0.001 * X.sum()).sum() == 20
    assert model.trace_.column("n_large")[-1] == 20
    distance = abs(topics[:, None] - model.params_["probability"][None, :20]).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(20))
    assert distance.min(axis=1).max() < 0.5
    assert 0.03 < model.eta_ < 0.07
    assert (np.diff(model.sizes_) <= 0).all()
    np.testing.assert_allclose(model.beta_.sum() + model.rest_, 1.0, rtol=1e-12)
    collapsed = TopicModel(None, n_warmup=60, n_steps=40, random_state=0).fit(X)
    assert model.score(X) == pytest.approx(collapsed.score(X), abs=0.02)


def test_a_given_number_of_topics_is_found(few):
    X, topics = few
    model = TopicModel(5, sampler="documents", random_state=0).fit(X)
    distance = abs(topics[:, None] - model.params_["probability"][None]).sum(axis=2)
    assert len(set(distance.argmin(axis=1))) == 5
    assert distance.min(axis=1).max() < 0.25
    assert model.score(X) == pytest.approx(TopicModel(5, random_state=0).fit(X).score(X), abs=0.02)
    seeded = TopicModel(5, sampler="documents", seeds={2: np.argsort(-topics[3])[:4].tolist()}, **QUICK).fit(X)
    assert abs(topics - seeded.params_["probability"][2]).sum(axis=1).argmin() == 3


def test_results_survive_a_file(few, tmp_path):
    X = few[0]
    for n_components in (4, None):
        model = TopicModel(n_components, sampler="documents", n_draws=5, random_state=0, **QUICK).fit(X)
        model.save(tmp_path / f"model-{n_components}")
        again = TopicModel.load(tmp_path / f"model-{n_components}")
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
        assert again.score(X) == model.score(X)
        assert again.sampler == "documents"
    np.testing.assert_allclose(model.transform(X, rest=True).sum(axis=1), 1.0)
    strange = np.zeros((1, 60), dtype=int)
    strange[0, X.sum(axis=0).argmin()] = 40
    assert model.transform(strange, rest=True)[0, -1] > model.transform(X[:1], rest=True)[0, -1]


def test_draws_are_of_counted_sweeps_and_change_nothing_else(few):
    X = few[0]
    settings = {"sampler": "documents", "random_state": 0, "n_warmup": 30, "n_steps": 30}
    for n_components in (12, None):
        drawn = TopicModel(n_components, n_draws=15, **settings).fit(X)
        means = TopicModel(n_components, n_draws=0, **settings).fit(X)
        np.testing.assert_array_equal(drawn.components_, means.components_)
        assert drawn.score(X) != means.score(X)
        assert drawn.score(X) == pytest.approx(means.score(X), abs=0.02)
        assert len(drawn._drawn[1]) == 15
        assert all(int(draw.counts.sum()) == X.sum() for draw in drawn._drawn[1])


class Until:
    """Callback that ends a run by an error, after some steps."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __call__(self, info, state):
        if info.step == self.n_steps:
            raise RuntimeError("ended")
        return False


@pytest.mark.parametrize("n_components", [4, None])
@pytest.mark.parametrize("last", [5, 17])
def test_a_fit_goes_on_bit_for_bit(few, n_components, last, tmp_path):
    settings = {"sampler": "documents", "random_state": 3, "n_draws": 4, **QUICK}
    whole = TopicModel(n_components, **settings).fit(few[0])
    kept = Checkpoint(tmp_path / "run", every_seconds=0)
    with pytest.raises(RuntimeError, match="ended"):
        TopicModel(n_components, callbacks=[Until(last)], **settings).fit(few[0], resume=kept)
    again = TopicModel(n_components, n_threads=2, **settings).fit(few[0], resume=tmp_path / "run")
    assert bits(again) == bits(whole)
    assert again.score(few[0]) == whole.score(few[0])


def test_settings_reach_the_sampler(few):
    X = few[0]
    held = TopicModel(None, sampler="documents", alpha=0.7, eta=0.05, random_state=0, **QUICK).fit(X)
    assert (held.concentration_, held.gamma_, held.eta_) == (pytest.approx(0.7), pytest.approx(1.0), 0.05)
    given = TopicModel(3, sampler="documents", alpha=[0.1, 0.2, 0.3], eta=0.05, random_state=0, **QUICK).fit(X)
    assert given.alpha_.tolist() == pytest.approx([0.1, 0.2, 0.3])
    own = TopicModel(None, sampler=DocumentGibbs(learn_alpha=False, learn_every=1), random_state=0, **QUICK).fit(X)
    assert (own.concentration_, own.eta_) == (pytest.approx(1.0), 0.01)
    for start in ("random", "variational", np.random.default_rng(0).integers(0, 9, X.sum())):
        model = TopicModel(None, sampler="documents", start=start, random_state=0, **QUICK).fit(X)
        assert model.trace_.column("n_clusters")[0] <= (9 if not isinstance(start, str) else 100)
    seen = []
    TopicModel(3, sampler="documents", callbacks=[lambda info, state: seen.append(info.step)], **QUICK).fit(X)
    assert seen == list(range(1, 25))
    timed = TopicModel(None, sampler="documents", time_limit="10min", random_state=0, **QUICK)
    assert len(timed.fit(X).trace_) == 24


def test_what_is_refused_has_a_line_to_type(few):
    X = few[0]
    documents = TopicModel(None, sampler="documents", **QUICK)
    with pytest.raises(CapabilityError, match=r"seeds .* needs a given number.*TopicModel\(.*sampler='gibbs'"):
        TopicModel(None, sampler="documents", seeds={0: [1, 2]}).fit(X)
    for model in (documents, TopicModel(3, sampler="documents"), TopicModel(3, sampler=DocumentGibbs())):
        with pytest.raises(CapabilityError, match=r"cannot use sample_weight.*TopicModel\(.*sampler='variational'"):
            model.fit(X, sample_weight=np.full(len(X), 0.5))
        with pytest.raises(DataError, match=r"whole counts"):
            model.fit(X + 0.5)
        with pytest.raises(AttributeError, match=r"write TopicModel\(.*sampler='variational'"):
            model.partial_fit(X)
    with pytest.raises(CapabilityError, match="learn_hyper=True"):
        TopicModel(None, sampler=DocumentGibbs(), learn_hyper=True).fit(X)
    wide = np.random.default_rng(0).poisson(0.05, (60, 3000))
    for n_components, n_topics in ((300, 300), (None, 188)):
        line = rf"3000 words and {n_topics} topics take most .* write TopicModel\({n_components}, sampler='gibbs'"
        with pytest.raises(ResourceError, match=line):
            TopicModel(n_components, sampler="documents", memory_limit="10MB").fit(wide)
    with pytest.raises(ResourceError, match="use fewer components or columns"):
        TopicModel(3, sampler="documents", memory_limit="100KB").fit(X)
    with pytest.raises(ResourceError, match="time"):
        TopicModel(None, sampler="documents", time_limit=1e-4).fit(X)
    with pytest.raises(DataError, match="have no words"):
        documents.fit(np.zeros((3, 4), dtype=int))
