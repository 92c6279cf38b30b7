"""The README's Python examples run and print what it says; its commands are the ones that exist."""

import doctest
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)


def test_there_are_examples():
    assert any(">>>" in block for block in BLOCKS)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_prints_what_the_readme_shows(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = BLOCKS[number]
    if ">>>" not in block:
        exec(compile(block, f"README example {number}", "exec"), {"__name__": "__main__"})
        return
    test = doctest.DocTestParser().get_doctest(block, {}, f"README example {number}", str(README), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(test).failed == 0


def test_every_command_line_in_the_readme_is_understood():
    from expfam.cli import build_parser

    commands = re.findall(r"^expfam (.+?)(?:\s+#.*)?$", TEXT, flags=re.M)
    assert commands
    for command in commands:
        build_parser().parse_args(command.split())


def test_every_file_that_the_readme_points_to_exists():
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", TEXT):
        file, _, heading = target.partition("#")
        assert (README.parent / file).exists(), target
        headings = re.findall(r"^#+ (.+)$", (README.parent / file).read_text(), flags=re.M) if heading else []
        anchors = [re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings]
        assert not heading or heading in anchors, target
