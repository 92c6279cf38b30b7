"""Classes that a saved model names: which are loaded, and which need a trusted file.

Importing a module runs its code. A file can name any module, and a module of that name may lie in the current folder.
So without trust only two kinds of modules are imported: those of expfam, and those of installed distributions that
offer plugins.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from expfam.errors import PluginError
from expfam.families.base import Family
from expfam.params import Settings
from expfam.plugins.registry import family_class, is_offered, registered_class

if TYPE_CHECKING:
    from os import PathLike

WEIGHTS_METHODS = ("log_new_mass", "log_prior")
_TRUSTING = "load it with trust=True (--trust on the command line)"
_PUBLIC = ("expfam", "expfam.samplers")  # packages whose public names stay the same if a class moves to another module


def path_of(cls: type) -> str:
    """Return the path ``"module:Class"`` of a class.

    For a public class of expfam, the module is the package that offers its name.

    Examples
    --------
    >>> from expfam import DirichletProcess
    >>> from expfam.io.saved_classes import path_of
    >>> path_of(DirichletProcess)
    'expfam:DirichletProcess'
    """
    if cls.__module__.startswith("expfam."):
        for package in _PUBLIC:
            if getattr(import_module(package), cls.__qualname__, None) is cls:
                return f"{package}:{cls.__qualname__}"
    return f"{cls.__module__}:{cls.__qualname__}"


def class_path(value: Any) -> str:
    """Return the path ``"module:Class"`` of the class of an object."""
    return path_of(type(value))


def class_at(path: str) -> type | None:
    """Import the class at a path; return None if that fails."""
    module, _, qualname = path.partition(":")
    try:
        found = sys.modules.get(module) or import_module(module)
        for name in qualname.split("."):
            found = getattr(found, name)
    except Exception:  # a module may raise anything while it is imported
        return None
    return found if isinstance(found, type) else None


@dataclass(frozen=True)
class SavedClasses:
    """Finder of the classes that one file names.

    `path` is named in messages; with `trust` all modules that the file names are imported.

    >>> from expfam.io.saved_classes import SavedClasses
    >>> SavedClasses("model").weights("payload:Weights")
    Traceback (most recent call last):
    expfam.errors.PluginError: model: names the class payload:Weights for its weights, which is not part of expfam ...
    """

    path: str | PathLike[str]
    trust: bool = False

    def settings(self, path: str) -> type[Any]:
        """Return the class of a kernel, proposal or schedule."""
        return self._checked(path, "sampler", lambda found: issubclass(found, Settings))

    def weights(self, path: str) -> type[Any]:
        """Return the class of a prior on mixture weights."""
        return self._checked(path, "weights", lambda found: all(hasattr(found, name) for name in WEIGHTS_METHODS))

    def family(self, name: str, path: str) -> type[Family]:
        """Return the class of a family: the registered one if it is the same class.

        A registered class that has moved to another module is accepted if its class name is the same; another class
        under the same entry-point name is not. A class that is not registered is imported only for a trusted file.
        """
        registered = _registered_family(name)
        if registered is not None and path_of(registered) == path:
            return registered
        at_path = _by_hand(path) or (class_at(path) if self.trust else None)
        if at_path is not None and issubclass(at_path, Family):
            return at_path
        if registered is not None and registered.__qualname__ == path.partition(":")[2]:
            return registered
        found = "nothing is registered" if registered is None else f"{path_of(registered)} is registered"
        trusted = "" if self.trust else f"; if you trust the file, {_TRUSTING}, which imports that module"
        raise PluginError(
            f"{self.path}: was fitted with family {name!r}, class {path}, which is not available here ({found} under"
            f" that name): install the package of {path.partition(':')[0]!r}, or define the class and call"
            f" expfam.register{trusted}"
        )

    def _checked(self, path, what, is_one):
        found = class_at(path) if self._may_import(path) else _by_hand(path)
        if found is not None and is_one(found):
            return found
        if self.trust or self._may_import(path):
            raise PluginError(
                f"{self.path}: was fitted with the {what} {path}: this class is not installed here; install its package"
            )
        raise PluginError(
            f"{self.path}: names the class {path} for its {what}, which is not part of expfam or of an installed"
            f" distribution that offers plugins; importing a module runs its code: if you trust the file, {_TRUSTING}"
        )

    def _may_import(self, path):
        module = path.partition(":")[0]
        return self.trust or module == "expfam" or module.startswith("expfam.") or is_offered(module)


def _by_hand(path):
    return registered_class(path)


def _registered_family(name):
    try:
        return family_class(name)
    except PluginError:
        return None
