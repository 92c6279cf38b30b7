"""The search for a start: its candidates, their scores, and the prior that it adapts."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import (
    Dataset,
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    MixtureModel,
    Multinomial,
    SymmetricDirichlet,
)
from expfam.samplers import SplitMerge
from expfam.samplers.warm_starts import search
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.sample_rows import candidate_rows, has_few_rows, race_rows, search_memory, search_rows
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.settle import Settler


def blobs(n_each=60, K=4, d=2, *, apart=12.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_each * K, d)) + apart * np.repeat(rng.normal(size=(K, d)), n_each, axis=0)


def found(X, family, weights, **options):
    data = Dataset(X, family)
    return search_start(MixtureModel(data.family, weights), data, seed=1, **options), data


def given_runs(monkeypatch, runs):
    """Let the k-means runs of a search in the family's coordinates return given labels, and leave others out."""

    def kmeans(self, metric, n_clusters, run=0):
        return runs[run] if metric == "own" else runs[0]

    monkeypatch.setattr(Divisions, "kmeans", kmeans)
    monkeypatch.setattr(Divisions, "of_best_column", lambda self, n_clusters: None)
    monkeypatch.setattr(Divisions, "of_segments", lambda self, n_clusters=None: None)
    monkeypatch.setattr(search._Search, "_settled", lambda self: None)


def test_the_candidate_of_the_highest_score_is_taken():
    start, _ = found(blobs(n_each=260, apart=1.5), DiagonalGaussian(), SymmetricDirichlet(4, 1.0), moves=SplitMerge())
    assert set(start.scores) <= {"lloyd 1", "lloyd 2", "lloyd 3", "raw", "white", "column", "free"}
    assert 2 <= len(start.scores) <= 4
    assert start.scores[start.name] == max(start.scores.values())
    assert np.unique(start.labels).size == 4


