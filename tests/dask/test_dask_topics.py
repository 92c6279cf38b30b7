"""Topics of documents on a Dask cluster: the same for any chunks, containers and workers, also if one is killed."""

import dask
import dask.array as da
import numpy as np
import pytest
from lost_workers import Killer, Until, two_workers
from scipy import sparse

from expfam import AdmixtureModel, Multinomial
from expfam import TopicModel as LocalTopicModel
from expfam.dask import TopicModel
from expfam.errors import ArchiveError, CapabilityError, DataError, ResourceError, SupportError
from expfam.samplers import sample
from expfam.samplers.topics.document_gibbs import DocumentGibbs

RNG = np.random.default_rng(3)
WORDS = RNG.dirichlet(np.full(15, 0.1), 4)
X = np.vstack([RNG.multinomial(25, p) for p in RNG.dirichlet(np.full(4, 0.1), 300) @ WORDS])
SETTINGS = {"n_steps": 8, "n_warmup": 4, "start": "random", "random_state": 0}


@pytest.fixture(scope="module")
def whole(client):
    model = TopicModel(4, client=client, **SETTINGS).fit(da.from_array(X, chunks=(300, 15)))
    model.computed = model.labels_.compute()  # a worker that is killed later takes them with it
    return model


def assert_same(found, whole):
    assert found.components_.tobytes() == whole.components_.tobytes()
    assert found.alpha_.tobytes() == whole.alpha_.tobytes()
    np.testing.assert_array_equal(found.labels_.compute(), whole.computed)


def test_collections_and_files_give_the_same_topics(client, whole, tmp_path):
    np.save(tmp_path / "a.npy", X[:120])
    np.save(tmp_path / "b.npy", X[120:])
    blocks = [dask.delayed(X[a:b]) for a, b in ((0, 3), (3, 190), (190, 300))]
    csr = da.from_array(X, chunks=(77, 15)).map_blocks(sparse.csr_array)
    for documents in (da.from_array(X, chunks=(43, 8)), csr, blocks, [tmp_path / "a.npy", tmp_path / "b.npy"], X):
        assert_same(TopicModel(4, client=client, **SETTINGS).fit(documents), whole)


def test_the_topics_are_those_of_one_machine(whole):
    kernel = DocumentGibbs()
    state = kernel.init(AdmixtureModel(Multinomial(0.01), 4), X, seed=0)
    sample(kernel, state, 12)
    assert whole.log_joint_ == state.log_joint
    assert whole.components_.sum() == pytest.approx(X.sum() + 0.01 * 60)


def test_a_killed_worker_changes_nothing(whole):
    with two_workers() as client:
        found = TopicModel(4, client=client, callbacks=[Killer(client, 6)], **SETTINGS).fit(
            da.from_array(X, chunks=(80, 15))
        )
        assert found.n_lost_ > 0
        assert_same(found, whole)


def test_a_start_from_some_documents_finds_the_topics(client, monkeypatch):
    monkeypatch.setattr("expfam.dask.topics._SAMPLED_DOCUMENTS", 120)
    found = TopicModel(4, n_steps=20, n_warmup=10, random_state=0, client=client).fit(da.from_array(X, chunks=(90, 15)))
    shares = found.components_ / found.components_.sum(axis=1, keepdims=True)
    distance = 0.5 * abs(shares[:, None] - WORDS).sum(axis=2)
    assert distance.min(axis=0).max() < 0.25
    assert found.to_local().eta_ > 0.015  # learned; topics that begin at random hold 0.01


def test_results_are_lazy_and_those_of_the_local_model(client, whole, tmp_path):
    rows = da.from_array(X, chunks=(100, 15))
    local = whole.to_local()
    for method in ("predict", "transform", "predict_proba", "predict_log_proba", "score_samples"):
        lazy = getattr(whole, method)(rows)
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy.compute(), getattr(local, method)(X), rtol=1e-6)
        np.testing.assert_array_equal(getattr(whole, method)(X), getattr(local, method)(X))
    lazy = whole.score(rows)
    assert isinstance(lazy, da.Array)
    assert float(lazy.compute()) == pytest.approx(local.score(X), rel=1e-9)  # the same words are left out
    assert whole.score(X) == local.score(X)
    with pytest.raises(DataError, match="at least two word types"):
        whole.score(da.from_array(np.eye(15, dtype=int), chunks=(5, 15))).compute()
    np.testing.assert_array_equal(whole.computed, local.predict(X))
    local.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(LocalTopicModel.load(tmp_path / "model.npz").components_, whole.components_)
    assert whole.labels_.dtype == np.int32


