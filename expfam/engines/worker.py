"""What a worker process does: it holds some parts and answers what it is asked about them."""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import TYPE_CHECKING, Any

from expfam.engines.journal import dumps
from expfam.engines.parts import Part, Resident, added
from expfam.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Failure:
    """Error of one part, with the text of its traceback, in a form that can be pickled."""

    def __init__(self, part: int, error: BaseException) -> None:
        self.part, self.text = part, "".join(traceback.format_exception(error))
        try:
            self.error: BaseException = pickle.loads(dumps(error))
        except Exception:  # an exception with arguments of its own may not come back
            self.error = EngineError(f"{type(error).__name__}: {error}")

    def throw(self, first_row: int) -> None:
        """Raise the error in this process; its cause names the part."""
        where = f"part {self.part}, which begins at row {first_row}, in its worker:\n{self.text}"
        raise self.error from EngineError(where)


def checked_answers(answers: list[Any], parts: Sequence[Part]) -> list[Any]:
    """Return the answers of workers, or raise the failure of the first part."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    if failures:
        first = min(failures, key=lambda failure: failure.part)
        first.throw(parts[first.part].first_row)
    return answers


class Worker:
    """The parts of one worker, by their numbers, and the questions that it understands."""

    def __init__(self) -> None:
        self.residents: dict[int, Resident] = {}

    def place(self, make: Any, parts: dict[int, Part], history: tuple[int, Any, list[Any]]) -> Any:
        """Make parts, and bring them to where the journal ends.

        Parameters
        ----------
        make : callable
            Called as ``make(rows, first_row)``.
        parts : dict of int to Part
            Parts by their numbers.
        history : tuple
            Number of changes when the parts were saved, what was saved of each part (or None), and the changes since.

        Returns
        -------
        Failure or None
        """
        base, saved, entries = history
        for place, part in parts.items():
            try:
                resident = self.residents[place] = Resident.of_part(make, part)
                if saved is not None:
                    resident.held.restore(pickle.loads(saved[place]))
                    resident.n_changes = base
            except Exception as error:
                return Failure(place, error)
        for number, (call, own) in enumerate(entries, base):
            answer = self.change(number, call, own, list(parts))
            if isinstance(answer, Failure):
                return answer
        return None

    def change(self, number: int, call: bytes, own: dict[int, bytes] | None, places: list[int]) -> Any:
        """Have parts make a change; return the sum of their answers, or the first failure.

        Parameters
        ----------
        number : int
            Of the change, from 0.
        call : bytes
            Method and arguments, pickled.
        own : dict of int to bytes, or None
            A further last argument for each part, pickled.
        places : list of int
            Numbers of the parts.
        """
        method, values = pickle.loads(call)
        answers = []
        for place in places:
            last = () if own is None else (pickle.loads(own[place]),)
            try:
                answers.append(self.residents[place].change(number, method, (*values, *last)))
            except Exception as error:
                return Failure(place, error)
        return added(answers)

    def take_back(self, number: int, places: list[int]) -> None:
        """Undo a change on the parts that have made it.

        Parameters
        ----------
        number : int
            Of the change.
        places : list of int
            Numbers of these parts.
        """
        for place in places:
            self.residents[place].take_back(number)

    def each(self, call: bytes, places: list[int]) -> Any:
        """Return the answers of the parts by their numbers, or the first failure."""
        method, values = pickle.loads(call)
        answers = {}
        for place in places:
            try:
                answers[place] = self.residents[place].ask(method, values)
            except Exception as error:
                return Failure(place, error)
        return answers

    def total(self, call: bytes, places: list[int]) -> Any:
        """Return the sum of the answers of the parts, or the first failure."""
        answers = self.each(call, places)
        return answers if isinstance(answers, Failure) else added(list(answers.values()))


def serve(connection: Any) -> None:
    """Answer the orders that come through a connection until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives the orders
    worker = Worker()
    while True:
        try:
            order, values = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError):
            return
        connection.send_bytes(dumps(getattr(worker, order)(*values)))
