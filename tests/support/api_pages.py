"""The list of all public names, from which sphinx makes a page for each; `docs/conf.py` writes it first."""

import re
from importlib import import_module
from pathlib import Path

from reference_page import MODULES, public, rooms, summary

HEAD = """\
API reference
=============

Every public name has a page: settings with types and defaults, results, errors, and an example that runs. Names of
other modules may change without notice. :doc:`/reference` is the same list on one page.

"""
OWN = "of the package itself"


def api_page() -> str:
    """Return the page that lists the public names of all modules, room by room."""
    return HEAD + "\n".join(map(section, MODULES))


def section(name: str) -> str:
    """Return the part of a module."""
    module = import_module(name)
    text = [_headed(name, "-"), f"{summary(module)}\n", f".. currentmodule:: {name}\n"]
    parts = rooms(name, module)
    for room in sorted(parts, key=lambda room: room == name):  # what people look for first, and then the package's own
        names = parts[room]
        text.append(_headed(room if room != name else OWN, "~") if len(parts) > 1 else "")
        entries = "\n".join(f"   {each}" for each in names)
        text.append(f".. autosummary::\n   :toctree: generated\n\n{entries}\n")
    return "\n".join(text)


def _headed(name, line):
    return f"{name}\n{line * len(name)}\n"


def write_api(path: Path) -> None:
    """Write the page if it has changed, or sphinx would read it again; drop pages of names that are gone."""
    path.parent.mkdir(exist_ok=True)
    text = api_page()
    names = {f"{module}.{name}" for module in MODULES for name in public(module, import_module(module))}
    for page in (path.parent / "generated").glob("*.rst"):
        if page.stem not in names:
            page.unlink()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# ---- docstrings as reStructuredText ----------------------------------------------------------------------------------

LITERAL = re.compile(r"(``.+?``|`[^`]+`_?)")
PAGE_NAME = re.compile(r"`{0,2}docs/([a-z_]+)\.md`{0,2}")
MARKUP = re.compile(r"(?<!\\)\||(?<=\w)_(?![\w_*])")  # |x| and x_ mean something in reStructuredText, and not in ours


def escaped(lines: list[str]) -> list[str]:
    """Return lines of a docstring in which absolute values and names such as labels_ stand for themselves."""
    found, is_code = [], False
    for line in lines:
        text = line.strip()
        is_code = text.startswith(">>>") or (is_code and bool(text))
        found.append(line if is_code or text.startswith(("..", ":", "|")) else _escaped_prose(line))
    return found


def _escaped_prose(line):
    line = PAGE_NAME.sub(r":doc:`/\1`", line)
    parts = LITERAL.split(line)
    return "".join(part if place % 2 else MARKUP.sub(r"\\\g<0>", part) for place, part in enumerate(parts))
