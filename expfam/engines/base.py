"""Protocol of engines, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from expfam.engines.parts import Part, added, checked_parts


class Engine(ABC):
    """Base class of engines: an engine holds one object for each part, and asks all of them.

    Subclasses write `_place`, `each`, `change` and `close`, and perhaps `total`. An engine serves one run at a time.
    It knows nothing of models: the objects are made by a function that the caller gives, and are asked by the names of
    their methods. Answers that are added up must not depend on the order of the additions.

    Attributes
    ----------
    name : str
        Name in the entry-point group ``expfam.engines``.
    parts : list of Part
        What was placed, in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.engines import SerialEngine, cut_rows
    >>> class Numbers:
    ...     def __init__(self, rows, first_row):
    ...         self.rows, self.first_row = rows, first_row
    ...     def count(self):
    ...         return len(self.rows)
    >>> engine = SerialEngine()
    >>> engine.place(cut_rows(np.zeros((5, 1)), 3, grain=1), Numbers)
    >>> engine.each("count"), engine.total("count")
    ([1, 2, 2], 5)
    """

    name: ClassVar[str]
    parts: list[Part]

    def place(self, parts: Iterable[Part], make: Callable[[Any, int], Any]) -> None:
        """Make the object of each part where it is to stay; what was placed before is dropped.

        Parameters
        ----------
        parts : iterable of Part
            In any order; they follow each other without gaps. Parts without rows are dropped.
        make : callable
            Called as ``make(rows, first_row)``.

        Raises
        ------
        ValueError
            Parts overlap or leave rows out, or there is none.
        """
        self.parts = checked_parts(parts)
        self._place(make)

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""
        return sum(part.n_rows for part in self.parts)

    @abstractmethod
    def _place(self, make: Callable[[Any, int], Any]) -> None:
        """Make the objects of `parts`."""

    @abstractmethod
    def each(self, method: str, *values: Any) -> list[Any]:
        """Return the answers of all parts, in the order of the rows, to a question.

        Parameters
        ----------
        method : str
            A method of the objects of the parts that changes nothing.
        *values
            Its arguments.

        Returns
        -------
        list
            One answer for each part.
        """

    @abstractmethod
    def change(self, method: str, *values: Any, by_part: Sequence[Any] | None = None) -> Any:
        """Have all parts make a change, and return the sum of their answers, or None.

        If one part fails, or the call is interrupted, no part is changed.

        Parameters
        ----------
        method : str
            A method that replaces attributes of the object and writes into none of them.
        *values
            Arguments of the method.
        by_part : sequence, optional
            A further last argument for each part.
        """

    def total(self, method: str, *values: Any) -> Any:
        """Return the sum of the answers of all parts to a question.

        Parameters
        ----------
        method : str
            A method of the objects of the parts that changes nothing, and whose answers can be added.
        *values
            Its arguments.
        """
        return added(self.each(method, *values))

    def once(self, action: Callable[[], Any]) -> Any:
        """Call a function in one process, and return its result in every process that gives orders.

        There is one such process unless an engine says otherwise. Clocks, random names and files need it.
        """
        return action()

    @abstractmethod
    def close(self) -> None:
        """Drop all parts and end the workers; the engine may be used again."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
