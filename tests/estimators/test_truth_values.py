"""Truth values, and zeros and ones, without a named family are Bernoulli columns, holes or not."""

import json

import numpy as np
import pandas as pd
import polars as pl
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
    assert Mixture(n_components=2, random_state=0).fit(0.5 + X).family_.name.startswith("gaussian")
    of_ones_and_twos = Mixture(n_components=2, random_state=0).fit(1.0 + X)
    assert {role["role"] for role in of_ones_and_twos.family_.roles} == {"binary"}


def test_a_file_of_truth_values(tmp_path, capsys):
    np.save(tmp_path / "x.npy", X)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    for name in ("x.npy", "x.npz"):
        assert main(["fit", str(tmp_path / name), "-k", "2", "--seed", "0", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["family"] == "bernoulli"


def with_holes(X, share=0.02):
    """Return a float copy of an array with missing cells."""
    return np.where(np.random.default_rng(1).random(X.shape) < share, np.nan, X.astype(float))


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("holds_none", [False, True], ids=["nan", "None"])
def test_holes_do_not_change_the_family_of_zeros_and_ones(fit, holds_none):
    gone = with_holes(X)
    family = fit(np.where(np.isnan(gone), None, gone) if holds_none else gone, "auto").family_
    assert family.name == "columns"
    assert {part[0].name for part in family.parts} == {"bernoulli"}


def test_an_open_number_of_clusters_of_zeros_and_ones_with_holes():
    rng, classes = np.random.default_rng(2), np.arange(400) % 3
    p = np.array([[0.9] * 4 + [0.1] * 8, [0.1] * 4 + [0.9] * 4 + [0.1] * 4, [0.1] * 8 + [0.9] * 4])
    cells = (rng.random((400, 12)) < p[classes]).astype(float)
    for data in (with_holes(cells), pd.DataFrame(cells), pd.DataFrame(with_holes(cells))):
        found = Mixture(random_state=0).fit(data)
        assert found.n_components_ == 3
        assert adjusted_rand_score(classes, found.labels_) > 0.95


def test_floats_of_other_values_beside_holes_are_no_zeros_and_ones():
    gone = with_holes(X)
    gone[np.isnan(gone).nonzero()[0][0]] = 0.5
    family = Mixture(n_components=2, random_state=0).fit(gone).family_
    assert {part[0].name for part in family.parts} == {"gaussian_diag"}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_frame_of_floats_zero_and_one_is_that_of_integers(make):
    floats, integers = ({f"x{j}": X[:, j].astype(kind) for j in range(X.shape[1])} for kind in (float, int))
    found, wanted = (Mixture(n_components=2, random_state=0).fit(make(cells)) for cells in (floats, integers))
    assert [role["role"] for role in found.family_.roles] == [role["role"] for role in wanted.family_.roles]
    assert np.array_equal(found.labels_, wanted.labels_)
