"""The table of groups that people recognise tells answers that are below the fit, and says so in its exit status."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

HERE = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"
sys.path.insert(0, str(HERE))
import answer  # noqa: E402
import answer_evidence  # noqa: E402
import answer_groups  # noqa: E402
import answer_sets  # noqa: E402


def three_groups():
    rng = np.random.default_rng(0)
    classes = np.arange(90) % 3
    return rng.normal(size=(90, 2)) + 20.0 * np.eye(3, 2)[classes], classes


@pytest.fixture
def run(monkeypatch):
    def made(*arguments, tables):
        monkeypatch.setattr(answer_sets, "tables", lambda: tables)
        monkeypatch.setattr(answer_sets, "arrays", dict)
        return answer.main(["groups", *arguments])

    return made


def test_plain_groups_pass(run, capsys):
    assert run(tables={"easy": three_groups}) == 0
    out = capsys.readouterr().out
    assert "tables, all: open 1.000, better open 1.000, answer 1.000, best cut 1.000, BIC 1.000" in out
    assert "missed" not in out


def test_an_answer_below_the_fit_is_told(run, capsys, monkeypatch):
    spoiled = {"k": 1, "ari": 0.3, "best": 1.0, "s": 0.0}
    monkeypatch.setattr(answer_groups, "answer_of", lambda mixture, labelled: spoiled)
    assert run(tables={"easy": three_groups}) == 1
    out = capsys.readouterr().out
    assert "mean of tables 0.300 < 0.6; mean of tables 0.300 < 1.000 of BIC; below the better open fit" in out


def test_a_call_that_raises_is_told(run, capsys):
    def broken():
        X, classes = three_groups()
        X[3, 0] = np.inf
        return X, classes

    assert run(tables={"easy": three_groups, "broken": broken}) == 1
    assert "missed: broken" in capsys.readouterr().out


def test_a_row_with_evidence_is_named_and_fails_nothing(run, capsys, monkeypatch):
    known = {name: answer_evidence.Evidence("halves have few rows", 0.65) for name in ("easy", "worse")}
    monkeypatch.setattr(answer_groups, "evidence_of", known.get)
    monkeypatch.setattr(answer_groups, "rivals_of", lambda labelled: {"BIC": None, "k-means": 0.0, "Ward": None})
    answers = iter([0.61, 0.61, 0.59])
    spoiled = {"k": 1, "best": 1.0, "s": 0.0}
    monkeypatch.setattr(answer_groups, "answer_of", lambda mixture, labelled: {**spoiled, "ari": next(answers)})
    assert run(tables={"easy": three_groups}) == 0
    assert "easy: not reached: halves have few rows; best 0.65" in capsys.readouterr().out
    monkeypatch.setattr(answer_groups, "LEAST_OF_TABLES", 0.0)
    assert run(tables={"easy": three_groups, "worse": three_groups}) == 1  # more than .05 below the best known
    assert "missed: below the better open fit by more than 0.05: worse" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["birch2", "letter_recognition", "googlenews"])
def test_sets_with_evidence_are_sets(name):
    assert name in {*answer_sets.DENSE, *answer_sets.TEXTS}
    assert str(answer_evidence.evidence_of(name)).count("; best 0.") == 1


def give_up(labelled, seeds):
    raise SystemExit(3)


def take_long(labelled, seeds):
    time.sleep(30)


@pytest.mark.parametrize(
    ("make", "limit", "said"),
    [(give_up, 90, "the process ended without an answer"), (take_long, 0.2, "no answer within 0.2 s")],
)
def test_a_process_that_ends_or_takes_long_is_told(make, limit, said):
    row = answer_groups.row_within(answer_sets.Labelled("slow", "tables", *three_groups()), 1, limit, make)
    assert (row["answer"], row["reached"]) == (None, said)


def test_unknown_sets_are_named(run):
    with pytest.raises(SystemExit, match="--set hard: no such set; there are easy"):
        run("--set", "hard", tables={"easy": three_groups})


def test_texts_are_compared_with_weighted_words():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    X = rng.poisson(0.2 + 3.0 * (np.arange(20) // 10 == classes[:, None]))
    row = answer_groups.row_of(answer_sets.Labelled("words", "texts", X, classes), 1)
    assert (row["answer"], row["k-means"], row["BIC"]) == (1.0, 1.0, None)
    assert row["reached"] == "yes"
    assert set(row) == set(answer_groups.KEYS)


def test_sparse_arrays_are_compared_as_they_are():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    X = sparse.csr_array(rng.poisson(0.2 + 3.0 * (np.arange(20) // 10 == classes[:, None])))
    row = answer_groups.row_of(answer_sets.Labelled("counts", "arrays", X, classes), 1)
    assert (row["answer"], row["k-means"], row["BIC"], row["K given"]) == (1.0, 1.0, None, None)


def test_embeddings_are_fitted_with_the_number_of_classes_too(monkeypatch):
    classes = np.arange(90) % 3
    X = normalize(np.random.default_rng(0).normal(size=(90, 3)) + 20.0 * np.eye(3)[classes])
    labelled = answer_sets.Labelled("unit", "embeddings", X, classes)
    row = answer_groups.row_of(labelled, 1)
    assert (row["K given"], row["k-means"], row["BIC"]) == (1.0, 1.0, None)
    assert answer_groups.summaries([row])[1] == []
    monkeypatch.setattr(answer_groups, "given_number", lambda labelled, seeds: 0.97)
    missed = answer_groups.summaries([answer_groups.row_of(labelled, 1)])[1]
    assert missed == ["unit with K given 0.970 < 1.000 of k-means"]
