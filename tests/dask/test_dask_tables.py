"""Tables with text, categories, dates and holes on a Dask cluster: the labels of any partitions, and of one machine."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from lost_workers import Killer, two_workers
from pyarrow import parquet

from expfam import Columns, MixtureModel, SymmetricDirichlet
from expfam import Mixture as LocalMixture
from expfam.dask import Mixture, TopicModel, columns_from_frame
from expfam.errors import DataError, DataTypeError, DataWarning
from expfam.families.columns.roles import Roles
from expfam.samplers import UncollapsedGibbs, sample

RNG = np.random.default_rng(2)
N = 900
KIND = RNG.integers(0, 3, N)
FRAME = pd.DataFrame(
    {
        "name": [f"person {i}" for i in range(N)],
        "job": np.where(RNG.random(N) < 0.1, None, np.array(["cook", "nurse", "none"], dtype=object)[KIND]),
        "age": np.where(RNG.random(N) < 0.2, np.nan, np.round(RNG.normal(30.0 + 15.0 * KIND, 4.0), 1)),
        "income": np.exp(RNG.normal(KIND, 0.4, N)),
        "visits": RNG.poisson(5.0 + 30.0 * KIND),
        "grade": pd.Categorical(RNG.choice(list("abc"), N), categories=list("cbad"), ordered=True),
        "born": pd.to_datetime("1960-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), "D"),
    }
)
FRAME.loc[N - 1, "job"] = "pilot"  # a level of the last row alone
SETTINGS = {"n_steps": 12, "start": "random", "random_state": 0}


def fitted(client, X, *, family="auto", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Mixture(family, 4, client=client, **SETTINGS).fit(X, **options)


def partitioned(n):
    return dd.from_pandas(FRAME, npartitions=n)


@pytest.fixture(scope="module")
def whole(client):
    model = fitted(client, partitioned(1))
    model.computed = model.labels_.compute()
    return model


@pytest.mark.parametrize("n", [2, 3, 7])
def test_partitions_do_not_matter(client, whole, n):
    found = fitted(client, partitioned(n))
    np.testing.assert_array_equal(found.labels_.compute(), whole.computed)
    assert found.S_.tobytes() == whole.S_.tobytes()
    assert found.model_.family.roles == whole.model_.family.roles


def test_roles_and_labels_are_those_of_one_machine(client, whole):
    with pytest.warns(DataWarning, match=r"'name' \(looks like an id: name='category' keeps it\), 'born' \(dates"):
        family = Columns.from_frame(FRAME)
    assert [*map(repr, whole.model_.family.roles)] == [*map(repr, family.roles)]
    with pytest.warns(DataWarning, match=r"'name' \(looks like an id: name='category' keeps it\), 'born' \(dates"):
        Mixture(n_components=4, client=client, n_steps=1).fit(partitioned(3))
    given = fitted(client, partitioned(3), family=family)
    np.testing.assert_array_equal(given.labels_.compute(), whole.computed)
    X, kernel = Roles(family.roles).encode(FRAME), UncollapsedGibbs(draw="dense")
    data = Mixture(family, 4, client=client, learn_hyper=False, **SETTINGS).fit(partitioned(2))
    state = kernel.init(MixtureModel(family.bind(X), SymmetricDirichlet(4, 1.0)), X, seed=0, start="random")
    best = -np.inf
    for _ in range(12):
        sample(kernel, state, 1)
        if state.n_steps > 6 and state.log_joint > best:
            best, labels = state.log_joint, state.labels.copy()
    np.testing.assert_array_equal(data.labels_.compute(), labels)


def test_parquet_and_frames_in_memory_give_the_labels_of_partitions(client, whole, tmp_path):
    table = pa.Table.from_pandas(FRAME.astype({"grade": str, "job": object}), preserve_index=False)
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=340)
    parquet.write_table(table.slice(0, 10), tmp_path / "a.parquet")
    parquet.write_table(table.slice(10), tmp_path / "b.parquet", row_group_size=500)
    text = FRAME.astype({"grade": str})
    expected = fitted(client, text).labels_.compute()
    for X in (tmp_path / "rows.parquet", [tmp_path / "a.parquet", tmp_path / "b.parquet"], table):
        np.testing.assert_array_equal(fitted(client, X).labels_.compute(), expected)
    np.testing.assert_array_equal(fitted(client, FRAME).labels_.compute(), whole.computed)
    columns = ["job", "age"]
    few = fitted(client, tmp_path / "rows.parquet", columns=columns)
    assert [role["column"] for role in few.model_.family.roles] == columns


def test_results_are_lazy_and_those_of_the_saved_model(whole, tmp_path):
    whole.to_local().save(tmp_path / "model")
    local = LocalMixture.load(tmp_path / "model")
    for method in ("predict", "predict_proba", "predict_log_proba", "score_samples"):
        lazy = getattr(whole, method)(partitioned(3))
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy.compute(), getattr(local, method)(FRAME), rtol=1e-9)
    score = whole.score(partitioned(3))
    assert isinstance(score, da.Array)
    assert float(score.compute()) == pytest.approx(local.score(FRAME), rel=1e-9)
    assert list(whole.to_local().sample(5)[0].columns) == ["job", "age", "income", "visits", "grade"]


def test_an_open_number_of_clusters_is_found(client, monkeypatch):
    monkeypatch.setattr("expfam.dask.mixture._SAMPLED_ROWS", 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = Mixture(n_steps=10, random_state=0, client=client).fit(partitioned(4))
    table = np.zeros((found.n_.size, 3))
    np.add.at(table, (found.labels_.compute(), KIND), 1)
    assert table.max(axis=1).sum() > 0.97 * N


def test_em_takes_weights_and_resumes_over_other_partitions(client, tmp_path):
    def fit(n, n_steps, **options):
        mixture = Mixture(n_components=4, sampler="em", client=client, **SETTINGS | {"n_steps": n_steps})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return mixture.fit(partitioned(n), sample_weight=1.0 + np.arange(N) % 3, **options)

    straight = fit(2, 5)
    fit(5, 2, checkpoint=tmp_path / "run")
    again = fit(3, 5, resume=tmp_path / "run")
    np.testing.assert_array_equal(again.labels_.compute(), straight.labels_.compute())
    assert again.S_.tobytes() == straight.S_.tobytes()


def test_a_killed_worker_changes_no_label(whole):
    with two_workers() as client, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = Mixture(n_components=4, client=client, callbacks=[Killer(client, 5)], **SETTINGS).fit(partitioned(3))
        assert found.n_lost_ > 0
        np.testing.assert_array_equal(found.labels_.compute(), whole.computed)


def test_roles_may_be_given(client):
    family = columns_from_frame(partitioned(3), client=client, name="drop", born="numeric", visits="count")
    whole = Columns.from_frame(FRAME, name="drop", born="numeric", visits="count")
    assert list(family.roles) == list(whole.roles)
    found = fitted(client, partitioned(2), family=family)
    assert found.n_features_in_ == 6


def test_what_is_refused_has_a_line_to_type(client):
    bad = FRAME.assign(income=FRAME["income"].where(FRAME.index != 700, np.inf))
    with pytest.raises(DataError, match=r"column 'income', row 700 holds inf: .*missing_values=\['inf'\]"):
        fitted(client, dd.from_pandas(bad, npartitions=3))
    with pytest.raises(DataTypeError, match=r"columns \['name', 'job', .*expfam\.dask\.Mixture\(\)\.fit\(X\)"):
        TopicModel(3, client=client).fit(partitioned(3))
    with pytest.raises(DataTypeError, match=r"write columns_from_frame\(dask\.dataframe\.from_dask_array\(X\)\)"):
        columns_from_frame(da.zeros((3, 2)), client=client)
    with pytest.raises(DataError, match=r"columns= is for Parquet files: write fit\(X\[columns\]\)"):
        fitted(client, partitioned(3), columns=["job"])