def test_what_is_refused_has_a_line_to_type(client, monkeypatch):
    model = TopicModel(4, client=client, **SETTINGS)
    with pytest.raises(CapabilityError, match=r"max_components=9 .* write TopicModel\(n_components=4, .*, or "):
        TopicModel(4, max_components=9, client=client, **SETTINGS).fit(X)
    with pytest.raises(ValueError, match="max_components must be"):
        TopicModel(None, max_components=1, client=client, **SETTINGS).fit(X)
    with pytest.raises(ValueError, match=r"max_components=2 is less than the 4 clusters .*max_components=16"):
        TopicModel(None, max_components=2, start=WORDS, client=client, n_steps=2).fit(X)
    with pytest.raises(ValueError, match=r"alpha is one number.*got 3 numbers"):
        TopicModel(None, alpha=[1.0, 2.0, 3.0], client=client, **SETTINGS).fit(X)
    with pytest.raises(CapabilityError, match=r"write fit\(X\)"):
        model.fit(X, sample_weight=np.ones(300))
    with pytest.raises(ValueError, match=r"start must be 'auto'.*write TopicModel\(n_components=4.*start='auto'"):
        TopicModel(4, start="kmeans++", client=client).fit(X)
    with pytest.raises(CapabilityError, match=r"write model\.fit\(X\) first"):
        TopicModel(4).to_local()
    bad = X.astype(float)
    bad[222, 3] = 0.5
    with pytest.raises((DataError, SupportError), match=r"row 222, column 3 holds 0\.5"):
        model.fit(da.from_array(bad, chunks=(100, 15)))
    monkeypatch.setattr("expfam.dask.topics.free_bytes", lambda client: 1500)
    with pytest.raises(ResourceError, match=r"15 words and 4 topics take .* write TopicModel\(n_components=2, "):
        model.fit(X)


def test_an_unknown_number_of_topics_is_found(client):
    model = TopicModel(None, client=client, random_state=0, n_steps=40, n_warmup=40)
    model.fit(da.from_array(X, chunks=(130, 15)))
    sizes = model.to_local().sizes_
    assert (sizes > 0.02 * X.sum()).sum() == 4
    assert (np.diff(sizes) <= 0).all()
    shares = model.components_[:4] / model.components_[:4].sum(axis=1, keepdims=True)
    distance = 0.5 * abs(shares[:, None] - WORDS).sum(axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2, 3]
    assert model.beta_.sum() + model.rest_ == pytest.approx(1.0)
    assert model.alpha_.sum() + model.concentration_ * model.rest_ == pytest.approx(model.concentration_)
    np.testing.assert_allclose(model.transform(X[:9]).sum(axis=1), 1.0)
    assert model.score(X[:50]) == model.to_local().score(X[:50])


def test_an_unknown_number_is_the_same_for_any_chunks_and_goes_on(client, tmp_path):
    settings = {**SETTINGS, "start": WORDS, "max_components": 12}
    whole = TopicModel(None, client=client, **settings).fit(X)
    whole.computed = whole.labels_.compute()
    assert_same(TopicModel(None, client=client, **settings).fit(da.from_array(X, chunks=(47, 15))), whole)
    begun = TopicModel(None, client=client, callbacks=[Until(6)], **settings)
    begun.fit(da.from_array(X, chunks=(110, 15)), checkpoint=tmp_path / "run", every_seconds=0)
    again = TopicModel(None, client=client, **settings | {"random_state": 9}).fit(X, resume=tmp_path / "run")
    assert_same(again, whole)
    assert (again.gamma_, again.concentration_) == (whole.gamma_, whole.concentration_)
    local = whole.to_local()
    local.save(tmp_path / "model.npz")
    loaded = LocalTopicModel.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(X[:5], rest=True), local.transform(X[:5], rest=True))
    given = TopicModel(4, client=client, **SETTINGS).fit(X)
    assert not hasattr(given, "beta_")


def test_a_run_goes_on_over_other_chunks_bit_for_bit(client, whole, tmp_path):
    for last, chunks in ((3, 41), (9, 170)):  # ended in the warm-up, and among the steps that count
        path = tmp_path / f"run-{last}"
        begun = TopicModel(4, client=client, callbacks=[Until(last)], **SETTINGS)
        begun.fit(da.from_array(X, chunks=(chunks, 15)), checkpoint=path, every_seconds=0)
        again = TopicModel(4, client=client, **SETTINGS | {"random_state": 9})
        again.fit(da.from_array(X, chunks=(77, 15)), resume=path)
        assert_same(again, whole)
        assert again.trace_.column("objective").tobytes() == whole.trace_.column("objective").tobytes()
    with pytest.raises(ArchiveError, match="holds a checkpoint of an earlier run"):
        TopicModel(4, client=client, **SETTINGS).fit(X, checkpoint=path)
    with pytest.raises(ArchiveError, match=r"write n_warmup=4"):
        TopicModel(4, client=client, **SETTINGS | {"n_warmup": 2}).fit(X, resume=path)
