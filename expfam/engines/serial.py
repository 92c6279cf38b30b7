"""Engine that holds all parts in this process and asks one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from expfam.engines.base import Engine
from expfam.engines.parts import Resident, added


class SerialEngine(Engine):
    """Engine of one process: it serves tests, and data that lie in several files.

    Examples
    --------
    >>> from expfam.engines import SerialEngine
    >>> SerialEngine().each("labels")
    []
    """

    name = "serial"

    def __init__(self) -> None:
        self.parts, self._n_changes = [], 0
        self._residents: list[Resident] = []

    def _place(self, make: Callable[[Any, int], Any]) -> None:
        self._residents, self._n_changes = [Resident.of_part(make, part) for part in self.parts], 0

    def each(self, method: str, *values: Any) -> list[Any]:
        """Return the answers of all parts, in the order of the rows."""
        return [resident.ask(method, values) for resident in self._residents]

    def change(self, method: str, *values: Any, by_part: Sequence[Any] | None = None) -> Any:
        """Have all parts make a change, and return the sum of their answers, or None."""
        answers = []
        try:
            for place, resident in enumerate(self._residents):
                own = values if by_part is None else (*values, by_part[place])
                answers.append(resident.change(self._n_changes, method, own))
        except BaseException:
            for resident in self._residents:
                resident.take_back(self._n_changes)
            raise
        self._n_changes += 1
        return added(answers)

    def close(self) -> None:
        """Drop all parts."""
        self.parts, self._residents = [], []
