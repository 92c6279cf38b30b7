"""Loaded clusters are kept between predictions, give the bits of newly loaded ones, and are dropped with the fit."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
from planted import TEXT, planted
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stepping import assert_threads_agree

from expfam import GroupedMixture, Mixture, merge
from expfam.errors import DataError
from expfam.estimators import loaded
from expfam.estimators.matrices import checked_input
from expfam.families.components import Components
from expfam.model import assignment

RNG = np.random.default_rng(0)
CASES = {
    "gaussian": ("gaussian", planted("gaussian")[1]),
    "gaussian_diag": ("gaussian_diag", planted("gaussian_diag")[1]),
    "gaussian_spherical": ("gaussian_spherical", planted("gaussian_spherical")[1]),
    "categorical": ("categorical", planted("categorical")[1]),
    "csr": ("multinomial", TEXT),
    "dense_counts": ("poisson", planted("poisson")[1]),
    "bernoulli": ("bernoulli", (RNG.random((200, 8)) < RNG.random((4, 8))[np.arange(200) % 4]).astype(float)),
}
FEW = {"n_steps": 2, "n_warmup": 1, "random_state": 0, "partition": "last"}


def fitted(name, n_components=6, **settings):
    family, X = CASES[name]
    return Mixture(family, n_components, **{**FEW, **settings}).fit(X), X


def answers(mixture, X):
    """Labels, probabilities and densities."""
    return mixture.predict(X), mixture.predict_proba(X), mixture.score_samples(X)


def assert_same(found, expected):
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def loads(monkeypatch):
    """Names of the families whose statistics were loaded for prediction."""
    names = []

    class Counted(Components):
        def load(self, n, S):
            names.append(self.family.name)
            super().load(n, S)

    monkeypatch.setattr(assignment, "Components", Counted)
    return names


@pytest.mark.parametrize("name", CASES)
def test_one_row_has_the_bits_that_it_has_among_all(name):
    mixture, X = fitted(name)
    expected = answers(mixture, X)
    for i in (0, 17, 150):
        assert_same(answers(mixture, X[i : i + 1]), [part[i : i + 1] for part in expected])
    assert_same(answers(pickle.loads(pickle.dumps(mixture)), X), expected)


@pytest.mark.parametrize("name", CASES)
def test_labels_have_the_highest_probability(name):
    mixture, X = fitted(name)
    labels, p, _ = answers(mixture, X)
    np.testing.assert_array_equal(labels, p.argmax(axis=1))
    assert labels.dtype == np.int32


@pytest.mark.parametrize("name", ["gaussian", "csr"])
def test_scores_are_those_of_the_definition(name):
    mixture, X = fitted(name)
    family = mixture.family_
    n, S = np.append(mixture.n_, 0.0), mixture.S_
    S = S.toarray() if sparse.issparse(S) else S
    S = np.vstack([S, np.zeros((1, S.shape[1]))])
    weights = np.append(mixture.weights_, np.exp(mixture.log_weight_new_))
    with np.errstate(divide="ignore"):
        scores = family.log_predictive(X, n, S) + np.log(weights)
    expected = np.logaddexp.reduce(scores, axis=1) + family.log_base(X)
    np.testing.assert_allclose(mixture.score_samples(X), expected, rtol=1e-9)
    np.testing.assert_array_equal(mixture.predict(X), scores[:, :-1].argmax(axis=1))


@pytest.mark.parametrize("name", ["gaussian_diag", "csr"])
def test_statistics_are_loaded_once(name, loads):
    mixture, X = fitted(name)
    loads.clear()  # those of the fit
    for i in range(5):
        answers(mixture, X[i : i + 1])
    answers(mixture, X)
    assert len(loads) == 1


def test_another_fit_loads_its_own_statistics(loads):
    mixture, X = fitted("gaussian_diag")
    before = mixture.score_samples(X[:3])
    mixture.fit(X[:100])
    loads.clear()  # those of the fits
    assert (mixture.score_samples(X[:3]) != before).all()
    assert_same(answers(mixture, X), answers(copy.deepcopy(mixture), X))
    assert len(loads) == 2


def test_chunks_load_their_own_statistics():
    X = CASES["gaussian_diag"][1]
    mixture = Mixture("gaussian_diag", 6, sampler="variational", random_state=0)
    for chunk in (X[:150], X[150:300], X[300:]):
        mixture.partial_fit(chunk)
        assert_same(answers(mixture, X), answers(copy.deepcopy(mixture), X))


def test_a_merged_mixture_loads_its_own_statistics():
    mixture, X = fitted("gaussian_diag")
    mixture.predict(X)
    other = Mixture(mixture.family_, 6, **FEW).fit(X + 1.0)
    other.predict(X)
    merged = merge([mixture, other], clusters="merged")
    assert_same(answers(merged, X), answers(copy.deepcopy(merged), X))


def test_replaced_statistics_are_loaded_anew():
    mixture, X = fitted("gaussian_diag")
    expected = answers(mixture, X)
    for name in ("n_", "S_"):
        setattr(mixture, name, getattr(mixture, name)[::-1].copy())
    mixture.weights_ = mixture.weights_[::-1]
    np.testing.assert_array_equal(mixture.predict(X), mixture.n_components_ - 1 - expected[0])
    np.testing.assert_allclose(mixture.predict_proba(X), expected[1][:, ::-1], rtol=1e-12)


def test_changed_weights_count_at_once():
    mixture, X = fitted("gaussian_diag")
    mixture.predict(X)
    mixture.weights_ = np.where(np.arange(mixture.n_components_) == 2, 1.0, 0.0)
    assert set(mixture.predict(X)) == {2}


def test_nothing_is_written_to_the_estimator_or_its_files(tmp_path):
    mixture, X = fitted("csr")
    before, pickled = dict(vars(mixture)), pickle.dumps(mixture)
    expected = answers(mixture, X)
    assert vars(mixture) == before
    assert len(pickle.dumps(mixture)) == len(pickled)
    mixture.save(tmp_path / "model")
    for other in (Mixture.load(tmp_path / "model"), pickle.loads(pickled), copy.deepcopy(mixture)):
        assert other not in loaded._kept
        assert_same(answers(other, X), expected)
    with pytest.raises(NotFittedError):
        clone(mixture).predict(X)


def test_loaded_clusters_go_with_the_estimator_and_with_the_next_fit(monkeypatch):
    mixture, X = fitted("gaussian_diag")
    mixture.predict(X)
    kept = weakref.ref(loaded._kept[mixture])
    seen = []
    monkeypatch.setattr("expfam.estimators.mixture.run_chains", lambda plan: seen.append(kept()) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mixture.fit(X)
    assert seen == [None]
    mixture.predict(X)
    kept = weakref.ref(loaded._kept[mixture])
    del mixture
    gc.collect()
    assert kept() is None


def test_large_statistics_are_not_kept(monkeypatch):
    mixture, X = fitted("csr")
    expected = answers(mixture, X)
    monkeypatch.setattr(loaded, "_MOST_KEPT", 1)
    loaded.drop_loaded(mixture)
    assert_same(answers(mixture, X), expected)
    assert mixture not in loaded._kept


@pytest.mark.parametrize("name", ["gaussian", "csr", "bernoulli"])
def test_threads_may_predict_at_once(name):
    mixture, X = fitted(name)
    expected = answers(mixture, X)
    mixture = pickle.loads(pickle.dumps(mixture))  # nothing is loaded yet
    wrong, start = [], threading.Barrier(4)

    def work(first):
        start.wait()
        for i in range(first, X.shape[0], 7):
            part = slice(i, i + 1 + i % 3)
            for found, one in zip(answers(mixture, X[part]), expected):
                if not np.array_equal(found, one[part]):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", ["gaussian", "csr"])
def test_threads_of_a_call_do_not_change_results(name, monkeypatch):
    monkeypatch.setattr(assignment, "_BLOCK_SCORES", 1)
    mixture, X = fitted(name)
    assert_threads_agree(lambda n: mixture.set_params(n_threads=n).predict(X))
    assert_threads_agree(lambda n: mixture.set_params(n_threads=n).score_samples(X))


def test_grouped_rows_are_scored_by_kept_clusters(loads):
    X = CASES["gaussian_diag"][1]
    groups = np.arange(len(X)) % 5
    mixture = GroupedMixture("gaussian_diag", 6, n_steps=3, n_warmup=1, random_state=0).fit(X, groups=groups)
    loads.clear()
    scores = [mixture.score(X, groups=groups) for _ in range(3)]
    assert len(set(scores)) == 1
    assert len(loads) <= 1


# ---- checks of one row -----------------------------------------------------------------------------------------------

WRONG = {
    "columns": np.zeros((1, 4)),
    "one dimension": np.zeros(3),
    "three dimensions": np.zeros((1, 3, 1)),
    "no row": np.zeros((0, 3)),
    "infinity": np.array([[0.0, np.inf, 1.0]]),
    "float32 infinity": np.array([[0.0, np.inf, 1.0]], dtype=np.float32),
    "two infinities": np.array([[-np.inf, np.inf, 1.0]]),
    "complex": np.zeros((1, 3), dtype=complex),
    "text": np.array([["a", "b", "c"]]),
    "objects": np.array([[1.0, None, "x"]], dtype=object),
    "dates": np.array([["2020-01-01"] * 3], dtype="datetime64[D]"),
    "masked": np.ma.masked_equal([[1.0, 2.0, 3.0]], 2.0),
    "matrix": np.asmatrix(np.zeros((1, 3))),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # scikit-learn adds up two infinities
@pytest.mark.parametrize("what", WRONG)
def test_the_short_way_refuses_what_the_long_way_refuses(what, monkeypatch):
    mixture, _ = fitted("gaussian_diag")
    raised = []
    for would_pass in (None, lambda *args: False):
        if would_pass:
            monkeypatch.setattr("expfam.estimators.matrices._would_pass", would_pass)
        with pytest.raises((ValueError, TypeError)) as caught:
            mixture.predict(WRONG[what])
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]


RIGHT = {
    "float64": np.arange(3.0)[None],
    "float32": np.arange(3, dtype=np.float32)[None],
    "integers": np.arange(3)[None],
    "short integers": np.arange(3, dtype=np.int16)[None],
    "other bytes": np.arange(3.0)[None].astype(">f8"),
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "list": [[0.0, 1.0, 2.0]],
    "huge": np.full((4, 3), 1e308),  # the sum overflows, no value does
}


@pytest.mark.parametrize("what", RIGHT)
def test_the_short_way_returns_what_the_long_way_returns(what, monkeypatch):
    mixture, _ = fitted("gaussian_diag")
    short = checked_input(mixture, RIGHT[what], reset=False, accepts_sparse=False)
    monkeypatch.setattr("expfam.estimators.matrices._would_pass", lambda *args: False)
    long = checked_input(mixture, RIGHT[what], reset=False, accepts_sparse=False)
    assert (type(short), short.dtype, short.flags.c_contiguous) == (type(long), long.dtype, long.flags.c_contiguous)
    np.testing.assert_array_equal(short, long)
    assert (short is RIGHT[what]) == (long is RIGHT[what])


def test_sparse_rows_for_dense_clusters_are_those_of_an_array():
    mixture, X = fitted("gaussian_diag")
    np.testing.assert_array_equal(mixture.predict(sparse.csr_array(X[:3])), mixture.predict(X[:3]))
    with pytest.raises(ValueError, match="4 features"):
        mixture.predict(sparse.csr_array(np.zeros((1, 4))))


def test_the_short_way_checks_sparse_rows():
    mixture, X = fitted("csr")
    row = sparse.csr_array(X[3:4].astype(float))
    expected = mixture.predict(row)
    np.testing.assert_array_equal(mixture.predict(sparse.csr_matrix(row)), expected)
    np.testing.assert_array_equal(mixture.predict(row.tocsc()), expected)
    for value in (np.nan, np.inf, -1.0, 0.5):
        wrong = row.copy()
        wrong.data[0] = value
        with pytest.raises(ValueError, match=r"NaN|infinity|counts"):
            mixture.predict(wrong)
    wrong = row.copy()
    wrong.indices = np.full_like(wrong.indices, 10**6)
    with pytest.raises(DataError, match="Mixture"):
        mixture.predict(wrong)
    with pytest.raises(ValueError, match="features"):
        mixture.predict(row[:, :7])


def test_names_of_columns_are_compared_with_those_of_the_fit():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(CASES["gaussian_diag"][1], columns=["a", "b", "c"])
    mixture = Mixture("gaussian_diag", 3, **FEW).fit(X)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        mixture.predict(X.to_numpy())
    np.testing.assert_array_equal(mixture.predict(X[["b", "a", "c"]]), mixture.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        mixture.predict(X[["b", "a"]])
    plain = Mixture("gaussian_diag", 3, **FEW).fit(X.to_numpy())
    with pytest.warns(UserWarning, match="has feature names"):
        plain.predict(X)


def test_an_unfitted_estimator_says_so():
    with pytest.raises(NotFittedError, match="Mixture"):
        Mixture().predict([[0.0]])
