"""Engines that keep parts of data in this process or in others, and ask them for sums."""

from typing import Any

from expfam.lazy import load_name

_HOMES = {
    "expfam.engines.base": ["Engine"],
    "expfam.engines.parts": ["Part", "cut_rows"],
    "expfam.engines.serial": ["SerialEngine"],
    "expfam.engines.process": ["ProcessEngine"],
    "expfam.engines.dask": ["DaskEngine"],
    "expfam.engines.mpi": ["MpiEngine"],
    "expfam.engines.by_name": ["load_engine"],
}

__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
