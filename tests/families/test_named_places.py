"""Errors and warnings of a family name the columns of the user's frame, whatever part of it the family reads."""

import warnings

import numpy as np
import pandas as pd
import pytest

from expfam import BayesianHierarchy, Columns, DiagonalGaussian, GroupedMixture, Mixture
from expfam.errors import DataWarning, SupportError
from expfam.families.waiting.exponential import Exponential
from expfam.frames.names import named_columns, with_places
from expfam.user_warnings import renamed_warnings, warn

N = 40
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "kind": np.array(["x", "y", "w"])[np.arange(N) % 3],
        "size": RNG.normal(size=N),
        "flat": 2.0,
        "even": 3.0,
        "wait": 0.0,
    }
)
REAL = {"flat": "real", "even": "real", "wait": "drop"}

FITS = {
    "Mixture": lambda X, family: Mixture(family, n_components=2, n_steps=2, random_state=0).fit(X),
    "chunks": lambda X, family: Mixture(family, n_components=2, sampler="variational", random_state=0).partial_fit(X),
    "BayesianHierarchy": lambda X, family: BayesianHierarchy(family).fit(X),
    "GroupedMixture": lambda X, family: GroupedMixture(family, n_components=2, n_steps=2).fit(
        X, groups=np.arange(N) % 4
    ),
}


def told(fit, X, family):
    """The warnings about columns of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X, family)
    return [str(w.message) for w in caught if issubclass(w.category, DataWarning) and "column" in str(w.message)]


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_warning_of_a_part_names_columns_of_the_table(fit):
    (said,) = set(told(fit, TABLE, Columns.from_frame(TABLE, **REAL)))
    assert said.startswith("gaussian_diag: columns 2 ('flat'), 3 ('even') are constant")


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_warning_of_a_named_family_names_columns_of_the_frame(fit):
    (said,) = set(told(fit, TABLE[["size", "flat"]], "gaussian_diag"))
    assert said.startswith("gaussian_diag: column 'flat' is constant")


def test_many_columns():
    frame = pd.DataFrame({f"c{j}": RNG.normal(size=N) if j == 0 else np.full(N, 2.0) for j in range(7)})
    (said,) = told(FITS["Mixture"], frame, "gaussian_diag")
    assert said.startswith("gaussian_diag: 6 columns ('c1', 'c2', 'c3', 'c4', ...) are constant")


def test_a_column_of_zeros():
    family = Columns.from_frame(TABLE, flat="drop", even="drop", wait=Exponential())
    (said,) = told(FITS["Mixture"], TABLE, family)
    assert said.startswith("exponential: column 2 ('wait') holds zeros only")


def test_arrays_keep_numbers():
    X = np.column_stack([np.arange(N) / 3, np.ones(N)])
    (said,) = told(FITS["Mixture"], X, "gaussian_diag")
    assert said.startswith("gaussian_diag: column 1 is constant")


def test_renaming_ends_with_its_block():
    with pytest.raises(ZeroDivisionError), renamed_warnings(str.upper):
        raise ZeroDivisionError
    with pytest.warns(UserWarning, match="column 1 is constant"):
        warn("column 1 is constant")


def test_the_innermost_renaming_comes_first():
    inner = renamed_warnings(lambda text: with_places(text, {0: "1"}.get))
    with pytest.warns(UserWarning, match="column 'b' is constant"), named_columns(["a", "b"]), inner:
        warn("column 0 is constant")


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("row 1, column 1 holds 5", "row R1, column C1 holds 5"),
        ("columns 0, 2 are", "columns C0, C2 are"),
        ("column 12 is", "column C12 is"),
        ("3 columns (0, 1, 2, ...) are", "3 columns (C0, C1, C2, ...) are"),
        ("X has 3 columns", "X has 3 columns"),
        ("column 1 ('b') is", "column 1 ('b') is"),
        ("column 99 is", "column 99 is"),
    ],
)
def test_places(text, renamed):
    assert with_places(text, lambda n: f"C{n}" if n < 50 else None, lambda n: f"R{n}") == renamed


def test_an_error_of_a_part_names_the_column_of_the_table():
    frame = TABLE.assign(wait=np.where(np.arange(N) == 7, -1.0, 1.0))
    family = Columns(((DiagonalGaussian(), (0,)), (Exponential(), (1,))), names=("size", "wait"))
    with pytest.raises(SupportError, match=r"row 7, column 1 \('wait'\)"):
        family.bind(frame[["size", "wait"]].to_numpy())
