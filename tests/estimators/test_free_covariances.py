"""The warning of a free covariance for each cluster where a simpler family describes the data better."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from expfam import Dataset, Gaussian, GroupedMixture, Mixture, SphericalGaussian
from expfam.errors import DataWarning
from expfam.estimators.mixture_plan import plan_of
from expfam.fitting import few_rows as module
from expfam.fitting.free_covariances import compared_with_simpler, comparison_memory


def groups(n=1500, d=40, K=8, *, spread=1.0, scale=1.0, seed=0):
    """Round groups, whose columns do not depend on each other."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(K, size=n)
    return scale * (spread * rng.normal(size=(K, d))[classes] + rng.normal(size=(n, d))), classes


def correlated(n=600, d=40, K=4, seed=0):
    """Groups of which each has three strong factors of its own."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(K, size=n)
    X = 1.5 * rng.normal(size=(K, d))[classes] + 0.5 * rng.normal(size=(n, d))
    for k in range(K):
        rows = classes == k
        X[rows] += 2.0 * rng.normal(size=(rows.sum(), 3)) @ rng.normal(size=(3, d))
    return X, classes


def told(X, *args, **options):
    """Fit; return the mixture and what was said of covariances, with the file that was blamed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mixture = Mixture(*args, **{"random_state": 0, **options}).fit(X)
    found = [one for one in caught if issubclass(one.category, DataWarning)]
    assert all(Path(one.filename).name == Path(__file__).name for one in found)
    return mixture, [str(one.message) for one in found]


def typed(message):
    """Make the estimator of the line that a message tells to write."""
    names = {"Mixture": Mixture, "SphericalGaussian": SphericalGaussian}
    return eval(re.search(r"Write (.*)$", message)[1], names)


@pytest.mark.parametrize("K", [None, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_line_of_the_one_warning_finds_the_groups(K, seed):
    X, classes = groups(seed=seed)
    _, messages = told(X, "gaussian", K)
    assert len(messages) == 1
    assert "a simpler family with 8 clusters has the higher density" in messages[0]
    simple = typed(messages[0])
    assert (simple.family, simple.n_components, simple.random_state) == ("gaussian_diag", K, 0)
    labels = simple.fit(X).labels_
    assert adjusted_rand_score(classes, labels) > 0.99


def test_a_shared_variance_is_named_where_rows_are_few():
    """In 64 columns even the variances of a diagonal are too many for five rows a cluster."""
    X, classes = groups(n=128, d=64, K=25, seed=2)
    _, messages = told(X, "gaussian", 25)
    (message,) = messages
    assert message.endswith(
        "Write Mixture(family=SphericalGaussian(variance='shared'), n_components=25, random_state=0)"
    )
    assert adjusted_rand_score(classes, typed(message).fit(X).labels_) > 0.8


@pytest.mark.parametrize("K", [None, 4])
@pytest.mark.parametrize("n", [600, 1500])
def test_correlations_that_pay_are_left_alone(K, n):
    X, classes = correlated(n)
    mixture, messages = told(X, "gaussian", K)
    assert messages == []
    assert adjusted_rand_score(classes, mixture.labels_) > 0.95


def test_one_gaussian_is_left_alone():
    mixture, messages = told(groups(K=1)[0], "gaussian")
    assert mixture.n_components_ == 1
    assert messages == []


def test_few_columns_other_families_and_given_steps_are_not_looked_at(monkeypatch):
    looked = []

    def look(asked, data, labels, *, seed):
        found = compared_with_simpler(asked, data, labels, seed=seed)
        looked.append(found)
        return found

    monkeypatch.setattr(module, "compared_with_simpler", look)
    X = groups(n=400, d=26, K=4)[0]
    assert told(X[:, :20], "gaussian")[1] == []
    assert told(X, "gaussian_diag")[1] == []
    assert looked == [None, None]
    told(X, "gaussian", n_steps=3)
    told(X, "gaussian", 4, start="kmeans")
    assert looked == [None, None]
    told(X, "gaussian", 4)
    assert looked[-1] is not None


def test_enough_rows_are_not_looked_at():
    """Of six clusters with 500 rows each for 350 parameters."""
    X, _ = groups(n=3000, d=25, K=6, spread=3.0)
    mixture = Mixture("gaussian", 6, random_state=0).fit(X)
    data = Dataset(X, Gaussian())
    assert compared_with_simpler(mixture._asked(), data, mixture.labels_, seed=0) is None


def test_the_comparison_has_the_same_bits_for_any_number_of_threads():
    X, _ = groups(n=2600)
    data, found = Dataset(X, Gaussian()), []
    for n_threads in (1, 2, 3):
        mixture, _ = told(X, "gaussian", 8, n_threads=n_threads)
        found.append(compared_with_simpler(mixture._asked(), data, mixture.labels_, seed=5))
    assert found[0].pays
    assert [(one.simple, one.full) for one in found] == [(found[0].simple, found[0].full)] * 3


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_units_do_not_matter(scale):
    _, messages = told(groups(scale=scale)[0], "gaussian", 8)
    assert len(messages) == 1


def test_the_forecast_has_the_memory_of_the_comparison():
    X, _ = groups(n=400)
    data = Dataset(X, Gaussian())
    assert comparison_memory(data, 8) > 400 * 40 * 8
    assert comparison_memory(Dataset(X[:, :20], Gaussian()), 8) == 0
    follows, given = (
        plan_of(Mixture("gaussian", 8, n_steps=n), data, Gaussian()).forecast().scratch for n in ("auto", 5)
    )
    assert follows == given + comparison_memory(data, 8)


def test_an_interrupt_of_the_comparison_leaves_the_fit(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "compared_with_simpler", interrupted)
    X, classes = groups(n=300)
    mixture, _ = told(X, "gaussian", 8)
    assert mixture.labels_.shape == classes.shape


def caught(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found if issubclass(one.category, DataWarning)]


def test_rows_in_groups_are_told_too():
    X, classes = groups(n=600)
    of_rows = np.arange(600) % 5
    mixture = GroupedMixture("gaussian", 8, random_state=0)
    (message,) = caught(lambda: mixture.fit(X, groups=of_rows))
    line = message.partition("Write ")[2]
    assert message.startswith("GroupedMixture: a free covariance for each of")
    simple = eval(line, {"GroupedMixture": GroupedMixture, "SphericalGaussian": SphericalGaussian})  # our own line
    assert adjusted_rand_score(classes, simple.fit(X, groups=of_rows).labels_) > 0.99
    assert caught(lambda: GroupedMixture("gaussian", 8, n_steps=5, random_state=0).fit(X, groups=of_rows)) == []


@pytest.mark.parametrize("kind", [Mixture, GroupedMixture])
def test_chunks_are_told_once(kind):
    X, _ = groups(n=900)
    mixture = kind("gaussian", 8, sampler="variational", n_steps=3, random_state=0)
    options = [{"groups": np.arange(300) % 3} if kind is GroupedMixture else {} for _ in range(3)]
    parts = np.split(X, 3)
    found = caught(lambda: [mixture.partial_fit(part, **each) for part, each in zip(parts, options)])
    assert len([one for one in found if "a free covariance" in one]) == 1
    chunks = [(part, each["groups"]) for part, each in zip(parts, options)] if kind is GroupedMixture else parts
    assert len([one for one in caught(lambda: mixture.fit_chunks(chunks)) if "a free covariance" in one]) == 1
    diagonal = kind("gaussian_diag", 8, sampler="variational", n_steps=3, random_state=0)
    assert caught(lambda: diagonal.fit_chunks(chunks)) == []
