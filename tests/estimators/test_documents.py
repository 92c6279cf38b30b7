"""Documents at the door of the estimators: texts and lists of tokens are counted, and their words name the columns."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy, Bernoulli, GroupedMixture, Mixture, Multinomial, TopicModel
from expfam.errors import ArchiveError, DataError, DataTypeError, DataWarning
from expfam.estimators.tables import family_of_array
from expfam.families.foreign import documents_in

PETS = ("the cat sat on the mat", "a kitten and a cat", "dogs and cats sat")
MONEY = ("stocks fell on the market", "the market and bonds rose", "bonds gained and stocks fell")
TEXTS = [*PETS, *MONEY] * 15
KINDS = np.array([0, 0, 0, 1, 1, 1] * 15)
TOKENS = [text.split() for text in TEXTS]


def counts_of(texts=TEXTS):
    return CountVectorizer().fit_transform(texts)


def as_containers(documents):
    """The same documents in all containers that people have."""
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    objects = np.empty(len(documents), dtype=object)
    objects[:] = documents
    return {
        "list": documents,
        "tuple": tuple(documents),
        "objects": objects,
        "pandas": pandas.Series(documents),
        "polars": polars.Series(documents),
        "Arrow": pyarrow.array(documents),
        "Arrow chunks": pyarrow.chunked_array([documents[:7], documents[7:]]),
    }


@pytest.mark.parametrize("documents", [TEXTS, TOKENS], ids=["texts", "tokens"])
def test_all_containers_give_the_same_model(documents):
    analyzer = "word" if documents is TEXTS else list
    counted = CountVectorizer(analyzer=analyzer).fit(documents)
    expected = Mixture("multinomial", 2, random_state=0).fit(counted.transform(documents))
    for name, given in as_containers(documents).items():
        mixture = Mixture("multinomial", 2, random_state=0).fit(given)
        assert mixture.labels_.tolist() == expected.labels_.tolist(), name
        assert mixture.feature_names_in_.tolist() == counted.get_feature_names_out().tolist(), name
        assert mixture.predict(given).tolist() == expected.labels_.tolist(), name


def test_kinds_of_text_of_numpy_and_pandas():
    pandas = pytest.importorskip("pandas")
    for given in (np.array(TEXTS), pandas.Series(TEXTS, dtype="string"), pandas.Series(TEXTS, dtype="category")):
        assert documents_in(given) == "texts"
        assert adjusted_rand_score(KINDS, Mixture(n_components=2, random_state=0).fit_predict(given)) == 1.0


def test_texts_without_a_family_are_counts_of_words():
    mixture = Mixture(random_state=0).fit(TEXTS)
    assert type(mixture.family_) is Multinomial
    assert mixture.n_features_in_ == len(mixture.feature_names_in_) == counts_of().shape[1]
    words = str(mixture.clusters_)
    assert "stocks" in words
    assert "cat" in words


def test_unknown_words_are_left_out_with_a_warning_where_nothing_is_left():
    mixture = Mixture("multinomial", 2, random_state=0).fit(TEXTS)
    assert mixture.predict(["stocks and zebras"])[0] == mixture.predict(["stocks and"])[0]
    with pytest.warns(DataWarning, match="1 of 2 documents holds no word of the fit") as caught:
        p = mixture.predict_proba(["zebra", "stocks"])
    assert caught[0].filename == __file__
    np.testing.assert_allclose(p[0], mixture.weights_ / mixture.weights_.sum())


def test_all_estimators_take_texts():
    groups = np.arange(len(TEXTS)) // 6
    same = GroupedMixture("multinomial", 2, random_state=0).fit(counts_of(), groups)
    grouped = GroupedMixture("multinomial", 2, random_state=0).fit(TEXTS, groups)
    assert grouped.labels_.tolist() == same.labels_.tolist()
    tree = BayesianHierarchy("multinomial").fit(TEXTS[:12])
    assert tree.labels_.tolist() == BayesianHierarchy("multinomial").fit(counts_of(TEXTS[:12])).labels_.tolist()
    topics = TopicModel(2, random_state=0, n_steps=10).fit(TEXTS)
    assert {"stocks", "cat"} <= set(np.ravel(topics.top_words(8)))
    assert topics.transform(["stocks fell"]).shape == (1, 2)


@pytest.mark.parametrize("make", [lambda: Mixture("multinomial", 2), lambda: TopicModel(2, n_steps=10)])
@pytest.mark.parametrize("documents", [TEXTS, TOKENS], ids=["texts", "tokens"])
def test_files_keep_the_words(tmp_path, make, documents):
    model = make().set_params(random_state=0).fit(documents)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    method = "predict_proba" if isinstance(model, Mixture) else "transform"
    np.testing.assert_array_equal(getattr(loaded, method)(documents), getattr(model, method)(documents))
    assert loaded.documents_ == model.documents_
    counts = loaded.vectorizer_.transform(documents)
    assert counts.shape == (len(documents), model.n_features_in_)


def test_a_file_with_another_kind_of_documents_is_refused(tmp_path):
    mixture = Mixture("multinomial", 2, random_state=0).fit(TEXTS)
    mixture.documents_ = "pictures"
    mixture.save(tmp_path / "model")
    with pytest.raises(ArchiveError, match="documents_"):
        Mixture.load(tmp_path / "model")


def test_the_next_fit_forgets_the_words():
    mixture = Mixture(random_state=0).fit(TEXTS).fit(np.random.default_rng(0).normal(size=(30, 2)))
    assert not hasattr(mixture, "documents_")
    assert not hasattr(mixture, "feature_names_in_")
    with pytest.raises(AttributeError, match="not fitted to texts"):
        mixture.vectorizer_  # noqa: B018
    with pytest.raises(DataTypeError, match="the text"):
        mixture.predict(TEXTS)
    assert clone(mixture).fit(TEXTS).documents_ == "texts"


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_a_missing_document_is_refused_with_a_line_that_works(empty):
    X = [*TEXTS, empty]
    with pytest.raises(DataTypeError, match=f"row {len(TEXTS)} is missing") as error:
        Mixture("multinomial", 2).fit(X)
    space = {"X": X}
    exec(str(error.value).split("write ")[1], space)
    with pytest.warns(DataWarning, match="1 of 91 rows is empty"):
        assert len(Mixture("multinomial", 2, random_state=0).fit(space["X"]).labels_) == len(X)


def test_documents_without_a_word_are_refused_with_a_line_that_works():
    with pytest.raises(DataError, match="none of 4 documents has a word of two letters") as error:
        Mixture().fit(["a", "b", "a b", "c"])
    space = {"X": ["a", "b", "a b", "c"]}
    exec(str(error.value).split("write ")[1], space)
    assert space["X"].shape[0] == 4


def test_a_first_chunk_of_documents_is_refused_with_lines_that_work():
    for model in (Mixture("multinomial", 2, sampler="variational"), TopicModel(2, sampler="variational")):
        with pytest.raises(DataTypeError, match="count all words first"):
            model.partial_fit(TEXTS)
        words = CountVectorizer().fit(TEXTS)
        assert model.partial_fit(words.transform(TEXTS)).n_features_in_ == len(words.vocabulary_)
    fitted = Mixture("multinomial", 2, sampler="variational", random_state=0).fit(TEXTS)
    assert fitted.partial_fit(TEXTS[:6]).documents_ == "texts"


def test_a_family_without_counts_names_one():
    with pytest.raises(DataTypeError, match=r"write Mixture\('multinomial'\)"):
        Mixture("gaussian_diag").fit(TEXTS)


# ---- lists of tokens of one length -----------------------------------------------------------------------------------

PAIRS = [tokens[-2:] for tokens in TOKENS]


def test_lists_of_one_length_in_a_column_are_tokens():
    containers = as_containers(PAIRS)
    for name in ("pandas", "polars", "Arrow", "Arrow chunks"):
        mixture = Mixture("multinomial", 2, random_state=0).fit(containers[name])
        assert mixture.documents_ == "tokens", name
        assert mixture.predict(containers[name]).tolist() == mixture.labels_.tolist(), name
    assert documents_in(PAIRS) is None
    with pytest.raises(DataTypeError, match="where each row is a document, count its tokens"):
        Mixture("multinomial", 2).fit(PAIRS)


def test_a_model_of_tokens_takes_new_documents_of_one_length():
    mixture = Mixture("multinomial", 2, random_state=0).fit(TOKENS)
    assert mixture.predict(TOKENS[:1]).tolist() == mixture.labels_[:1].tolist()
    assert mixture.predict(PAIRS).tolist() == mixture.predict([*PAIRS, TOKENS[0]])[:-1].tolist()
    with pytest.raises(DataTypeError, match="count its tokens"):
        Mixture("multinomial", 2, random_state=0).fit(counts_of()).predict(PAIRS)


def test_topics_take_lists_of_tokens_of_one_length():
    model = TopicModel(2, random_state=0, n_steps=10).fit(PAIRS)
    assert model.documents_ == "tokens"
    assert model.transform(PAIRS[:1]).shape == (1, 2)
    assert documents_in([["1", "2"], ["0", "3"]], are_expected=True) is None  # numbers that were read as text


@pytest.mark.parametrize(("documents", "others"), [(TEXTS, TOKENS), (TOKENS, TEXTS)], ids=["texts", "tokens"])
def test_documents_of_the_other_kind_are_refused_with_a_line_that_works(documents, others):
    mixture = Mixture("multinomial", 2, random_state=0).fit(documents)
    with pytest.raises(DataTypeError, match="documents are to be of one kind") as error:
        mixture.predict(others)
    space = {"X": others}
    exec(str(error.value).split("write ")[1], space)
    assert mixture.predict(space["X"]).tolist() == mixture.labels_.tolist()


@pytest.mark.parametrize("make", [lambda: Mixture(random_state=0), lambda: TopicModel(2, n_steps=5, random_state=0)])
def test_a_table_is_refused_by_a_model_of_texts_with_a_line_that_works(make):
    pandas = pytest.importorskip("pandas")
    model, X = make().fit(TEXTS), pandas.DataFrame({"stars": range(6), "my review": TEXTS[:6]})
    with pytest.raises(DataTypeError, match="fitted to texts, and this is a table of 2 columns") as error:
        model.predict(X)
    space = {"X": X}
    exec(str(error.value).split(": write ")[1].split(", whose")[0], space)
    assert model.predict(space["X"]).tolist() == model.predict(TEXTS[:6]).tolist()
    words = pandas.DataFrame(counts_of().toarray(), columns=CountVectorizer().fit(TEXTS).get_feature_names_out())
    assert model.predict(words).tolist() == model.predict(TEXTS).tolist()  # counts by word are no table of texts


def test_a_frame_of_texts_alone_is_refused_with_a_line_that_works():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"said": [f"{text} {at}" for at, text in enumerate(TEXTS)]})
    with pytest.raises(DataError, match="no column is left: 'said'") as error:
        Mixture().fit(X)
    line = re.search(r"fit\(df\['said'\]\) counts its words", str(error.value))[0].removesuffix(" counts its words")
    model = eval(f"Mixture(n_components=2, random_state=0).{line}", {"Mixture": Mixture, "df": X})
    assert adjusted_rand_score(KINDS, model.labels_) == 1.0


# ---- arrays and sparse rows ------------------------------------------------------------------------------------------


def test_sparse_counts_without_a_family_are_multinomial():
    for X in (counts_of(), sparse.coo_array(counts_of()), counts_of().astype(np.float32)):
        assert type(Mixture(random_state=0).fit(X).family_) is Multinomial


def test_sparse_fractions_without_a_family_name_lines_that_work():
    X = counts_of() * 0.5
    with pytest.raises(DataTypeError, match="which is no count") as error:
        Mixture().fit(X)
    assert "Mixture().fit(X.toarray())" in str(error.value)
    assert Mixture(random_state=0).fit(X.toarray()).n_components_ >= 1


@pytest.mark.parametrize("kind", [bool, int, float, np.int8, np.float32])
def test_zeros_and_ones_are_bernoulli(kind):
    X = (np.random.default_rng(0).random((60, 5)) < np.repeat([[0.1], [0.9]], 30, axis=0)).astype(kind)
    mixture = Mixture(random_state=0).fit(X)
    assert type(mixture.family_) is Bernoulli
    assert adjusted_rand_score(np.repeat([0, 1], 30), mixture.labels_) > 0.8
    assert mixture.predict(X.astype(float)).tolist() == mixture.labels_.tolist()


def test_an_array_of_one_value_is_not_yes_or_no():
    for value in (0.0, 1.0):
        assert type(family_of_array(np.full((20, 2), value), owner="Mixture")) is not Bernoulli
