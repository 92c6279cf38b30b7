"""The warning of clusters that are pieces of groups, because their family has too plain a shape."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, DiagonalGaussian, GroupedMixture, Mixture, NegativeBinomial
from expfam.errors import DataWarning
from expfam.fitting import few_rows
from expfam.fitting.freer_families import freer_family


def slanting(n=1200, d=4, K=3, seed=0):
    """Groups far apart, whose columns depend on each other."""
    rng = np.random.default_rng(seed)
    classes, shapes = rng.integers(K, size=n), rng.normal(size=(K, d, d))
    noise = np.einsum("nij,nj->ni", shapes[classes], rng.normal(size=(n, d)))
    return 9.0 * rng.normal(size=(K, d))[classes] + noise, classes


def unequal(n=1200, seed=0):
    """Two groups, whose columns have other spreads."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(2, size=n)
    return rng.normal(size=(n, 4)) * [1.0, 5.0, 20.0, 0.2] + 90.0 * classes[:, None], classes


def told(X, *args, estimator=Mixture, groups=None, **options):
    """Fit; return the estimator and what was said, with the file that was blamed."""
    given = {} if groups is None else {"groups": groups}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = estimator(*args, **{"random_state": 0, **options}).fit(X, **given)
    found = [one for one in caught if issubclass(one.category, DataWarning)]
    assert all(Path(one.filename).name == Path(__file__).name for one in found)
    return fitted, [str(one.message) for one in found]


def typed(message):
    """Make the estimator of the line that a message tells to write."""
    names = {each.__name__: each for each in (Mixture, GroupedMixture, NegativeBinomial)}
    return eval(re.search(r"Write (.*)$", message)[1], names)


@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian_spherical"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_line_of_the_warning_finds_groups_that_slant(family, seed):
    X, classes = slanting(seed=seed)
    mixture, (message,) = told(X, family)
    assert mixture.n_components_ > 9
    assert f"columns depend on each other within groups, and {family} cuts such groups into pieces" in message
    assert f"Its {mixture.n_components_} clusters describe rows that were held out less well than 3 clusters" in message
    other, messages = told(X, typed(message).family)
    assert messages == []
    assert adjusted_rand_score(classes, other.labels_) > 0.99


def test_of_several_freer_families_the_simplest_is_named():
    X, classes = unequal()
    _, (message,) = told(X, "gaussian_spherical")
    assert "variances differ between columns or groups" in message
    assert "2 clusters of gaussian_diag" in message
    assert adjusted_rand_score(classes, typed(message).fit(X).labels_) == 1.0


def test_one_group_of_copied_columns_is_not_a_hundred():
    X = np.tile(np.random.default_rng(0).normal(size=(800, 2)), 3)
    mixture, (message,) = told(X, "gaussian_diag")
    assert mixture.n_components_ > 40
    assert "less well than 1 cluster of gaussian" in message


@pytest.mark.parametrize(("size", "p"), [(1.5, 0.2), (5.0, 0.2), (20.0, 0.5)])
def test_counts_that_vary_more_than_poisson_ones(size, p):
    X = np.random.default_rng(0).negative_binomial(size, p, size=(1500, 6))
    mixture, (message,) = told(X, "poisson")
    assert mixture.n_components_ >= 4
    assert "counts vary more within groups than Poisson ones, and poisson cuts such groups into pieces" in message
    assert typed(message).fit(X).n_components_ == 1


def test_nothing_is_said_where_the_clusters_are_groups():
    rng = np.random.default_rng(0)
    classes = rng.integers(6, size=1200)
    X = 6.0 * rng.normal(size=(6, 4))[classes] + rng.normal(size=(1200, 4))
    for family in ("gaussian_diag", "gaussian_spherical"):
        mixture, messages = told(X, family)
        assert mixture.n_components_ == 6
        assert messages == []
    counts = rng.poisson(np.array([[2, 30, 5], [20, 3, 5], [9, 9, 40], [60, 60, 1]])[classes % 4])
    mixture, messages = told(counts, "poisson")
    assert mixture.n_components_ == 4
    assert messages == []


@pytest.mark.parametrize(
    "settings", [{"n_components": 9}, {"sampler": "gibbs"}, {"n_steps": 20}, {"start": np.arange(1200) % 20}]
)
def test_nothing_is_said_of_what_was_asked_for(settings):
    assert told(slanting()[0], "gaussian_diag", **settings)[1] == []


def test_groups_of_rows_are_told_too():
    X, _ = slanting()
    fitted, messages = told(X, "gaussian_diag", None, estimator=GroupedMixture, groups=np.arange(1200) % 5)
    assert len(fitted.n_) > 9
    assert "clusters of gaussian (+" in messages[0]
    assert typed(messages[0]).family == "gaussian"


def test_chunks_are_told_once():
    X, _ = slanting()
    mixture = Mixture("gaussian_diag", sampler="variational", random_state=0)
    with pytest.warns(DataWarning, match="cuts such groups into pieces") as caught:
        mixture.fit_chunks([X[:600], X[600:]])
    assert sum("pieces" in str(one.message) for one in caught) == 1


def test_the_fit_stays_where_the_comparison_is_interrupted(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(few_rows, "freer_family", interrupted)
    mixture, messages = told(slanting()[0], "gaussian_diag")
    assert messages == []
    assert not mixture.interrupted_


def test_gains_are_those_of_held_out_rows_and_need_no_fit():
    """A hundred rows say less than a thousand: what is not above its error is not told."""
    X, _ = slanting()
    asked = Mixture("gaussian_diag").plan_fit(X).asked
    data, labels = Dataset(X, DiagonalGaussian()), (np.arange(1200) % 12).astype(np.int32)
    found = freer_family(asked, data, labels, seed=0)
    assert found is not None
    assert found.gains.shape == (240,)
    noise = found._replace(gains=np.array([3.0, -2.9] * 20))
    assert noise.gain > 0.02
    assert not noise._replace(n_clusters=6).explains(12)
    assert noise._replace(n_clusters=3).explains(12)  # as good, with far fewer clusters
    assert not found._replace(n_clusters=7).explains(12)
