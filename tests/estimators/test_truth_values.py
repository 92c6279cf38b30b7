"""Arrays of truth values without a named family are clustered as Bernoulli columns."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from expfam import BayesianHierarchy, GroupedMixture, Mixture
from expfam.cli import main

RNG = np.random.default_rng(0)
CLASSES = np.arange(120) % 2
X = RNG.random((120, 40)) < np.where(RNG.random((2, 40)) < 0.5, 0.1, 0.9)[CLASSES]
GROUPS = np.arange(120) % 3

FITS = {
    "Mixture": lambda X, family: Mixture(family, n_components=2, random_state=0).fit(X),
    "open number": lambda X, family: Mixture(family, random_state=0).fit(X),
    "chunks": lambda X, family: Mixture(family, n_components=2, sampler="variational", random_state=0).partial_fit(X),
    "BayesianHierarchy": lambda X, family: BayesianHierarchy(family).fit(X),
    "GroupedMixture": lambda X, family: GroupedMixture(family, n_components=2, random_state=0).fit(X, groups=GROUPS),
}
KINDS = {"array": np.asarray, "CSR": sparse.csr_array, "lists": np.ndarray.tolist}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_truth_values_are_bernoulli_columns(fit, make):
    model, named = fit(make(X), "auto"), fit(make(X), "bernoulli")
    assert model.family_.name == "bernoulli"
    assert np.array_equal(model.labels_, named.labels_)


def test_the_classes_are_found():
    assert adjusted_rand_score(CLASSES, Mixture(random_state=0).fit(X).labels_) > 0.95


def test_zeros_and_ones_are_truth_values_and_other_numbers_are_not():
    assert Mixture(n_components=2, random_state=0).fit(X.astype(float)).family_.name == "bernoulli"
    assert Mixture(n_components=2, random_state=0).fit(1.0 + X).family_.name.startswith("gaussian")


def test_a_file_of_truth_values(tmp_path, capsys):
    np.save(tmp_path / "x.npy", X)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    for name in ("x.npy", "x.npz"):
        assert main(["fit", str(tmp_path / name), "-k", "2", "--seed", "0", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["family"] == "bernoulli"
