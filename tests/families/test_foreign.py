"""Texts, lists of tokens and objects of other libraries: the error comes at once, with a line that can be typed."""

import pathlib
import re
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris

from expfam import BayesianHierarchy, Dataset, GroupedMixture, Mixture, Multinomial, Poisson, TopicModel
from expfam.errors import DataTypeError
from expfam.families.foreign import refuse_foreign

TOKENS = [[], ["cat", "dog", "cat"], ["dog"], ["fish"]]
TEXTS = ["", "cat dog cat", "dog", "fish"]
COUNTS = np.arange(12.0).reshape(4, 3)


class Annotated:
    """An object with the attributes of an AnnData object."""

    def __init__(self):
        self.X, self.obs, self.shape = COUNTS, pd.DataFrame(index=range(4)), COUNTS.shape


def as_line(message):
    """The line to type that a message names, from its first import on."""
    line = message[message.index("from ") :].split(": where")[0]
    return line.split("; where")[0]


ENTRIES = {
    "Mixture of words": lambda X: Mixture("multinomial", 2, n_steps=2).fit(X),
    "Mixture": lambda X: Mixture(n_components=2).fit(X),
    "Mixture in chunks": lambda X: Mixture("multinomial", 2, sampler="variational").partial_fit(X),
    "Mixture on new rows": lambda X: Mixture("multinomial", 2, n_steps=2).fit(COUNTS).predict(X),
    "TopicModel": lambda X: TopicModel(2).fit(X),
    "TopicModel in chunks": lambda X: TopicModel(2).partial_fit(X),
    "TopicModel on new documents": lambda X: TopicModel(2, n_steps=2).fit(COUNTS).transform(X),
    "GroupedMixture": lambda X: GroupedMixture("multinomial", 2).fit(X, groups=[0, 0, 1, 1]),
    "BayesianHierarchy": lambda X: BayesianHierarchy("multinomial").fit(X),
    "Dataset": lambda X: Dataset(X, Multinomial()),
    "Family.bind": lambda X: Poisson().bind(X),
}


# where documents cannot be counted, for a matrix or nothing is known of their words
OF_MATRICES = {
    name: ENTRIES[name] for name in ("Mixture on new rows", "TopicModel on new documents", "Dataset", "Family.bind")
}


