"""Data that are no matrix of real numbers: what was found, where, and the line that mends it, which is typed."""

import array
import re
import warnings
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from expfam import BayesianHierarchy, Columns, DiagonalGaussian, GroupedMixture, Mixture, Poisson, TopicModel
from expfam.errors import DataError, DataTypeError

N = 24
ROWS = np.random.default_rng(0).normal(size=(N, 2)) + 6.0 * (np.arange(N) % 2)[:, None]
COUNTS = np.random.default_rng(0).poisson(3.0, (N, 2))
GROUPS = np.arange(N) // 6
QUICK = {"n_components": 2, "random_state": 0}
ESTIMATORS = {
    "Mixture": lambda X: Mixture(n_steps=2, **QUICK).fit(X),
    "Mixture of a family": lambda X: Mixture("gaussian", n_steps=2, **QUICK).fit(X),
    "chunks": lambda X: Mixture(sampler="variational", **QUICK).partial_fit(X),
    "GroupedMixture": lambda X: GroupedMixture(n_steps=2, **QUICK).fit(X, groups=GROUPS),
    "BayesianHierarchy": lambda X: BayesianHierarchy(random_state=0).fit(X),
}
VALUES = np.round(ROWS[:, 0], 3)
ODD = {
    "a column": (VALUES, DataError, r"Mixture: Expected 2D array, got 1D array instead.*shape \(24,\)"),
    "a list": (VALUES.tolist(), DataError, "Expected 2D array, got 1D array instead"),
    "a column of pandas": (pd.Series(VALUES, name="x"), DataError, r"Reshape your data: write X = X\.to_frame\(\)"),
    "a column of Polars": (pl.Series("x", VALUES), DataError, r"Reshape your data: write X = X\.to_frame\(\)"),
    "a column of Arrow": (pa.array(VALUES), DataError, "Expected 2D array, got 1D array instead"),
    "an index": (pd.Index(VALUES), DataError, r"to_frame\(\)"),
    "an array of Python": (array.array("d", VALUES), DataError, "Expected 2D array, got 1D array"),
    "three dimensions": (ROWS[:, None, :], DataError, r"Found array with dim 3.*shape \(24, 1, 2\)"),
    "a matrix": (np.matrix(ROWS), DataTypeError, "np.matrix is not supported"),
    "complex": (ROWS + 0j, DataTypeError, "Complex data not supported: the data are of type complex128"),
    "complex objects": (ROWS.astype(complex).astype(object), DataTypeError, "Complex.*row 0, column 0 holds"),
    "fields": (np.rec.fromarrays(ROWS.T, names="a,b"), DataTypeError, "structured array with the fields 'a', 'b'"),
    "ragged": (
        [[*row[: 1 + place % 2]] for place, row in enumerate(ROWS)],
        DataError,
        "row 0 has 1 value and row 1 has 2 values",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", ODD)
def test_the_line_makes_a_matrix_of_them(name, estimator):
    data, error, words = ODD[name]
    fit = ESTIMATORS[estimator]
    with pytest.raises(error, match=words.replace("Mixture:", "")) as caught:
        fit(data)
    assert re.match(r"(Mixture|GroupedMixture|BayesianHierarchy): ", str(caught.value))
    scope = {"X": data, "numpy": np, "pandas": pd}
    exec(re.search(r"write (X = .*?)(?=$| where|, or )", str(caught.value))[1], scope)  # the line of a message, ours
    assert len(scope["X"]) == N
    if name != "ragged" or estimator != "Mixture of a family":  # a full covariance takes no holes, as is said next
        fit(scope["X"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.array(1.5), "the data are the number 1.5, which has no rows"),
        (3, "the data are the number 3, which has no rows"),
        (np.zeros((N, 2), "V8"), r"the data are of type \|V8"),
        ([[10**400, 1]] * N, "row 0, column 0 holds a number of 401 digits, which no float holds"),
        ([[1, 2], [object(), 3]] * 12, "row 1, column 0 holds <object.*, a object, and numbers are needed"),
        (len, "the data are a builtins.builtin_function_or_method"),
        (sparse.csr_array(COUNTS.astype(complex)), "Complex data not supported: the data are of type complex128"),
        (pd.DataFrame(ROWS).iloc[:, :0], "the frame has no columns"),
    ],
)
def test_what_holds_no_numbers_is_named(estimator, data, words):
    with pytest.raises((DataError, DataTypeError), match=words):
        ESTIMATORS[estimator](data)


def test_counts_of_topics():
    for name in ("a column", "three dimensions", "fields", "complex", "a matrix"):
        with pytest.raises((DataError, DataTypeError), match="TopicModel: "):
            TopicModel(2, n_steps=2).fit(ODD[name][0])


@pytest.mark.parametrize("table", [pa.table, lambda own: pa.RecordBatch.from_pydict(own)])
def test_names_that_repeat_and_batches_of_arrow(table):
    twice = pa.Table.from_arrays([pa.array(VALUES), pa.array(VALUES)], names=["a", "a"])
    for read in (*ESTIMATORS.values(), Columns.from_frame):
        with pytest.raises(DataError, match="more than one column named 'a': rename or drop them"):
            read(twice)
    whole = {"a": VALUES, "b": ROWS[:, 1]}
    mixture = Mixture(n_steps=2, **QUICK).fit(table(whole))
    holed = table({"a": [None, *VALUES[1:]], "b": ROWS[:, 1]})
    filled = mixture.impute(holed)
    assert type(filled) is type(holed)
    assert filled.column("a").null_count == 0
    assert filled.column("b").to_pylist() == holed.column("b").to_pylist()


@pytest.mark.parametrize("fill", [0.0, 1.0, np.nan])
def test_sparse_columns_of_any_fill_value(fill):
    values = np.where(ROWS > 3.0, np.round(ROWS, 2), fill)
    table = pd.DataFrame({name: pd.arrays.SparseArray(column, fill_value=fill) for name, column in zip("ab", values.T)})
    mixtures = [
        Mixture("auto", n_steps=2, **QUICK).fit(data) for data in (table, pd.DataFrame(values, columns=["a", "b"]))
    ]
    assert mixtures[0].labels_.tolist() == mixtures[1].labels_.tolist()
    assert mixtures[0].predict(table).tolist() == mixtures[1].predict(table).tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["gaussian_diag", "gaussian_spherical", "gaussian"])
