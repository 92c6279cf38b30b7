"""The generators of benchmark data make what they say, and the same each time."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import normalized_mutual_info_score

FILE = Path(__file__).resolve().parents[2] / "asv_bench" / "benchmarks" / "data.py"


@pytest.fixture(scope="module")
def data():
    spec = importlib.util.spec_from_file_location("benchmark_data", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["documents", "gaussians", "levels", "counts", "sparse_counts", "zipf_documents", "nested_gaussians"]
)
def test_shapes_labels_and_seeds(data, name):
    make = getattr(data, name)
    X, labels = make(500, 12, seed=3)
    again, labels_again = make(500, 12, seed=3)
    other, _ = make(500, 12, seed=4)
    assert X.shape[0] == labels.shape[0] == 500
    assert set(labels) == set(range(12))
    dense = (lambda A: A.toarray()) if sparse.issparse(X) else np.asarray
    np.testing.assert_array_equal(dense(X), dense(again))
    np.testing.assert_array_equal(labels, labels_again)
    assert X.shape == other.shape
    assert (dense(X) != dense(other)).any()
    if "gaussians" not in name:
        assert dense(X).min() >= 0
        np.testing.assert_array_equal(dense(X), np.rint(dense(X)))
    # rows of one cluster lie nearer to their own mean than to the others': the data have the clusters they claim
    A = dense(X) / np.maximum(np.linalg.norm(dense(X), axis=1, keepdims=True), 1e-12)
    means = np.stack([A[labels == k].mean(axis=0) for k in range(12)])
    nearest = ((A[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.6


def test_documents_have_canonical_rows_and_zipf_words(data):
    X, _ = data.documents(2000, 20, n_words=1000, mean_length=50, seed=0)
    assert X.has_canonical_format
    lengths = X.sum(axis=1)
    assert abs(lengths.mean() - 50) < 5 * np.sqrt(50 / 2000)  # five standard errors of a Poisson mean
    frequency = np.sort(np.asarray(X.sum(axis=0)).ravel())[::-1]
    assert frequency[0] > 20 * np.median(frequency)


def test_admixtures_have_the_words_of_their_topics(data):
    X, topics = data.admixtures(20_000, 3, n_words=200, mean_length=15, alpha=0.3, seed=2)
    again, _ = data.admixtures(20_000, 3, n_words=200, mean_length=15, alpha=0.3, seed=2)
    assert (again != X).nnz == 0
    assert X.shape == (20_000, 200)
    assert X.has_canonical_format
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    lengths = X.sum(axis=1)
    assert abs(lengths.mean() - 15) < 5 * np.sqrt(15 / 20_000)
    # all topics are alike in the prior of the weights, so words follow their mean
    law, found = topics.mean(axis=0), np.asarray(X.sum(axis=0)).ravel() / X.sum()
    assert 0.5 * abs(law - found).sum() < 0.02
    assert 0.5 * abs(topics[0] - found).sum() > 0.1


def test_zipf_documents_are_blocks_of_canonical_integer_rows(data):
    X, topics = data.zipf_documents(60_000, 2, n_words=300, mean_length=20, seed=1)  # a topic of more than one block
    assert np.bincount(topics).max() > 1 << 15
    assert X.data.dtype == X.indices.dtype == X.indptr.dtype == np.int32
    X.check_format(full_check=True)
    copy = sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    assert copy.has_canonical_format
    lengths = X.sum(axis=1)
    assert lengths.min() >= 1
    assert abs(lengths.mean() - 20) < 5 * np.sqrt(20 / 60_000)
    frequency = np.asarray(X.sum(axis=0)).ravel()
    assert frequency[0] > 20 * np.median(frequency)


def test_nested_clusters_have_three_scales_and_unit_noise(data):
    X, labels = data.nested_gaussians(64_000, 64, n_features=40, separation=2.0, ratio=3.0, seed=2)
    assert X.dtype == np.float32
    assert data.nested_gaussians(10, 3, dtype=np.float64)[0].dtype == np.float64
    means = np.stack([X[labels == k].mean(axis=0, dtype=np.float64) for k in range(64)])
    noise = (X - means[labels]).var(axis=0) * 1000 / 999  # about a thousand rows in each cluster
    assert (abs(noise - 1) < 5 * np.sqrt(2 / 64_000)).all()
    tree = means.reshape(4, 4, 4, 40)
    # a mean of four nodes carries a quarter of the finer scale's variance; five standard errors of a variance
    scales = [(tree.var(axis=2, ddof=1), 2.0**2), (tree.mean(axis=2).var(axis=1, ddof=1), 6.0**2 + 1.0)]
    scales.append((tree.mean(axis=(1, 2)).var(axis=0, ddof=1), 18.0**2 + 9.25))
    for found, expected in scales:
        assert abs(found.mean() / expected - 1) < 5 * np.sqrt(2 / (3 * found.size))


def test_shares_of_gaussians_follow_a_dirichlet_law_with_a_concentration(data):
    shares = [
        np.bincount(data.gaussians(2000, 4, concentration=5.0, seed=seed)[1], minlength=4) / 2000 for seed in range(300)
    ]
    # of Dirichlet(5, 5, 5, 5): variance 1/4 * 3/4 / 21, and that of counts beside it; five standard errors
    law = 0.25 * 0.75 * (1 / 21 + (1 - 1 / 21) / 2000)
    assert np.mean(shares) == pytest.approx(0.25)
    assert abs(np.var(shares) / law - 1) < 5 * np.sqrt(2 / 900)
    X, labels = data.gaussians(200_000, 40, n_features=8, separation=1.5, concentration=5.0, seed=1)
    log_scale = np.log([X[labels == k].std(axis=0) for k in range(40)])
    assert abs(log_scale.std() / 0.3 - 1) < 5 / np.sqrt(2 * 320)
    means = np.array([X[labels == k].mean(axis=0) for k in range(40)])
    assert abs(means.std() / 1.5 - 1) < 5 / np.sqrt(2 * 320)


def test_shattered_labels_divide_every_cluster(data):
    _, labels = data.gaussians(8000, 10, exponent=0.0, seed=1)
    assert np.bincount(labels).min() > 600  # even sizes
    pieces = data.shattered(labels, 4, seed=2)
    np.testing.assert_array_equal(pieces // 4, labels)
    assert np.bincount(pieces).min() > 100
    np.testing.assert_array_equal(pieces, data.shattered(labels, 4, seed=2))


def test_mixture_scores_are_those_of_scipy(data):
    from scipy.special import logsumexp
    from scipy.stats import norm

    from expfam import Dataset, SphericalGaussian

    rng = np.random.default_rng(0)
    X, means, log_pi = rng.normal(size=(50, 3)), rng.normal(size=(4, 3)), np.log([0.1, 0.2, 0.3, 0.4])
    rows = Dataset(X, SphericalGaussian(variance=0.7))
    Theta = (means - rows.family.center_) / 0.7
    G = 0.7 * (Theta**2).sum(axis=1) / 2
    scores = log_pi + norm.logpdf(X[:, None], means, np.sqrt(0.7)).sum(axis=2)
    log_density, best = data.mixture_scores(rows, log_pi, Theta, G)
    np.testing.assert_allclose(log_density, logsumexp(scores, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(best, scores.argmax(axis=1))


def test_mutual_information_is_that_of_scikit_learn(data):
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, b = rng.integers(4, size=60), rng.integers(3, size=60)
        expected = normalized_mutual_info_score(a, b)
        assert abs(data.normalized_mutual_information(a, b) - expected) < 1e-12
    assert data.normalized_mutual_information(a, a) == pytest.approx(1.0, abs=1e-12)