@pytest.mark.parametrize("entry", OF_MATRICES.values(), ids=OF_MATRICES)
def test_lists_of_tokens_are_refused_with_the_line_that_counts_them(entry):
    with pytest.raises(DataTypeError, match=r"row 1 is a list of tokens \('cat', 'dog', \.\.\.\)") as caught:
        entry(TOKENS)
    names = {"X": TOKENS}
    exec(as_line(str(caught.value)), names)
    assert names["X"].toarray().tolist() == [[0, 0, 0], [2, 1, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("entry", OF_MATRICES.values(), ids=OF_MATRICES)
def test_lists_of_texts_are_refused_with_the_line_that_counts_their_words(entry):
    with pytest.raises(DataTypeError, match="row 1 is the text 'cat dog cat'") as caught:
        entry(TEXTS)
    names = {"X": TEXTS}
    exec(as_line(str(caught.value)), names)
    assert names["X"].toarray().tolist() == [[0, 0, 0], [2, 1, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_annotated_data_are_refused_with_the_matrix_that_they_hold(entry):
    with pytest.raises(DataTypeError, match=r"adata\.X"):
        entry(Annotated())


@pytest.mark.parametrize(
    "estimator",
    [
        Mixture("poisson", 2, random_state=0),
        GroupedMixture("poisson", 2, random_state=0),
        TopicModel(2, random_state=0),
        BayesianHierarchy("poisson"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_line_for_annotated_data_has_all_settings(estimator):
    annotated, groups = Annotated(), np.zeros(12, dtype=int)
    options = {"groups": groups} if isinstance(estimator, GroupedMixture) else {}
    with pytest.raises(DataTypeError, match="the data are an Annotated object") as caught:
        estimator.fit(annotated, **options)
    line = re.search(r"write (.*\)), or another one", str(caught.value))[1]
    annotated.X = np.arange(36).reshape(12, 3) % 5 + 1
    made = eval(line, globals(), {"adata": annotated, "groups": groups})
    assert made.get_params() == estimator.get_params()


DOCUMENTS = {
    "tuples": (tuple(map(tuple, TOKENS)), "list of tokens"),
    "sets": ([set("ab"), set("cd")], "list of tokens"),
    "arrays of words": ([np.array(["a", "b"]), np.array(["c"])], "list of tokens"),
    "array of lists": (pd.Series(TOKENS).to_numpy(), "list of tokens"),
    "pandas lists": (pd.Series(TOKENS), "list of tokens"),
    "Polars lists": (pl.Series(TOKENS), "list of tokens"),
    "Arrow lists": (pa.array(TOKENS), "list of tokens"),
    "array of texts": (np.array(TEXTS), "row 1 is the text 'cat dog cat'"),
    "pandas texts": (pd.Series([None, "cat dog"]), "row 1 is the text 'cat dog'"),
    "Polars texts": (pl.Series(TEXTS), "row 1 is the text 'cat dog cat'"),
    "Arrow texts": (pa.chunked_array([TEXTS]), "row 1 is the text 'cat dog cat'"),
}


@pytest.mark.parametrize(("X", "message"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_container_of_documents(X, message):
    with pytest.raises(DataTypeError, match=message):
        Dataset(X, Multinomial())


CONTAINERS = {
    "bags of words": ([[(0, 1), (3, 2)], [], [(1, 1)]], r"pairs such as \(0, 1\).*corpus2csc\(X"),
    "dicts": ([{"cat": 1}, {"dog": 2}], r"row 0 is a dict.*DictVectorizer\(\)\.fit_transform\(X\)"),
    "a dict": ({"a": [1, 2]}, r"X = pandas\.DataFrame\(X\)"),
    "data set of scikit-learn": (load_iris(), r"X = X\.data"),
    "a path": (
        pathlib.Path("data.csv"),
        r"from expfam\.io\.readers import read; X = read\('data\.csv', frame=True\)\.X",
    ),
    "a generator": ((row for row in COUNTS), r"generator, which is read once only: write X = list\(X\)"),
    "an object": (object(), r"builtins\.object, of which NumPy makes no array"),
}


@pytest.mark.parametrize(("X", "message"), CONTAINERS.values(), ids=CONTAINERS)
def test_container(X, message):
    for model in (Mixture("multinomial", 2), TopicModel(2)):
        with pytest.raises(DataTypeError, match=message):
            model.fit(X)


def test_rows_of_words_of_one_length_may_be_documents_or_a_table():
    with pytest.raises(DataTypeError, match=r"'a'.*pandas\.DataFrame\(X\).*CountVectorizer\(analyzer=list\)"):
        Mixture("multinomial", 2).fit([["a", "b"], ["c", "d"]])


def test_the_error_comes_at_once_for_many_documents():
    X = [["word", "other"]] * 300_000 + [["one"]]
    before = time.process_time()
    with pytest.raises(DataTypeError, match=r"CountVectorizer"):
        Dataset(X, Multinomial())
    assert time.process_time() - before < 1.0


@pytest.mark.parametrize("X", [COUNTS, COUNTS.tolist(), [*COUNTS], (1.0, 2.0), ["1", "2"], pd.Series([1.0])])
def test_numbers_pass(X):
    refuse_foreign(X, owner="Mixture")


FRAMES = {"pandas": pd.DataFrame, "Polars": pl.DataFrame, "Arrow": pa.table}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_a_column_of_text_is_named_where_the_family_needs_numbers(make):
    X = make({"a": [1, 2, 0, 3], "c": [None, "x y", "x", "z"]})
    for name in ("Mixture of words", "TopicModel", "GroupedMixture", "BayesianHierarchy"):
        with pytest.raises(DataTypeError, match=r"column 'c' holds text \(row 1: 'x y'\).*fit_transform\(X\['c'\]\)"):
            ENTRIES[name](X)


@pytest.mark.parametrize("content", ["the cat sat\na dog, too\nno more\n", "1.5 2\n3 4\n"], ids=["texts", "table"])
def test_the_line_for_a_file_of_text_works(content, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(content)
    with pytest.raises(DataTypeError, match="to read a file, write ") as error:
        Mixture().fit(str(path))
    space = {}
    exec(str(error.value).split(", write ")[1], space)
    assert space["X"] == content.splitlines() if "cat" in content else space["X"].shape == (2, 2)
