"""`labels_` is a series with the index of the rows where frames are asked for, an array everywhere else."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel, merge

N = 12
ROWS = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0, 2.0], [40.0, 3.0, 30.0]], N // 2, axis=0))
NAMES = [f"row {i}" for i in range(N)][::-1]
GROUPS = np.arange(N) % 3
KINDS = {
    "Mixture": Mixture("poisson", 2, random_state=0),
    "GroupedMixture": GroupedMixture("poisson", 2, n_steps=20, random_state=0),
    "TopicModel": TopicModel(2, n_steps=20, random_state=0),
    "BayesianHierarchy": BayesianHierarchy("poisson", 2, random_state=0),
}


def table(names=NAMES):
    return pd.DataFrame(ROWS, columns=["a", "b", "c"], index=names)


def fitted(name, X, **extra):
    model = clone(KINDS[name])
    return model.fit(X, groups=GROUPS) if name == "GroupedMixture" else model.fit(X, **extra)


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


def test_labels_are_an_array_unless_frames_are_asked_for(name):
    from_array, from_frame = fitted(name, ROWS).labels_, fitted(name, table()).labels_
    assert type(from_array) is type(from_frame) is np.ndarray
    assert from_array.dtype == from_frame.dtype == np.int32
    np.testing.assert_array_equal(from_array, from_frame)


def test_labels_have_the_index_of_a_frame_of_pandas(name):
    model = fitted(name, table())
    labels = model.labels_
    named = model.set_output(transform="pandas").labels_
    pd.testing.assert_series_equal(named, pd.Series(labels, index=NAMES, name="cluster"))
    pd.testing.assert_series_equal(named, model.assignments_["cluster"])
    assert model.set_output(transform="default").labels_ is labels


def test_scikit_learns_own_setting_says_it_too(name):
    model = fitted(name, table())
    with config_context(transform_output="pandas"):
        assert model.labels_.index.tolist() == NAMES
        again = fitted(name, table())
        assert again.labels_.index.tolist() == NAMES
    assert type(again.labels_) is np.ndarray
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_labels_are_a_series_of_polars_where_polars_is_asked_for(name):
    for X in (table(), pl.DataFrame(table().to_dict("list"))):
        model = fitted(name, X)
        labels = model.labels_
        found = model.set_output(transform="polars").labels_
        assert isinstance(found, pl.Series)
        assert (found.name, found.dtype) == ("cluster", pl.Int32)
        assert found.to_list() == labels.tolist()


def test_rows_without_names_are_numbered(name):
    for X in (ROWS, table(range(N)), pl.DataFrame(table().to_dict("list"))):
        labels = fitted(name, X).set_output(transform="pandas").labels_
        pd.testing.assert_index_equal(labels.index, pd.RangeIndex(N))


def test_an_index_of_several_levels_is_kept(name):
    index = pd.MultiIndex.from_arrays([list("xyz") * 4, range(N)], names=["where", "when"])
    labels = fitted(name, table(index)).set_output(transform="pandas").labels_
    pd.testing.assert_index_equal(labels.index, index)


def test_predictions_stay_arrays(name):
    model, X = clone(KINDS[name]).set_output(transform="pandas"), table()
    groups = {"groups": GROUPS} if name == "GroupedMixture" else {}
    found = model.fit_predict(X, **groups), model.predict(X, **groups)
    assert [type(labels) for labels in found] == [np.ndarray, np.ndarray]
    np.testing.assert_array_equal(found[0], model.labels_.to_numpy())


def test_a_clone_asks_for_what_the_model_asked_for(name):
    model = clone(KINDS[name]).set_output(transform="pandas")
    again = clone(model)
    again.fit(table(), **({"groups": GROUPS} if name == "GroupedMixture" else {}))
    assert again.labels_.index.tolist() == NAMES


def test_pickles_and_files_hold_the_labels(name, tmp_path):
    model = fitted(name, table()).set_output(transform="pandas")
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_series_equal(again.labels_, model.labels_)
    model.save(tmp_path / "model", labels=True)
    loaded = type(model).load(tmp_path / "model")
    assert type(loaded.labels_) is np.ndarray
    np.testing.assert_array_equal(loaded.labels_, model.labels_.to_numpy())
    series = loaded.set_output(transform="pandas").labels_
    pd.testing.assert_series_equal(series, loaded.assignments_["cluster"])
    assert series.index.tolist() == NAMES  # as text
    if name != "BayesianHierarchy":  # its file always has them
        model.save(tmp_path / "small")
        small = type(model).load(tmp_path / "small").set_output(transform="pandas")
        with pytest.raises(AttributeError, match=r"which does not hold labels_: write model\.save"):
            small.labels_  # noqa: B018
        with pytest.raises(AttributeError, match=r"which does not hold labels_: write model\.save"):
            small.save(tmp_path / "smaller", labels=True)


def test_a_model_that_is_not_fitted_has_no_labels(name):
    model = clone(KINDS[name]).set_output(transform="pandas")
    assert not hasattr(model, "labels_")
    assert "labels_" not in dir(model)
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
        model.labels_  # noqa: B018


def test_rows_of_weight_0_have_their_names():
    weight = np.where(np.arange(N) == 3, 0.0, 1.0)
    mixture = Mixture("poisson", 2, sampler="em", random_state=0).set_output(transform="pandas")
    assert mixture.fit(table(), sample_weight=weight).labels_.index.tolist() == NAMES


def test_labels_of_a_chunk_have_the_index_of_the_chunk():
    mixture = Mixture("poisson", 2, sampler="variational", random_state=0).set_output(transform="pandas")
    mixture.fit(table())
    for part in (table()[:8], table()[8:]):
        mixture.partial_fit(part)
        assert mixture.labels_.index.tolist() == part.index.tolist()
        assert mixture.assignments_.index.tolist() == part.index.tolist()
    mixture.partial_fit(table(range(N))[:5])
    pd.testing.assert_index_equal(mixture.labels_.index, pd.RangeIndex(5))
    mixture.fit_chunks([table()[:8], table()[8:]])
    assert not hasattr(mixture, "labels_")


def test_labels_of_a_chunk_of_groups_have_the_index_of_the_chunk():
    grouped = GroupedMixture("poisson", 2, sampler="variational", random_state=0).set_output(transform="pandas")
    for part in (table()[:6], table()[6:]):
        grouped.partial_fit(part, groups=np.arange(6) % 2)
        assert grouped.labels_.index.tolist() == part.index.tolist()


@pytest.mark.parametrize("name", ["Mixture", "GroupedMixture", "TopicModel"])  # a tree is cut instead
def test_clusters_that_are_merged_keep_the_series(name):
    model = fitted(name, table()).set_output(transform="pandas")
    coarse = model.coarsen(n_clusters=1)
    pd.testing.assert_series_equal(coarse.labels_, pd.Series(np.zeros(N, dtype=np.int32), NAMES, name="cluster"))


def test_pictures_and_the_kept_rows_read_arrays(name):
    model = fitted(name, table()).set_output(transform="pandas")
    assert type(model._labels) is np.ndarray
    kept = model._kept_rows()
    assert kept is None or type(kept[1]) is np.ndarray


def test_labels_of_merged_mixtures_have_the_names_of_all_parts():
    first = fitted("Mixture", table())
    later = [f"later {i}" for i in range(N)]
    second = Mixture(first.family_, 2, random_state=0).fit(table(later))
    merged = merge([first, second], clusters="merged").set_output(transform="pandas")
    assert merged.labels_.index.tolist() == merged.assignments_.index.tolist() == NAMES + later
    by_number = Mixture(first.family_, 2, random_state=0).fit(table(range(100, 100 + N)))
    merged = merge([first, by_number], clusters="merged")
    assert merged.assignments_.index.tolist() == [*NAMES, *range(100, 100 + N)]
    without = Mixture(first.family_, 2, random_state=0).fit(table(range(N)))
    levels = Mixture(first.family_, 2, random_state=0).fit(table(pd.MultiIndex.from_product([list("xyz"), range(4)])))
    for other in (without, levels):
        merged = merge([first, other], clusters="merged")
        assert merged.assignments_.index.tolist() == list(range(2 * N))
