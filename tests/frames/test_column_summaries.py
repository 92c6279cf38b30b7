"""Summaries of columns of rows in parts: the same roles as those of the whole frame, whatever the parts."""

import pickle
import warnings
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from expfam.errors import DataError, DataTypeError, SupportError
from expfam.families.columns.inference import infer_roles
from expfam.frames import column_summaries
from expfam.frames.column_summaries import FrameSummary

RNG = np.random.default_rng(8)
N = 400
FRAME = pd.DataFrame(
    {
        "row": np.arange(7, 7 + 3 * N, 3),
        "name": [f"person {i}" for i in range(N)],
        "colour": RNG.choice(["red", "blue", "green", None], N),
        "answer": RNG.choice(["yes", "no", "?", "maybe"], N),
        "grade": pd.Categorical(RNG.choice(list("abc"), N), categories=list("cbad"), ordered=True),
        "many": [f"level {i}" for i in RNG.integers(0, 150, N)],
        "numbers": [f"{i},5" for i in RNG.integers(0, 90, N)],
        "stars": RNG.integers(1, 6, N),
        "visits": RNG.poisson(40.0, N),
        "holed": np.where(RNG.random(N) < 0.2, np.nan, RNG.poisson(30.0, N)),
        "size": RNG.lognormal(size=N) * RNG.choice([1.0, 50.0], N),
        "height": np.round(RNG.normal(170.0, 9.0, N), 1),
        "shift": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
        "long": RNG.integers(10**14, 10**15, N),
        "is_new": RNG.random(N) < 0.4,
        "constant": 3,
        "nothing": np.full(N, np.nan),
        "when": pd.to_datetime("2024-01-01") + pd.to_timedelta(RNG.integers(0, 9000, N), "h"),
    }
)
CUTS = {1: [], 2: [130], 3: [1, 390], 7: [20, 21, 100, 200, 201, 399]}
SETTINGS = (
    {},
    {"max_levels": 100},
    {"missing_values": ["?", 3, 40]},
    {"by_column": {"when": "numeric", "visits": "count"}},
)


def summary_of(frame, cuts, convert=lambda part: part):
    bounds = [0, *cuts, len(frame)]
    parts = [FrameSummary.of(convert(frame.iloc[a:b]), a) for a, b in pairwise(bounds)]
    return reduce(add, pickle.loads(pickle.dumps(parts[::-1])))


def roles_of(X, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        roles = infer_roles(X, **settings)
    return roles.to_list(), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("n_parts", CUTS)
@pytest.mark.parametrize("convert", [pd.DataFrame, pa.Table.from_pandas])
@pytest.mark.parametrize("settings", SETTINGS, ids=["as found", "few levels", "codes", "named"])
def test_roles_of_parts_are_those_of_the_whole_frame(n_parts, convert, settings):
    found = roles_of(summary_of(FRAME, CUTS[n_parts], convert).frame(), **settings)
    assert found == roles_of(convert(FRAME), **settings)
    assert len({role["role"] for role in found[0]}) > 4  # the frame has columns of many kinds


@pytest.mark.parametrize("n_parts", CUTS)
def test_more_distinct_cells_than_are_held_give_the_same_roles(monkeypatch, n_parts):
    monkeypatch.setattr(column_summaries, "MOST_DISTINCT", 64)
    one = summary_of(FRAME, CUTS[n_parts])
    assert all(len(column.cells) <= 67 for column in one.columns)
    found, whole = roles_of(one.frame()), roles_of(FRAME)
    assert found == roles_of(summary_of(FRAME, [200]).frame())  # whatever the parts
    for role, other in zip(found[0], whole[0]):
        if role["column"] != "many":  # 64 of its levels are not seen
            assert [role[name] for name in ("column", "role", "family")] == [
                other[name] for name in ("column", "role", "family")
            ]
        assert role["missing"] == other["missing"]
    with pytest.raises(DataError, match=r"column 'many' has more than 64 distinct cells.*many='drop'"):
        one.refuse_cut_levels(["many"])


def test_an_error_names_the_first_row_of_all():
    frame = FRAME[["visits", "shift"]].copy()
    frame.loc[251:, "visits"] = -4
    summary = summary_of(frame, CUTS[7])
    with pytest.raises(SupportError) as whole:
        infer_roles(frame, by_column={"visits": "poisson"})
    with pytest.raises(SupportError, match="column 'visits', row 251 holds -4") as parts, summary.true_rows():
        infer_roles(summary.frame(), by_column={"visits": "poisson"})
    assert str(parts.value) == str(whole.value)


def test_parts_of_one_column_are_brought_to_one_kind():
    def joined(*parts):
        first = np.cumsum([0, *map(len, parts)])
        return reduce(add, [FrameSummary.of(pd.DataFrame({"x": x}), row) for x, row in zip(parts, first)]).columns[0]

    floats = joined([1, 2, 3], [2.0, np.nan, 5.5])
    assert (floats.kind, floats.cells.tolist(), floats.times.tolist()) == ("float", [1.0, 2.0, 3.0, 5.5], [1, 2, 1, 1])
    empty = joined([None, None], ["b", "a", "b"])
    assert (empty.kind, empty.times.tolist(), empty.rows.tolist(), empty.n_missing) == ("text", [1, 2], [3, 2], 2)
    levels = joined(pd.Categorical(["u", "v"]), pd.Categorical(["w", "u"]))
    assert (levels.kind, levels.cells.tolist(), levels.times.tolist()) == ("text", ["u", "v", "w"], [2, 1, 1])
    with pytest.raises(DataTypeError, match=r"column 'x' is of type integer in one .*row 0.*text .*row 2.*astype\(str"):
        joined([1, 2], ["a", "b"])
    with pytest.raises(DataError, match="give all parts the same columns in one order"):
        FrameSummary.of(FRAME[["row"]], 0) + FrameSummary.of(FRAME[["size"]], N)
