"""Names of rows of a frame come back in every result that has rows, of all four estimators."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.estimators.row_results import RowIndex, rows_frame

pd = pytest.importorskip("pandas")
KINDS = [Mixture, GroupedMixture, TopicModel, BayesianHierarchy]
N = 40
INDEXES = {
    "text": pd.Index([f"r{row}" for row in range(N)], name="person"),
    "numbers": pd.Index(1000 + 7 * np.arange(N)),
    "times": pd.date_range("2020-01-01", periods=N, tz="Europe/Berlin", name="day"),
    "levels": pd.MultiIndex.from_product([["a", "b"], range(N // 2)], names=["ward", "bed"]),
}


def assert_index(found, expected):
    assert found.equals(expected)
    assert found.names == expected.names


def table(index=None):
    X = np.repeat([[9, 8, 1, 0], [0, 1, 7, 9]], N // 2, axis=0) + np.arange(N)[:, None] % 2
    return pd.DataFrame(X, columns=list("abcd"), index=index)


def fitted(kind, X):
    options = {} if kind is TopicModel else {"family": "multinomial"}
    about = {"groups": np.arange(len(X)) % 4} if kind is GroupedMixture else {}
    return kind(n_components=2, random_state=0, **options).fit(X, **about), about


@pytest.mark.parametrize("index", INDEXES.values(), ids=list(INDEXES))
@pytest.mark.parametrize("kind", KINDS)
def test_assignments_and_probabilities_have_the_index(kind, index):
    X = table(index)
    model, about = fitted(kind, X)
    found = model.assignments_
    assert_index(found.index, index)
    np.testing.assert_array_equal(found["cluster"], model.labels_)
    np.testing.assert_array_equal(found["probability"], model.probabilities_)
    assert X.join(found).shape == (N, 6)
    assert not X.join(found).isna().any(axis=None)
    assert len(model.row_names_) == N
    plain = model.predict_proba(X, **about)
    assert isinstance(plain, np.ndarray)
    back = {"groups": about["groups"][::-1]} if about else {}
    p = model.set_output(transform="pandas").predict_proba(X.iloc[::-1], **back)
    assert_index(p.index, index[::-1])
    assert list(p.columns) == [f"{kind.__name__.lower()}{k}" for k in range(2)]
    np.testing.assert_allclose(p.loc[index].to_numpy(), plain, rtol=1e-8, atol=1e-12)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        pd.testing.assert_frame_equal(again.assignments_, found)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_names_have_numbers(kind):
    model, _ = fitted(kind, table(INDEXES["text"]))
    model = clone(model)
    about = {"groups": np.arange(N) % 4} if kind is GroupedMixture else {}
    for X in (table(), table().to_numpy()):
        model.fit(table(INDEXES["text"]), **about).fit(X, **about)
        assert not hasattr(model, "row_names_")
        assert model.assignments_.index.tolist() == list(range(N))


def test_names_go_with_labels_through_merges_and_chunks():
    X = table(INDEXES["numbers"])
    mixture = Mixture("multinomial", 2, sampler="variational", random_state=0).fit(X)
    coarse = mixture.coarsen(n_clusters=1)
    assert coarse.assignments_.index.tolist() == X.index.tolist()
    assert coarse.assignments_["cluster"].tolist() == [0] * N
    of_rows = mixture.coarsen(n_clusters=1, X=X.iloc[:9])
    assert of_rows.assignments_.index.tolist() == X.index[:9].tolist()
    mixture.partial_fit(X.iloc[5:])
    assert mixture.assignments_.index.tolist() == X.index[5:].tolist()
    mixture.partial_fit(X.reset_index(drop=True))
    assert not hasattr(mixture, "row_names_")
    assert mixture.assignments_.index.tolist() == list(range(N))
    mixture.partial_fit(X).fit_chunks([X])
    assert not hasattr(mixture, "row_names_")


def test_a_hierarchy_of_a_file_has_the_names_as_text(tmp_path):
    model, _ = fitted(BayesianHierarchy, table(INDEXES["numbers"]))
    model.save(tmp_path / "tree")
    assert BayesianHierarchy.load(tmp_path / "tree").assignments_.index.tolist() == model.row_names_.tolist()


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_other_libraries_have_the_names_in_a_column(backend):
    pytest.importorskip(backend)
    values = [("a", 1), ("b", 2)]
    levels = np.empty(2, dtype=object)
    levels[:] = values
    for index, name, names in (
        (RowIndex(np.array([4, 2]), ["id"]), "id", [4, 2]),
        (RowIndex(levels, ["ward", "bed"]), "row", ["a 1", "b 2"]),
    ):
        frame = rows_frame({"cluster": np.array([1, 0])}, index, backend=backend)
        columns = frame.to_pydict() if backend == "pyarrow" else frame.to_dict(as_series=False)
        assert columns == {name: names, "cluster": [1, 0]}
