"""The table of defaults judges what it measures: goals, rows that are skipped, calls that fail, and the exit status."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

HERE = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"
sys.path.insert(0, str(HERE))
import defaults  # noqa: E402
from goals import Goal, excess, mean, missed, outcome  # noqa: E402

EASY = defaults.Row("easy", "iris", "gaussian_diag", 3, (Goal("nmi", ">=", 0.5),), is_held_to_draws=False)
NEVER = EASY._replace(name="never", goals=(Goal("nmi", ">=", 1.5), Goal("clusters", "==", 3, is_each=True)))
OF_FILE = EASY._replace(name="of_file", source="s2")


@pytest.fixture
def run(monkeypatch, tmp_path):
    def made(*rows, arguments=()):
        if rows:
            monkeypatch.setattr(defaults, "table", lambda quick: list(rows))
        path = tmp_path / "result.json"
        arguments = ["--quick", "--seeds", "1", "--data", str(tmp_path), "--json", str(path), *arguments]
        return defaults.main(arguments), json.loads(path.read_text())

    return made


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_a_goal_is_a_number_a_margin_or_a_factor():
    ours, theirs = [{"nmi": 0.7}, {"nmi": 0.9}], [{"nmi": 0.5}, {"nmi": 0.3}]
    cases = {
        Goal("nmi", ">=", 0.8): True,
        Goal("nmi", ">=", 0.81): False,
        Goal("nmi", ">=", 0.75, is_each=True): False,
        Goal("nmi", ">=", 0.7, is_each=True): True,
        Goal("nmi", ">=", 0.41, "plus"): False,
        Goal("nmi", ">=", 0.39, "plus"): True,
        Goal("nmi", "<=", 2.1, "times"): True,
        Goal("nmi", "<=", 1.9, "times"): False,
        Goal("nmi", ">", 0.0, "plus"): True,
    }
    assert {goal: goal.is_reached(ours, theirs) for goal in cases} == cases
    assert not Goal("nmi", ">", 0.0, "plus").is_reached(ours, ours)


def test_a_figure_that_lacks_reaches_no_goal():
    none, some = [{"nats": None}], [{"nats": 1.0}]
    assert not Goal("nats", ">=", -9.0).is_reached(none, some)
    assert not Goal("nats", ">=", -9.0, is_each=True).is_reached(some + none, some)
    assert not Goal("nats", ">", 0.0, "plus").is_reached(some, none)
    assert not Goal("nats", ">=", -9.0).is_reached([], some)


def test_seconds_are_medians_and_the_rest_are_means():
    figures = [{"seconds": s, "nmi": s} for s in (1.0, 2.0, 9.0)]
    assert mean(figures, "seconds") == 2.0
    assert mean(figures, "nmi") == 4.0
    assert mean([*figures, {"seconds": 1.0}], "nmi") is None


def test_goals_that_are_missed_are_named():
    goals = (
        Goal("nmi", ">=", -0.02, "plus"),
        Goal("seconds", "<=", 0.6, "times"),
        Goal("warns", "==", 1, is_each=True),
    )
    assert list(map(str, goals)) == ["NMI >= sk -0.02", "CPU s <= 0.6 sk", "warns"]
    assert str(Goal("nats", ">", 0.0, "plus")) == "nats > sk"
    assert str(Goal("clusters", "==", 3, is_each=True)) == "clusters == 3 each"
    ours, theirs = [{"nmi": 0.9, "seconds": 1.0, "warns": 0}], [{"nmi": 0.9, "seconds": 1.0}]
    assert missed(goals, ours, theirs) == list(goals[1:])
    assert outcome(goals, ours, theirs) == "NO: CPU s <= 0.6 sk, warns"
    assert outcome(goals[:1], ours, theirs) == "yes"
    assert outcome((), ours, theirs) == "no goal"


def test_a_goal_out_of_reach_is_told_with_its_reason():
    known = Goal("nmi", ">=", 0.95, reason="the best of 30 seeds has .93")
    ours = [{"nmi": 0.9, "warns": 0}]
    assert outcome((known,), ours, ours) == "not reached: NMI >= 0.95: the best of 30 seeds has .93"
    assert outcome((known, Goal("warns", "==", 1, is_each=True)), ours, ours) == "NO: warns"
    assert outcome((known,), [{"nmi": 0.96}], ours) == "yes"


def test_a_little_more_is_no_excess():
    assert excess(1.02, 1.0) == 0.0
    assert excess(0.0, 0.0) == 0.0
    assert excess(1.52, 1.0) == pytest.approx(0.5)


# ---- exit status -----------------------------------------------------------------------------------------------------


def test_a_row_that_fails_fails_the_run(run, capsys):
    status, result = run(EASY, NEVER)
    assert status == 1
    assert [row["reached"] for row in result["rows"]] == ["yes", "NO: NMI >= 1.5"]
    text = capsys.readouterr().out
    assert "1 of 2 rows reach their goals; 0 not judged" in text
    assert "missed: never" in text


def test_a_row_out_of_reach_is_named_and_is_no_failure(run, capsys):
    known = NEVER._replace(goals=(Goal("nmi", ">=", 1.5, reason="no labels agree so well"),))
    status, result = run(EASY, known)
    assert status == 0
    assert result["rows"][1]["reached"] == "not reached: NMI >= 1.5: no labels agree so well"
    text = capsys.readouterr().out
    assert "1 of 2 rows reach their goals; 0 not judged" in text
    assert "out of reach, for the reason given: never" in text
    assert run(known)[0] == 1  # nothing was reached


def test_files_that_are_absent_skip_their_rows(run, tmp_path):
    status, result = run(EASY, OF_FILE)
    assert status == 0
    assert result["rows"][1]["reached"] == f"skipped: no s2.npz in {tmp_path}"
    assert result["rows"][1]["NMI"] == "-"
    assert result["seeds"][1]["ours"] == []
    assert run(EASY, OF_FILE, arguments=["--data", str(tmp_path / "nowhere")])[0] == 0


def test_nothing_that_was_judged_is_no_success(run):
    assert run(OF_FILE)[0] == 1
    assert run(EASY._replace(is_prediction=True, goals=()))[0] == 1


def test_a_call_that_fails_is_told_and_the_others_run(run, capsys):
    status, result = run(EASY._replace(name="broken", n_components=-3), EASY)
    assert status == 1
    assert [row["reached"] for row in result["rows"]] == ["NO: ValueError", "yes"]
    assert "n_components" in capsys.readouterr().err


def test_a_family_that_is_not_there_is_named(run):
    status, result = run(EASY, EASY._replace(family="unheard_of", rival="GMM diag"))
    assert status == 0
    assert result["rows"][1]["reached"] == "not in this version: family unheard_of"


def test_rows_are_chosen_by_name_and_unknown_ones_refused(run):
    _, result = run(EASY, NEVER, arguments=["--only", "eas*"])
    assert [row["row"] for row in result["rows"]] == ["easy"]
    with pytest.raises(SystemExit, match=r"--only hard: no such row; there are easy never"):
        run(EASY, NEVER, arguments=["--only", "easy", "hard"])
    with pytest.raises(SystemExit, match="--seeds is a positive number; got 0"):
        run(EASY, arguments=["--seeds", "0"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_rows_of_each_kind_have_their_figures(run):
    names = ["iris-full", "digits-full", "made16-diag", "made16-full-open", "time-1e5", "predict-full"]
    _, result = run(arguments=["--only", *names])
    ours = {row["row"]: row["ours"] for row in result["seeds"]}
    theirs = {row["row"]: row["sk"] for row in result["seeds"]}
    assert list(ours) == sorted(ours, key=[row.name for row in defaults.table()].index)
    for name in names:
        assert 0 < ours[name][0]["nmi"] <= 1
        assert theirs[name][0]["seconds"] > 0
        assert ("nats" in ours[name][0]) == (name not in ("time-1e5", "predict-full"))
    assert [ours[name][0]["warns"] for name in ("digits-full", "made16-diag")] == [1, 0]
    assert len(ours["time-1e5"]) == defaults.QUICK_REPEATS
    assert ours["predict-full"][0]["seconds"] < 0.01
    assert ours["iris-full"][0]["vi"] < 0.1
    assert "vi" not in ours["digits-full"][0]


def test_texts_stand_beside_k_means_of_their_weighted_words(run, tmp_path, monkeypatch):
    X, labels = defaults.generators.documents(150, 3, n_words=200, seed=0)
    (tmp_path / "text").mkdir()
    X = X.astype(np.int64)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr.astype(np.int64), "shape": X.shape}
    for name in ("tweet", "bbc_news"):
        np.savez(tmp_path / "text" / f"{name}.npz", labels=labels, **parts)

    def coarsen(self, n_clusters):
        assert n_clusters == 5
        return SimpleNamespace(labels_=self.labels_, score=lambda X: -float(X.shape[0]))

    monkeypatch.setattr(defaults.Mixture, "coarsen", coarsen, raising=False)
    _, result = run(arguments=["--only", "tweet-open", "bbc_news-coarsen"])
    tweet, bbc = result["rows"]
    assert tweet["beside"] == bbc["beside"] == "tf-idf, k-means"
    assert tweet["sk NMI"] > 0.5
    assert tweet["sk nats"] == "-"
    assert (bbc["NMI"], bbc["clusters"], bbc["nats"], bbc["reached"]) == (pytest.approx(1.0), 3, -15.0, "yes")


def test_repeated_values_are_scored_spread():
    X = np.round(np.random.default_rng(0).normal(size=(200, 2)))
    moved = defaults.spread(EASY, X, 0) - X
    assert 0.3 < np.abs(moved).max() <= 0.5
    assert defaults.spread(EASY._replace(family="multinomial"), X, 0) is X


def test_the_tenth_that_is_scored_was_not_fitted(monkeypatch):
    X, labels, seen = np.arange(50.0)[:, None], np.arange(50) % 2, []

    class Fit(GaussianMixture):
        def score(self, X):
            return X.sum()

    def fit(row, X, labels, seed):
        seen.append(X.ravel())
        return {}, Fit()

    monkeypatch.setattr(defaults, "ours_of", fit)
    monkeypatch.setattr(defaults, "rival_of", fit)
    ours, theirs = defaults.held_out(EASY, X, labels, seed=4)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert len(seen[0]) == 45
    assert ours == theirs == X.sum() - seen[0].sum()


def test_sure_labels_are_as_near_to_draws_as_draws_are_and_random_ones_are_not():
    X, _ = defaults.Made(200, 4, 2, 6.0).load(1)
    mixture = defaults.Mixture("gaussian_diag", 2, random_state=0).fit(X)
    assert defaults.against_draws(mixture, X, 0) == 0.0
    X = np.random.default_rng(0).normal(size=(60, 1))
    mixture = defaults.Mixture("gaussian_diag", 2, random_state=0).fit(X)
    worst = SimpleNamespace(model_=mixture.model_, family_=mixture.family_, labels_=np.arange(60, dtype=np.int32) % 2)
    held = [np.zeros(60, int), np.zeros(60, int)]
    assert defaults.expected_vi(worst.labels_, held) == pytest.approx(np.log(2))
    assert defaults.against_draws(worst, X, 0) > 0.1
