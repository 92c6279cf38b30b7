"""Checks of the settings that variational kernels share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from expfam.params import refuse_unused


def check_settings(
    kernel: Any,
    *,
    least: Mapping[str, int],
    others: Mapping[str, tuple[Any, ...]],
    tolerances: Iterable[str],
    choices: Mapping[str, tuple[str, ...]],
) -> None:
    """Raise ValueError for settings of a kernel that are out of their ranges.

    `least` holds the least value of each setting that is an integer, `others` the values besides integers that they may
    have, None or strings. `tolerances` are finite and non-negative. `choices` holds the allowed values of each setting
    that is a string.
    """
    owner = type(kernel).__name__
    for name, smallest in least.items():
        value, allowed = getattr(kernel, name), others.get(name, ())
        if (value is None or isinstance(value, str)) and value in allowed:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < smallest:
            raise ValueError(f"{owner}: {name} must be an integer of at least {smallest}; got {value!r}")
    for name in tolerances:
        if not 0 <= getattr(kernel, name) < np.inf:
            raise ValueError(f"{owner}: {name} must be finite and non-negative; got {getattr(kernel, name)!r}")
    for name, words in choices.items():
        if getattr(kernel, name) not in words:
            raise ValueError(f"{owner}: {name} must be one of {words}; got {getattr(kernel, name)!r}")
    if "n_restarts" in least and kernel.n_restarts == 0:
        refuse_unused(kernel, ["restart_iterations"], why="n_restarts=0", remedy="give n_restarts")


__all__ = ["check_settings"]
