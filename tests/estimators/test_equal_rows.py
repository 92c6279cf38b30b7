"""Equal rows have equal labels, also where more clusters are asked for than rows are distinct."""

import numpy as np
import pytest
from scipy import sparse

from expfam import Categorical, Columns, DiagonalGaussian, GroupedMixture, Mixture
from expfam.errors import DataWarning
from expfam.model.equal_rows import first_equal_rows

TWO = np.repeat([[0.0], [1.0]], 30, axis=0)
BOTH = np.column_stack([TWO, 1 - TWO])
REAL = {
    "gaussian": TWO,
    "gaussian_diag": TWO,
    "gaussian_spherical": TWO,
    "lognormal": 1 + TWO,
    "exponential": 1 + TWO,
    "von_mises_fisher": BOTH,
}
DISCRETE = {"poisson": 9 * TWO, "multinomial": 9 * BOTH, "negative_binomial": 9 * TWO, "bernoulli": BOTH}
SAMPLERS = ["auto", "gibbs", "em", "variational", "uncollapsed_gibbs", "stochastic_em", "split_merge", "fastex"]
TABLE = Columns([(DiagonalGaussian(), (0,)), (Categorical(), (1,))])


def assert_together(labels, X):
    first = first_equal_rows(X)
    np.testing.assert_array_equal(labels, labels[first])


@pytest.mark.parametrize("n_components", [3, 5, 12])
@pytest.mark.parametrize("family", REAL)
def test_two_distinct_rows_are_two_clusters(family, n_components):
    X = REAL[family]
    with pytest.warns(DataWarning, match=f"n_components={n_components}, but 2 rows are distinct.*2 clusters hold"):
        mixture = Mixture(family, n_components, random_state=0).fit(X)
    assert mixture.cluster_sizes_.tolist() == [30, 30]
    np.testing.assert_array_equal(mixture.labels_, mixture.predict(X))
    assert_together(mixture.labels_, X)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_warns(sampler):
    with pytest.warns(DataWarning, match="n_components=3, but 2 rows are distinct"):
        mixture = Mixture("gaussian_diag", 3, sampler=sampler, random_state=0).fit(TWO)
    assert mixture.cluster_sizes_.tolist() == [30, 30]


def test_the_default_family_of_two_values_warns():
    with pytest.warns(DataWarning, match="n_components=3, but 2 rows are distinct"):
        mixture = Mixture(n_components=3, random_state=0).fit(TWO)
    assert mixture.cluster_sizes_.tolist() == [30, 30]
    assert_together(mixture.labels_, TWO)


@pytest.mark.parametrize("family", DISCRETE)
def test_counts_take_at_most_as_many_clusters(family):
    for X in (DISCRETE[family], sparse.csr_array(DISCRETE[family])):
        with pytest.warns(DataWarning, match="n_components=5, but 2 rows are distinct"):
            mixture = Mixture(family, 5, random_state=0).fit(X)
        assert mixture.cluster_sizes_.tolist() == [30, 30]


@pytest.mark.filterwarnings("ignore:Mixture.*(distinct|still rising)")
@pytest.mark.parametrize("seed", range(4))
def test_rounded_values_are_one_cluster_each_where_more_are_asked_for(seed):
    X = np.round(np.random.default_rng(seed).normal(size=(80, 1)) * 1.5)
    for n_components in (4, 6, 20):
        mixture = Mixture(n_components=n_components, random_state=0).fit(X)
        assert_together(mixture.labels_, X)
        assert mixture.n_components_ == min(n_components, np.unique(X).size)


@pytest.mark.filterwarnings("ignore:Mixture.*(distinct|still rising)")
def test_tables_with_missing_cells():
    X = np.column_stack([TWO, TWO])
    X[::7, 1] = np.nan
    mixture = Mixture(TABLE, 6, random_state=0).fit(X)
    assert_together(mixture.labels_, X)
    assert mixture.n_components_ == 4


@pytest.mark.filterwarnings("ignore:Mixture.*(distinct|still rising)")
@pytest.mark.parametrize("labels", ["clusters", "classes"])
def test_known_rows_and_their_equals(labels):
    y = np.where(np.arange(60) % 9 == 0, (np.arange(60) >= 30).astype(int), -1)
    mixture = Mixture("gaussian_diag", 4, labels=labels, random_state=0).fit(TWO, y)
    assert_together(mixture.labels_, TWO)
    linked = Mixture("gaussian_diag", 4, random_state=0).fit(TWO, links=np.where(np.arange(60) % 20 == 0, 0, -1))
    assert len(set(linked.labels_[::20])) == 1


@pytest.mark.filterwarnings("ignore:Mixture")
@pytest.mark.parametrize("n_components", [None, 5])
@pytest.mark.parametrize("labels", ["clusters", "classes"])
@pytest.mark.parametrize("family", ["gaussian_diag", "poisson", "categorical"])
def test_free_rows_stay_together_beside_known_rows_of_several_classes(family, labels, n_components):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, (80, 2))
        y = np.where(rng.random(80) < 0.3, rng.integers(0, 2, 80), -1)  # equal rows are of both classes
        mixture = Mixture(family, n_components, labels=labels, random_state=seed).fit(X, y)
        assert_together(mixture.labels_[y == -1], X[y == -1])
        assert not set(mixture.labels_[y == 0]) & set(mixture.labels_[y == 1])


@pytest.mark.filterwarnings("ignore:Mixture.*(distinct|still rising)")
def test_chunks_and_groups():
    chunks = [TWO[::2], TWO[1::2]]
    mixture = Mixture("gaussian_diag", 5, sampler="variational", random_state=0).fit_chunks(chunks)
    assert_together(mixture.predict(TWO), TWO)
    mixture = Mixture("gaussian_diag", 5, sampler="variational", random_state=0).partial_fit(TWO)
    assert_together(mixture.labels_, TWO)
    groups = np.tile(np.arange(3), 20)
    for sampler in ("gibbs", "variational"):
        grouped = GroupedMixture("gaussian_diag", 5, sampler=sampler, random_state=0).fit(TWO, groups=groups)
        for group in range(3):  # groups have weights of their own
            assert_together(grouped.labels_[groups == group], TWO[groups == group])


@pytest.mark.filterwarnings("ignore:Mixture.*(distinct|still rising)")
def test_weighted_rows():
    for sampler in ("em", "variational"):
        mixture = Mixture(n_components=4, sampler=sampler, random_state=0).fit(TWO, sample_weight=np.full(60, 2.0))
        assert mixture.cluster_sizes_.tolist() == [60.0, 60.0]


def test_as_many_distinct_rows_give_as_many_clusters_without_a_warning():
    X = np.repeat(np.arange(5.0)[:, None], [30, 1, 20, 2, 9], axis=0)
    mixture = Mixture(n_components=5, random_state=0).fit(X)
    assert mixture.n_components_ == 5
    assert_together(mixture.labels_, X)
