"""Threads that read the rows while a family is bound and data are checked.

Their number is a context variable: families, which may be those of others, stand between the callers who know it and
the functions that read rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import pairwise
from typing import Any

import numpy as np

from expfam.structures.ground.threads import resolve_n_threads, run

_PART_CELLS = 1 << 19  # least number of cells of a part: it takes some tenths of a millisecond

_n_threads: ContextVar[int] = ContextVar("threads that read rows", default=1)


@contextmanager
def rows_read_by(n_threads: int | None) -> Iterator[None]:
    """Let several threads read rows in the block; what they find has the same bits for any number of them.

    >>> from expfam.families.row_threads import of_parts, rows_read_by
    >>> with rows_read_by(2):
    ...     of_parts(lambda start, stop: stop - start, 100, 1 << 21)
    [50, 50]
    >>> of_parts(lambda start, stop: stop - start, 100, 1 << 21)
    [100]
    """
    token = _n_threads.set(resolve_n_threads(n_threads))
    try:
        yield
    finally:
        _n_threads.reset(token)


def of_parts(function: Callable[[int, int], Any], size: int, n_cells: int) -> list[Any]:
    """Return the results of ``function(start, stop)`` for parts of 0..size-1, in order.

    What parts find is joined to the same bits for any parts. So each thread has one: more would begin more counts of
    distinct values, of which the first values cost most.

    Parameters
    ----------
    function : callable
        It should release the gil for most of its time.
    size : int
        Number of rows or cells that are divided.
    n_cells : int
        Number of cells that are read in all.
    """
    n_parts = min(_n_threads.get(), n_cells // _PART_CELLS)
    if n_parts < 2:
        return [function(0, size)]
    bounds = [size * part // n_parts for part in range(n_parts + 1)]
    silenced = np.geterr()  # NumPy 1.26 keeps it for each thread

    def found(context: Context, start: int, stop: int) -> Any:
        return context.run(_alone, function, start, stop, silenced)

    tasks = [(copy_context(), start, stop) for start, stop in pairwise(bounds) if stop > start]
    return run(found, tasks, n_parts)


def _alone(function, start, stop, silenced):
    _n_threads.set(1)
    with np.errstate(**silenced):
        return function(start, stop)
