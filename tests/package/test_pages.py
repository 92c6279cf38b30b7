"""Pages that list what the package has: all public names, and all rooms."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from reference_page import MODULES, PAGE, page, public

TEXT = PAGE.read_text(encoding="utf-8")
ARCHITECTURE = PAGE.with_name("architecture.md").read_text(encoding="utf-8")
LAYERING = Path(__file__).with_name("test_layering.py").read_text(encoding="utf-8")


def tables(name):
    """Return the rows of the tables of a module: name, settings, summary."""
    section = TEXT[TEXT.index(f"\n## `{name}`\n") :]
    return re.findall(r"^\| `(\w+)(\(.*?\))?` \| (.*) \|$", section[1:].split("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_has_every_public_name(name):
    found, module = tables(name), importlib.import_module(name)
    assert sorted(each for each, _, _ in found) == public(name, module)
    assert all(re.match(r"[A-Z].*\.$", summary) for _, _, summary in found)


def test_the_reference_says_what_the_docstrings_say():
    assert page() == TEXT, "write the page anew: python tests/support/reference_page.py"


def test_a_call_is_written_with_its_settings():
    assert ("Poisson", "(shape, rate)") in [row[:2] for row in tables("expfam")]
    assert ("sample", "(kernel, state, n_steps, *, callbacks, trace, keep_every, max_kept, n_warmup)") in [
        row[:2] for row in tables("expfam.samplers")
    ]


def rooms():
    """Return the rooms of the table FLOORS, which is the rule between them."""
    tree = ast.parse(LAYERING)
    floors = next(
        node for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FLOORS"
    )
    names = [node.value for node in ast.walk(floors.value) if isinstance(node, ast.Constant)]
    return sorted({name for name in names if " " not in name} - {"expfam", "expfam.__main__"})


def test_the_picture_of_the_architecture_shows_every_room():
    picture = set(re.findall(r"[\w.]+", ARCHITECTURE.split("```")[1]))
    known = {word.rpartition(".")[2] for word in picture}
    assert len(rooms()) > 50
    assert [room for room in rooms() if room.rpartition(".")[2] not in known] == []
