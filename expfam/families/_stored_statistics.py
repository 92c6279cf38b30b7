"""Checks of stored statistics of clusters against the present arrays of their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.structures.ground.stored import integers, numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_LISTS = ("words", "values")  # arrays whose length does not depend on the number of slots
_RANGES = {"max_factors": (1, 33)}  # number of factors in one product of count families: 0 would loop for ever


def check_stored(arrays: Mapping[str, npt.NDArray[Any]], own: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise ArchiveError unless stored arrays have the types and shapes of the owner's arrays.

    `own` is what the owner's `to_arrays` gives now. Only the number of slots may differ.
    """
    now, then = len(own["n"]), len(numbers(arrays, "n", (None,), low=0.0))
    for name, value in own.items():
        shape = _shape_of(name, np.asarray(value), now, then)
        if np.asarray(value).dtype.kind == "f":
            numbers(arrays, name, shape)
        else:
            integers(arrays, name, shape, *_RANGES.get(name.rpartition(".")[2], (0, 2**62)))


def _shape_of(name, value, now, then):
    if value.ndim == 0:
        return ()
    by_slot = name.rpartition(".")[2] not in _LISTS and len(value) in (now, now + 1)
    return (then + len(value) - now if by_slot else None, *value.shape[1:])
