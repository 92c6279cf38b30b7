"""Check that the files of a command exist, before the libraries that read them are imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    import argparse

_MOST_NAMES = 2000  # of a folder that are compared with a missing one


def check_given_files(args: argparse.Namespace) -> None:
    """Refuse a data file, a file of names or a saved model that is not there.

    Raises
    ------
    UsageError
        It names the path, and the one that was probably meant.
    """
    given = [(name, getattr(args, name, None)) for name in ("model", "data", "vocab")]
    for name, path in [*given, *(("model", path) for path in getattr(args, "models", ()))]:
        if isinstance(path, Path) and str(path) != "-" and not path.exists():
            what = "no such saved model" if name == "model" else "no such file"
            raise UsageError(f"{path}: {what}{_meant(path)}")


def _meant(path):
    """Return a question with the path that was probably meant; empty if none is near."""
    from itertools import islice

    from expfam.near_names import near_names

    try:
        known = [each.name for each in islice(path.parent.iterdir(), _MOST_NAMES)]
    except OSError:
        return f"; there is no directory {path.parent}"
    near = near_names(path.name, known)
    return f"; did you mean {path.parent / near[0]}?" if near else ""
