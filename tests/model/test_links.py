"""Pairs of rows that belong together: what they become, and what is refused by the number of the pair."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from expfam import Known, link_groups
from expfam.errors import DataError, DataTypeError

PAIRS = {
    "tuples": [(0, 3), (3, 4)],
    "an array": np.array([[0, 3], [3, 4]], dtype=np.uint8),
    "arrays": [np.array([0, 3]), np.array([3, 4])],
    "objects": np.array([[0, 3], [3, 4]], dtype=object),
    "sets": [{0, 3}, {3, 4}],
    "pandas": pd.DataFrame({"a": [0, 3], "b": [3, 4]}),
    "nullable pandas": pd.DataFrame({"a": [0, 3], "b": [3, 4]}, dtype="Int64"),
    "Polars": pl.DataFrame({"a": [0, 3], "b": [3, 4]}),
    "Arrow": pa.table({"a": [0, 3], "b": [3, 4]}),
}


@pytest.mark.parametrize("pairs", PAIRS.values(), ids=PAIRS)
def test_pairs_of_any_container(pairs):
    assert link_groups(pairs, 6).tolist() == [0, -1, -1, 0, 0, -1]


def test_pairs_of_an_iterator_and_rows_of_an_integer_of_numpy():
    assert link_groups(zip([0, 3], [3, 4]), np.int32(6)).tolist() == [0, -1, -1, 0, 0, -1]
    assert link_groups(iter([]), 2).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(0, 1), (2,)], r"pair 1 has 1 row: \(2,\)"),
        ([(0, 1), (2, 3, 4)], r"pair 1 has 3 rows: \(2, 3, 4\)"),
        ([np.array([0, 1]), np.array([2])], "pair 1 has 1 row"),
        ([(0, 1), 2], "pair 1 is 2"),
        (["ab"], "pair 0 is 'ab'"),
        (np.zeros((2, 3), dtype=int), r"int64 of shape \(2, 3\)"),
        ([(0, 1), (0, 9)], r"pair 1 is \(0, 9\); rows are the numbers 0 to 4"),
        ([(0, 10**30)], "rows are the numbers 0 to 4"),
        (np.array([[2**64 - 1, 0]], dtype=np.uint64), "rows are the numbers 0 to 4"),
        ([(0, 1), (-1, 2)], r"pair 1 is \(-1, 2\)"),
    ],
)
def test_pairs_that_are_none(pairs, words):
    with pytest.raises(DataError, match=words):
        link_groups(pairs, 5)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (None, "got a NoneType: write link_groups"),
        (5, "got a int: write link_groups"),
        ("ab", "got a str: write link_groups"),
        ({0: 1}, "got a dict: write link_groups"),
        (
            sparse.csr_array(np.eye(3)),
            r"write link_groups\(np.argwhere\(pairs.toarray\(\)\), n_rows=pairs.shape\[0\]\)",
        ),
        ([(0, 1), (2, None)], "pair 1 is .2, None., and None is a NoneType"),
        ([(0, pd.NA)], "<NA> is a NAType, not the number of a row"),
        ([(True, False)], "True is a bool, not the number of a row"),
        ([(0, np.nan)], "nan is a float, not the number of a row$"),
        ([(0, 1.0)], r"write link_groups\(np.asarray\(pairs\).astype\(int\)"),
        (np.array([[0.0, 1.0]]), r"write link_groups\(np.asarray\(pairs\).astype\(int\)"),
        ([("ann", "bob")], r"'ann' is a str, not the number of a row: write place = "),
        (pd.DataFrame({"a": ["ann"], "b": ["bob"]}), "'ann' is a str, not the number of a row: write place = "),
    ],
)
def test_pairs_of_another_type(pairs, words):
    with pytest.raises(DataTypeError, match=words):
        link_groups(pairs, 5)


@pytest.mark.parametrize("n_rows", [5.0, "5", None, True, np.zeros((5, 2)), [5]])
def test_a_number_of_rows_that_is_none(n_rows):
    with pytest.raises(DataTypeError, match=r"n_rows must be the number of all rows; got .*: write link_groups"):
        link_groups([(0, 1)], n_rows)


def test_rows_below_zero_and_no_rows():
    with pytest.raises(DataError, match="at least 0; got -1"):
        link_groups([], -1)
    with pytest.raises(DataError, match="there are no rows"):
        link_groups([(0, 1)], 0)
    assert link_groups([], 0).shape == (0,)


def test_the_lines_of_the_messages_run():
    names, pairs = ["ann", "bob", "cat"], [("ann", "cat")]
    place = {name: row for row, name in enumerate(names)}
    assert link_groups([(place[a], place[b]) for a, b in pairs], n_rows=len(names)).tolist() == [0, -1, 0]
    pairs, X = [(0.0, 2.0)], np.zeros((3, 1))
    assert link_groups(np.asarray(pairs).astype(int), n_rows=X.shape[0]).tolist() == [0, -1, 0]
    pairs = sparse.csr_array(([1], ([0], [2])), shape=(3, 3))
    assert link_groups(np.argwhere(pairs.toarray()), n_rows=pairs.shape[0]).tolist() == [0, -1, 0]


# ---- contradictions --------------------------------------------------------------------------------------------------

NAMES = ["ape", "bear"]


@pytest.mark.parametrize(("names", "shown"), [(NAMES, ("'ape'", "'bear'")), ([7, 9], ("7", "9")), (None, ("0", "1"))])
def test_contradictions_have_the_names_of_the_classes(names, shown):
    with pytest.raises(DataError, match="rows 0 and 2 are linked, and are of the classes {} and {}".format(*shown)):
        Known([0, -1, 1], links=[0, -1, 0], class_names=names)
    known = Known([0, -1, 1, 1], class_names=names)
    assert known.fault([0, 0, 0, 1]) == "rows 0 and 2 are of two classes, {} and {}, and lie in one cluster".format(
        *shown
    )
    assert known.fault([0, 0, 1, 2]) == f"rows 2 and 3 are of one class, {shown[1]}, and lie in two clusters"
    assert known.part(np.array([0, 2])).fault([0, 0]).startswith(f"rows 0 and 1 are of two classes, {shown[0]}")


@pytest.mark.parametrize(
    ("links", "line"),
    [
        (np.array([[0, 1]]), "link_groups(pairs, n_rows=X.shape[0])"),
        (np.array(["a", "a", "b"]), "pandas.factorize(links)[0]"),
        (pd.Series(["a", None, "a"]), "pandas.factorize(links)[0]"),
        (pd.Series([3, pd.NA, 3], dtype="Int64"), "np.nan_to_num(np.asarray(links, float), nan=-1).astype(int)"),
        (np.array([3.0, np.nan, 3.0]), "np.nan_to_num(np.asarray(links, float), nan=-1).astype(int)"),
    ],
)
def test_links_of_another_type_have_the_line_to_type(links, line):
    with pytest.raises(DataError, match=r"links must be a one-dimensional array of integers") as caught:
        Known(links=links)
    found = str(caught.value).partition("write links=")[2].partition(", which")[0]
    assert found == line
    names = {"np": np, "pandas": pd, "link_groups": link_groups, "links": links, "pairs": links, "X": np.zeros((3, 1))}
    assert Known(links=eval(found, names)).n_rows == 3


def test_fractions_are_no_links():
    with pytest.raises(DataError, match="use link_groups"):
        Known(links=[0.5, 1.0])
