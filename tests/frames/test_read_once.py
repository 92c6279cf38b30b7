"""A fit reads each column of a frame once, however many times its cells are asked for."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expfam import Columns, Mixture
from expfam.errors import DataTypeError
from expfam.frames import frame as frames
from expfam.frames.missing_values import column_with_holes

CELLS = {
    "size": [1.5, -0.25, 1e-9, 3.5, 0.75, 1.0, 2.0, None],
    "kind": ["a", "b", None, "a", "b", "a", "b", "b"],
    "eggs": [0, 3, 21, 4, 0, 18, 2, 7],
    "code": ["?", 4, 2, 30, 1, 3, 8, 5],
}


@pytest.fixture
def reads(monkeypatch):
    found, right = Counter(), frames._read_column

    def counted(frame, position, name, is_missing=None):
        found[name] += 1
        return right(frame, position, name, is_missing)

    monkeypatch.setattr(frames, "_read_column", counted)
    return found


def plain(library=pd.DataFrame):
    return library({name: CELLS[name] for name in ("size", "kind", "eggs")})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_a_default_fit_reads_each_column_once(reads, library):
    df = plain(library)
    model = Mixture(n_components=2, random_state=0).fit(df)
    assert reads == {"size": 1, "kind": 1, "eggs": 1}
    reads.clear()
    model.predict(df)
    assert reads == {"size": 1, "kind": 1, "eggs": 1}


def test_a_family_of_roles_reads_each_column_once(reads):
    df = pd.DataFrame(CELLS)
    family = Columns.from_frame(df, missing_values=["?"])
    assert reads == dict.fromkeys(CELLS, 1)
    assert [role["missing"] for role in family.roles] == [1, 1, 0, 1]
    reads.clear()
    Mixture(family, n_components=2, random_state=0).fit(df)
    assert reads == dict.fromkeys(CELLS, 1)


def test_columns_are_kept_by_the_codes_of_missing_cells(reads):
    frame = frames.as_frame(pd.DataFrame({"code": ["?", "-", 4, 2]}))

    def missing(codes):
        return column_with_holes(frame.only(["code"]), "code", codes).missing.tolist()

    assert [missing(["?", "-"]), missing(["-", "?"])] == [[True, True, False, False]] * 2
    assert reads == {"code": 1}
    with pytest.raises(DataTypeError, match="mixes values"):
        missing(["?"])


def test_a_changed_frame_is_read_anew(reads):
    df = plain()
    model = Mixture(n_components=2, random_state=0).fit(df)
    before = model.score_samples(df)
    df.loc[0, "size"] = 30.0
    assert not np.array_equal(model.score_samples(df), before)
