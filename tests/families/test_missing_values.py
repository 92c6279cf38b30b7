"""Values that stand for missing cells: declared once, they are holes in every later frame too."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import Columns, Mixture
from expfam.errors import DataError, DataTypeError, DataWarning
from expfam.families.columns.inference import infer_roles
from expfam.families.columns.roles import Roles
from expfam.frames.frame import as_frame
from expfam.frames.missing_values import missing_values_of, with_holes

N = 60
HOLES = np.arange(N) % 6 == 0
REAL = np.random.default_rng(0).normal(size=N).round(2)
CELLS = {
    "code": np.where(HOLES, -999, np.arange(N) % 30 + 1).tolist(),
    "text": ["?" if gone else f"{value}" for gone, value in zip(HOLES, REAL)],
    "kind": ["?" if gone else "xyz"[i % 3] for i, gone in enumerate(HOLES)],
    "size": np.where(HOLES, -999.0, REAL).tolist(),
}
MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_codes_are_holes(make):
    roles = infer_roles(make(CELLS), missing_values=["?", -999])
    assert [(role.role, role.missing) for role in roles.roles] == [
        ("count", 10),
        ("real", 10),
        ("category", 10),
        ("real", 10),
    ]
    matrix = roles.encode(make(CELLS))
    assert (np.isnan(matrix) == HOLES[:, None]).all()
    assert np.array_equal(matrix[~HOLES, 1], REAL[~HOLES])
    assert roles.roles[2].levels == ["x", "y", "z"]


def test_the_same_frame_with_holes_of_its_own_has_the_same_roles_and_matrix():
    gone = pd.DataFrame(CELLS).replace({"?": None, -999: None})
    gone["text"] = gone["text"].astype(float)
    gone["code"] = gone["code"].astype("Int64")
    roles, plain = infer_roles(pd.DataFrame(CELLS), missing_values=["?", -999]), infer_roles(gone)
    assert [role | {"missing_values": []} for role in roles.to_list()] == [
        role | {"missing_values": []} for role in plain.to_list()
    ]
    assert np.array_equal(roles.encode(pd.DataFrame(CELLS)), plain.encode(gone), equal_nan=True)


def test_values_by_column():
    roles = infer_roles(pd.DataFrame(CELLS), missing_values={"text": "?", "kind": ["?"], "code": -999})
    assert [role.missing for role in roles.roles] == [10, 10, 10, 0]
    assert [role.missing_values for role in roles.roles] == [[-999], ["?"], ["?"], []]


def test_roles_keep_the_values_through_json_and_for_later_frames():
    roles = infer_roles(pd.DataFrame(CELLS), missing_values=["?", -999])
    again = Roles(json.loads(json.dumps(roles.to_list())))
    assert again == roles
    later = pd.DataFrame({"code": [3, -999], "text": ["1.5", "2.5"], "kind": ["?", "z"], "size": [-999.0, 0.0]})
    matrix = again.encode(later)  # the text holds no code now, and is read as numbers all the same
    assert matrix[:, 1].tolist() == [1.5, 2.5]
    assert np.isnan(matrix).tolist() == [[False, False, True, True], [True, False, False, False]]
    assert infer_roles(pd.DataFrame(CELLS), json.loads(json.dumps(roles.to_list()))) == roles


def test_roles_may_give_the_values_alone():
    entries = [{"column": "text", "missing_values": ["?"]}, {"column": "size", "missing_values": -999}]
    roles = infer_roles(pd.DataFrame(CELLS), entries, {"kind": "drop", "code": "drop"})
    assert [(role.role, role.missing) for role in roles.roles][1::2] == [("real", 10), ("real", 10)]


def test_values_and_a_role_together():
    roles = infer_roles(pd.DataFrame(CELLS), None, {"text": "real", "code": "category"}, missing_values=["?", -999])
    assert [(role.role, role.missing) for role in roles.roles[:2]] == [("category", 10), ("real", 10)]
    assert -999 not in roles.roles[0].levels


def test_a_fit_saved_and_read_back_takes_the_codes_for_holes(tmp_path):
    frame = pd.DataFrame(CELLS)
    mixture = Mixture(Columns.from_frame(frame, missing_values=["?", -999]), n_components=2, random_state=0).fit(frame)
    mixture.save(tmp_path / "model")
    read = Mixture.load(tmp_path / "model")
    assert np.array_equal(read.predict(frame), mixture.predict(frame))
    filled = read.impute(frame)
    assert filled["text"].dtype == float
    assert filled["text"][~HOLES].tolist() == REAL[~HOLES].tolist()
    assert not set(filled["kind"]) & {"?"}
    assert (filled[["code", "size"]] > -900).all(axis=None)


def test_chunks_take_the_codes_for_holes():
    frame = pd.DataFrame(CELLS)
    family = Columns.from_frame(frame, missing_values=["?", -999])
    mixture = Mixture(family, n_components=2, sampler="variational", random_state=0)
    mixture.partial_fit(frame[:30]).partial_fit(frame[30:])
    gone = pd.DataFrame({"code": [-999], "text": ["?"], "kind": ["?"], "size": [-999.0]})
    p = mixture.predict_proba(gone)
    assert p == pytest.approx(np.asarray(mixture.weights_)[None] / np.sum(mixture.weights_), abs=0.05)


TYPES = {
    "text, a number for its text": (["1.5", "-999", "2.5"], [-999], "float"),
    "text, a text for its number": ([1.5, -999.0, 2.5], ["-999"], "float"),
    "whole numbers as text": (["1", "?", "3"], ["?"], "integer"),
    "another word stays": (["1", "?", "x"], ["?"], "text"),
    "codes stay text": (["01", "?", "03"], ["?"], "text"),
    "booleans": ([True, None, False], ["?", 1], "boolean"),
    "declared": (pd.Categorical(["a", "?", "b"], categories=["b", "?", "a"]), ["?"], "category"),
    "numbers as categories": (pd.Categorical([1, -9, 2]), [-9], "category"),
    "dates": (pd.to_datetime(["2020-01-01", "1900-01-01", "2021-01-01"]), ["1900-01-01"], "time"),
    "large integers": ([2**60 + 1, 2**60, 5], [2**60], "integer"),
    "an integer beyond floats": ([1.5, None, 2.5], [10**400], "float"),
    "blanks around": (["a", " ? ", "b"], ["?"], "text"),
}


@pytest.mark.parametrize(("cells", "values", "kind"), TYPES.values(), ids=TYPES)
def test_column(cells, values, kind):
    column = with_holes(as_frame(pd.DataFrame({"x": cells})).column("x"), values)
    assert column.kind == kind
    assert column.missing.tolist() == [False, True, False]
    if kind == "category":
        assert column.levels in (("b", "a"), (1, 2))
        assert column.present.tolist() in ([1, 0], [0, 1])


def test_a_column_of_codes_alone_is_empty():
    column = with_holes(as_frame(pd.DataFrame({"x": ["?", None, "NA"]})).column("x"), ["?", "NA"])
    assert (column.kind, column.missing.tolist()) == ("empty", [True] * 3)


def test_columns_without_the_values_stay_as_they_are():
    column = as_frame(pd.DataFrame({"x": ["a", "b"]})).column("x")
    assert with_holes(column, ["?"]).levels == column.levels
    assert with_holes(column, []) is column


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"txt": "?"}, ValueError, r"missing_values: the frame has no column 'txt'; did you mean 'text'\?"),
        ([True], TypeError, r"missing_values must be texts and numbers .* such as \['\?', -999\]; got True"),
        ({"text": [["?"]]}, TypeError, r"missing_values\['text'\] must be texts and numbers .*; got \['\?'\]"),
        (object(), TypeError, r"must be texts and numbers"),
    ],
)
def test_error(values, error, message):
    with pytest.raises(error, match=message):
        Columns.from_frame(pd.DataFrame(CELLS), missing_values=values)


def test_missing_ones_need_not_be_declared():
    found = missing_values_of([None, float("nan"), pd.NA, np.float64(3.0)], ("a",), owner="Columns")
    assert found == {"a": [3.0]}
    assert missing_values_of([None], ("a",), owner="Columns") == {}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda cells: pl.DataFrame({"x": pl.Series(cells["x"], dtype=pl.Object)})]
)
def test_codes_among_objects_of_another_type(make):
    cells = {"x": pd.Series([1.5, "?", -999, 2.5, 0.5], dtype=object).tolist()}
    roles = infer_roles(make(cells), None, {"x": "real"}, missing_values=["?", "-999"])
    assert roles.encode(make(cells))[:, 0].tolist()[::3] == [1.5, 2.5]
    assert np.isnan(roles.encode(make(cells))[:, 0]).tolist() == [False, True, True, False, False]
    with pytest.raises(DataTypeError, match=r"column 'x' mixes values .* row 1 holds '\?'"):
        infer_roles(make(cells), None, {"x": "real"}, missing_values=["-999"])


def test_codes_among_truth_values_are_no_numbers_for_them():
    frame = pd.DataFrame({"x": pd.Series([True, "?", False, True, False, True], dtype=object), "y": REAL[:6]})
    roles = infer_roles(frame, missing_values=["?", 1, 0])
    assert (roles.roles[0].role, roles.roles[0].missing) == ("binary", 1)


def test_objects_that_are_codes_alone():
    column = as_frame(pd.DataFrame({"x": pd.Series(["?", -999], dtype=object)})).column("x", lambda cell: True)
    assert column.kind == "empty"


def test_a_fit_takes_codes_among_numbers_for_holes():
    frame = pd.DataFrame({"size": ["?" if gone else value for gone, value in zip(HOLES, REAL)], "kind": CELLS["kind"]})
    mixture = Mixture(Columns.from_frame(frame, missing_values="?"), n_components=2, random_state=0).fit(frame)
    filled = mixture.impute(frame)
    assert [isinstance(cell, float) for cell in filled["size"]] == [True] * N
    assert mixture.predict(frame).shape == (N,)


# ---- text that writes no finite number -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("word", ["nan", "NaN", " NAN ", "-nan"])
def test_text_for_nan_beside_the_values_is_counted_as_missing(make, word):
    cells = {"x": ["?", word, "1.5", "2.25", "-3"] * 8}
    family = Columns.from_frame(make(cells), missing_values="?")
    assert family.roles[0]["missing"] == 16
    assert family.roles[0]["role"] == "real"
    assert np.isnan(Roles(family.roles).encode(make(cells))[:, 0]).sum() == 16


def test_a_column_of_nothing_but_words_for_missing_cells_is_empty():
    frame = pd.DataFrame({"x": ["?", "nan"] * 8, "y": np.arange(16) + 0.5})
    with pytest.warns(DataWarning, match=r"'x' \(all cells are missing\)"):
        family = Columns.from_frame(frame, missing_values="?")
    assert family.roles[0]["role"] == "dropped"
    assert family.roles[0]["note"] == "all cells are missing"
    assert family.roles[0]["missing"] == 16


INFINITE = ["inf", "-Infinity", "1e999", "-1e400", "7" * 400]


@pytest.mark.parametrize("text", INFINITE, ids=lambda text: text[:9])
def test_text_that_is_not_finite_is_named_as_it_is_written_with_its_row(text):
    frame = pd.DataFrame({"x": ["2.5", "?", "1.5", text, "-3", "2.25"] * 4})
    with pytest.raises(DataError, match=rf"column 'x', row 3 holds '{text[:30]}'.*, which is not finite") as caught:
        Columns.from_frame(frame, missing_values="?")
    assert " inf" not in str(caught.value).replace("'inf'", "")
    if len(text) > 30:
        assert "(400 characters)" in str(caught.value)
        return
    line = str(caught.value).partition("or write ")[2].partition(", which makes")[0]
    family = eval(line, {"Columns": Columns, "df": frame})
    assert family.roles[0]["missing"] == 8
    assert family.roles[0]["role"] == "real"


def test_a_later_frame_with_text_that_is_not_finite_is_refused_as_it_is_written():
    frame = pd.DataFrame({"x": ["2.5", "?", "1.5", "-3"] * 5})
    mixture = Mixture(Columns.from_frame(frame, missing_values="?"), 2, n_steps=2, random_state=0).fit(frame)
    with pytest.raises(DataError, match=r"column 'x', row 1 holds '1e999', which is not finite .*=\['\?', '1e999'\]"):
        mixture.predict(pd.DataFrame({"x": ["1", "1e999"]}))


def test_the_row_of_an_infinite_cell_is_no_missing_one():
    frame = pd.DataFrame({"x": ["?", "-inf", "1.5", "-3"] * 5})  # "-inf" is the first level
    with pytest.raises(DataError, match="column 'x', row 1 holds '-inf'"):
        Columns.from_frame(frame, missing_values="?")
