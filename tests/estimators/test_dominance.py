"""A default fit is not below what anybody can write down: one cluster, k-means, columns, the truth, its start."""

import count_shapes as counts
import numpy as np
import pytest
import vector_shapes as vectors
from dominance import WatchedMixture, judge, tolerance
from grouped_dominance import judge_groups
from sklearn.metrics import adjusted_rand_score

from expfam import DiagonalGaussian, GroupedMixture, Mixture

SHAPES = {  # generator, family, number of clusters that is given in half of the fits
    "one blob": (vectors.blob(500, 2), "gaussian_diag", 3),
    "one blob, spherical": (vectors.blob(800, 2), "gaussian_spherical", 3),
    "one blob, full": (vectors.blob(500, 1), "gaussian", 3),
    "far components": (vectors.components(600, 30, 2), "gaussian_diag", 2),
    "far components, full": (vectors.components(800, 20, 2), "gaussian", 2),
    "one telling column": (vectors.telling(600, 30, 20.0), "gaussian_diag", 2),
    "one telling column of five groups": (vectors.telling(1000, 99, 30.0, k=5), "gaussian_diag", 5),
    "row of groups": (vectors.standardised(vectors.telling(800, 1, 5.0, k=8)), "gaussian_diag", 8),
    "row of groups, full": (vectors.standardised(vectors.telling(1200, 1, 4.0, k=10)), "gaussian", 10),
    "grid among columns of noise": (vectors.standardised(vectors.lattice(2000, 10, 4, 6.0)), "gaussian_diag", 16),
    "one telling column, full": (vectors.telling(1000, 12, 20.0), "gaussian", 2),
    "unequal sizes": (vectors.unequal_sizes((450, 25, 25)), "gaussian_diag", 3),
    "sizes in steps": (vectors.scattered(vectors.steps_of_sizes(8, 100, 600), 3, 5.0), "gaussian_diag", 8),
    "sizes in steps of three": (vectors.scattered(vectors.steps_of_sizes(8, 300, 2000), 3, 5.0), "gaussian_diag", 8),
    "near sizes, full": (vectors.scattered(vectors.steps_of_sizes(5, 1000, 3000), 3, 2.0), "gaussian", 5),
    "near groups, full": (vectors.scattered([50] * 8, 2, 2.0, shaped=True), "gaussian", 8),
    "cube": (vectors.uniform(400, 5), "gaussian_diag", 5),
    "blob in four": (vectors.blob(400, 2), "gaussian_diag", 4),
    "strip": (vectors.strip(600), "gaussian_diag", 2),
    "square": (vectors.uniform(600), "gaussian_spherical", 4),
    "zeros in half of the cells": (vectors.zeros(600, 0.5), "gaussian_diag", 3),
    "zeros in most cells, full": (vectors.zeros(600, 0.8), "gaussian", 3),
    "zeros in half of the cells, spherical": (vectors.zeros(600, 0.5), "gaussian_spherical", 3),
    "a column of 0 and 1": (vectors.with_binary(600), "gaussian", 3),
    "a column of 0 and 1, diagonal": (vectors.with_binary(600), "gaussian_diag", 3),
    "counts as real values": (vectors.real_counts(600), "gaussian_spherical", 3),
    "values at a bound": (vectors.bounded(600, 0.1), "gaussian_diag", 3),
    "coarse values": (vectors.coarse_triangle(600, 1.0), "gaussian", 3),
    "constant columns": (vectors.near_corners(600, 20), "gaussian_diag", 3),
    "constant columns, full": (vectors.near_corners(600, 20), "gaussian", 3),
    "constant columns, spherical": (vectors.near_corners(600, 20), "gaussian_spherical", 3),
    "copies of columns, full": (vectors.with_copies(600), "gaussian", 3),
    "few far rows": (vectors.outliers(500, 3, 5), "gaussian", 3),
    "ring": (vectors.ring(600), "gaussian_diag", 8),
    "ring, full": (vectors.ring(600), "gaussian", 8),
    "heavy tails": (vectors.heavy_tails(600, 3), "gaussian", 3),
    "fewer rows than columns, full": (vectors.plain(30, 200, 3), "gaussian", 3),
    "unit vectors": (vectors.directions(400, 100, 8, 1.5), "gaussian_diag", 8),
    "near rates": (counts.near_rates(400, 5, 6, 0.35), "poisson", 5),
    "zeros in half of the counts": (counts.many_zeros(700, 0.5, 3), "multinomial", 3),
    "zeros in half of the counts, Poisson": (counts.many_zeros(700, 0.5, 3), "poisson", 4),
    "one strong count": (counts.strong_count(600, 40), "negative_binomial", 2),
    "noise in categories": (counts.table(counts.codes_of_noise(600, 10)), "auto", 2),
    "table": (counts.noise_categories(400), "auto", 2),
}


