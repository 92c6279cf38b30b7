"""Loading of public names on first use, so that importing a package stays cheap."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any


def load_name(package: str, homes: Mapping[str, Sequence[str]], name: str) -> Any:
    """Import the module that defines a public name, and return the name's value.

    `homes` holds the dotted name of each module and the public names that it defines. The value is stored as an
    attribute of the package. Another name raises AttributeError.
    """
    for home, names in homes.items():
        if name in names:
            value = getattr(import_module(home), name)
            setattr(sys.modules[package], name, value)
            return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