def test_em_decides_and_not_the_joint_of_a_hard_partition(monkeypatch):
    """Few extreme rows cut off have the higher joint density; EM from the two halves reaches the higher one."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-1.0, 1.0, 300), rng.normal(1.0, 1.0, 300)])[:, None]
    even, lopsided = (X[:, 0] > 0).astype(np.int32), (X[:, 0] > 2.6).astype(np.int32)
    given_runs(monkeypatch, [lopsided, even])
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(2, 1.0))
    assert model.log_joint(data, lopsided) > model.log_joint(data, even)
    start = search_start(model, data, n_init=2, seed=0)
    assert start.name == "lloyd 2"
    assert start.scores["lloyd 2"] > start.scores["lloyd 1"]


def test_runs_that_agree_are_one_candidate(monkeypatch):
    X = blobs()
    labels = np.repeat(np.arange(4, dtype=np.int32), 60)
    given_runs(monkeypatch, [labels, 3 - labels, np.roll(labels, 7)])  # the second has other numbers only
    start, _ = found(X, DiagonalGaussian(), SymmetricDirichlet(4, 1.0))
    assert set(start.scores) == {"lloyd 1", "lloyd 3"}


def test_em_runs_from_the_four_candidates_of_the_highest_log_joint(monkeypatch):
    X = blobs()
    labels = np.repeat(np.arange(4, dtype=np.int32), 60)
    given_runs(monkeypatch, [np.roll(labels, 5 * run) for run in (4, 3, 0, 2, 1)])
    start, _ = found(X, DiagonalGaussian(), SymmetricDirichlet(4, 1.0), n_init=5)
    assert set(start.scores) == {f"lloyd {run}" for run in (2, 3, 4, 5)}
    assert start.name == "lloyd 3"


def test_a_free_run_with_fewer_clusters_is_no_candidate(monkeypatch):
    X = blobs(n_each=300)
    data = Dataset(X, DiagonalGaussian())
    model = MixtureModel(data.family, SymmetricDirichlet(9, 1.0))  # the rows have four
    start = search_start(model, data, moves=SplitMerge(), seed=0)
    assert "free" not in start.scores
    assert np.unique(start.labels).size > 4


def free_runs(monkeypatch):
    """Note the free runs that searches make."""
    made = []

    def noted(self, before=search._Search._free):
        made.append(self.K)
        return before(self)

    monkeypatch.setattr(search._Search, "_free", noted)
    return made


def four_groups_and_wrong_runs(monkeypatch, labels, *, apart):
    """Return rows of four groups in the plane; the first k-means run makes given clusters, and another one differs."""
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    X = np.random.default_rng(1).normal(size=(1200, 2)) + apart * np.repeat(corners, 300, axis=0)
    other = np.repeat([0, 1, 2, 3, 0], [300, 300, 300, 150, 150])
    given_runs(monkeypatch, [labels, np.minimum(other, labels.max())])
    return X


@pytest.mark.parametrize("family", [DiagonalGaussian(), Gaussian()])
def test_a_division_into_separate_groups_is_the_start_without_a_race(monkeypatch, family):
    made, labels = free_runs(monkeypatch), np.repeat(np.arange(4), 300)
    monkeypatch.setattr(search, "best_by_em", None)  # a call would fail
    X = four_groups_and_wrong_runs(monkeypatch, labels, apart=15.0)
    start, _ = found(X, family, SymmetricDirichlet(4, 1.0), n_init=2)
    assert (made, start.name, list(start.scores)) == ([], "lloyd 1", ["lloyd 1", "lloyd 2"])
    assert np.array_equal(start.labels, labels)
    assert start.scores["lloyd 1"] > start.scores["lloyd 2"]
    # the end of a search with an open number is the same partition
    opened, _ = found(X, family, DirichletProcess(), moves=SplitMerge())
    assert adjusted_rand_score(opened.labels, labels) == 1.0


@pytest.mark.parametrize(
    ("labels", "apart"),
    [
        (np.repeat([0, 0, 1, 2, 3], [300, 300, 300, 150, 150]), 15.0),  # one group cut, two together
        (np.repeat([0, 1, 2, 2], 300), 15.0),  # a cut pays
        (np.repeat([0, 1, 2, 3, 4], [300, 300, 300, 150, 150]), 15.0),  # a merge pays
        (np.roll(np.repeat(np.arange(4), 300), 3), 15.0),  # rows move
        (np.repeat(np.arange(4), 300), 2.5),  # groups overlap, and rows move from their own
    ],
)
def test_a_race_is_run_unless_each_cluster_is_one_group(monkeypatch, labels, apart):
    made, X = free_runs(monkeypatch), four_groups_and_wrong_runs(monkeypatch, labels, apart=apart)
    K = int(labels.max()) + 1
    found(X, DiagonalGaussian(), SymmetricDirichlet(K, 1.0), n_init=2)
    assert made == [K]


def test_an_open_number_of_clusters_is_found_from_one_and_from_many():
    start, _ = found(blobs(), DiagonalGaussian(), DirichletProcess(), moves=SplitMerge())
    assert {"one", "own 16"} <= set(start.scores)
    assert start.scores[start.name] == max(start.scores.values())
    assert np.unique(start.labels).size == 4


def test_a_quick_search_takes_one_candidate_uphill(monkeypatch):
    made = []
    settled = Settler.settled

    def counted(self, present, **options):
        made.append(present)
        return settled(self, present, **options)

    monkeypatch.setattr(Settler, "settled", counted)
    long, _ = found(blobs(apart=2.0), DiagonalGaussian(), DirichletProcess())
    n_long = len(made)
    made.clear()
    quick, _ = found(blobs(apart=2.0), DiagonalGaussian(), DirichletProcess(), is_quick=True)
    assert (len(made), n_long > 2) == (1, True)
    assert quick.scores[quick.name] == max(quick.scores.values()) <= max(long.scores.values())


@pytest.mark.parametrize("family", [DiagonalGaussian, Gaussian])
@pytest.mark.parametrize("weights", [SymmetricDirichlet(2, 1.0), DirichletProcess()], ids=["given", "open"])
def test_one_telling_direction_among_many_is_found(family, weights):
    """Standardised columns hide two groups that lie far apart along the first principal component."""
    rng, y = np.random.default_rng(0), np.arange(400) % 2
    X = (rng.normal(size=(2, 60)) * 3.0)[y] + rng.normal(size=(400, 60))
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    names = family.learned_by_default
    start, _ = found(U[:, :12] * s[:12], family(), weights, learned=names, moves=SplitMerge())
    assert adjusted_rand_score(y, start.labels) > 0.99


def test_rows_of_one_cluster_stay_one():
    X = np.random.default_rng(0).normal(size=(1500, 3))
    names = DiagonalGaussian.learned_by_default
    start, data = found(X, DiagonalGaussian(), DirichletProcess(), learned=names, moves=SplitMerge())
    assert not start.labels.any()
    assert start.model.family != data.family  # the prior fits one cluster


def test_counts_start_from_random_labels_from_k_means_or_from_merged_clusters():
    rng = np.random.default_rng(0)
    X = rng.multinomial(30, np.eye(4) * 0.9 + 0.025, size=(50, 4)).reshape(-1, 4)
    start, _ = found(X, Multinomial(), SymmetricDirichlet(4), moves=SplitMerge())
    assert "random 1" in start.scores
    assert set(start.scores) <= {"random 1", "lloyd 1", "raw", "log", "free"}
    assert np.unique(start.labels).size == 4


def test_counts_of_an_open_number_begin_at_random_and_are_compared_with_the_best_division():
    rng = np.random.default_rng(0)
    X = rng.multinomial(30, np.eye(4) * 0.9 + 0.025, size=(50, 4)).reshape(-1, 4)
    start, _ = found(X, Multinomial(), DirichletProcess(), moves=SplitMerge())
    assert start.name == "random 1"
    assert np.unique(start.labels).size > 4
    (other,) = start.others.values()
    assert adjusted_rand_score(np.tile(np.arange(4), 50), other) > 0.9


def test_the_prior_takes_the_shape_of_the_clusters():
    X = blobs(d=3)
    X[:, 1] += 0.9 * (X[:, 0] - X[:, 0].mean())
    start, data = found(X, Gaussian(), SymmetricDirichlet(4, 1.0))
    kept, _ = found(X, Gaussian(), SymmetricDirichlet(4, 1.0), adapt_prior=False)
    assert kept.model.family == data.family
    labels = start.labels
    centred = X - np.array([X[labels == k].mean(axis=0) for k in range(4)])[labels]
    within = centred.T @ centred / len(X)
    family = start.model.family
    mean = family.scale / (family.dof - X.shape[1] - 1)
    assert np.allclose(mean, within + 1e-3 * np.diag(X.var(axis=0)), rtol=0.05, atol=1e-3)


def test_constant_columns_leave_the_prior_positive_definite():
    X = blobs(d=3)
    X[:, 2] = 5.0
    with pytest.warns(UserWarning, match="constant"):
        start, _ = found(X, Gaussian(), SymmetricDirichlet(4, 1.0))
    assert np.linalg.eigvalsh(start.model.family.scale).min() > 0


def test_a_full_covariance_on_few_rows_has_no_free_candidate():
    X = blobs(n_each=260, d=30, apart=1.0)
    start, data = found(X, Gaussian(), SymmetricDirichlet(4, 1.0), moves=SplitMerge())
    assert has_few_rows(start.model, data)
    assert "free" not in start.scores
    diagonal, data = found(X, DiagonalGaussian(), SymmetricDirichlet(4, 1.0), moves=SplitMerge())
    assert not has_few_rows(diagonal.model, data)


@pytest.mark.parametrize("family", [DiagonalGaussian, Gaussian])
def test_threads_do_not_change_the_start(family):
    X = blobs(n_each=300)
    one, _ = found(X, family(), SymmetricDirichlet(4, 1.0), moves=SplitMerge(), n_threads=1)
    three, _ = found(X, family(), SymmetricDirichlet(4, 1.0), moves=SplitMerge(n_threads=3), n_threads=3)
    assert one.scores == three.scores
    assert np.array_equal(one.labels, three.labels)


@pytest.mark.parametrize(("n_each", "n_candidate"), [(640, 2560), (1500, 2560), (630, 2520)])
def test_candidates_are_made_on_some_of_many_rows(monkeypatch, n_each, n_candidate):
    """2000 rows and 100 for each cluster, in whole tiles of EM; all rows get labels."""
    sizes, divisions = [], search.Divisions
    monkeypatch.setattr(search, "Divisions", lambda data, **own: sizes.append(data.n_rows) or divisions(data, **own))
    start, data = found(blobs(n_each, d=3), DiagonalGaussian(), SymmetricDirichlet(4, 1.0))
    assert set(sizes) == {n_candidate}
    assert start.labels.shape == (data.n_rows,)
    classes = np.repeat(np.arange(4), n_each)
    assert adjusted_rand_score(classes, start.labels) > 0.95


def test_full_covariances_have_more_rows():
    data = Dataset(blobs(1500, d=20), Gaussian())  # 230 statistics
    K = SymmetricDirichlet(4, 1.0)
    assert candidate_rows(MixtureModel(data.family, K), data, 0) is None
    assert candidate_rows(MixtureModel(data.family, K), Dataset(blobs(2400, d=20), data.family), 0).size == 6144


def test_an_open_number_of_clusters_races_on_five_thousand_rows_or_eighty_a_column():
    assert race_rows(Dataset(np.eye(5000, 2), DiagonalGaussian()), 0) is None
    assert race_rows(Dataset(np.eye(5001, 2), DiagonalGaussian()), 0).size == 5000
    assert race_rows(Dataset(blobs(2500, d=70), Gaussian()), 0).size == 5600


def test_a_search_on_some_of_the_rows_is_part_of_the_forecast():
    few, many = (Dataset(np.eye(n, 10), DiagonalGaussian()) for n in (2560, 2561))
    copied = 2560 * 10 * 8
    assert search_memory(many, 3) - search_memory(few, 3) > copied


def test_a_sample_is_drawn_from_many_rows_only():
    assert search_rows(20_060, 3, seed=0) is None
    rows = search_rows(20_061, 3, seed=0)
    assert rows.size == 20_060 == np.unique(rows).size
    assert np.array_equal(rows, np.sort(rows))
    assert not np.array_equal(rows, search_rows(20_061, 3, seed=1))
    assert search_rows(25_000, None, seed=0) is None
