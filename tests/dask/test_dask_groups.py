"""Rows in groups on a Dask cluster: the same for any chunks, containers and workers, also if one is killed."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pytest
from lost_workers import Killer, Until, kill, two_workers
from pyarrow import parquet
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from expfam import AdmixtureModel, Dataset, Poisson
from expfam import GroupedMixture as LocalGroupedMixture
from expfam.dask import GroupedMixture
from expfam.errors import ArchiveError, CapabilityError, DataError, ResourceError
from expfam.samplers import sample
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs

RNG = np.random.default_rng(3)
GROUPS = RNG.integers(0, 12, 600)  # on all parts
CENTRES = np.array([RNG.choice(3, p=p) for p in RNG.dirichlet([0.4] * 3, 12)[GROUPS]])
X = RNG.normal(size=(600, 2)) + 6.0 * CENTRES[:, None]
COUNTS = 1 + RNG.poisson(RNG.choice([0.2, 6.0], size=(600, 1)), size=(600, 4))
SETTINGS = {"n_steps": 8, "n_warmup": 4, "start": "random", "random_state": 0}


@pytest.fixture(scope="module")
def whole(client):
    model = GroupedMixture("gaussian_diag", 4, client=client, **SETTINGS)
    model.fit(da.from_array(X, chunks=(600, 2)), groups=GROUPS)
    model.computed = model.labels_.compute()
    return model


def assert_same(found, whole):
    for name in ("n_", "S_", "alpha_", "cluster_sizes_"):
        assert getattr(found, name).tobytes() == getattr(whole, name).tobytes()
    assert abs(found.group_counts_ - whole.group_counts_).nnz == 0
    np.testing.assert_array_equal(found.labels_.compute(), whole.computed)


def test_collections_and_files_give_the_same_draws(client, whole, tmp_path):
    np.save(tmp_path / "a.npy", X[:120])
    np.save(tmp_path / "b.npy", X[120:])
    table = pa.table({"u": X[:, 0], "clinic": GROUPS, "v": X[:, 1]})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=170)
    blocks = [dask.delayed(X[a:b]) for a, b in ((0, 3), (3, 390), (390, 600))]
    for rows, groups in (
        (da.from_array(X, chunks=(143, 1)), da.from_array(GROUPS, chunks=77)),
        (da.from_array(X, chunks=(90, 2)), GROUPS),
        (blocks, GROUPS.tolist()),
        ([tmp_path / "a.npy", tmp_path / "b.npy"], GROUPS),
        (tmp_path / "rows.parquet", "clinic"),
        (X, GROUPS),
        (dd.from_pandas(table.to_pandas(), npartitions=4), "clinic"),
        (dd.from_pandas(table.to_pandas(), npartitions=3)[["u", "v"]], da.from_array(GROUPS, chunks=77)),
    ):
        assert_same(GroupedMixture("gaussian_diag", 4, client=client, **SETTINGS).fit(rows, groups=groups), whole)


def test_the_draws_are_those_of_one_machine(client):
    found = GroupedMixture("poisson", 3, client=client, **SETTINGS)
    found.fit(da.from_array(COUNTS, chunks=(100, 4)).map_blocks(sparse.csr_array), groups=GROUPS)
    data = Dataset(sparse.csr_array(COUNTS), Poisson(), groups=GROUPS)
    kernel = GroupedUncollapsedGibbs()
    state = kernel.init(AdmixtureModel(data.family, 3, 1 / 3), data, seed=0)
    sample(kernel, state, 12)
    assert found.log_joint_ == state.log_joint
    assert found.alpha_.shape == (3,)


def test_names_of_groups_are_kept(client, whole, tmp_path):
    names = np.array([f"clinic {number:02d}" for number in range(12)])
    found = GroupedMixture("gaussian_diag", 4, client=client, **SETTINGS)
    found.fit(da.from_array(X, chunks=(200, 2)), groups=names[GROUPS])
    assert_same(found, whole)
    assert found.group_names_.tolist() == names.tolist()
    found.to_local().save(tmp_path / "model")
    assert LocalGroupedMixture.load(tmp_path / "model").group_names_.tolist() == names.tolist()


def test_a_killed_worker_changes_nothing(whole):
    with two_workers() as client:
        found = GroupedMixture("gaussian_diag", 4, client=client, callbacks=[Killer(client, 6)], **SETTINGS)
        found.fit(da.from_array(X, chunks=(80, 2)), groups=GROUPS)
        assert found.n_lost_ > 0
        assert_same(found, whole)
        kill(client)  # now one that holds labels of a finished fit
        np.testing.assert_array_equal(client.compute(found.labels_).result(timeout=60), whole.computed)


def test_a_start_from_some_rows_finds_the_clusters(client, monkeypatch):
    monkeypatch.setattr("expfam.dask.groups._SAMPLED_ROWS", 200)
    found = GroupedMixture("gaussian_diag", 3, n_steps=8, n_warmup=4, random_state=0, client=client)
    found.fit(da.from_array(X, chunks=(90, 2)), groups=GROUPS)
    labels, truth = found.labels_.compute(), CENTRES
    table = np.zeros((3, 3))
    np.add.at(table, (labels, truth), 1)
    assert table.max(axis=0).sum() > 0.97 * len(X)
    assert found.group_weights_.shape == (12, 3)


def test_results_are_lazy_and_those_of_the_local_model(whole, tmp_path):
    order = np.argsort(GROUPS, kind="stable")
    rows, groups = X[order], GROUPS[order]
    ends = np.flatnonzero(np.diff(groups)) + 1
    sizes = tuple(np.diff([0, ends[3], ends[7], 600]).tolist())
    lazy_rows, local = da.from_array(rows, chunks=(sizes, 2)), whole.to_local()
    local.save(tmp_path / "model")
    local = LocalGroupedMixture.load(tmp_path / "model")
    for method in ("predict", "predict_proba", "predict_log_proba", "score_samples", "transform"):
        lazy = getattr(whole, method)(lazy_rows, groups)
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy.compute(), getattr(local, method)(rows, groups=groups), rtol=1e-9)
        at_once = getattr(whole, method)(rows, groups)
        np.testing.assert_array_equal(at_once, getattr(local, method)(rows, groups=groups))
    score = whole.score(lazy_rows, groups=groups)
    assert isinstance(score, da.Array)
    assert float(score.compute()) == pytest.approx(local.score(rows, groups=groups), rel=1e-12)
    alone = np.arange(600)
    with pytest.raises(DataError, match=r"a score needs groups of at least two rows.*score_samples\(X, groups\)"):
        whole.score(lazy_rows, groups=alone).compute()
    with pytest.raises(DataError, match=r"group \d+ has rows in the blocks \d and \d.*predict\(X\.rechunk\(-1\)"):
        whole.predict(da.from_array(X, chunks=(100, 2)), GROUPS).compute()


def test_an_unknown_number_of_clusters_is_found(client):
    model = GroupedMixture("gaussian_diag", None, client=client, random_state=0, n_steps=20, n_warmup=20)
    model.fit(da.from_array(X, chunks=(170, 2)), groups=GROUPS)
    labels = model.labels_.compute()
    assert len(model.n_) == 3
    assert (np.diff(model.n_) <= 0).all()
    assert adjusted_rand_score(CENTRES, labels) > 0.97
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(labels, minlength=3))
    np.testing.assert_allclose(model.group_weights_.sum(axis=1), 1.0)
    assert model.beta_.sum() + model.rest_ == pytest.approx(1.0)
    np.testing.assert_allclose(model.transform(X[:90], groups=GROUPS[:90]).sum(axis=1), 1.0)


def test_an_unknown_number_is_the_same_for_any_chunks_and_goes_on(client, tmp_path):
    settings = {**SETTINGS, "start": CENTRES, "max_components": 8}
    whole = GroupedMixture("gaussian_diag", None, client=client, **settings).fit(X, groups=GROUPS)
    whole.computed = whole.labels_.compute()
    rows = da.from_array(X, chunks=(97, 2))
    assert_same(GroupedMixture("gaussian_diag", None, client=client, **settings).fit(rows, groups=GROUPS), whole)
    begun = GroupedMixture("gaussian_diag", None, client=client, callbacks=[Until(6)], **settings)
    begun.fit(rows, groups=GROUPS, checkpoint=tmp_path / "run", every_seconds=0)
    again = GroupedMixture("gaussian_diag", None, client=client, **settings | {"random_state": 9})
    assert_same(again.fit(X, groups=GROUPS, resume=tmp_path / "run"), whole)
    local = whole.to_local()
    local.save(tmp_path / "model")
    loaded = LocalGroupedMixture.load(tmp_path / "model")
    new = (X[:40], GROUPS[:40])
    np.testing.assert_array_equal(loaded.transform(*new, rest=True), local.transform(*new, rest=True))


def test_what_is_refused_has_a_line_to_type(client, monkeypatch, tmp_path):
    model = GroupedMixture("gaussian_diag", 4, client=client, **SETTINGS)
    with pytest.raises(CapabilityError, match=r"max_components=9 .* write GroupedMixture\(.*n_components=4, .*, or "):
        GroupedMixture("gaussian_diag", 4, max_components=9, client=client).fit(X, groups=GROUPS)
    with pytest.raises(ValueError, match=r"write fit\(X, groups=groups\)"):
        model.fit(X)
    with pytest.raises(CapabilityError, match=r"sampler='variational'"):
        model.fit(X, groups=GROUPS, sample_weight=np.ones(600))
    with pytest.raises(CapabilityError, match=r"write mixture\.fit\(X, groups=groups\) first"):
        GroupedMixture("gaussian_diag", 4).to_local()
    with pytest.raises(DataError, match=r"groups must have one number .*; got shape \(3,\).*write fit\(X, groups"):
        model.fit(X, groups=[0, 1, 2])
    with pytest.raises(DataError, match=r"groups='clinic' is the name of a column.*write fit\(X, groups=groups\)"):
        model.fit(da.from_array(X), groups="clinic")
    parquet.write_table(pa.table({"u": X[:, 0]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"has no column of this name; it has \['u'\]"):
        model.fit(tmp_path / "rows.parquet", groups="clinic")
    monkeypatch.setattr("expfam.dask.groups.check_workers", lambda forecast, free: None)
    monkeypatch.setattr("expfam.dask.groups.free_bytes", lambda client: 1500)
    with pytest.raises(ResourceError, match=r"12 groups and 4 clusters take .* write GroupedMixture\(.*n_components=2"):
        model.fit(X, groups=GROUPS)


def test_a_run_goes_on_over_other_chunks_bit_for_bit(client, whole, tmp_path):
    for last, chunks in ((3, 41), (9, 170)):  # ended in the warm-up, and among the steps that count
        path = tmp_path / f"run-{last}"
        begun = GroupedMixture("gaussian_diag", 4, client=client, callbacks=[Until(last)], **SETTINGS)
        begun.fit(da.from_array(X, chunks=(chunks, 2)), groups=GROUPS, checkpoint=path, every_seconds=0)
        again = GroupedMixture("gaussian_diag", 4, client=client, **SETTINGS | {"random_state": 9})
        again.fit(da.from_array(X, chunks=(77, 2)), groups=GROUPS, resume=path)
        assert_same(again, whole)
        assert again.trace_.column("objective").tobytes() == whole.trace_.column("objective").tobytes()
    with pytest.raises(ArchiveError, match="holds a checkpoint of an earlier run"):
        again.fit(X, groups=GROUPS, checkpoint=path)
    with pytest.raises(ArchiveError, match="is of n_clusters 4, the run of 5"):
        GroupedMixture("gaussian_diag", 5, client=client, **SETTINGS).fit(X, groups=GROUPS, resume=path)
