"""Public names of a package that are loaded on first use, so that importing the package stays cheap."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any


def load_name(package: str, homes: Mapping[str, Sequence[str]], name: str) -> Any:
    """Import the module that holds a public name of a package, and return the value.

    Parameters
    ----------
    package : str
        Dotted name of the package; the value becomes one of its attributes.
    homes : dict
        Names by the module that holds them.
    name : str

    Raises
    ------
    AttributeError
        The package has no such name.

    Examples
    --------
    >>> from expfam.lazy import load_name
    >>> load_name("expfam", {"expfam.families.counts.poisson": ["Poisson"]}, "Poisson").__name__
    'Poisson'
    """
    for home, names in homes.items():
        if name in names:
            value = getattr(import_module(home), name)
            setattr(sys.modules[package], name, value)
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
