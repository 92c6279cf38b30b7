"""The page of all public names: what each is, with its settings, from the docstrings.

`python tests/support/reference_page.py` writes `docs/reference.md`.
"""

import inspect
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"
HEAD = """\
# All public names

This page is made from the docstrings by `python tests/support/reference_page.py`; a test compares them. `help(name)`
shows the whole docstring: settings with types and defaults, errors, an example. Names of other modules may change
without notice.
"""
MODULES = (
    "expfam",
    "expfam.samplers",
    "expfam.structures",
    "expfam.displays",
    "expfam.dask",
    "expfam.engines",
    "expfam.errors",
    "expfam.plugins.conformance",
)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *map(section, MODULES)])


def section(name: str) -> str:
    """Return the table of the public names of a module, sorted, those of one room together."""
    module = import_module(name)
    text = [f"## `{name}`\n\n{summary(module)}\n"]
    for room, names in rooms(name, module).items():
        text.append(f"### `{room}`\n" if room != name else "")
        rows = [f"| `{call(each, getattr(module, each))}` | {summary(getattr(module, each))} |" for each in names]
        text.append("| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(filter(None, text))


def public(name: str, module) -> list[str]:
    """Return the public names of a module, sorted, without the version."""
    own = [each for each, value in vars(module).items() if getattr(value, "__module__", None) == name]
    return sorted(each for each in getattr(module, "__all__", own) if each[0] != "_")


def rooms(name: str, module) -> dict[str, list[str]]:
    """Return public names by the room that they come from."""
    found: dict[str, list[str]] = {}
    for each in public(name, module):
        home = getattr(getattr(module, each), "__module__", name)
        parts = home.split(".")
        depth = name.count(".") + 2
        found.setdefault(".".join(parts[:depth]) if len(parts) > depth else name, []).append(each)
    return dict(sorted(found.items()))


def call(name: str, value) -> str:
    """Return a name with its settings."""
    try:
        parameters = inspect.signature(value).parameters.values() if callable(value) else ()
    except ValueError:  # compiled, without a signature
        return name
    if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return name
    return f"{name}({', '.join(written(parameters))})"


def written(parameters):
    """Return names of parameters as they stand in a call: stars, but no defaults and types."""
    found, is_named = [], False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL or (parameter.kind is parameter.KEYWORD_ONLY and not is_named):
            is_named = True
            if parameter.kind is parameter.KEYWORD_ONLY:
                found.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        found.append(stars + parameter.name)
    return found


def summary(value) -> str:
    """Return the first sentence of the docstring."""
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
