"""Progress from the first second: stages are shown on a terminal, written every 30 s elsewhere, and logged."""

import io
import logging
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel, stages
from expfam.estimators import base
from expfam.protocols import Info
from expfam.samplers import Progress
from expfam.samplers.chain import callbacks
from expfam.stages import stage, tell, watching


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def waited(text, file):
    """Return whether a text appears in a stream within some seconds."""
    for _ in range(200):
        if text in file.getvalue():
            return True
        time.sleep(0.02)
    return False


def test_a_terminal_shows_the_stage_while_it_lasts(monkeypatch):
    monkeypatch.setattr(stages, "_ON_A_TERMINAL", 0.01)
    screen = Terminal()
    with watching(True, screen):
        assert waited("reading the rows: 0 s", screen)
        with stage("searching a start"):
            assert waited("searching a start: 0 s", screen)
        assert waited("finishing: 0 s", screen)
    assert screen.getvalue().endswith("\r\x1b[K")  # nothing is left on the line


def test_elsewhere_there_is_a_line_from_time_to_time(monkeypatch):
    monkeypatch.setattr(stages, "EVERY_SECONDS", 0.02)
    file = io.StringIO()
    with watching(True, file), stage("searching a start"):
        assert waited("expfam: searching a start, 0 s so far\n", file)
    assert "\r" not in file.getvalue()


def test_a_short_call_writes_nothing_but_what_is_told():
    file = io.StringIO()
    with watching(True, file):
        tell(lambda: "4 rows")
        with watching(True, file), stage("steps"):
            pass
    assert file.getvalue() == "expfam: 4 rows\n"
    with watching(0, file):
        tell(lambda: "not shown")
    assert "not shown" not in file.getvalue()


def test_a_closed_stream_ends_the_show_and_not_the_call(monkeypatch):
    monkeypatch.setattr(stages, "EVERY_SECONDS", 0.01)
    file = io.StringIO()
    with watching(True, file):
        file.close()
        tell(lambda: "nowhere")


def made_step(progress, seconds=0.1):
    progress(Info(1, -12.5, 4, 1, 1, seconds, {}), SimpleNamespace(data=SimpleNamespace(n_rows=5)))


def test_the_first_step_is_shown_while_it_lasts_and_then_the_bar_alone(monkeypatch):
    monkeypatch.setattr(stages, "_ON_A_TERMINAL", 0.01)
    screen = Terminal()
    progress = Progress(3, file=screen)
    with watching(True, screen), stage("steps"):
        assert waited("steps: 0 s", screen)
        made_step(progress)
        before = screen.getvalue().count("steps: ")
        time.sleep(0.1)
        assert screen.getvalue().count("steps: ") == before
        assert "/3 " in screen.getvalue()
        progress.close()


def test_a_long_step_is_told_of_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(stages, "EVERY_SECONDS", 0.02)
    file = io.StringIO()
    progress = Progress(3, file=file, disable=None)
    with watching(True, file), stage("steps"):
        assert waited("expfam: steps, 0 s so far\n", file)
        made_step(progress, seconds=100.0)
        line = "expfam: step 1 of 3, K=4, objective=-12.5, 0 s so far\n"
        assert waited(line + line, file)  # also while no step ends
    progress.close()
    assert "step 1 of 3, K=4, objective=-12.5\n" not in file.getvalue()  # told once


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (Mixture("gaussian_diag", random_state=0), ["searching a start", "steps", "comparing the end"]),
        (GroupedMixture("gaussian_diag", 2, n_steps=3, random_state=0), ["searching a start", "steps"]),
        (TopicModel(2, n_steps=3, random_state=0), ["searching a start", "steps"]),
        (BayesianHierarchy("gaussian_diag"), ["choosing hyper-parameters", "merges in the order"]),
    ],
)
def test_estimators_log_their_stages_and_tell_the_memory(estimator, names, caplog, capfd):
    X = np.random.default_rng(0).poisson(3, size=(40, 3)) + 1.0 * 20 * (np.arange(40) % 2)[:, None]
    given = {"groups": np.arange(40) // 4} if isinstance(estimator, GroupedMixture) else {}
    with caplog.at_level(logging.INFO, logger="expfam"):
        estimator.set_params(callbacks="progress").fit(X, **given)
    text = "\n".join(caplog.messages)
    assert "40 rows; memory: about" in text
    assert [name for name in names if name not in text] == []
    assert "expfam: 40 rows; memory: about" in capfd.readouterr().err


@pytest.mark.parametrize("settings", [{}, {"n_components": 2}, {"n_components": 2, "n_steps": 3}])
def test_the_time_of_many_rows_is_told_before_they_are_fitted(settings, caplog, monkeypatch, capfd):
    monkeypatch.setattr(base, "TIMED_ROWS", 700)
    X = np.random.default_rng(0).normal(size=(800, 2)) + 9.0 * (np.arange(800) % 2)[:, None]
    free = Mixture("gaussian_diag", **settings, random_state=0).fit(X)
    assert capfd.readouterr().err == ""
    asked = Mixture("gaussian_diag", **settings, callbacks="progress", random_state=0).fit(X)
    lines = capfd.readouterr().err.splitlines()
    (told,) = [line for line in lines if line.startswith("expfam: time: about ")]
    steps = re.search(r" for (?:(\d+) to )?(\d+) steps, going by \d+ of the rows$", told)
    assert (steps[1] is None) == ("n_steps" in settings)  # a rule ends the other two
    assert int(steps[1] or steps[2]) <= asked.n_iter_ <= int(steps[2])
    np.testing.assert_array_equal(free.labels_, asked.labels_)  # timing leaves no trace


def test_nothing_is_shown_without_asking(capfd):
    Mixture("gaussian_diag", 2, random_state=0).fit(np.arange(20.0).reshape(10, 2))
    assert capfd.readouterr().err == ""


def test_progress_writes_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(callbacks, "EVERY_SECONDS", 0.0)
    file, state = io.StringIO(), SimpleNamespace(data=SimpleNamespace(n_rows=5))
    progress = Progress(3, file=file, disable=None)
    for step in range(1, 3):
        progress(Info(step, -12.5, 4, 1, 1, 0.1, {}), state)
    assert file.getvalue().splitlines() == [
        "expfam: step 1 of 3, K=4, objective=-12.5",
        "expfam: step 2 of 3, K=4, objective=-12.5",
    ]
    progress.close()
    silent = Progress(3, file=file, disable=True)
    silent(Info(1, -12.5, 4, 1, 1, 0.1, {}), state)
    assert len(file.getvalue().splitlines()) == 2
