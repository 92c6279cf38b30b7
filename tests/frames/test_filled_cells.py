"""Frames with filled cells: each column keeps its type, whatever the library holds in it."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from expfam import Columns, Mixture
from expfam.frames.filled_cells import with_cells
from expfam.frames.frame import Frame, as_frame
from expfam.io.cells import column_of_text

N = 60
KIND = np.arange(N) % 2
GONE = np.arange(N) % 5 == 0
RNG = np.random.default_rng(0)
X = RNG.normal(8.0 * KIND, 1.0)


def holed(cells):
    return [None if gone else cell for cell, gone in zip(cells, GONE)]


TRUTHS = holed([bool(k) for k in KIND])
WHOLE = holed([int(3 * k + i % 30) for i, k in enumerate(KIND)])
WORDS = holed(["abc"[k + i % 2] for i, k in enumerate(KIND)])
TIMES = holed([datetime.datetime(2020, 1, 1) + datetime.timedelta(100 * int(k) + i % 7) for i, k in enumerate(KIND)])
SPANS = holed([datetime.timedelta(100 * int(k) + i % 7) for i, k in enumerate(KIND)])
MONEY = holed([decimal.Decimal(10 * int(k) + i % 7) / 4 for i, k in enumerate(KIND)])
FLOATS = [np.nan if gone else float(k + i % 7) for i, (k, gone) in enumerate(zip(KIND, GONE))]
LARGE = holed([2**63 + 5000 * int(k) + 7 * i * i for i, k in enumerate(KIND)])


def arrow(values, kind):
    cells = pa.array(values).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(values, kind)
    return pd.array(cells, dtype=pd.ArrowDtype(kind))


WORDS_OF_ARROW, NUMBERS_OF_ARROW = pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.int64())
COLUMNS = {  # library, cells, role
    "nullable boolean": (pd.DataFrame, pd.array(TRUTHS, dtype="boolean"), None),
    "nullable boolean as probability": (pd.DataFrame, pd.array(TRUTHS, dtype="boolean"), "bernoulli"),
    "Arrow boolean in pandas": (pd.DataFrame, arrow(TRUTHS, pa.bool_()), None),
    "boolean of Polars": (pl.DataFrame, TRUTHS, None),
    "boolean of Arrow": (pa.table, pa.array(TRUTHS), None),
    "nullable integers": (pd.DataFrame, pd.array(WHOLE, dtype="Int64"), None),
    "small integers": (pd.DataFrame, pd.array(WHOLE, dtype="UInt8"), "real"),
    "small integers of Arrow": (pa.table, pa.array(WHOLE, pa.uint8()), "real"),
    "large integers": (pd.DataFrame, pd.array(LARGE, dtype="UInt64"), "real"),
    "large integers of Polars": (pl.DataFrame, pl.Series(LARGE, dtype=pl.UInt64), "real"),
    "large integers of Arrow": (pa.table, pa.array(LARGE, pa.uint64()), "count"),
    "large integers of Arrow in pandas": (pd.DataFrame, arrow(LARGE, pa.uint64()), "real"),
    "sparse": (pd.DataFrame, pd.arrays.SparseArray(FLOATS), None),
    "text": (pd.DataFrame, WORDS, None),
    "categories": (pd.DataFrame, pd.Categorical(WORDS), None),
    "intervals": (pd.DataFrame, pd.cut(FLOATS, 3), None),
    "categories of dates": (pd.DataFrame, pd.Categorical(pd.to_datetime(TIMES).to_period("Q").to_timestamp()), None),
    "dictionary of Arrow in pandas": (pd.DataFrame, arrow(WORDS, WORDS_OF_ARROW), None),
    "dictionary of Arrow": (pa.table, pa.array(WORDS).dictionary_encode(), None),
    "dictionary of numbers": (pa.table, pa.array(WHOLE).dictionary_encode(), None),
    "dictionary of numbers in pandas": (pd.DataFrame, arrow(WHOLE, NUMBERS_OF_ARROW), None),
    "categories of Polars": (pl.DataFrame, pl.Series(WORDS, dtype=pl.Categorical), None),
    "enum of Polars": (pl.DataFrame, pl.Series(WORDS, dtype=pl.Enum(["c", "b", "a"])), None),
    "times": (pd.DataFrame, TIMES, "numeric"),
    "times with a zone": (pd.DataFrame, pd.Series(TIMES).dt.tz_localize("Europe/Berlin"), "numeric"),
    "times in seconds": (pd.DataFrame, pd.Series(TIMES).astype("datetime64[s]"), "numeric"),
    "times in seconds with a zone": (pd.DataFrame, pd.Series(TIMES).dt.tz_localize("UTC").dt.as_unit("s"), "numeric"),
    "durations in seconds": (pd.DataFrame, pd.Series(SPANS).astype("timedelta64[s]"), "numeric"),
    "single precision": (pd.DataFrame, np.array(FLOATS, dtype=np.float32), "real"),
    "times in milliseconds of Arrow": (pa.table, pa.array(TIMES, pa.timestamp("ms")), "numeric"),
    "times in milliseconds of Polars": (pl.DataFrame, pl.Series(TIMES, dtype=pl.Datetime("ms")), "numeric"),
    "times in seconds of Arrow in pandas": (pd.DataFrame, arrow(TIMES, pa.timestamp("s")), "numeric"),
    "times of Polars": (pl.DataFrame, TIMES, "numeric"),
    "days of Arrow": (pa.table, pa.array([t and t.date() for t in TIMES]), "numeric"),
    "days as objects": (pd.DataFrame, pd.Series([t and t.date() for t in TIMES], dtype=object), "numeric"),
    "durations": (pd.DataFrame, pd.Series(SPANS), "numeric"),
    "durations of Polars": (pl.DataFrame, SPANS, "numeric"),
    "decimals of Arrow": (pa.table, pa.array(MONEY, pa.decimal128(20, 4)), None),
    "decimals of Arrow in pandas": (pd.DataFrame, arrow(MONEY, pa.decimal128(20, 4)), None),
    "decimals of Polars": (pl.DataFrame, MONEY, None),
}


def type_of(frame, name):
    return frame.schema.field(name).type if isinstance(frame, pa.Table) else frame[name].dtype


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
@pytest.mark.parametrize(("make", "cells", "role"), COLUMNS.values(), ids=COLUMNS)
def test_imputed_columns_keep_their_type_and_the_cells_that_are_there(make, cells, role):
    frame = make({"x": X, "c": cells})
    family = Columns.from_frame(frame, **({} if role is None else {"c": role}))
    mixture = Mixture(family, n_components=2, n_steps=2, n_warmup=0, random_state=0).fit(frame)
    before = as_frame(frame).column("c")
    for filled in (mixture.impute(frame), *mixture.impute(frame, draws=2)):
        assert type(filled) is type(frame)
        assert type_of(filled, "c") == type_of(frame, "c")
        after = as_frame(filled).column("c")
        assert not after.missing.any()
        kept = ~before.missing
        cell = [[c.levels[code] for code in c.values] if c.levels else c.values for c in (before, after)]
        assert np.array_equal(np.asarray(cell[0])[kept], np.asarray(cell[1])[kept])
    drawn, _ = mixture.sample(5)
    assert not as_frame(drawn).column("c").missing.any()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_truth_values_as_numbers_become_numbers(make):
    cells = pd.array(TRUTHS, dtype="boolean") if make is pd.DataFrame else TRUTHS
    frame = make({"x": X, "c": cells})
    mixture = Mixture(Columns.from_frame(frame, c="real"), n_components=2, n_steps=2, random_state=0).fit(frame)
    column = as_frame(mixture.impute(frame)).column("c")
    assert column.kind == "float"
    assert set(column.values[~GONE]) == {0.0, 1.0}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_text_that_gets_numbers_becomes_numbers(make):
    frame = make({"x": ["1.5", "?", "3"]})
    column = as_frame(with_cells(frame, {"x": ([1], [2.25])})).column("x")
    assert (column.kind, column.values.tolist()) == ("float", [1.5, 2.25, 3.0])


def test_the_index_of_pandas_stays():
    frame = pd.DataFrame({"x": ["1", "?", "3"], "k": pd.Categorical(["a", None, "b"])}, index=[7, 8, 9])
    filled = with_cells(frame, {"x": ([1], [2]), "k": ([1], ["a"])})
    assert filled.index.tolist() == [7, 8, 9]
    assert filled["x"].tolist() == [1, 2, 3]


def test_integers_are_bounded_by_their_type():
    frame = pd.DataFrame({"x": np.array([1, 2], dtype=np.uint8), "y": np.array([1, 2], dtype=np.int8)})
    filled = with_cells(frame, {"x": ([0, 1], [-3.2, 300.0]), "y": ([0, 1], [-300.0, 300.0])})
    assert filled.to_dict("list") == {"x": [0, 255], "y": [-128, 127]}


def test_dates_of_a_file_are_written_as_dates():
    columns = {"day": ["2020-01-02", "", "2020-01-05"], "time": ["2020-01-02 10:00", "2020-01-03 11:30", ""]}
    frame = Frame(list(columns), [lambda n=n, c=c: column_of_text(n, c) for n, c in columns.items()], 3)
    day, time = (frame.column(name).present[0] for name in columns)
    filled = with_cells(frame, {"day": ([1], [day + 86400.0]), "time": ([2], [time])})
    assert filled == {
        "day": ["2020-01-02", "2020-01-03", "2020-01-05"],
        "time": ["2020-01-02T10:00:00", "2020-01-03T11:30:00", "2020-01-02T10:00:00"],
    }
