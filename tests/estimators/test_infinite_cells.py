"""An infinite cell is refused with its row and column, and with a line to type that works as it stands."""

import shlex

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Columns, GroupedMixture, Mixture, TopicModel
from expfam.cli import main
from expfam.errors import DataError

GROUPS = np.arange(30) % 3
ESTIMATORS = {
    "mixture": lambda family="auto": (Mixture(family, 2, n_steps=2, random_state=0), {}),
    "groups": lambda family="auto": (GroupedMixture(family, 2, n_steps=2, random_state=0), {"groups": GROUPS}),
    "tree": lambda family="auto": (BayesianHierarchy(family, n_components=2, random_state=0), {}),
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pandas}


def with_infinity(*values):
    X = np.random.default_rng(0).gamma(3.0, size=(30, 2))
    for row, value in zip((7, 9), values):
        X[row, 1] = value
    return X


def line_of(error):
    return str(error.value).partition("write ")[2].partition(", which makes")[0]


@pytest.mark.parametrize("values", [(np.inf,), (-np.inf, np.inf)], ids=["one sign", "both signs"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_line_for_an_array_makes_missing_cells(name, values):
    (estimator, options), X = ESTIMATORS[name](), with_infinity(*values)
    with pytest.raises(DataError, match=rf"row 7, column 1 holds {values[0]}: put a number in its place, or") as error:
        estimator.fit(X, **options)
    space = {"X": X, "numpy": np}
    exec(line_of(error), space)
    assert len(estimator.fit(space["X"], **options).labels_) == 30


def test_a_family_that_takes_no_holes_is_told_to_leave_out_the_rows():
    for family in ("gaussian_diag", "gaussian"):
        X = with_infinity(np.inf)
        with pytest.raises(DataError, match="row 7, column 1 holds inf: put a number in its place, or leave") as error:
            Mixture(family, 2).fit(X)
        space = {"X": X, "numpy": np}
        exec(line_of(error), space)
        assert len(Mixture(family, 2, n_steps=2, random_state=0).fit(space["X"]).labels_) == 29


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_the_line_of_counts_leaves_out_the_rows(make):
    X = make(np.where(np.isinf(with_infinity(np.inf)), np.inf, 1.0 + np.arange(30)[:, None] % 3))
    with pytest.raises(DataError, match="row 7, column 1 holds inf: put a number in its place, or leave") as error:
        TopicModel(2).fit(X)
    space = {"X": X, "numpy": np}
    exec(line_of(error), space)
    assert TopicModel(2, n_steps=2, random_state=0).fit_transform(space["X"]).shape[0] == 29


@pytest.mark.parametrize("values", [(np.inf,), (-np.inf, np.inf)], ids=["one sign", "both signs"])
@pytest.mark.parametrize("backend", FRAMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_line_for_a_frame_makes_missing_cells(name, backend, values):
    X = with_infinity(*values)
    for frame in (pd.DataFrame({"a": X[:, 0], "b": X[:, 1]}), pd.DataFrame({"b": X[:, 1], "c": list("xyz") * 10})):
        df, (estimator, options) = FRAMES[backend](frame), ESTIMATORS[name]()
        with pytest.raises(DataError, match=rf"column 'b', row 7 holds {values[0]}: put a number") as error:
            estimator.fit(df, **options)
        family = eval(line_of(error), {"Columns": Columns, "df": df})
        assert next(role for role in family.roles if role["column"] == "b")["missing"] == len(values)
        estimator, options = ESTIMATORS[name](family)
        assert len(estimator.fit(df, **options).labels_) == 30


def test_no_cell_of_a_frame_of_counts_of_words_may_be_missing():
    frame = pd.DataFrame({"a": [1.0, 2.0, np.inf], "b": [1.0, 0.0, 3.0]})
    for X in (frame, pl.DataFrame(frame)):
        with pytest.raises(DataError, match=r"column 'a', row 2 holds inf: put a number in its place$"):
            TopicModel(2).fit(X)


def test_new_rows_are_refused_with_a_line():
    X = with_infinity(np.inf)
    mixture = Mixture(n_components=2, n_steps=2, random_state=0).fit(np.where(np.isinf(X), 1.0, X))
    with pytest.raises(DataError, match="row 7, column 1 holds inf") as error:
        mixture.predict(X)
    space = {"X": X, "numpy": np}
    exec(line_of(error), space)
    assert len(mixture.predict(space["X"])) == 30


@pytest.mark.parametrize("texts", [("inf",), ("-inf", "1e999"), ("-Infinity", "inf")])
def test_the_options_for_a_file_make_missing_cells(texts, tmp_path, capsys):
    lines = ["a,b", *(f"{i % 7 + 0.5},{texts[i - 3] if 3 <= i < 3 + len(texts) else i + 0.25}" for i in range(30))]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    command = ["fit", str(tmp_path / "x.csv"), "--steps", "2", "--seed", "0"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert f"column 'b', row 3 holds {texts[0]!r}, which is not finite" in told
    options = told.partition("or write ")[2].partition(", which makes")[0]
    assert options.startswith("--missing-values")
    assert main([*command, *shlex.split(options)]) == 0
