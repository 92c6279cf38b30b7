"""Levels of categories that the first rows did not have: refused with a line that works, in all ways of learning."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expfam import Columns, GroupedMixture, Mixture
from expfam.errors import SupportError

N = 40
SIZE = np.random.default_rng(0).normal(size=N)


def declared(levels, make=pd.DataFrame):
    cells = np.resize(levels, N)
    if make is pl.DataFrame:
        return pl.DataFrame({"kind": pl.Series(cells.astype(str), dtype=pl.Enum(sorted(map(str, levels)))), "x": SIZE})
    return pd.DataFrame({"kind": pd.Categorical(cells), "x": SIZE})


def plain(levels):
    return pd.DataFrame({"kind": np.resize(levels, N), "x": SIZE})


CASES = {
    "declared text": (declared(["a", "b", "c"]), declared(["a", "z", "b"]), "'z'", "'a', 'b', 'c'"),
    "declared numbers": (declared([1, 2, 3]), declared([1, 9, 3]), "9", "1, 2, 3"),
    "two declared": (declared(["a", "b"]), declared(["a", "z"]), "'z'", "'a', 'b'"),
    "an enum of Polars": (declared([*"abc"], pl.DataFrame), declared([*"azc"], pl.DataFrame), "'z'", "'a', 'b', 'c'"),
    "two numbers": (plain([0, 1]), plain([0, 2, 1]), "2", "0, 1"),
    "two numbers of a column with spaces": (
        plain([0, 1]).rename(columns={"kind": "the kind"}),
        plain([0, 2]).rename(columns={"kind": "the kind"}),
        "2",
        "0, 1",
    ),
}


def mixture(family, sampler="variational"):
    return Mixture(family, 2, sampler=sampler, n_steps=3, random_state=0)


def learn(way, family, first, later):
    """Learn the first rows, then bring the later ones."""
    if way == "predict":
        mixture(family, "gibbs").fit(first).predict(later)
    elif way == "partial_fit":
        mixture(family).partial_fit(first).partial_fit(later)
    elif way == "fit_chunks":
        mixture(family).fit_chunks([first, later])
    elif way == "groups":
        chunks = GroupedMixture(family, 2, sampler="variational", random_state=0)
        groups = np.arange(N) % 4
        chunks.partial_fit(first, groups=groups).partial_fit(later, groups=groups)
    else:
        chunks = GroupedMixture(family, 2, sampler="variational", n_steps=3, random_state=0)
        chunks.fit_chunks([(first, np.arange(N) % 4), (later, np.arange(N) % 4)])


@pytest.mark.parametrize("way", ["predict", "partial_fit", "fit_chunks", "groups", "chunks of groups"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_unknown_level_is_refused_with_a_line_that_works(case, way):
    first, later, value, known = case
    with pytest.raises(SupportError, match=re.escape(f"row 1 holds the level {value}, which was not")) as caught:
        learn(way, "auto", first, later)
    assert f"({known})" in str(caught.value)
    line = re.search(r"or write (Columns\.from_frame\(.*\)) for a family", str(caught.value))[1]
    family = eval(line, {"Columns": Columns, "df": first})  # the line of a message, which is ours
    assert family.roles[0]["other"]
    learn(way, family, first, later)


def test_a_refused_chunk_leaves_the_kept_ones_as_they_were():
    first, later = CASES["two numbers"][:2]
    model = mixture("auto").partial_fit(first)
    with pytest.raises(SupportError, match="holds the level 2"):
        model.partial_fit(later)
    assert model._kept_chunks.n_rows == N
    model.partial_fit(first)
    again = mixture("auto").partial_fit(first).partial_fit(first)
    assert np.array_equal(model.n_, again.n_)
    assert np.array_equal(model.predict(first), again.predict(first))


def test_a_role_with_other_levels_is_kept_as_it_was_asked_for():
    first = CASES["declared text"][0]
    roles = [{"column": "kind", "role": "category", "other": True}]
    assert Columns.from_frame(first, roles=roles).roles[0] | {"type": ""} == {
        "column": "kind",
        "role": "category",
        "family": "categorical",
        "levels": ["a", "b", "c"],
        "other": True,
        "missing": 0,
        "type": "",
    }
