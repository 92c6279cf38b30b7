"""The page of certificates: cells that are made, kept and refused, and the exit status."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "asv_bench" / "protocols"))
import certificate  # noqa: E402


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate, "FAMILIES", {"poisson": certificate.FAMILIES["poisson"]})
    for name in ("TOPIC_SAMPLERS", "GROUP_SAMPLERS", "WRONG"):
        monkeypatch.setattr(certificate.of_groups, name, {})
    places = ["--json", str(tmp_path / "c.json"), "--page", str(tmp_path / "c.md"), "--replicates", "40"]

    def made(*arguments):
        code = certificate.main([*arguments, *places])
        return code, json.loads((tmp_path / "c.json").read_text()), (tmp_path / "c.md").read_text()

    return made


def test_cells_are_made_and_kept(run):
    assert run("--only", "gibbs,poisson,dp")[0] == 0
    code, stored, page = run("--only", "fast_ex_included,poisson,dp")
    assert code == 0
    assert stored["cells"]["gibbs,poisson,dp"]["verdict"] == "passed"
    assert stored["cells"]["fast_ex_included,poisson,dp"]["verdict"] == "refused"
    assert "**2 of 54 cells have been made**" in page
    assert "| fast_ex_included | - |" in page
    assert " (40) |" in page
    assert "0 of 1 cells with a result are not exact" in page
    assert "Cells: 1 of 40 replicates." in page


def test_a_run_goes_on_where_it_was_stopped(run, monkeypatch):
    made = []
    monkeypatch.setattr(certificate, "SAMPLERS", {"gibbs": certificate.CollapsedGibbs()})
    monkeypatch.setattr(certificate, "WRONG", {})
    right = certificate.cell

    def counted(sampler, family, weights, checks, n_replicates):
        made.append(weights)
        if len(made) == 3:
            raise KeyboardInterrupt
        return right(sampler, family, weights, checks, n_replicates)

    monkeypatch.setattr(certificate, "cell", counted)
    with pytest.raises(KeyboardInterrupt):
        run()
    code, stored, _ = run("--missing")
    assert code == 0
    assert made == ["dp", "py", "finite", "finite"]
    assert len(stored["cells"]) == 3
    stored["cells"]["gibbs,poisson,py"]["replicates"] = 39
    assert not certificate.holds(stored["cells"], "gibbs,poisson,py", 40)
    assert certificate.holds(stored["cells"], "gibbs,poisson,dp", 40)
    assert certificate.holds({"refused": {"verdict": "refused", "replicates": 1}}, "refused", 40)


def test_the_page_says_how_many_replicates_and_which_checks_a_cell_has(run):
    code, stored, page = run("--only", "uncollapsed,poisson,dp")
    assert code == 0
    assert set(stored["cells"]["uncollapsed,poisson,dp"]["skipped"]) == {"rows", "data"}
    assert " (40, truth only) |" in page


def test_a_time_limit_ends_a_run_between_cells(run, monkeypatch):
    monkeypatch.setattr(certificate, "SAMPLERS", {"gibbs": certificate.CollapsedGibbs()})
    code, stored, page = run("--time-limit", "0")
    assert code == 0
    assert stored == {"cells": {}, "wrong": {}}
    assert "**0 of 3 cells have been made**" in page
    now = iter([0.0, 1.0, 5.0])
    monkeypatch.setattr(certificate, "monotonic", lambda: next(now))
    assert len(run("--missing", "--time-limit", "3")[1]["cells"]) == 1


def test_a_sampler_that_is_not_exact_makes_the_command_fail(run, monkeypatch, capsys):
    monkeypatch.setattr(certificate, "SAMPLERS", {"prior": certificate.wrong.PriorDraws()})
    code, _, page = run("--only", "prior,*,dp")
    assert code == 1
    assert "| prior | **" in page
    assert "FAILED prior poisson dp" in capsys.readouterr().out


def test_a_wrong_sampler_that_passes_makes_the_command_fail(run, monkeypatch, capsys):
    gibbs = (certificate.CollapsedGibbs(), "poisson", "dp", "rows")
    monkeypatch.setattr(certificate, "WRONG", {"right": gibbs})
    code, stored, page = run("--only", "wrong")
    assert code == 1
    assert stored["wrong"]["right"]["verdict"] == "passed"
    assert "| right | 40 | passed |" in page
    assert "passes although it is wrong" in capsys.readouterr().out


@pytest.mark.parametrize("only", ["gibbs", "gibbs,poisson,nothing"])
def test_names_that_no_cell_has_are_refused(run, only):
    with pytest.raises(SystemExit) as stopped:
        run("--only", only)
    assert stopped.value.code == 2


def test_the_published_page_is_that_of_its_file():
    stored = json.loads((ROOT / "asv_bench" / "certificate.json").read_text())
    assert certificate.page(stored) == (ROOT / "docs" / "certificate.md").read_text()
    assert all(found["verdict"] != "NOT EXACT" for found in stored["cells"].values())
    assert {found["verdict"] for found in stored["wrong"].values()} == {"NOT EXACT"}


def test_topics_and_groups_have_cells_of_their_own(run, monkeypatch):
    gibbs = certificate.of_groups.GroupedGibbs(learn_alpha=False)
    monkeypatch.setattr(certificate.of_groups, "GROUP_SAMPLERS", {"grouped_gibbs": gibbs})
    monkeypatch.setattr(
        certificate.of_groups, "TOPIC_SAMPLERS", {"topic_gibbs": certificate.of_groups.TopicGibbs(learn_alpha=False)}
    )
    assert run("--only", "topic_gibbs,seeded words,equal")[0] == 0
    code, stored, page = run("--only", "grouped_gibbs,poisson,linked")
    assert code == 0
    assert {name: found["verdict"] for name, found in stored["grouped"].items()} == {
        "topic_gibbs,seeded words,equal": "passed",
        "grouped_gibbs,poisson,linked": "passed",
    }
    assert "2 cells have been made." in page
    assert "| grouped_gibbs | poisson | linked |" in page


def test_faults_of_topics_and_groups_must_fail(run, monkeypatch):
    monkeypatch.setattr(certificate, "WRONG", {})
    fault = (certificate.of_groups.wrong.StaleTopics(), "words", "unequal", "truth")
    monkeypatch.setattr(certificate.of_groups, "WRONG", {"stale": fault})
    code, stored, page = run("--only", "wrong")
    assert code == 0
    assert stored["wrong"]["stale"]["verdict"] == "NOT EXACT"
    assert "1 of 1 samplers that are wrong on purpose" in page
