"""Every line of the program that a page shows is understood as it stands, and every command that is named is there."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from expfam.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
MADE = {"_build", "api", "auto_gallery"}  # by sphinx
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not MADE & set(page.parts)),
    *sorted((ROOT / "docs" / "first_minute").glob("*.sh")),
]
INLINE = re.compile(r"`expfam ([a-z][^`]*)`")
BLOCK = re.compile(r"^(?: {4})?(?:.*&& )?expfam ([a-z-]+(?: .*)?)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4}expfam .*$", re.MULTILINE)


def shown(page):
    """Words of the lines of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = [text] if page.suffix == ".sh" else [*FENCED.findall(text), *INDENTED.findall(text)]
    lines = [*INLINE.findall(re.sub(FENCE, "", text)), *(line for block in blocks for line in BLOCK.findall(block))]
    return [shlex.split(line, comments=True) for line in lines]


LINES = [(page.name, words) for page in PAGES for words in shown(page)]


def names():
    """The commands that there are."""
    (commands,) = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return set(commands.choices)


def is_understood(words):
    """Whether the program takes a line, or has the command where only that is named."""
    if len(words) == 1:
        return words[0] in names()
    try:
        build_parser().parse_args(words)
    except SystemExit:
        return False
    return True


def test_pages_show_lines():
    assert len(LINES) > 40
    assert {"README.md", "tables.md", "command_line.sh", "resume.md", "plugins.md"} <= {name for name, _ in LINES}


@pytest.mark.parametrize(
    ("page", "words"), LINES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_a_line_is_understood(page, words):
    assert is_understood(words)


@pytest.mark.parametrize(
    "line", ["fitt", "fit data.csv --figur x.png --nothing", "predict model", "groups a.csv --groups"]
)
def test_other_lines_are_found(line, capsys):
    assert not is_understood(line.split())
