"""Feather files and lines of JSON: the same table as CSV, and errors that name the file."""

import sys

import numpy as np
import pytest

from expfam.errors import DataError
from expfam.frames.frame import Frame
from expfam.io.readers import read

pyarrow = pytest.importorskip("pyarrow")
ROWS = [("a", 1.5, 3), ("b", None, 4), ("c", 2.5, None)]


def written(folder, suffix):
    path = folder / f"x{suffix}"
    columns = {"name": [row[0] for row in ROWS], "x": [row[1] for row in ROWS], "n": [row[2] for row in ROWS]}
    if suffix in (".feather", ".arrow"):
        from pyarrow import feather

        feather.write_feather(pyarrow.table(columns), path)
    else:
        lines = ['{"name": "a", "x": 1.5, "n": 3}', '{"name": "b", "x": null, "n": 4}', '{"name": "c", "x": 2.5}']
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".feather", ".arrow", ".jsonl", ".ndjson"])
def test_a_table_with_missing_cells(suffix, tmp_path):
    table = read(written(tmp_path, suffix), frame=True, id_column="name")
    assert isinstance(table.X, Frame)
    assert table.row_ids.tolist() == ["a", "b", "c"]
    assert table.column_names.tolist() == ["x", "n"]
    assert table.X.column("x").missing.tolist() == [False, True, False]
    assert table.X.column("n").missing.tolist() == [False, False, True]


@pytest.mark.parametrize("suffix", [".feather", ".jsonl"])
def test_without_a_frame_missing_cells_are_refused(suffix, tmp_path):
    with pytest.raises(DataError, match=r"column 'x' has 1 missing value"):
        read(written(tmp_path, suffix), id_column="name")


def test_a_matrix_of_numbers(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1, "b": 2.5}\n{"a": 3, "b": 4}\n')
    np.testing.assert_array_equal(read(tmp_path / "x.jsonl").X, [[1.0, 2.5], [3.0, 4.0]])


def test_a_long_line_is_read(tmp_path):
    (tmp_path / "x.jsonl").write_text(f'{{"a": 1, "b": "{"x" * (3 << 20)}"}}\n{{"a": 2, "b": "y"}}\n')
    assert read(tmp_path / "x.jsonl", frame=True, id_column="b").X.n_rows == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.feather", b"FEA1 and no more", "not a readable Feather file"),
        ("x.jsonl", b'{"a": 1}\n{"a": }\n', "not a readable JSON lines file"),
        ("x.jsonl", b"[1, 2]\n[3, 4]\n", "not a readable JSON lines file"),
    ],
)
def test_damaged_files_are_named(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}: is {said}"):
        read(tmp_path / name)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = written(tmp_path, ".jsonl")
    monkeypatch.setitem(sys.modules, "pyarrow.json", None)
    with pytest.raises(DataError, match=r"reading JSON lines needs pyarrow: pip install 'expfam\[arrow\]'"):
        read(path)
