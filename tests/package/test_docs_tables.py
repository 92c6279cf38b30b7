"""The page on tables runs as printed, from the first block to the last, and prints what it shows."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from expfam.cli import build_parser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
TEXT = PAGE.read_text(encoding="utf-8")


def are_alike(told, word):
    """Whether two words are equal, or numbers that differ by rounding on another machine."""
    try:
        return float(told.strip("()")) == pytest.approx(float(word.strip("()")), rel=0.05, abs=2)
    except ValueError:
        return told == word


def test_the_page_runs_and_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.S):
            exec(compile(block, str(PAGE), "exec"), names)
    words = printed.getvalue().split()
    shown = re.findall(r"^    (?!expfam )(.+)$", TEXT, flags=re.M)
    shown = [line for line in shown if not line.strip().startswith(('"', "})", "#"))]
    lines = [line.split() for line in shown]
    assert len(lines) == 15
    told = [word for line in lines for word in line]
    assert len(told) == len(words)
    assert [pair for pair in zip(told, words) if not are_alike(*pair)] == []
    assert names["filled"].notna().all().all()
    assert len(names["draws"]) == 5
    assert (tmp_path / "evidence.png").stat().st_size > 5000


def test_the_commands_are_understood():
    commands = re.findall(r"^    expfam (.+)$", TEXT, flags=re.M)
    assert len(commands) == 6
    for command in commands:
        build_parser().parse_args(command.split())
