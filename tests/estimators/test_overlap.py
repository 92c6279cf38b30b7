"""A default fit says where its labels join groups that overlap, and the line to type divides them."""

import re
import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, DirichletProcess, Mixture, MixtureModel
from expfam.errors import DataWarning
from expfam.fitting.overlap import divided
from expfam.samplers import SparseVariational
from expfam.samplers.warm_starts.bound_race import bounds_of
from expfam.samplers.warm_starts.settle import Settler

SAID = "clusters that overlap describe"


def near_groups(n_rows=3000, distance=2.6, n_groups=2, seed=0):
    """Groups in a row, each of which overlaps with the next."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_groups, n_rows)
    return np.c_[distance * classes, 0 * classes] + rng.normal(size=(n_rows, 2)), classes


def quiet_fit(mixture, X):
    """Fit; any warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return mixture.fit(X)


@pytest.mark.parametrize("family", ["gaussian", "gaussian_diag"])
def test_an_open_number_that_joins_groups_is_told_and_the_line_divides_them(family):
    X, classes = near_groups()
    with pytest.warns(DataWarning, match=SAID) as caught:
        joined = Mixture(family, random_state=0).fit(X)
    assert joined.n_clusters_ == 1
    line = re.search(r"write (Mixture\(.*\))$", str(caught[0].message)).group(1)
    found = eval(line, {"Mixture": Mixture}).fit(X)
    assert adjusted_rand_score(classes, found.labels_) > 0.6


def test_a_given_number_that_joins_groups_is_told_and_the_line_divides_them():
    X, classes = near_groups(n_rows=1500, distance=2.4, seed=2)
    with pytest.warns(DataWarning, match="is one into 2 clusters; 2 clusters that overlap") as caught:
        joined = Mixture("gaussian", 2, random_state=0).fit(X)
    assert np.bincount(joined.labels_).min() == 1
    line = re.search(r"write (Mixture\(.*\))$", str(caught[0].message)).group(1)
    found = eval(line, {"Mixture": Mixture}).fit(X)
    assert adjusted_rand_score(classes, found.labels_) > 0.5


@pytest.mark.parametrize("n_clusters", [None, 3])
def test_far_groups_are_not_told(n_clusters):
    X, _ = near_groups(distance=8.0, n_groups=3)
    assert quiet_fit(Mixture("gaussian_diag", n_clusters, random_state=0), X).n_clusters_ == 3


@pytest.mark.parametrize("rows", ["normal", "heavy"])
def test_one_group_is_not_told(rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) if rows == "normal" else rng.standard_t(3, size=(2000, 2))
    quiet_fit(Mixture("gaussian_diag", random_state=0), X)


@pytest.mark.parametrize(
    "settings",
    [{"sampler": "gibbs"}, {"n_steps": 20}, {"partition": "last"}, {"partition": "vi", "n_draws": 20}],
    ids=lambda settings: next(iter(settings)),
)
def test_who_asks_for_another_partition_or_sampler_is_not_told(settings):
    X, _ = near_groups(n_rows=1200)
    quiet_fit(Mixture("gaussian_diag", random_state=0, **settings), X)


def test_the_gain_is_the_difference_of_the_bounds():
    X, _ = near_groups(n_rows=1500)
    data = Dataset(X, DiagonalGaussian())
    model, one = MixtureModel(data.family, DirichletProcess()), np.zeros(1500, dtype=np.int32)
    settler = Settler(model, data, DiagonalGaussian.learned_by_default)
    found = divided(settler, one, None)
    assert found.n_rows == 1500
    halves = np.asarray(X[:, 0] > np.median(X[:, 0]), dtype=np.int32)
    bounds = bounds_of(SparseVariational(), settler, {"one": one, "halves": halves}, n_passes=8)
    assert found.gain >= bounds["halves"] - bounds["one"] - 1.0
    assert found.gain > 10.0
    assert found.n_clusters == 2


def test_few_rows_counts_and_known_rows_are_not_looked_at():
    X, _ = near_groups(n_rows=900)
    quiet_fit(Mixture("gaussian_diag", random_state=0), X)
    X, classes = near_groups(n_rows=1500)
    known = np.where(np.arange(1500) < 4, classes, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Mixture("gaussian_diag", labels="classes", random_state=0).fit(X, known)
    quiet_fit(Mixture("poisson", random_state=0), np.random.default_rng(0).poisson(4.0, size=(1500, 3)))


def test_threads_do_not_change_what_is_told():
    X, _ = near_groups()
    told = []
    for n_threads in (1, 2):
        with pytest.warns(DataWarning, match=SAID) as caught:
            Mixture("gaussian_diag", random_state=0, n_threads=n_threads).fit(X)
        told.append(str(caught[0].message).partition("If you want")[0])
    assert told[0] == told[1]


def test_of_many_rows_a_sample_is_looked_at():
    X, _ = near_groups(n_rows=9000, distance=2.4)
    with pytest.warns(DataWarning, match="describe 5,000 of the rows better"):
        Mixture("gaussian_diag", random_state=0).fit(X)