@pytest.mark.parametrize("sampler", ["auto", "em", "variational"])
def test_the_prior_of_constant_columns_keeps_its_scale(family, sampler):
    data = np.ones((N, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        mixture = Mixture(family, sampler=sampler, **QUICK)
        mixture = mixture.partial_fit(data).partial_fit(data) if sampler == "variational" else mixture.fit(data)
    scale = getattr(mixture.family_, "scale" if family == "gaussian" else "rate")
    own = Mixture(family, learn_hyper=False, sampler="em", **QUICK).fit(data).family_
    bound = getattr(own, "scale" if family == "gaussian" else "rate")
    assert np.min(np.diag(scale) if np.ndim(scale) == 2 else scale) >= 0.00099 * np.max(bound)
    assert np.isfinite(mixture.score_samples(data + 0.01)).all()


def test_a_column_of_a_table_is_typed_by_its_name():
    table = pd.DataFrame({"g": ["u", "v"] * 12, "big one": VALUES * 1e200})
    for family, line in (("auto", r"df['big one'] /="), (Columns([(DiagonalGaussian(), [0, 1])]), "X[:, 1] /=")):
        data = table if family == "auto" else np.c_[VALUES, VALUES * 1e200]
        with pytest.raises(DataError, match=re.escape(line)):
            Mixture(family, n_steps=2, **QUICK).fit(data)


def test_numbers_of_python_are_read():
    exact = [[Decimal("1.5"), 2], [3, Decimal("4.25")]] * 12
    assert Mixture("gaussian_diag", n_steps=2, **QUICK).fit(exact).labels_.shape == (N,)
    assert Mixture(Poisson(), n_steps=2, **QUICK).fit(COUNTS.astype(object)).labels_.shape == (N,)


@pytest.mark.parametrize(
    "cells",
    [
        [Fraction(1, 3), Fraction(7)] * 12,
        [UUID(int=1), UUID(int=2)] * 12,
    ],
)
def test_objects_of_databases_have_the_line_that_converts_them(cells):
    table = pd.DataFrame({"x": VALUES, "the column": pd.Series(cells, dtype=object)})
    with pytest.raises(
        DataTypeError, match=f"'the column': row 0 holds a value of type {type(cells[0]).__name__}"
    ) as told:
        Mixture(n_steps=2, **QUICK).fit(table)
    scope = {"df": table}
    exec(re.search(r"write (df.*?), or leave", str(told.value))[1], scope)  # the line of a message, which is ours
    assert Mixture(n_steps=2, **QUICK).fit(scope["df"]).family_.n_features_in_ == 2
