"""Rows of all parts as a family sees them: they answer questions where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from expfam.families.all_rows import AllRows, Block

if TYPE_CHECKING:
    from expfam.engines.base import Engine


class RowsOfParts(AllRows):
    """Rows that an engine holds in parts.

    Parameters
    ----------
    engine : Engine
        Its shards have checked the rows.
    kind : dict
        What holds for all parts, see `expfam.samplers.shards.sample.check_kinds`.
    reads_uncounted : bool
        Whether rows of weight 0 are asked too.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.engines import SerialEngine, cut_rows
    >>> from expfam.samplers.shards.all_rows import RowsOfParts
    >>> from expfam.samplers.shards.sample import check_kinds
    >>> from expfam.samplers.shards.shard import Shard
    >>> engine = SerialEngine()
    >>> engine.place(cut_rows(np.array([[1], [3], [8]]), 2, grain=1), Shard)
    >>> rows = RowsOfParts(engine, check_kinds(engine), reads_uncounted=False)
    >>> Poisson().bind_rows(rows, np.array([[1.0]])).shape
    array([4.33333333])
    """

    def __init__(self, engine: Engine, kind: dict[str, Any], *, reads_uncounted: bool) -> None:
        self._engine, self._reads_uncounted = engine, reads_uncounted
        self._function: Callable[[Any], Any] | None = None
        self.n_columns, self.is_sparse, self.dtype = kind["n_columns"], kind["is_sparse"], kind["dtype"]
        self.is_weighted = kind["is_weighted"] and not (kind["is_of_ones"] and not reads_uncounted)
        self.n_rows = engine.n_rows if reads_uncounted else kind["n_counted"]

    def total(self, question: Callable[[Block], Any]) -> Any:
        """Return the sum of the answers of all parts."""
        asked = question if self._function is None else _OfMapped(question, self._function)
        return self._engine.total("answer", asked, self.is_weighted, self._reads_uncounted)

    def mapped(self, function: Callable[[Any], Any], n_columns: int, *, held: bool = True) -> RowsOfParts:
        """Return the rows that a function makes of these; they are never held."""
        other = object.__new__(RowsOfParts)
        other.__dict__.update(self.__dict__)
        other.n_columns = n_columns
        other._function = function if self._function is None else _Composed(function, self._function)
        return other


class _OfMapped:
    """A question asked of what a function makes of the rows."""

    def __init__(self, question: Callable[[Block], Any], function: Callable[[Any], Any]) -> None:
        self.question, self.function = question, function

    def __call__(self, block: Block) -> Any:
        return self.question(block._replace(X=self.function(block.X)))


class _Composed:
    """One function after another."""

    def __init__(self, second: Callable[[Any], Any], first: Callable[[Any], Any]) -> None:
        self.second, self.first = second, first

    def __call__(self, X: Any) -> Any:
        return self.second(self.first(X))
