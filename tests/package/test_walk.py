"""The way of one row, as the page of the architecture tells it, is the way that a fit takes."""

import re
import warnings
from pathlib import Path

import pytest
from walk import QUESTIONS, asked, imported_modules, usual_calls, walk

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# It is entered early to check the number of chains, and is told where chains run.
OUT_OF_ORDER = {"expfam/fitting/chains.py"}


@pytest.fixture(scope="module")
def calls():
    return usual_calls()


def traced(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return walk(call)


def told():
    section = PAGE[PAGE.index("## The way of one row") : PAGE.index("## The way of one document")]
    return [name for name in re.findall(r"`([\w/]+\.py)`", section) if not name.startswith("tests/")]


def test_the_way_of_one_row_is_that_of_a_default_fit(calls):
    files = traced(calls["default fit of iris, K = 3"]).files
    named = told()
    assert len(named) > 20
    assert set(named) <= set(files)
    in_order = [name for name in dict.fromkeys(named) if name not in OUT_OF_ORDER]
    assert in_order == sorted(in_order, key=files.index)


@pytest.mark.parametrize(
    ("call", "most_files", "most_moves", "most_pairs"),
    [
        ("default fit of iris, K = 3", 90, 1_025, 8),
        ("five plain Gibbs sweeps", 61, 320, 5),
        ("default fit of a frame with holes", 102, 12_900, 15),
    ],
)
def test_a_fit_goes_to_few_files_and_seldom(calls, call, most_files, most_moves, most_pairs):
    found = traced(calls[call])
    assert len(found.files) <= most_files
    assert found.moves.total() <= most_moves, found.moves.most_common(8)
    assert found.pairs <= most_pairs, found.both_ways


def test_what_runs_knows_no_estimator(calls):
    found = traced(calls["default fit of iris, K = 3"])
    rooms = ("samplers/", "structures/", "expfam/fitting/", "expfam/fitted/", "expfam/model/", "expfam/families/")
    assert [
        pair for pair in found.moves if pair[0].startswith(rooms) and pair[1].startswith("expfam/estimators/")
    ] == []


def test_a_fit_finds_out_once_what_each_setting_stands_for(calls):
    assert asked(calls["default fit of iris, K = 3"]) == dict.fromkeys(QUESTIONS.values(), 1)


def test_the_file_of_a_mixture_imports_few_modules():
    assert len(imported_modules(ROOT / "expfam" / "estimators" / "mixture.py")) <= 12