@pytest.mark.parametrize("n_clusters", [None, 8])
def test_a_row_of_groups_is_found_beside_a_column_of_noise(n_clusters):
    X, truth = vectors.standardised(vectors.telling(800, 1, 5.0, k=8))(0)
    labels = Mixture("gaussian_diag", n_clusters, random_state=0).fit(X).labels_
    assert adjusted_rand_score(truth, labels) > 0.95


@pytest.mark.parametrize("n_clusters", [None, 16])
def test_a_grid_of_groups_is_found_among_columns_of_noise(n_clusters):
    X, truth = vectors.standardised(vectors.lattice(2000, 10, 4, 6.0))(0)
    labels = Mixture("gaussian_diag", n_clusters, random_state=0).fit(X).labels_
    assert adjusted_rand_score(truth, labels) > 0.95


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("is_given", [False, True], ids=["K open", "K given"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_default_fit_is_not_below_a_simple_partition(name, is_given, seed):
    make, family, K = SHAPES[name]
    X, truth = make(seed)
    mixture = WatchedMixture(family, K if is_given else None, random_state=seed).fit(X)
    judgement = judge(mixture, X, truth=truth, seed=seed, learns=False)
    assert judgement.below <= tolerance(len(truth)), judgement


# many ways divide the groups among fewer clusters; where rows count 15 times, the best is far above the others
@pytest.mark.parametrize(
    ("n_groups", "n_columns", "K", "seed"), [(8, 4, 2, 4), (8, 6, 3, 6), (5, 6, 2, 3), (6, 8, 2, 2)]
)
def test_fewer_clusters_than_groups_of_repeated_rows(n_groups, n_columns, K, seed):
    rng = np.random.default_rng(seed + 100 * n_columns)
    means = 4.0 * rng.normal(size=(n_groups, n_columns))
    rows = means[rng.integers(n_groups, size=100)] + rng.normal(size=(100, n_columns))
    X = np.tile(rows, (15, 1)) if seed % 2 else np.repeat(rows, 15, axis=0)
    mixture = WatchedMixture("gaussian", K, random_state=seed).fit(X)
    judgement = judge(mixture, X, seed=seed, learns=False)
    assert judgement.below <= tolerance(len(X)), judgement


@pytest.mark.parametrize("make", [vectors.telling(1000, 99, 30.0, k=5), vectors.telling(2000, 49, 10.0, k=20)])
@pytest.mark.parametrize("is_given", [False, True], ids=["K open", "K given"])
@pytest.mark.parametrize("family", ["gaussian_diag", "lognormal", DiagonalGaussian(missing=True)])
def test_groups_of_one_column_among_many_are_found(make, is_given, family):
    """Columns that are alike in all clusters must not outvote it."""
    X, truth = make(0)
    X = np.exp(X / 10.0) if family == "lognormal" else X
    mixture = Mixture(family, truth.max() + 1 if is_given else None, random_state=0).fit(X)
    assert adjusted_rand_score(truth, mixture.labels_) > 0.99


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("K", [None, 4])
def test_chunks_are_not_below_a_simple_partition(K, seed):
    X, truth = vectors.plain(1000, 5, 4)(seed)
    mixture = Mixture("gaussian_diag", K, sampler="variational", random_state=seed)
    for chunk in np.array_split(X, 4):
        mixture.partial_fit(chunk)
    judgement = judge(mixture, X, truth=truth, seed=seed, learns=False)
    assert judgement.below <= tolerance(len(X)), judgement


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_in_groups_are_not_below_a_simple_partition(seed):
    X, truth = vectors.components(600, 30, 2)(seed)
    groups = np.arange(600) // 50
    mixture = GroupedMixture("gaussian_diag", 2, random_state=seed).fit(X, groups=groups)
    judgement = judge_groups(mixture, X, groups, truth=truth, seed=seed)
    assert judgement.below <= tolerance(len(X)), judgement
