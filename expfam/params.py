"""Settings objects that store their constructor keywords unchanged.

They have a repr, equality and `get_params`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from expfam.errors import CapabilityError


class Settings:
    """Base of kernels and proposals: it holds constructor keywords and no state of a run.

    The constructor of a subclass stores each keyword under its own name and does no other work.
    """

    @classmethod
    def _parameter_names(cls):
        return [
            name
            for name, parameter in inspect.signature(cls.__init__).parameters.items()
            if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; `deep` has no effect and is there for scikit-learn."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def __eq__(self, other):
        return type(self) is type(other) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]


def refuse_unused(owner: Any, names: Iterable[str], *, why: str, remedy: str) -> None:
    """Raise CapabilityError for settings that differ from their defaults but are not used.

    The owner stores each keyword of its constructor under its own name. `why` names what does not use the settings, for
    example "Gibbs sampling"; `remedy` ends the sentence "leave them out, or ...".

    >>> from expfam.samplers import Memoized
    >>> from expfam.params import refuse_unused
    >>> refuse_unused(Memoized(run_length=9), ["run_length"], why="this schedule", remedy="take another one")
    Traceback (most recent call last):
    expfam.errors.CapabilityError: Memoized: this schedule does not use run_length=9: leave it out, or take another one
    """
    given = given_settings(owner, names)
    if given:
        values = ", ".join(f"{name}={value!r}" for name, value in given.items())
        it = "it" if len(given) == 1 else "them"
        raise CapabilityError(f"{type(owner).__name__}: {why} does not use {values}: leave {it} out, or {remedy}")


def given_settings(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the named settings that differ from their defaults: name to value."""
    parameters = inspect.signature(type(owner).__init__).parameters
    values = {name: getattr(owner, name) for name in names}
    return {name: value for name, value in values.items() if not _is_default(value, parameters[name].default)}


def _is_default(value, default):
    return value is default or (np.isscalar(value) and bool(value == default))
