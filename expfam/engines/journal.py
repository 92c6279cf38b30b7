"""Changes made since the parts were placed or saved: lost parts are made again from them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One change: its method and values, and a further value of each part, all pickled."""

    call: bytes
    by_part: list[bytes] | None

    @classmethod
    def of(cls, method: str, values: Sequence[Any], by_part: Sequence[Any] | None) -> Entry:
        """Pickle a change: later changes of the values do not reach it."""
        own = None if by_part is None else [dumps(value) for value in by_part]
        return cls(dumps((method, tuple(values))), own)

    @property
    def n_bytes(self) -> int:
        """Memory of the entry."""
        return len(self.call) + sum(map(len, self.by_part or ()))

    def of_parts(self, places: Sequence[int]) -> tuple[bytes, dict[int, bytes] | None]:
        """Return the change as some parts need it."""
        return self.call, None if self.by_part is None else {place: self.by_part[place] for place in places}


class Journal:
    """Numbered changes, with what the parts had saved before the first of them.

    Parameters
    ----------
    limit : int
        Bytes of entries beyond which the parts should be saved again.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.base, self.saved = limit, 0, None  # type: int, int, list[bytes] | None
        self.entries: list[Entry] = []
        self._n_bytes = 0

    @property
    def n_changes(self) -> int:
        """Number of changes since the parts were placed."""
        return self.base + len(self.entries)

    def add(self, entry: Entry) -> None:
        """Keep one more change."""
        self.entries.append(entry)
        self._n_bytes += entry.n_bytes

    def record(
        self,
        entry: Entry,
        *,
        make: Callable[[int], Any],
        undo: Callable[[int], None],
        saved: Callable[[], Sequence[Any]],
    ) -> Any:
        """Let the parts make a change, write it down, and return their answer.

        Parameters
        ----------
        entry : Entry
        make, undo : callable
            Called with the number of the change. `make` lets the parts make it. If some of them fail, `undo` takes it
            back on the others.
        saved : callable
            Returns what each part has saved now. It is called when the journal has grown long.
        """
        number = self.n_changes
        try:
            answer = make(number)
        except BaseException:
            undo(number)
            raise
        self.add(entry)
        if self.is_long:
            self.restart(saved())
        return answer

    @property
    def is_long(self) -> bool:
        """Whether the entries take more memory than the limit and than what was saved last."""
        return self._n_bytes > max(self.limit, sum(map(len, self.saved or ())))

    def restart(self, saved: Sequence[Any]) -> None:
        """Replace all entries by what each part has saved now."""
        self.base, self.entries, self._n_bytes = self.n_changes, [], 0
        self.saved = [dumps(value) for value in saved]

    @property
    def n_bytes(self) -> int:
        """Memory of the entries and of what was saved."""
        return self._n_bytes + sum(map(len, self.saved or ()))

    def of_part(self, place: int) -> tuple[bytes | None, list[bytes | None]]:
        """Return what a part had saved, and its own value of each change since."""
        saved = None if self.saved is None else self.saved[place]
        return saved, [None if entry.by_part is None else entry.by_part[place] for entry in self.entries]

    def of_parts(self, places: Sequence[int]) -> tuple[int, dict[int, bytes] | None, list[Any]]:
        """Return the first number, what the parts had saved, and the changes since."""
        saved = None if self.saved is None else {place: self.saved[place] for place in places}
        return self.base, saved, [entry.of_parts(places) for entry in self.entries]


def dumps(value: Any) -> bytes:
    """Pickle a value by the newest protocol."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
