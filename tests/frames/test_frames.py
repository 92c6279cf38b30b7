"""The one door for frames: pandas, Polars and PyArrow give the same columns, and a frame of each kind comes back."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam.errors import DataError, DataTypeError
from expfam.frames.frame import Frame, as_frame, is_frame
from expfam.frames.new_frames import new_frame
from expfam.frames.numbers import numbers_of_frame

CELLS = {
    "whole": [3, None, 1],
    "real": [0.5, None, -2.0],
    "truth": [True, None, False],
    "text": ["b", None, "a"],
    "day": [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 1)],
}
FRAMES = {
    "pandas": pd.DataFrame(CELLS),
    "pandas objects": pd.DataFrame(CELLS, dtype=object),
    "pandas nullable": pd.DataFrame(CELLS).convert_dtypes(),
    "pandas Arrow": pa.table(CELLS).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame(CELLS),
    "pyarrow": pa.table(CELLS),
    "record batch": pa.RecordBatch.from_pydict(CELLS),
}


@pytest.mark.parametrize("X", FRAMES.values(), ids=FRAMES)
def test_all_libraries_give_the_same_columns(X):
    assert is_frame(X)
    frame = as_frame(X)
    assert frame.names == tuple(CELLS)
    assert frame.shape == (3, 5)
    for name, kind in zip(CELLS, ("integer", "float", "boolean", "text", "time")):
        column = frame.column(name)
        assert column.missing.tolist() == [False, True, False]
        assert column.kind == kind or (name, column.kind) == ("whole", "float")  # plain pandas has no hole in integers
        values = [86400.0, 0.0] if name == "day" else [1, 0] if name == "text" else [CELLS[name][0], CELLS[name][2]]
        assert column.present.tolist() == values
    assert frame.column("text").levels == ("a", "b")


@pytest.mark.parametrize("X", [np.zeros((2, 2)), [[1.0]], np.zeros(2), pd.Series([1.0]), None], ids=repr)
def test_what_has_no_columns_does_not_pass(X):
    assert not is_frame(X)


def test_the_door_imports_narwhals_when_a_frame_arrives():
    code = (
        "import sys; from expfam.frames.frame import as_frame, is_frame; is_frame([[1.0]]);"
        "assert not {'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules);"
        "import pandas; as_frame(pandas.DataFrame({'x': [1.0]})); assert 'narwhals' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


DECLARED = {
    "pandas": pd.DataFrame({"x": pd.Categorical(["u", None, "v"], categories=["v", "u", "w"])}),
    "pandas ordered": pd.DataFrame({"x": pd.Categorical(["u", None, "v"], categories=["v", "u", "w"], ordered=True)}),
    "polars": pl.DataFrame({"x": pl.Series(["u", None, "v"], dtype=pl.Enum(["v", "u", "w"]))}),
}


@pytest.mark.parametrize("X", DECLARED.values(), ids=DECLARED)
def test_a_declared_type_keeps_its_levels_and_their_order(X):
    column = as_frame(X).column("x")
    assert (column.levels, column.is_declared) == (("v", "u", "w"), True)
    assert column.present.tolist() == [1, 0]
    assert column.missing.tolist() == [False, True, False]


UNDECLARED = {
    "polars": pl.DataFrame({"x": pl.Series(["u", None, "b"], dtype=pl.Categorical)}),
    "pyarrow": pa.table({"x": pa.array(["u", None, "b"]).dictionary_encode()}),
}


@pytest.mark.parametrize("X", UNDECLARED.values(), ids=UNDECLARED)
def test_other_categories_have_the_levels_that_occur(X):
    column = as_frame(X).column("x")
    assert (column.kind, column.levels, column.is_declared) == ("category", ("b", "u"), False)
    assert column.present.tolist() == [1, 0]


def test_categories_of_numbers_stay_numbers():
    column = as_frame(pd.DataFrame({"x": pd.Categorical([20, 10, 20])})).column("x")
    assert column.levels == (10, 20)
    assert [type(level) for level in column.levels] == [int, int]


@pytest.mark.parametrize(
    "X", [pd.DataFrame({"x": [None, None]}), pl.DataFrame({"x": [None, None]}), pa.table({"x": pa.nulls(2)})]
)
def test_a_column_without_cells_is_empty(X):
    assert as_frame(X).column("x").kind == "empty"


def test_large_integers_keep_their_digits():
    for X in (pl.DataFrame({"x": [2**60 + 1, None]}), pa.table({"x": [2**60 + 1, None]})):
        assert as_frame(X).column("x").present.tolist() == [2**60 + 1]
    assert as_frame(pd.DataFrame({"x": [10**30, None]}, dtype=object)).column("x").kind == "float"


def test_dates_are_seconds():
    X = pd.DataFrame({"t": pd.to_datetime(["1970-01-01 00:00:01.5", None]), "d": pd.to_timedelta([2, None], unit="s")})
    frame = as_frame(X)
    assert frame.column("t").present.tolist() == [1.5]
    assert frame.column("d").present.tolist() == [2.0]
    spans = pd.DataFrame({"d": [datetime.timedelta(seconds=3), None]}, dtype=object)
    assert as_frame(spans).column("d").present.tolist() == [3.0]


def test_a_lazy_frame_is_refused_with_the_remedy():
    with pytest.raises(DataTypeError, match=r"Mixture: the data are a lazy frame \(polars.*write X = X\.collect\(\)"):
        as_frame(pl.DataFrame(CELLS).lazy(), owner="Mixture")


def test_an_unknown_frame_is_refused_with_the_remedy():
    class Strange:
        columns = ("a",)

    with pytest.raises(DataTypeError, match=r"Strange, which is no frame that expfam can read: convert it to pandas"):
        as_frame(Strange())


def test_names_that_occur_twice_are_refused():
    X = pd.DataFrame([[1, 2, 3, 4]], columns=["a", "b", "a", "b"])
    with pytest.raises(DataError, match=r"more than one column named 'a', 'b': rename or drop them"):
        as_frame(X)
    for columns in ([1, "1"], ["1", "1"]):
        X = pd.DataFrame([[1, 2]], columns=columns)
        with pytest.raises(DataError, match=r"more than one column named '1'") as error:
            as_frame(X)
        space = {"X": X}
        exec(str(error.value).split(": write ")[1].split(", which")[0], space)
        assert as_frame(space["X"]).names == ("1",)
    with pytest.raises(DataError, match=r"named 'a': rename or drop them$"):
        as_frame(pa.table([[1], [2]], names=["a", "a"]))


def test_a_frame_of_dask_is_refused_with_two_ways_on():
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(DataTypeError, match=r"Mixture: .* Dask frame: write X = X\.compute\(\), or from expfam\.dask"):
        as_frame(dask.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1), owner="Mixture")


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"x": [None, [1], [2]]}),
        pl.DataFrame({"x": [None, [1], [2]]}),
        pa.table({"x": [None, {"a": 1}, {"a": 2}]}),
        pd.DataFrame({"x": [None, b"a", b"b"]}),
    ],
    ids=["lists", "polars lists", "structs", "bytes"],
)
def test_lists_and_structs_are_refused_with_their_row(X):
    with pytest.raises(DataTypeError, match=r"column 'x': row 1 holds a value of type (list|dict|bytes); .*x='drop'"):
        as_frame(X).column("x")


def test_mixed_objects_are_refused_with_two_rows():
    with pytest.raises(DataTypeError, match=r"'x' mixes .* row 0 holds 'a' \(str\), row 2 holds 3 \(int\).*df\['x'\]"):
        as_frame(pd.DataFrame({"x": ["a", None, 3]}, dtype=object)).column("x")


MIXED = {
    "a number after many texts": ["a"] * 150 + [3.5] + ["b"] * 20,
    "a text after many numbers": [3.5] * 150 + ["b"] + [2.5] * 20,
    "a truth value after many texts": ["a"] * 150 + [True],
}


@pytest.mark.parametrize("cells", MIXED.values(), ids=MIXED)
def test_mixed_objects_are_refused_wherever_they_stand(cells):
    line = "to_numeric" if isinstance(cells[0], float) else "astype"
    with pytest.raises(DataTypeError, match=rf"'x' mixes .* row 150 holds .*: give .* df\['x'\] = .*{line}\("):
        as_frame(pd.DataFrame({"x": cells}, dtype=object)).column("x")


@pytest.mark.parametrize("levels", [[[1], [2]], [{"a": 1}, {"a": 2}]], ids=["lists", "structs"])
def test_levels_without_a_hash_are_refused_with_their_row(levels):
    cells = pa.DictionaryArray.from_arrays(pa.array([None, 0, 1], pa.int8()), pa.array(levels))
    for X in (pa.table({"x": cells}), pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(cells)})):
        with pytest.raises(DataTypeError, match=r"column 'x': row 1 holds a value of type (list|dict)"):
            as_frame(X).column("x")


def test_levels_are_plain_values_that_json_takes():
    cells = {"cut": pd.cut([1.0, 5.0, 9.0], 2), "day": pd.Categorical(pd.to_datetime(["2020-01-01"] * 3))}
    frame = as_frame(pd.DataFrame(cells))
    assert frame.column("cut").levels == ("(0.992, 5.0]", "(5.0, 9.0]")
    assert frame.column("day").levels == ("2020-01-01 00:00:00",)


@pytest.mark.parametrize("dtype", [pl.UInt64, pl.Int128, pl.UInt128])
def test_integers_beyond_63_bits_of_polars(dtype):
    cells = [2**63 + 5, None, 2**63 + 9]
    column = as_frame(pl.DataFrame({"x": pl.Series(cells, dtype=dtype)})).column("x")
    found = column.levels if column.levels else tuple(map(str, column.present.tolist()))
    assert found == (str(2**63 + 5), str(2**63 + 9))


def test_integers_that_floats_do_not_tell_apart_are_text():
    column = as_frame(pd.DataFrame({"x": [10**30, 10**30 + 1, None]}, dtype=object)).column("x")
    assert (column.kind, column.levels) == ("text", (str(10**30), str(10**30 + 1)))
    column = as_frame(pd.DataFrame({"x": [10**309, 1, None]}, dtype=object)).column("x")
    assert (column.kind, column.levels) == ("text", ("1", str(10**309)))
    with pytest.raises(DataError, match=r"column 'x', row 1 holds an integer of 16610 bits: .*x='drop'"):
        as_frame(pd.DataFrame({"x": [1, 10**5000]}, dtype=object)).column("x")


def test_objects_that_are_dates_have_their_type():
    days, times = [datetime.date(2020, 1, 1), None], [datetime.datetime(2020, 1, 1), None]
    for cells, kind in ((days, "date"), (times, "datetime"), ([datetime.timedelta(1), None], "duration")):
        assert as_frame(pd.DataFrame({"x": cells}, dtype=object)).column("x").type == kind


def test_plain_frames_are_floats_without_holes():
    X = pd.DataFrame({"a": [0.5, 1.5], "b": np.array([1, 2], dtype=np.float32)})
    assert as_frame(X).is_plain()
    assert np.array_equal(numbers_of_frame(as_frame(X), of_fit=False), [[0.5, 1], [1.5, 2]])
    assert not as_frame(X.assign(c=[1, 2])).is_plain()
    assert not as_frame(X.assign(c=[1.0, None])).is_plain()


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_a_frame_of_each_kind_comes_back(backend, kind):
    frame = new_frame({"k": np.arange(2), "mode": ["a", None]}, backend=backend)
    assert type(frame) is kind
    assert as_frame(frame).backend == backend
    assert as_frame(frame).column("mode").missing.tolist() == [False, True]


def test_a_frame_of_another_kind_where_the_library_is_missing(monkeypatch):
    monkeypatch.setattr("expfam.frames.new_frames.find_spec", lambda name: None if name == "polars" else name)
    assert type(new_frame({"k": [1]}, backend="polars")) is pd.DataFrame
    monkeypatch.setattr("expfam.frames.new_frames.find_spec", lambda name: None)
    with pytest.raises(DataError, match="neither pandas nor Polars nor PyArrow is installed: install one"):
        new_frame({"k": [1]})


def test_columns_are_chosen_by_name():
    frame = as_frame(pd.DataFrame(CELLS))
    assert frame.only(["text", "whole"]).names == ("text", "whole")
    assert frame.without(["day"]).names == ("whole", "real", "truth", "text")
    assert isinstance(as_frame(frame), Frame)
    assert repr(frame) == "Frame(3 x 5)"


def test_mixed_numbers_are_refused_with_the_two_cells_that_differ():
    with pytest.raises(DataTypeError, match=r"row 0 holds 1 \(int\), row 3 holds True \(bool\)"):
        as_frame(pd.DataFrame({"a": [1, 2.5, None, True]}, dtype=object)).column("a")


def test_sparse_columns_of_pandas_are_columns():
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 3]), "b": pd.arrays.SparseArray([np.nan, 1.5, np.nan])})
    a, b = (as_frame(sparse).column(name) for name in "ab")
    assert (a.kind, a.values.tolist()) == ("integer", [0, 0, 3])
    assert (b.kind, b.missing.tolist(), b.values[1]) == ("float", [True, False, True], 1.5)
