"""Models of chunks are not below simple partitions of all rows; first chunks are kept for the search of a start."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from count_shapes import (
    binary,
    overdispersed,
    poisson_blob,
    strong_count,
    telling_category,
    words,
)
from dominance import judge, tolerance
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from expfam import GroupedMixture, Mixture
from expfam.errors import DataError
from expfam.fitting.kept_chunks import Chunk, KeptChunks, joined_chunks


def plain(n, k, d=2):
    """Plain groups, far apart."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, k, n)
        return 8.0 * rng.permutation(2 * k)[:k].repeat(d).reshape(k, d)[z] + rng.normal(size=(n, d)), z

    return make


def chunks_of(X, n_chunks):
    ends = np.linspace(0, len(X), n_chunks + 1).astype(int)
    return [X.iloc[a:b] if isinstance(X, pd.DataFrame) else X[a:b] for a, b in pairwise(ends)]


def learned(family, K, chunks, way, **settings):
    mixture = Mixture(family, K, sampler="variational", random_state=0, **settings)
    if way == "passes":
        return mixture.fit_chunks(chunks)
    for chunk in chunks:
        mixture.partial_fit(chunk)
    return mixture


@pytest.mark.parametrize("way", ["one by one", "passes"])
@pytest.mark.parametrize(
    ("family", "make"),
    [
        ("gaussian_diag", plain(800, 4)),
        ("gaussian", plain(800, 4)),
        ("gaussian_spherical", plain(800, 4)),
        ("gaussian_diag", plain(800, 1, 3)),
        ("poisson", strong_count(800, 30)),
        ("negative_binomial", strong_count(800, 30)),
        ("geometric", overdispersed(800, 30, 2)),
        ("poisson", poisson_blob(800, 5)),
        ("multinomial", words(800, 8, 40, 100)),
        ("bernoulli", binary(800)),
        ("categorical", binary(800)),
        ("auto", telling_category(800)),
    ],
)
def test_models_of_chunks_are_not_below_simple_partitions(family, make, way):
    X, truth = make(0)
    for K in {None, truth.max() + 1} - {1}:
        mixture = learned(family, K, chunks_of(X, 4), way)
        judgement = judge(mixture, X, truth=truth, learns=False)
        assert judgement.below <= tolerance(len(truth)), judgement


@pytest.mark.parametrize("n_chunks", [4, 40])
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian"])
def test_plain_groups_are_found_from_chunks_of_any_size(family, n_chunks):
    for seed in range(3):
        X, truth = plain(800, 4)(seed)
        mixture = learned(family, 4, chunks_of(X, n_chunks), "one by one")
        assert adjusted_rand_score(truth, mixture.predict(X)) == 1.0
        assert mixture.n_.sum() == pytest.approx(800, abs=1)


