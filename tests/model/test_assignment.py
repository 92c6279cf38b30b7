"""The most probable cluster of each row equals its plain definition, for every family and kind of data."""

import gc
import threading
import weakref

import numpy as np
import pytest
from allocated import peak_of
from planted import PLANTED, TEXT, planted
from scipy import sparse
from scipy.special import logsumexp
from stepping import assert_threads_agree
from tiny import PlainPoisson

from expfam import (
    Dataset,
    DiagonalGaussian,
    Family,
    MixtureModel,
    Multinomial,
    Poisson,
    SphericalGaussian,
    SymmetricDirichlet,
    load_family,
)
from expfam.families.components import Components
from expfam.model.assignment import LoadedClusters, assigned_labels, extended_labels

RNG = np.random.default_rng(3)
HALVES = np.arange(300) % 2
SPARSE = sparse.csr_array(RNG.poisson(np.where(np.arange(30) % 2 == HALVES[:, None], 2.0, 0.2)).astype(np.float32))
CASES = {
    **{name: planted(name) for name in PLANTED},
    "float32": (DiagonalGaussian(), planted("gaussian_diag")[1].astype(np.float32), None),
    "wide": (load_family("gaussian"), RNG.normal(size=(300, 30)), None),
    "csr": (Multinomial(), TEXT, None),
    "csr_long": (Multinomial(), sparse.csr_array(RNG.poisson(3.0, (300, 40))), None),
    "fractional": (Multinomial(allow_fractional=True), SPARSE * 0.37, None),
    "sphere_csr": (SphericalGaussian(), SPARSE, HALVES),
    "plain_poisson": (PlainPoisson(), planted("poisson")[1], None),  # an owner that acquires the gil
    "bernoulli": (load_family("bernoulli"), (RNG.random((300, 12)) < 0.3).astype(float), None),
    "geometric": (load_family("geometric"), RNG.poisson(4.0, (300, 2)), None),
}


def case_of(name, K=7):
    family, X, labels = CASES[name]
    labels = np.random.default_rng(1).integers(0, K - 1, X.shape[0]) if labels is None else labels
    data = Dataset(X, family)
    n, S = data.statistics(labels, K)  # the last cluster is empty
    log_mass = np.log(np.random.default_rng(2).dirichlet(np.ones(K)))
    return data, n, S, log_mass


def plain_scores(data, n, S, log_mass):
    return Family.log_predictive(data.family, data.X, n, S) + log_mass  # differences of evidences


@pytest.mark.parametrize("name", CASES)
def test_ranks_and_choices_are_those_of_the_scores(name):
    data, n, S, log_mass = case_of(name)
    scores, rows = plain_scores(data, n, S, log_mass), np.arange(data.n_rows)
    clusters = LoadedClusters(data.family, n, S)
    best, margins = assert_threads_agree_on_both(lambda t: clusters.ranked(data, log_mass, 4, n_threads=t))
    ranked = np.sort(scores, axis=1)[:, ::-1]
    np.testing.assert_allclose(np.take_along_axis(scores, best.astype(int), axis=1), ranked[:, :4], atol=1e-8)
    np.testing.assert_allclose(margins, ranked[:, 0] - ranked[:, 1], atol=1e-8)
    assert all(len(set(each)) == 4 for each in best.tolist())
    given = np.random.default_rng(0).permuted(best, axis=1)
    labels, own = assert_threads_agree_on_both(lambda t: clusters.most_probable_of(data, log_mass, given, n_threads=t))
    np.testing.assert_allclose(scores[rows, labels], ranked[:, 0], atol=1e-8)
    np.testing.assert_allclose(own, margins, atol=1e-8)
    rest = best[:, 1:]  # a row need not be given its best cluster
    np.testing.assert_allclose(
        scores[rows, clusters.most_probable_of(data, log_mass, np.ascontiguousarray(rest))[0]], ranked[:, 1], atol=1e-8
    )


