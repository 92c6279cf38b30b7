"""Engine whose workers are processes of this machine; a worker that dies is replaced."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from expfam.engines.base import Engine
from expfam.engines.journal import Entry, Journal, dumps
from expfam.engines.parts import added
from expfam.engines.watch import Watch
from expfam.engines.worker import checked_answers, serve
from expfam.errors import EngineError

_JOURNAL_BYTES = 1 << 28
_LOOK_EVERY = 0.5  # seconds between looks at the time that an order takes


class ProcessEngine(Engine):
    """Engine of several processes on one machine.

    Each process holds some of the parts. If it dies, another one reads these parts again and repeats the changes that
    were made to them, so the answers are those that would have come without the loss.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes; the number of cores that this process may use if not given.
    max_lost : int, optional
        Number of workers that may be lost before the run ends with an `EngineError`; `n_workers` if not given.

    Attributes
    ----------
    n_lost : int, number of workers that were lost

    Examples
    --------
    >>> from expfam.engines import ProcessEngine
    >>> ProcessEngine(2).n_workers
    2

    Notes
    -----
    Workers are started by the method "spawn": a script that uses this engine keeps its own work below
    ``if __name__ == "__main__":``, and classes that it sends to workers stand in modules that these can import.
    """

    name = "process"

    def __init__(self, n_workers: int | None = None, *, max_lost: int | None = None) -> None:
        if n_workers is None:
            n_workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if n_workers != int(n_workers) or n_workers < 1:
            raise ValueError(f"n_workers must be an integer of at least 1; got {n_workers!r}")
        self.n_workers, self.max_lost = int(n_workers), int(n_workers) if max_lost is None else max_lost
        self.parts, self.n_lost = [], 0
        self._links: list[_Link] = []
        self._journal, self._make = Journal(_JOURNAL_BYTES), None  # type: Journal, Any
        self._watch = Watch("end the process, so that another one takes its rows: kill -9 with its number")

    def _place(self, make: Callable[[Any, int], Any]) -> None:
        self._end()
        self._make, self._journal, self.n_lost = make, Journal(_JOURNAL_BYTES), 0
        n = min(self.n_workers, len(self.parts))
        bounds = [len(self.parts) * i // n for i in range(n + 1)]
        self._links = [_Link(list(range(a, b))) for a, b in itertools.pairwise(bounds)]
        try:
            self._all("place", self._placement)
        except BaseException:
            self.close()
            raise

    def _placement(self, link):
        """Return what a worker needs to make its parts as they are now."""
        parts = {place: self.parts[place] for place in link.places}
        return self._make, parts, self._journal.of_parts(link.places)

    def each(self, method: str, *values: Any) -> list[Any]:
        """Return the answers of all parts, in the order of the rows."""
        call = dumps((method, values))
        found = {
            place: answer
            for part in self._all("each", lambda link: (call, link.places), method)
            for place, answer in part.items()
        }
        return [found[place] for place in range(len(self.parts))]

    def total(self, method: str, *values: Any) -> Any:
        """Return the sum of the answers of all parts; each worker adds up its own."""
        call = dumps((method, values))
        return added(self._all("total", lambda link: (call, link.places), method))

    def change(self, method: str, *values: Any, by_part: Sequence[Any] | None = None) -> Any:
        """Have all parts make a change, and return the sum of their answers, or None."""
        entry = Entry.of(method, values, by_part)

        def make(number):
            return added(self._all("change", lambda link: (number, *entry.of_parts(link.places), link.places), method))

        def undo(number):
            if self.n_lost <= self.max_lost:  # else there are no workers to ask
                self._all("take_back", lambda link: (number, link.places))

        return self._journal.record(entry, make=make, undo=undo, saved=lambda: self.each("saved"))

    def close(self) -> None:
        """Drop all parts and end the workers."""
        self._end()
        self.parts, self._make = [], None

    def _end(self):
        for link in self._links:
            link.end()
        self._links = []

    def __del__(self):
        with contextlib.suppress(Exception):  # the interpreter may be ending
            self._end()

    # ---- orders and answers ------------------------------------------------------------------------------------------

    def _all(self, order, values_of, kind=""):
        """Give all workers an order; return their answers, or raise the first failure."""
        self._watch.begin(kind or order)
        told = [self._tell(link, order, values_of) for link in self._links]
        answers = [self._hear(link, is_told, order, values_of) for link, is_told in zip(self._links, told)]
        self._watch.end()
        return checked_answers(answers, self.parts)

    def _tell(self, link, order, values_of):
        """Send an order; return whether the worker was there."""
        try:
            link.send((order, values_of(link)))
        except (OSError, EOFError):
            return False
        return True

    def _hear(self, link, is_told, order, values_of):
        """Return the answer of a worker; replace it as long as it dies before it answers."""
        while True:
            if is_told:
                with contextlib.suppress(OSError, EOFError):
                    while not link.has_answer(_LOOK_EVERY):
                        self._watch.look([f"the process {link.process.pid}"])
                    return link.receive()
            failure = self._replace(link, order)
            if failure is not None or order in ("place", "take_back"):  # the new worker is where the journal ends
                return failure
            is_told = self._tell(link, order, values_of)

    def _replace(self, link, order):
        """Start another process for the parts of a dead worker; return None or a failure."""
        while True:
            code, was_broken = link.end(), link.is_broken
            self.n_lost += not was_broken
            if self.n_lost > self.max_lost:
                raise EngineError(self._told_of_losses(link, code, order))
            link.start()
            with contextlib.suppress(OSError, EOFError):
                link.send(("place", self._placement(link)))
                return link.receive()

    def _told_of_losses(self, link, code, order):
        first = self.parts[link.places[0]].first_row
        return (
            f"{self.n_lost} workers were lost, the last one (exit code {code}) with the part that begins at row"
            f" {first}, in the order {order!r}: look for a lack of memory, or allow more losses,"
            f" ProcessEngine({self.n_workers}, max_lost={4 * self.n_workers})"
        )


class _Link:
    """A worker process, and the connection to it."""

    def __init__(self, places: list[int]) -> None:
        self.places = places
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), name="expfam-worker", daemon=True)
        self.process.start()
        other.close()
        self.is_broken, self._n_awaited = False, 0

    def send(self, order: Any) -> None:
        """Send an order, after dropping the answers to orders that were given up."""
        while self._n_awaited:
            self.receive()
        self._n_awaited += 1
        self._whole(self.connection.send_bytes, dumps(order))

    def has_answer(self, seconds: float) -> bool:
        """Wait some time for an answer; say whether one is there, or the worker is gone."""
        return self.is_broken or self.connection.poll(seconds)

    def receive(self) -> Any:
        """Return the answer to the first order that has none yet."""
        answer = self._whole(self.connection.recv_bytes)
        self._n_awaited -= 1
        return pickle.loads(answer)

    def _whole(self, transfer, *message):
        """Send or receive a message; after an interruption within one the connection is of no use."""
        if self.is_broken:
            raise EOFError("the connection was interrupted within a message")
        self.is_broken = True
        try:
            received = transfer(*message)
        except (OSError, EOFError):  # the worker is gone, which is another matter
            self.is_broken = False
            raise
        self.is_broken = False
        return received

    def end(self) -> int | None:
        """End the process and return its exit code."""
        self.connection.close()
        self.process.join(0.0 if self.is_broken else 0.5)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        return self.process.exitcode
