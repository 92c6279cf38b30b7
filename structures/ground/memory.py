"""Amounts of memory: free memory of the machine, and conversion of bytes from and to text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that this process can still allocate without swapping.

    None where the system does not tell.
    """
    figures = [figure for figure in (_free_of_machine(), _free_of_container()) if figure is not None]
    return min(figures, default=None)


def _free_of_machine():
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if found:
            return int(found.group(1)) * 1024
    except OSError:
        pass  # not Linux: ask the C library instead
    try:
        # macOS does not count free pages; there the number of all pages is the best known bound
        pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_container():
    """Return the free bytes of a version 2 control group; None outside of one."""
    try:
        limit = (_CONTROL_GROUP / "memory.max").read_text().strip()
        used = int((_CONTROL_GROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used)


def parse_bytes(value: float | str) -> int:
    """Return the bytes of a number or of text like ``"500MB"`` or ``"2 GiB"``.

    Examples
    --------
    >>> from expfam.structures.ground.memory import parse_bytes
    >>> parse_bytes("1.5GB"), parse_bytes("2KiB")
    (1500000000, 2048)
    """
    match: Any = re.fullmatch(r"\s*([0-9.eE+]+)\s*([kmgt]i?)?b?\s*", str(value), re.IGNORECASE)
    try:
        return int(float(match.group(1)) * _UNITS[(match.group(2) or "").lower()])
    except (AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"an amount of memory is a number of bytes or text such as '4GB'; got {value!r}") from error


def format_bytes(n: float) -> str:
    """Return bytes as text with three digits, for example ``"1.23 GB"``."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 999.5:
            return f"{n:.3g} {unit}"
        n = n / 1000
    return f"{n:.3g} TB"
