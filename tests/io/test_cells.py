"""Tables of text and missing cells in files: types of columns, both ways to split lines, Parquet, standard input."""

import gzip
import io
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import parquet

from expfam.errors import DataError
from expfam.frames.frame import Frame
from expfam.frames.numbers import check_finite, numbers_of_frame
from expfam.io import cells
from expfam.io.cells import column_of_text
from expfam.io.readers import read

TEXT = """\
name,zip,age,income,kind,ok,day
a,01234,12,1.5,x,true,2020-01-02
b,99999,NA,2.5,"y, z",false,
c,12345,14,null,x,True,2020-01-01
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TEXT)
    return path


@pytest.fixture(params=["pyarrow", "standard library"])
def way(request, monkeypatch):
    if request.param != "pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)  # an import of it fails
        monkeypatch.delattr(pa, "csv", raising=False)


@pytest.mark.usefixtures("way")
def test_columns_of_a_table_of_text(path):
    frame = read(path, frame=True).X
    kinds = {name: frame.column(name).kind for name in frame.names}
    assert kinds == dict(zip(frame.names, ("text", "text", "integer", "float", "text", "boolean", "time")))
    assert frame.column("age").missing.tolist() == [False, True, False]
    assert frame.column("kind").levels == ("x", "y, z")
    assert frame.column("zip").levels == ("01234", "12345", "99999")
    assert np.diff(frame.column("day").present).tolist() == [-86400.0]


def test_both_ways_give_the_same(path):
    names = TEXT.split("\n")[0].split(",")
    one = cells._by_pyarrow(path, names, ",", True)
    other = cells._by_lines(path, names, ",", True)
    assert [one.column(j) for j in range(7)] == [other.column(j) for j in range(7)]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "NULL", "None"])
def test_missing_cells(cell):
    column = column_of_text("x", ["1.5", cell, " 2 "])
    assert column.missing.tolist() == [False, True, False]
    assert column.present.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("word", ["NAN", "-nan"])
def test_words_that_write_nan_are_missing_cells(word):
    column = column_of_text("x", ["1.5", word, "2"])
    assert column.missing.tolist() == [False, True, False]
    assert column_of_text("x", [word, ""]).kind == "empty"


def test_an_infinite_cell_is_named_as_the_file_writes_it():
    column = column_of_text("x", ["1.5", "", " 1e999 ", "2"])
    with pytest.raises(DataError, match="column 'x', row 2 holds '1e999', which is not finite as a float"):
        check_finite(column)


KINDS = {
    "integer": ["1", "-2", "+3"],
    "float": ["1", "2.5", "1e3"],
    "boolean": ["TRUE", "False", "true"],
    "time": ["2020-01-01", "2020-01-01T10:00:00"],
    "text": ["1", "a", "2"],
    "empty": ["", "NA", "null"],
}


@pytest.mark.parametrize(("kind", "found"), KINDS.items(), ids=KINDS)
def test_kind_of_a_column(kind, found):
    assert column_of_text("x", found).kind == kind


@pytest.mark.parametrize(
    "found", [["007", "123"], ["1_000", "2"], ["none", "1"], ["2020-13-45", "2020-01-01"]], ids=repr
)
def test_codes_and_words_are_text(found):
    assert column_of_text("x", found).kind == "text"


@pytest.mark.usefixtures("way")
def test_a_numeric_file_is_a_plain_frame_with_the_bits_of_the_array(tmp_path):
    path = tmp_path / "numbers.csv"
    X = np.random.default_rng(0).normal(size=(50, 3))
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    table = read(path, frame=True)
    assert table.X.is_plain()
    assert np.array_equal(numbers_of_frame(table.X, of_fit=False), read(path).X)
    assert table.column_names.tolist() == ["a", "b", "c"]


@pytest.mark.usefixtures("way")
def test_gzipped_and_tab_separated(tmp_path):
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress("\ufeffa\tb\nx\t1\ny\t\n".encode()))
    frame = read(path, frame=True).X
    assert frame.names == ("a", "b")
    assert frame.column("b").missing.tolist() == [False, True]


@pytest.mark.usefixtures("way")
def test_a_table_of_words_alone_has_a_header(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("a,b\nx,y\nx,z\n")
    assert read(path, frame=True).X.names == ("a", "b")
    path.write_text("x,x\nx,y\nx,z\n")
    assert read(path, frame=True).X.names == ("0", "1")
    path.write_text(",b\n1,y\n2,z\n")
    assert read(path, frame=True).X.names == ("column 0", "b")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("header", ["review", "customer review", '"review"'])
def test_a_table_may_be_one_column_of_texts(header, tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text(f'{header}\nthe best of all\n"no, not again"\nwell\n')
    column = read(path, frame=True).X.column(header.strip('"'))
    assert [column.levels[code] for code in column.values] == ["the best of all", "no, not again", "well"]


@pytest.mark.parametrize("text", ["x y\n1 2\n3 4\n", "1 2\n3 4\n", "  x   y\n  1   2\n  3   4\n"])
def test_a_csv_file_may_be_separated_by_white_space(text, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert read(path).X.tolist()[-1] == [3.0, 4.0]


def test_names_of_rows_and_classes_are_no_columns(path):
    table = read(path, frame=True, id_column="name", label_column="kind")
    assert table.row_ids.tolist() == ["a", "b", "c"]
    assert table.labels.tolist() == ["x", "y, z", "x"]
    assert table.X.names == ("zip", "age", "income", "ok", "day")


ERRORS = {
    "another number of cells": (
        "a,b\nx,1\ny\n",
        r"line 3 has 1 cell; the first line has 2: put cells that hold ',' in double quotes; .* name the file .*\.txt",
    ),
    "names that occur twice": ("a,a\nx,1\ny,2\n", r"more than one column named 'a'"),
    "no rows": ("a,b\n", r"header line and no rows|no rows"),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_error(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read(path, frame=True, header=True)


def test_text_is_refused_with_the_lines_where_numbers_are_asked_for(path, tmp_path):
    with pytest.raises(DataError, match=r"line 2, column 1 holds 'a', which is not a number: .* leave out --family"):
        read(path)
    named = tmp_path / "named.csv"
    named.write_text("x,name,y\n1,a,2\n3,b,4\n")
    pq.write_table(pa.table({"x": [1, 3], "name": ["a", "b"], "y": [2, 4]}), named.with_suffix(".parquet"))
    for each in (named, named.with_suffix(".parquet")):
        with pytest.raises(DataError) as found:
            read(each)
        lines = re.findall(r"write (read\(.*?\))", str(found.value))
        assert [eval(line).X.shape for line in lines] == [(2, 2), (2, 3)]


def test_no_column_is_left(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a\nx\ny\n")
    with pytest.raises(DataError, match="no column of data is left"):
        read(path, frame=True, id_column="a")
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    with pytest.raises(DataError, match="no column of data is left"):
        read(tmp_path / "one.parquet", frame=True, id_column="a")


# ---- Parquet and standard input --------------------------------------------------------------------------------------


def test_a_parquet_table_of_text(tmp_path):
    df = pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]}, index=pd.Index([7, 8, 9], name="row"))
    df.to_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet", frame=True, id_column="row")
    assert isinstance(table.X, Frame)
    assert table.X.names == ("a", "b")
    assert table.row_ids.tolist() == [7, 8, 9]


def test_the_index_of_a_pandas_frame_is_no_feature(tmp_path):
    df = pd.DataFrame({"b": [1.0, 2.0]}, index=pd.Index([7, 9]))
    df.to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").X.tolist() == [[1.0], [2.0]]
    assert read(tmp_path / "t.parquet", frame=True).X.names == ("b",)


def _feed(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_standard_input(monkeypatch, tmp_path):
    parquet.write_table(pa.table({"a": ["x", "y"]}), tmp_path / "t.parquet")
    for content in (b"a\nx\ny\n", gzip.compress(b"a\nx\ny\n"), (tmp_path / "t.parquet").read_bytes()):
        _feed(monkeypatch, content)
        assert read("-", frame=True).X.column("a").levels == ("x", "y")
    _feed(monkeypatch, b"a,b\n1,2\n")
    assert read("-").X.tolist() == [[1.0, 2.0]]


def test_errors_of_standard_input_name_it(monkeypatch):
    _feed(monkeypatch, b"")
    with pytest.raises(DataError, match=r"^standard input: the file is empty"):
        read("-")
    _feed(monkeypatch, b"a,b\nx,1\ny\n")
    with pytest.raises(DataError, match=r"^standard input: line 3 has 1 cell"):
        read("-", frame=True)