@pytest.mark.parametrize("name", CASES)
def test_some_rows_choose_as_all_do(name):
    data, n, S, log_mass = case_of(name)
    clusters = LoadedClusters(data.family, n, S)
    best, _ = clusters.ranked(data, log_mass, 3)
    labels, margins = clusters.most_probable_of(data, log_mass, best)
    rows = np.random.default_rng(0).permutation(data.n_rows)[: data.n_rows // 3]
    found = assert_threads_agree_on_both(
        lambda t: clusters.most_probable_of(data, log_mass, best[rows], rows=rows, n_threads=t)
    )
    np.testing.assert_array_equal(found[0], labels[rows])
    np.testing.assert_allclose(found[1], margins[rows], atol=1e-9)
    assert clusters.most_probable_of(data, log_mass, best[:0], rows=rows[:0])[0].size == 0
    if "compiled" in data.family.capabilities:
        with pytest.raises(IndexError, match=f"data from -1 to -1 of {data.n_rows}"):
            clusters.most_probable_of(data, log_mass, best[:1], rows=np.array([-1]))


@pytest.mark.parametrize("name", CASES)
def test_shares_are_those_of_the_scores(name):
    data, n, S, log_mass = case_of(name)
    clusters, labels = LoadedClusters(data.family, n, S), np.random.default_rng(0).integers(0, len(n), data.n_rows)
    (found,) = assert_threads_agree_on_both(lambda t: (clusters.shares(data, log_mass, labels, n_threads=t),))
    scores = plain_scores(data, n, S, log_mass)
    shares = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(found, shares[np.arange(data.n_rows), labels], rtol=1e-5, atol=1e-12)
    assert found.dtype == np.float32
    two = clusters.shares(data, log_mass[:2], np.ones(data.n_rows, dtype=int))  # the other slots do not count
    np.testing.assert_allclose(two, 1.0 / (1.0 + np.exp(scores[:, 0] - scores[:, 1])), rtol=1e-5, atol=1e-12)
    if "compiled" in data.family.capabilities:
        with pytest.raises(IndexError, match="of 2 slots"):
            clusters.shares(data, log_mass[:2], np.full(data.n_rows, 2))


def assert_threads_agree_on_both(function):
    found = [function(n_threads) for n_threads in (None, 2)]
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
    return found[0]


def test_of_equal_clusters_the_lowest_is_chosen():
    data = Dataset([[1.0], [2.0], [1.0], [2.0]], Poisson())
    clusters = LoadedClusters(data.family, *data.statistics([0, 0, 1, 1], 2))
    best, margins = clusters.ranked(data, np.zeros(2), 2)
    np.testing.assert_array_equal(best, [[0, 1]] * 4)
    np.testing.assert_array_equal(margins, 0.0)
    given = np.array([[1, 0]] * 4, dtype=np.int32)
    np.testing.assert_array_equal(clusters.most_probable_of(data, np.zeros(2), given)[0], 0)


def test_slots_that_do_not_exist_are_refused():
    data = Dataset([[1.0], [2.0], [1.0], [2.0]], Poisson())
    clusters = LoadedClusters(data.family, *data.statistics([0, 0, 1, 1], 2))
    for given in ([[0, 2]] * 4, [[0, -1]] * 4, [[0]] * 4):
        with pytest.raises(IndexError, match=r"slots? of 2"):
            clusters.most_probable_of(data, np.zeros(2), np.array(given, dtype=np.int32))
    with pytest.raises(IndexError, match="3 best slots of 2"):
        clusters.ranked(data, np.zeros(2), 3)


@pytest.mark.parametrize("name", CASES)
def test_labels_are_those_of_the_highest_score(name):
    data, n, S, log_mass = case_of(name)
    scores = plain_scores(data, n, S, log_mass)
    labels = assigned_labels(data.family, data, n, S, log_mass)
    assert labels.dtype == np.int32
    rows = np.arange(data.n_rows)
    np.testing.assert_allclose(scores[rows, labels], scores.max(axis=1), rtol=1e-9, atol=1e-9)
    assert (labels == scores.argmax(axis=1)).mean() > 0.99  # but for ties up to rounding
    assert len(set(labels)) > 1


@pytest.mark.parametrize("name", CASES)
def test_best_and_total_are_maximum_and_log_sum(name):
    data, n, S, log_mass = case_of(name)
    components = Components(data.family, data, len(n))
    components.load(n, S)
    best, total, labels = np.empty(100), np.empty(100), np.empty(100, dtype=np.int32)
    components.most_probable(50, 150, log_mass, labels, best, total)
    scores = plain_scores(data, n, S, log_mass)[50:150]
    np.testing.assert_allclose(best, scores.max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(total, np.logaddexp.reduce(scores, axis=1), rtol=1e-9)
    np.testing.assert_array_equal(labels, assigned_labels(data.family, data, n, S, log_mass)[50:150])


@pytest.mark.parametrize("name", ["gaussian_diag", "csr", "bernoulli", "plain_poisson"])
def test_threads_and_blocks_do_not_change_labels(name, monkeypatch):
    data, n, S, log_mass = case_of(name)
    expected = assigned_labels(data.family, data, n, S, log_mass)
    monkeypatch.setattr("expfam.model.assignment._BLOCK_SCORES", 1)
    found = assert_threads_agree(lambda t: assigned_labels(data.family, data, n, S, log_mass, n_threads=t))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_one_object_scores_any_data_with_the_bits_of_a_new_one(name):
    data, n, S, log_mass = case_of(name)
    clusters = LoadedClusters(data.family, n, S)
    all_rows = np.concatenate(clusters.each_block(data, log_mass, lambda scores, *_: scores))
    for rows in (slice(0, 1), slice(5, 9), slice(200, 290), slice(17, 18)):
        part = Dataset(data.X[rows], data.family)
        new = LoadedClusters(data.family, n, S)
        for each in (clusters, new):
            (scores,) = each.each_block(part, log_mass, lambda scores, *_: scores)
            np.testing.assert_array_equal(scores, all_rows[rows])
            np.testing.assert_array_equal(each.most_probable(part, log_mass), scores.argmax(axis=1))


def test_dense_and_sparse_rows_are_scored_in_turn():
    X = SPARSE.toarray().astype(float)
    family = Dataset(SPARSE, SphericalGaussian()).family
    n, S = Dataset(SPARSE, family).statistics(np.arange(300) % 3, 3)
    clusters, mass = LoadedClusters(family, n, S), np.zeros(3)
    for _ in range(2):
        dense = clusters.most_probable(Dataset(X, family), mass)
        np.testing.assert_array_equal(clusters.most_probable(Dataset(SPARSE, family), mass), dense)


def test_fractional_rows_are_scored_by_whole_statistics():
    """A table of int32 counts gives the scores that float64 counts give."""
    family = Dataset(TEXT, Multinomial(allow_fractional=True)).family
    n, S = Dataset(TEXT, family).statistics(np.arange(600) % 5, 5)
    clusters, mass = LoadedClusters(family, n, S), np.zeros(5)
    clusters.most_probable(Dataset(TEXT, family), mass)  # loads whole counts
    data = Dataset(TEXT * 0.3, family)
    expected = family.log_predictive(data.X, n, S)
    found = np.concatenate(clusters.each_block(data, mass, lambda scores, *_: scores))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_equal_scores_go_to_the_first_cluster():
    data = Dataset([[0.0], [1.0], [5.0]], Poisson())
    n, S = np.array([2.0, 2.0, 2.0]), np.array([[4.0], [1.0], [1.0]])
    assert assigned_labels(data.family, data, n, S, [0.0, 0.0, 0.0]).tolist() == [1, 1, 0]


def test_a_cluster_without_mass_gets_no_row():
    data, n, S, log_mass = case_of("gaussian_diag")
    log_mass[0] = -np.inf
    assert 0 not in assigned_labels(data.family, data, n, S, log_mass)


class Spoilt(Family):
    """Counts whose evidence is not finite where a sum is 13."""

    support = "counts"

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return np.where(S[:, 0] == 13.0, -np.inf, -n - S[:, 0])


def test_scores_that_are_no_numbers_are_refused():
    data = Dataset([[1.0], [13.0]], Spoilt())
    n, S = np.array([1.0, 1.0]), np.array([[13.0], [0.0]])  # -inf of the first cluster: inf - inf where 0 is added
    with np.errstate(invalid="ignore"), pytest.raises(FloatingPointError, match="spoilt"):
        assigned_labels(data.family, Dataset([[0.0]], data.family), n, S, np.zeros(2))
    components = Components(data.family, data, 2)
    with pytest.raises(FloatingPointError, match=r"datum 0, slot 1: the score is NaN"):
        components.most_probable(0, 1, np.array([0.0, np.nan]), np.empty(1, dtype=np.int32))


@pytest.mark.parametrize("log_mass", [[np.nan, 0.0], [np.inf, 0.0], [], [0.0] * 3, [[0.0, 0.0]]])
def test_wrong_masses_are_refused(log_mass):
    data = Dataset([[1.0], [3.0]], Poisson())
    with pytest.raises(ValueError, match="log_mass"):
        assigned_labels(data.family, data, np.ones(2), np.ones((2, 1)), log_mass)


def test_wrong_memory_is_refused():
    data, n, _, log_mass = case_of("gaussian_diag")
    components = Components(data.family, data, len(n))
    with pytest.raises(ValueError, match=r"labels must have shape \(5,\); got \(4,\)"):
        components.most_probable(0, 5, log_mass, np.empty(4, dtype=np.int32))
    with pytest.raises(IndexError):
        components.most_probable(0, data.n_rows + 1, log_mass, np.empty(data.n_rows + 1, dtype=np.int32))
    with pytest.raises(IndexError):
        components.most_probable(0, 1, np.zeros(len(n) + 1), np.empty(1, dtype=np.int32))


@pytest.mark.parametrize("n_rows", [1, 60_000])
def test_rows_are_let_go_after_a_call(n_rows):
    """A view of one row would keep the whole array alive, and so would the last data of a call."""
    data, n, S, log_mass = case_of("gaussian_diag")
    clusters = LoadedClusters(data.family, n, S)
    X = data.X[np.arange(60_000) % data.n_rows]
    whole = weakref.ref(X)
    clusters.most_probable(Dataset(X[:n_rows], data.family), log_mass)
    del X
    gc.collect()
    assert whole() is None


def test_no_array_of_scores_is_made():
    N, K = 100_000, 300  # 240 MB of scores
    data = Dataset(np.random.default_rng(0).normal(size=(N, 1)), DiagonalGaussian())
    n, S = data.statistics(np.arange(N) % K, K)
    assert peak_of(lambda: assigned_labels(data.family, data, n, S, np.zeros(K))) < 2**22


def test_threads_may_share_one_object():
    data, n, S, log_mass = case_of("csr")
    clusters, expected = LoadedClusters(data.family, n, S), assigned_labels(data.family, data, n, S, log_mass)
    parts = [(start, Dataset(data.X[start : start + 30], data.family)) for start in range(0, 600, 30)]
    wrong = []

    def work():
        for start, part in parts * 5:
            if not np.array_equal(clusters.most_probable(part, log_mass), expected[start : start + 30]):
                wrong.append(start)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_new_statistics_replace_the_old_ones():
    for name in ("gaussian_diag", "csr", "bernoulli"):
        data, n, S, log_mass = case_of(name)
        clusters = LoadedClusters(data.family, n, S, keeps_rows=True)
        clusters.most_probable(data, log_mass)
        n, S = data.statistics(np.arange(data.n_rows) % 7, 7)
        clusters.load(n, S)
        np.testing.assert_array_equal(
            clusters.most_probable(data, log_mass), assigned_labels(data.family, data, n, S, log_mass)
        )
        np.testing.assert_allclose(clusters.log_marginal(data), data.family.log_marginal_of_rows(n, S), rtol=1e-9)


def test_components_of_dense_rows_refuse_sparse_ones():
    family = Dataset(SPARSE, SphericalGaussian()).family
    components = Components(family, Dataset(SPARSE.toarray().astype(float), family), 2)
    with pytest.raises(ValueError, match="cannot read"):
        components.set_data(Dataset(SPARSE, family))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_that_are_taken_are_those_of_a_new_data_set(is_sparse):
    X = np.random.default_rng(0).poisson(2.0, size=(20, 3))
    data = Dataset(sparse.csr_array(X) if is_sparse else X, Poisson(), weight=np.arange(20.0), row_offset=5)
    part = data.take(np.array([2, 3, 11]))
    again = Dataset(data.X[[2, 3, 11]], data.family, weight=[2.0, 3.0, 11.0])
    assert (part.n_rows, part.row_offset) == (3, 0)
    assert np.array_equal(part.phi(0, 3), again.phi(0, 3))
    assert np.array_equal(part.weight, again.weight)
    assert not (part.X.data if is_sparse else part.X).flags.writeable


def test_extended_labels_are_the_most_probable_clusters():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 30)
    data = Dataset(8.0 * classes[:, None] + rng.normal(size=(90, 2)), DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(3, 1.0))
    rows = np.arange(0, 90, 3)
    labels = classes[rows].astype(np.int32)
    labels[labels == 1] = 4  # clusters without rows: none is chosen
    extended = extended_labels(model, data.take(rows), labels, data)
    assert np.array_equal(extended, np.where(classes == 1, 4, classes))
