"""Engines by name: those of this package, and those of other distributions."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from expfam.engines.base import Engine
from expfam.errors import PluginError, UnknownNameError
from expfam.near_names import did_you_mean, near_names

_GROUP = "expfam.engines"
_OWN = {
    "serial": "expfam.engines.serial:SerialEngine",
    "process": "expfam.engines.process:ProcessEngine",
    "dask": "expfam.engines.dask:DaskEngine",
    "mpi": "expfam.engines.mpi:MpiEngine",
}


def load_engine(name: str, **options: Any) -> Engine:
    """Make the engine of that name.

    Parameters
    ----------
    name : str
        "serial", "process", "dask", "mpi", or a name of the entry-point group ``expfam.engines``.
    **options
        Keywords of its constructor.

    Raises
    ------
    PluginError
        The name is unknown, or the entry point names no subclass of `Engine`.

    Examples
    --------
    >>> from expfam.engines import load_engine
    >>> load_engine("serial").name
    'serial'
    """
    found = _OWN.get(name) or _offered().get(name)
    if found is None:
        raise _unknown(name)
    module, _, attribute = found.partition(":")
    try:
        cls = getattr(import_module(module.strip()), attribute.strip())
    except Exception as error:  # a foreign module may raise anything; the message must name its origin
        raise PluginError(f"engine {name!r} ({found}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, Engine)):
        raise PluginError(f"engine {name!r} ({found}) must be a subclass of expfam.engines.Engine; got {cls!r}")
    return cls(**options)


def _offered():
    return {entry.name: entry.value for entry in metadata.entry_points(group=_GROUP)}


def _unknown(name):
    names = sorted({*_OWN, *_offered()})
    error = UnknownNameError(f"no engine is called {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})")
    error.near = near_names(name, names)
    return error
