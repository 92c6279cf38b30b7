"""Quotes in delimited text: what they enclose is read, and a quote without an end is refused with its line."""

import csv
import gzip
import io
import re

import numpy as np
import pytest

from expfam.cli import main
from expfam.errors import DataError
from expfam.io.quotes import check_quotes, rows_of
from expfam.io.readers import read

OPEN = {  # text with a quote that is not closed, and the line that opens it
    "in the middle": ('a,b\n1,x\n2,y\n3,"z\n4,w\n5,v\n', 4),
    "in the last line": ('a,b\n1,x\n2,"y', 3),
    "in the last line with an end": ('a,b\n1,x\n2,"y\n', 3),
    "in the first line": ('a,"b\n1,x\n2,y\n', 1),
    "of the first cell": ('a,b\n"1,x\n2,y\n', 2),
    "among numbers": ('a,b\n1,2\n3,"4\n5,6\n', 3),
    "after cells that are closed": ('a,b\n"1","x"\n2,"y ""z"""\n"3","w\n4,v\n', 4),
    "after a cell of several lines": ('a,b\n1,"x\ny"\n2,"z\n3,w\n', 4),
    "opened where a cell of several lines ends": ('a,b,c\n1,"x\ny","z\n2,w,v\n', 3),
    "after marks of inches": ('a,b\n1,5" pipe\n2,"y\n3,x\n', 3),
    "after a quote that is part of a cell": ('a,b\n1,"5" pipe"\n2,"y\n3,x\n', 3),
    "ended by a doubled quote": ('a,b\n1,"x""\n2,y\n', 2),
    "with ends of lines of other systems": ('a,b\r\n1,2\r\n3,"4\r\n5,6\r\n', 3),
    "beyond the longest cell of the parser": ('a,b\n1,2\n3,"4\n' + "5,6\n" * 60_000, 3),
}


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz"])
@pytest.mark.parametrize("case", OPEN)
def test_a_quote_without_an_end_is_refused_with_the_line_that_opens_it(tmp_path, case, suffix, frame):
    text, line = OPEN[case]
    delimiter = {".tsv": "\t", ".txt": ";"}.get(suffix, ",")
    path = tmp_path / f"x{suffix}"
    content = text.replace(",", delimiter).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    with pytest.raises(DataError, match=rf"line {line}, '.*', opens a quote that is not closed to the end of the file"):
        read(path, frame=frame)


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
def test_blanks_between_cells_and_a_given_delimiter_are_no_exception(tmp_path, frame):
    (tmp_path / "x.txt").write_text('1 2\n3 "4\n5 6\n')
    (tmp_path / "x.csv").write_text('1:2\n3:"4\n5:6\n')
    for name, delimiter in (("x.txt", None), ("x.csv", ":")):
        with pytest.raises(DataError, match=r"line 2, '3.\"4', opens a quote"):
            read(tmp_path / name, frame=frame, delimiter=delimiter)


def test_columns_of_names_and_labels_are_no_exception(tmp_path):
    (tmp_path / "x.csv").write_text('name,x\na,1\n"b,2\nc,3\n')
    for option in ("id_column", "label_column", "link_column"):
        with pytest.raises(DataError, match=r"line 3, '\"b,2', opens a quote"):
            read(tmp_path / "x.csv", **{option: "name"})


def test_a_quote_that_a_later_cell_closes_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text('a,b\n1,"x\n2,y\n3,"z"\n4,w\n')
    with pytest.raises(DataError, match=r"""line 2, '1,"x', opens a quote that line 4 ends, with 'z"' after the end"""):
        read(tmp_path / "x.csv", frame=True)


def test_names_of_columns_stand_in_one_line(tmp_path):
    (tmp_path / "x.csv").write_text('a,"b\nc"\n1,2\n')
    with pytest.raises(DataError, match=r"a cell in quotes of the first line, 'a,\"b', ends in a later line"):
        read(tmp_path / "x.csv", frame=True)


def test_the_command_line_names_the_line(tmp_path, capsys, monkeypatch):
    content = 'a,b\n1,x\n2,"y\n3,z\n'
    (tmp_path / "x.csv").write_text(content)
    assert main(["fit", str(tmp_path / "x.csv")]) != 0
    assert re.search(r"x\.csv: line 3, .* opens a quote", capsys.readouterr().err)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert main(["roles", "-"]) != 0
    assert re.search(r"standard input: line 3, .* opens a quote", capsys.readouterr().err)


CLOSED = {  # text, and the cells of its second column
    "line ends and doubled quotes": ('a,b\n1,"x\ny"\n3,z\n4,"p""q"\n', ["x\ny", "z", 'p"q']),
    "marks of inches": ('a,b\n1,5" pipe\n2,7" pipe\n3,x\n', ['5" pipe', '7" pipe', "x"]),
    "a quote that is part of a cell": ('a,b\n1,"5" pipe"\n2,"7"\n3,x\n', ['5 pipe"', "7", "x"]),
    "empty cells": ('a,b\n1,""\n2,""""\n3,x\n', [None, '"', "x"]),
    "blanks between cells": ('"a" "b"\n1 "x y"\n 2\t"z"  \n3   w\n', ["x y", "z", "w"]),
}


@pytest.mark.parametrize("case", CLOSED)
def test_what_quotes_enclose_is_read(tmp_path, case):
    text, cells = CLOSED[case]
    (tmp_path / "x.txt").write_text(text)
    column = read(tmp_path / "x.txt", frame=True).X.column("b")
    found = [None if gone else column.levels[code] for code, gone in zip(column.values, column.missing)]
    assert found == cells


def _refusal(path):
    """Return why the quotes of a file are refused, "" where they are not."""
    try:
        check_quotes(path, ",")
    except DataError as error:
        return str(error)
    return ""


def test_random_text_is_refused_where_a_line_more_would_be_part_of_its_last_cell(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "x.csv"
    n_open = 0
    for _ in range(1000):
        text = "".join(rng.choice(list('",;ab\n'), rng.integers(1, 14), p=[0.35, 0.2, 0.05, 0.1, 0.1, 0.2]))
        path.write_text(text)
        is_open = list(csv.reader([*text.splitlines(keepends=True), "e,n,d"]))[-1] != ["e", "n", "d"]
        message = _refusal(path)
        if "a quote is missing" not in message:
            assert is_open == ("is not closed" in message), text
        n_open += is_open
    assert n_open > 100


def test_rows_are_split_as_csv_splits_them():
    lines = ['a,"b,c"\n', '"d\n', 'e",f\n']
    assert list(rows_of(lines, ",")) == [["a", "b,c"], ["d\ne", "f"]]
