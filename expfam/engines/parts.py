"""Parts of data: runs of consecutive rows, and the objects that hold them in a worker."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from expfam.errors import EngineError

GRAIN = 512  # rows; parts that begin at multiples of it hold whole tiles of every kernel


class Part(NamedTuple):
    """A run of consecutive rows of the data.

    Attributes
    ----------
    first_row : int
        Global number of its first row.
    n_rows : int
    source : object
        The rows, or a function without arguments that returns them; it is sent to a worker by pickle.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.engines import Part
    >>> Part(first_row=6, n_rows=2, source=np.zeros((2, 3))).n_rows
    2
    """

    first_row: int
    n_rows: int
    source: Any


def cut_rows(X: Any, n_parts: int, *, grain: int = GRAIN) -> list[Part]:
    """Cut an array into parts of about equal size.

    Parameters
    ----------
    X : (N, V) ndarray or CSR
    n_parts : int
        There are fewer where there are fewer than `grain` rows for each.
    grain : int
        Parts begin at multiples of it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.engines import cut_rows
    >>> [(part.first_row, part.n_rows) for part in cut_rows(np.zeros((1300, 2)), 2)]
    [(0, 512), (512, 788)]
    """
    if n_parts != int(n_parts) or n_parts < 1:
        raise ValueError(f"n_parts must be an integer of at least 1; got {n_parts!r}")
    n_rows = int(X.shape[0])
    n_grains = -(-n_rows // grain)
    cuts = sorted({n_grains * part // n_parts * grain for part in range(n_parts)} | {0})
    bounds = [*(cut for cut in cuts if cut < n_rows), n_rows]
    return [Part(a, b - a, X[a:b]) for a, b in itertools.pairwise(bounds)]


def checked_parts(parts: Iterable[Part]) -> list[Part]:
    """Return parts with rows in their order; refuse gaps and overlaps."""
    kept = sorted((part for part in parts if part.n_rows), key=lambda part: part.first_row)
    expected = 0
    for part in kept:
        if part.first_row != expected:
            raise ValueError(f"parts must follow each other: one begins at row {part.first_row}, not at {expected}")
        expected += part.n_rows
    if not kept:
        raise ValueError("there must be at least one part with rows")
    return kept


def added(values: Sequence[Any]) -> Any:
    """Return the sum of the values, or None if they are all None."""
    found = [value for value in values if value is not None]
    return reduce(add, found) if found else None


class Least:
    """Array of numbers; ``a + b`` is the smaller number of each place.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.engines.parts import Least
    >>> (Least(np.array([3, 9])) + Least(np.array([5, 2]))).values
    array([3, 2])
    """

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = values

    def __add__(self, other: Least) -> Least:
        return Least(np.minimum(self.values, other.values))

    def __getstate__(self):
        return self.values

    def __setstate__(self, values):
        self.values = values


class Stale(EngineError):
    """A part has made more or fewer changes than those before the one that it is asked for."""


class Resident:
    """An object that holds a part in a worker, with the number of changes that it has made.

    Changes are numbered. A change that is asked for again is not made again: the answer of the first time is returned.
    So a change may be asked of all parts once more after one of them was lost. The last change can be taken back.

    Parameters
    ----------
    held : object
        Its methods are asked by name. A method that changes it replaces its attributes and writes into none.
    n_changes : int
        Number of changes that it has made.
    """

    def __init__(self, held: Any, n_changes: int = 0) -> None:
        self.held, self.n_changes, self._before, self._last = held, n_changes, None, None

    @classmethod
    def of_part(cls, make: Callable[[Any, int], Any], part: Part) -> Resident:
        """Make the object of a part; a source that is a function is called."""
        rows = part.source() if callable(part.source) else part.source
        return cls(make(rows, part.first_row))

    def ask(self, method: str, values: Sequence[Any]) -> Any:
        """Return what a method that changes nothing returns."""
        return getattr(self.held, method)(*values)

    def change(self, number: int, method: str, values: Sequence[Any]) -> Any:
        """Make change `number`, counted from 0, if it was not made yet; return its answer."""
        if number == self.n_changes - 1:
            return self._last
        if number != self.n_changes:
            raise Stale(f"change {number} was asked of a part that has made {self.n_changes}")
        changed = copy.copy(self.held)
        self._last = getattr(changed, method)(*values)
        self._before, self.held = self.held, changed
        self.n_changes += 1
        return self._last

    def take_back(self, number: int) -> None:
        """Undo change `number` if it was made: another part has failed to make it."""
        if number == self.n_changes - 1 and self._before is not None:
            self.held, self._before, self._last = self._before, None, None
            self.n_changes -= 1