def test_topics_of_rows_are_found_from_small_chunks_of_groups():
    X, truth = words(800, 8, 40, 100)(0)
    groups = np.arange(50) % 10
    mixture = GroupedMixture("multinomial", 8, sampler="variational", random_state=0)
    for chunk in chunks_of(X, 16):
        mixture.partial_fit(chunk, groups=groups)
    assert adjusted_rand_score(truth, mixture.predict(X, np.arange(800) // 50 * 10 + np.arange(800) % 10)) > 0.99
    assert mixture.n_.sum() == pytest.approx(800, rel=1e-4)


def test_every_kept_row_is_learned_once_and_predict_works_in_between():
    X, _ = plain(600, 4)(0)
    mixture = Mixture("gaussian_diag", 4, sampler="variational", random_state=0)
    for place, chunk in enumerate(chunks_of(X, 60), start=1):
        mixture.partial_fit(chunk)
        assert mixture.n_.sum() == pytest.approx(10 * place, abs=1)
        assert mixture.labels_.shape == (10,)
        assert mixture.predict(X).shape == (600,)
        assert mixture.n_iter_ == place


def test_chunks_are_let_go_when_their_rows_suffice():
    X = np.random.default_rng(0).normal(size=(6000, 2))
    mixture = Mixture("gaussian_diag", sampler="variational", random_state=0)
    mixture.partial_fit(X[:3000])
    assert mixture._kept_chunks.n_rows == 3000
    mixture.partial_fit(X[3000:])
    assert not hasattr(mixture, "_kept_chunks")
    whole = Mixture("gaussian_diag", sampler="variational", random_state=0).partial_fit(X)
    assert not hasattr(whole, "_kept_chunks")
    given = Mixture("gaussian_diag", 2, start=np.arange(100) % 2, sampler="variational").partial_fit(X[:100])
    assert not hasattr(given, "_kept_chunks")


def test_kept_rows_are_copies_and_named_chunks_replace_each_other():
    X, _ = plain(300, 4)(0)
    buffer, one, other = np.empty((50, 2)), *(Mixture("gaussian_diag", 4, sampler="variational", random_state=0),) * 2
    other = Mixture("gaussian_diag", 4, sampler="variational", random_state=0)
    for chunk in chunks_of(X, 6):
        buffer[:] = chunk
        one.partial_fit(buffer)
        other.partial_fit(chunk)
    np.testing.assert_array_equal(one.S_, other.S_)
    kept = KeptChunks(100, Chunk(X[:20], {}, "a"))
    kept.add(Chunk(X[20:40], {}, "b"))
    kept.add(Chunk(X[40:60], {}, "a"))
    assert kept.n_rows == 40
    np.testing.assert_array_equal(kept.joined().X, X[np.r_[40:60, 20:40]])


def test_learning_goes_on_with_the_same_bits_after_files_and_pickles():
    X, _ = plain(600, 4)(0)
    first, *rest = chunks_of(X, 12)
    mixture = Mixture("gaussian_diag", 4, sampler="variational", random_state=0).partial_fit(first)
    copied = pickle.loads(pickle.dumps(mixture))
    for chunk in rest:
        mixture.partial_fit(chunk)
        copied.partial_fit(chunk)
    np.testing.assert_array_equal(mixture.S_, copied.S_)


def test_a_file_ends_the_keeping(tmp_path):
    X, _ = plain(600, 4)(0)
    first, *rest = chunks_of(X, 6)
    mixture = Mixture("gaussian_diag", 4, sampler="variational", random_state=0).partial_fit(first)
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    for chunk in rest:
        mixture.partial_fit(chunk)
        loaded.partial_fit(chunk)
    np.testing.assert_array_equal(mixture.S_, loaded.S_)


def test_joined_chunks_have_their_weights_and_groups():
    X, groups = np.arange(4.0)[:, None], np.array([0, 2])
    chunks = [Chunk(X[:2], {"weight": None, "groups": groups}), Chunk(X[2:], {"weight": [2, 3], "groups": groups})]
    whole = joined_chunks(chunks)
    np.testing.assert_array_equal(whole.X, X)
    np.testing.assert_array_equal(whole.options["weight"], [1.0, 1.0, 2.0, 3.0])
    np.testing.assert_array_equal(whole.options["groups"].of_row, [0, 2, 3, 5])
    rows = joined_chunks([Chunk(sparse.csr_array(X[:2]), {}), Chunk(sparse.csr_array(X[2:]), {})])
    np.testing.assert_array_equal(rows.X.toarray(), X)


@pytest.mark.parametrize("way", ["one by one", "passes"])
def test_sparse_chunks_after_a_dense_one_are_refused(way):
    X = np.random.default_rng(0).poisson(3.0, (40, 5))
    with pytest.raises(DataError, match="the first chunk was dense, this one is sparse"):
        learned("poisson", 2, [X[:20], sparse.csr_array(X[20:])], way)


def test_hyper_parameters_are_learned_from_the_start_unless_that_is_refused():
    X, _ = plain(400, 4)(0)
    learned_ = learned("gaussian_diag", 4, chunks_of(X, 2), "passes")
    fixed = learned("gaussian_diag", 4, chunks_of(X, 2), "passes", learn_hyper=False)
    bound = type(fixed.family_)().bind(X)
    np.testing.assert_allclose(fixed.family_.rate, bound.rate)
    assert not np.allclose(learned_.family_.rate, bound.rate)
