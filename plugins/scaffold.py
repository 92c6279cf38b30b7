"""New distributions for your own family or proposal, copied from working templates.

A template is a complete distribution in `templates/`. The words template_name, TemplateName and template-name stand for
the plugin's own names. A new distribution is a copy with these words replaced; it appears completely or not at all.
"""

from __future__ import annotations

import keyword
import re
import shutil
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from expfam.errors import PluginError
from expfam.plugins.registry import GROUPS, list_plugins

if TYPE_CHECKING:
    from os import PathLike

_TEMPLATES = Path(__file__).parent / "templates"
_NOT_YET = ".in"  # end of the names of sources that are no sources of this package
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TAKEN = {"Family", "CellProposal"}  # class names that the templates import


def new_plugin(kind: str, name: str, folder: str | PathLike[str] = ".", *, compiled: bool = False) -> Path:
    """Write a new distribution that offers a family or a proposal, with tests that pass.

    You replace its formulas by your own.

    Parameters
    ----------
    kind : {"family", "proposal"}
    name : str
        Lower-case letters and digits with single underscores between words; it begins with a letter. A name that is
        offered already is refused.
    folder : path_like
        Directory in which the directory ``expfam-NAME`` is made.
    compiled : bool
        Write a family with components in Cython, which needs a C compiler.

    Returns
    -------
    Path
        The new directory.

    Raises
    ------
    PluginError
        The name cannot be used.
    FileExistsError, NotADirectoryError
        The new directory exists already, or `folder` does not exist. Nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> from expfam.plugins.scaffold import new_plugin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = new_plugin("family", "zeta", folder)
    ...     made.name, sorted(path.name for path in made.iterdir())
    ('expfam-zeta', ['README.md', 'pyproject.toml', 'src', 'tests'])
    """
    if kind not in GROUPS:
        raise ValueError(f"kind of plugin must be one of {list(GROUPS)}; got {kind!r}")
    if compiled and kind != "family":
        raise ValueError(f"compiled components are those of a family; got kind {kind!r}: leave out compiled=True")
    _check_name(kind, name)
    target = Path(folder, f"expfam-{name.replace('_', '-')}")
    if not target.parent.is_dir():
        raise NotADirectoryError(f"there is no directory {target.parent}; make it first")
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists; nothing was written: choose another name or folder, or remove it")
    stage = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    try:
        _copy(_TEMPLATES / (f"compiled_{kind}" if compiled else kind), stage, _words(name))
        stage.rename(target)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return target


def _check_name(kind, name):
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginError(
            f"{name!r} cannot be the name of a {kind}: a name is made of lower-case letters and digits, with single"
            " underscores between words, and begins with a letter, for example log_normal"
        )
    if keyword.iskeyword(_class_name(name)) or _class_name(name) in _TAKEN:
        raise PluginError(
            f"{name!r} cannot be the name of a {kind}: its class would be called {_class_name(name)}, a name that"
            " Python or the template uses; choose another name"
        )
    taken = [plugin for plugin in list_plugins(kind) if plugin.name == name]
    if taken:
        raise PluginError(f"{kind} {name!r} is offered already, by {taken[0].source}; choose another name")


def _class_name(name):
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _words(name):
    major, minor = (int(part) for part in version("expfam").split(".")[:2])
    return {
        "template-requirement": f"expfam>={major}.{minor},<{major}.{minor + 1}",
        "template-name": name.replace("_", "-"),
        "template_name": name,
        "TemplateName": _class_name(name),
    }


def _copy(source, target, words):
    """Copy a folder, with words replaced in the names and contents of its files; O(bytes)."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        place = target / _replaced(entry.name, words).removesuffix(_NOT_YET)
        if entry.is_dir() and entry.name != "__pycache__":
            _copy(entry, place, words)
        elif entry.is_file():
            place.write_text(_replaced(entry.read_text(encoding="utf-8"), words), encoding="utf-8")


def _replaced(text, words):
    for word, own in words.items():
        text = text.replace(word, own)
    return text
