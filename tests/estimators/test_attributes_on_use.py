"""Attributes that are made on first use: they are there, or raise AttributeError and nothing else."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from expfam import BayesianHierarchy, Family, GroupedMixture, Mixture, TopicModel
from expfam.errors import ResultError
from expfam.evaluation.posterior import PartitionPosterior

QUICK = {"n_steps": 3, "n_warmup": 3, "random_state": 0}
GROUPS = np.arange(40) % 4


def rows():
    return np.random.default_rng(0).normal(size=(40, 3)) + 9.0 * (np.arange(40) % 2)[:, None]


def counts():
    return 1.0 + np.rint(np.abs(rows()))


class Bare(Family):
    """A family with no more than it must have."""

    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return -0.5 * np.log1p(n) + 0.5 * (S**2).sum(axis=1) / (1.0 + n)


FITS = {
    "mixture": lambda: Mixture(n_components=2, **QUICK).fit(rows()),
    "mixture of words": lambda: Mixture("multinomial", 2, **QUICK).fit(sparse.csr_array(counts())),
    "mixture of directions": lambda: Mixture("von_mises_fisher", 2, **QUICK).fit(
        rows() / np.linalg.norm(rows(), axis=1, keepdims=True)
    ),
    "bare family": lambda: Mixture(Bare(), 2, start=GROUPS % 2, **QUICK).fit(rows()),
    "mixture with draws": lambda: Mixture(n_components=2, n_draws=3, **QUICK).fit(rows()),
    "one draw": lambda: Mixture(n_components=2, n_draws=1, **QUICK).fit(rows()),
    "variational": lambda: Mixture(n_components=2, sampler="variational", random_state=0).fit(rows()),
    "chunks": lambda: Mixture(n_components=2, sampler="variational", random_state=0).fit_chunks([rows(), rows()]),
    "hierarchy": lambda: BayesianHierarchy().fit(rows()),
    "groups": lambda: GroupedMixture(n_components=2, **QUICK).fit(rows(), groups=GROUPS),
    "groups in chunks": lambda: GroupedMixture(n_components=2, sampler="variational", random_state=0).fit_chunks(
        [(rows(), GROUPS)]
    ),
    "topics": lambda: TopicModel(2, n_steps=3, random_state=0).fit(counts()),
}


def properties(kind):
    return [name for name, _ in inspect.getmembers(kind, lambda value: isinstance(value, property))]


def check_all(found):
    for name in properties(type(found)):
        hasattr(found, name)
    dir(found)
    inspect.getmembers(found)


@pytest.mark.parametrize("libraries", ["with", "without"])
@pytest.mark.parametrize("name", FITS)
def test_every_attribute_is_there_or_lacks_as_python_says_it(name, libraries, monkeypatch):
    model = FITS[name]()
    if libraries == "without":
        monkeypatch.setattr("expfam.frames.new_frames.find_spec", lambda name: None)
    check_all(model)
    assert hasattr(model, "clusters_") == (libraries == "with" and name != "bare family")


@pytest.mark.parametrize("kind", [Mixture, BayesianHierarchy, GroupedMixture, TopicModel])
def test_every_property_of_an_estimator_without_a_fit_says_so(kind):
    check_all(kind())
    for name in properties(kind):
        if name[0] != "_":
            with pytest.raises(NotFittedError):
                getattr(kind(), name)


def test_a_loaded_model_has_the_same_attributes(tmp_path):
    Mixture(n_components=2, **QUICK).fit(rows()).save(tmp_path / "model")
    check_all(Mixture.load(tmp_path / "model"))


def test_the_error_says_why_and_has_its_cause(monkeypatch):
    model = FITS["mixture"]()
    monkeypatch.setattr("expfam.frames.new_frames.find_spec", lambda name: None)
    with pytest.raises(ResultError, match="Mixture has no clusters_: a result is a data frame, and neither pandas"):
        model.clusters_  # noqa: B018
    assert isinstance(model.params_, dict)


def test_readings_of_one_draw():
    posterior = PartitionPosterior([[0, 0, 1]])
    inspect.getmembers(posterior)
    with pytest.raises(ValueError, match="one draw has no spread"):
        posterior.certainty  # noqa: B018


def test_a_fit_is_listed_where_no_library_of_frames_can_be_imported():
    code = """
import sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
import numpy as np
from expfam import BayesianHierarchy, Mixture
X = np.random.default_rng(0).normal(size=(30, 2))
for model in (Mixture(random_state=0).fit(X), BayesianHierarchy().fit(X)):
    assert "labels_" in dir(model) and "clusters_" not in dir(model)
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
