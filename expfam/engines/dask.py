"""Engine whose workers are those of a Dask cluster; lost parts are made again elsewhere.

Rows are futures, which the scheduler may copy, move and make again. What the engine makes of them lives in the worker
processes, by run and part, and is no future: tasks that were run again would change it twice. Orders are tasks at the
workers that hold the rows; answers are fetched, and values are sent, so no task depends on a task that changed a part.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

try:
    import dask
    import distributed
except ImportError as error:
    raise ImportError("rows on a Dask cluster need dask: pip install 'expfam[dask]'") from error

from expfam.amounts import counted
from expfam.engines.base import Engine
from expfam.engines.journal import Entry, Journal, dumps
from expfam.engines.parts import Part, Resident, added
from expfam.engines.watch import Watch
from expfam.engines.worker import Failure, Worker, checked_answers
from expfam.errors import EngineError

_JOURNAL_BYTES = 1 << 28
_LARGE = 1 << 20  # bytes of an order from which on it goes from worker to worker
_PAST_BYTES = 1 << 26  # of the changes that the scheduler keeps with results, to make lost ones again
_LOOK_EVERY = 0.5  # seconds between looks at the list of workers
_LOST = (distributed.CancelledError, distributed.client.FutureCancelledError, distributed.scheduler.KilledWorker)


class DaskEngine(Engine):
    """Engine of a Dask cluster.

    If a worker dies, its rows are made again by the scheduler, other workers repeat the changes that were made to them,
    and the order is given again. So the answers are those that would have come without the loss.

    Parameters
    ----------
    client : distributed.Client, optional
        The current one if not given.
    max_lost : int, optional
        The run ends with an `EngineError` after this many losses of workers; 4 for each worker if not given.
    patience : float
        Seconds to wait for a worker where there is none, and for rows that are made again.

    Attributes
    ----------
    n_lost : int, number of workers that were lost

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from expfam.engines import DaskEngine, cut_rows
    >>> from expfam.samplers.shards.shard import Shard
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:    # doctest: +SKIP
    ...     with DaskEngine(client) as engine:
    ...         engine.place(cut_rows(np.ones((6, 2)), 2, grain=1), Shard)
    ...         print([kind["n_rows"] for kind in engine.each("kind")])
    [3, 3]

    Notes
    -----
    The source of a part may be an array, a function that returns one, a delayed value or a future of Dask. An array is
    sent to the cluster by the client, which keeps it.
    """

    name = "dask"

    def __init__(
        self, client: distributed.Client | None = None, *, max_lost: int | None = None, patience: float = 300.0
    ) -> None:
        self.client = distributed.get_client() if client is None else client
        self.max_lost, self.patience, self.n_lost = max_lost, patience, 0
        self.parts: list[Part] = []
        self._run, self._journal = "", Journal(_JOURNAL_BYTES)
        self._rows: list[Any] = []  # futures of the rows
        self._home: dict[int, str] = {}  # address of the worker that holds a part
        self._make: Any = None
        self._n_workers = 1
        self._watch = Watch("end its process, so that other workers take its rows")

    def _place(self, make: Callable[[Any, int], Any]) -> None:
        self._forget()
        self._run, self._make, self._journal = uuid.uuid4().hex, make, Journal(_JOURNAL_BYTES)
        self._rows, self._home, self.n_lost = [self._future(part) for part in self.parts], {}, 0
        self._n_workers = len(self.client.nthreads())
        self._settle()

    def each(self, method: str, *values: Any) -> list[Any]:
        """Return the answers of all parts, in the order of the rows."""
        call = dumps((method, values))
        found = {place: answer for group in self._all("each", (call,), method) for place, answer in group.items()}
        return [found[place] for place in range(len(self.parts))]

    def total(self, method: str, *values: Any) -> Any:
        """Return the sum of the answers of all parts; each worker adds up its own."""
        return added(self._all("total", (dumps((method, values)),), method))

    def futures(self, method: str) -> list[distributed.Future]:
        """Return the answer of each part as a future that stays on its worker.

        If the worker dies, also after `close`, the rows are read again, the changes of the part are repeated, and the
        question is asked again. Where the changes take more than 64 MB, the future raises an `EngineError` instead.
        """
        self._settle()
        call, is_short = dumps((method, ())), self._journal.n_bytes <= _PAST_BYTES
        # A dependency without restrictions: Dask forgets restricted tasks without any when its last worker dies.
        shared = self._lasting([entry.call for entry in self._journal.entries] if is_short else [])
        made = []
        for place, part in enumerate(self.parts):
            past = _Past(self._make, self._journal.base, *self._journal.of_part(place)) if is_short else None
            where = (self._run, call, place, part.first_row, part.n_rows)
            rows = self._rows[place] if is_short else None
            made.append(self._near(answer_one, place, (*where, past, shared, rows)))
        distributed.wait(made, timeout=self.patience)
        return made

    def mapped(self, function: Callable[..., Any], *values: Any) -> list[distributed.Future]:
        """Return what a function makes of the rows of each part, and of the values, as futures.

        They stay on the workers. Lost ones are made again from the rows, also after `close`.

        Parameters
        ----------
        function : callable
            Called as ``function(rows, *values)`` on the workers.
        *values
            Further arguments.

        Returns
        -------
        list of Future
            One for each part.
        """
        self._settle()
        sent = self._lasting(values)
        made = [self._near(apply_to_rows, place, (function, rows, sent)) for place, rows in enumerate(self._rows)]
        distributed.wait(made, timeout=self.patience)
        return made

    def _lasting(self, value):
        """Return a future of a value that the scheduler can make again."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(pickle.loads, dumps(value), pure=False)

    def _near(self, function, place, arguments):
        """Submit a task to the worker that holds a part; another one may repeat it."""
        return self.client.submit(
            function, *arguments, workers=[self._home[place]], allow_other_workers=True, pure=False
        )

    def change(self, method: str, *values: Any, by_part: Sequence[Any] | None = None) -> Any:
        """Have all parts make a change, and return the sum of their answers, or None."""
        entry = Entry.of(method, values, by_part)

        def make(number):
            return added(self._all("change", (number, entry.call), method, entry.by_part))

        def undo(number):
            if self.n_lost <= self._most_losses():  # else there are no workers to ask
                self._all("take_back", (number,), "take_back")

        return self._journal.record(entry, make=make, undo=undo, saved=lambda: self.each("saved"))

    def close(self) -> None:
        """Drop all parts; the cluster goes on."""
        self._forget()
        self.parts, self._make = [], None

    def _forget(self):
        if self._run and self.client.status == "running":
            with contextlib.suppress(Exception):  # workers may be ending
                self.client.run(forget, self._run)
        self._rows, self._home, self._run = [], {}, ""

    # ---- where the parts are -----------------------------------------------------------------------------------------

    def _future(self, part):
        """Return the rows of a part as a future."""
        source = part.source
        if isinstance(source, distributed.Future):
            return source
        if hasattr(source, "__dask_graph__"):
            return self.client.compute(source)
        if callable(source):
            return self.client.submit(source, pure=False)
        return self.client.scatter(source, hash=False)

    def _addresses(self):
        """Return the addresses of the workers that the scheduler knows now."""
        return set(self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"])

    def _most_losses(self):
        return 4 * max(self._n_workers, 1) if self.max_lost is None else self.max_lost

    def _settle(self):
        """Make sure that each part has a worker that holds it as it is after the journal."""
        deadline = time.monotonic() + self.patience
        while True:
            homeless = [place for place in range(len(self.parts)) if place not in self._home]
            if not homeless:
                return
            if time.monotonic() > deadline:
                raise EngineError(
                    f"no worker holds the rows from {self.parts[homeless[0]].first_row} on after {self.patience:g}"
                    " seconds: start workers, or wait longer, DaskEngine(client, patience=3600)"
                )
            groups = defaultdict(list)
            for place, address in self._found(homeless).items():
                groups[address].append(place)
            self._make_parts(groups)

    def _found(self, places):
        """Return the address of a worker with the rows of each part, for those that have one."""
        for place in places:
            future = self._rows[place]
            if future.status == "error" and not isinstance(future.exception(), _LOST):
                future.result()  # the rows cannot be read
            if future.status in ("lost", "cancelled", "error"):
                self._rows[place] = self._future(self.parts[place])
        with contextlib.suppress(distributed.TimeoutError, TimeoutError, *_LOST):
            distributed.wait([self._rows[place] for place in places], timeout=_LOOK_EVERY)
        holders = self.client.who_has([self._rows[place] for place in places])
        alive, load = self._addresses(), defaultdict(int)
        for address in self._home.values():
            load[address] += 1
        found = {}
        for place in places:
            live = sorted(address for address in holders.get(self._rows[place].key, ()) if address in alive)
            if live:
                found[place] = min(live, key=lambda address: (load[address], address))
                load[found[place]] += 1
        return found

    def _make_parts(self, groups):
        """Make parts at their workers, and bring them to where the journal ends."""
        futures = {}
        for address, places in groups.items():
            first_rows = [self.parts[place].first_row for place in places]
            history = self._sent(dumps(self._journal.of_parts(places)), [address])
            rows = [self._rows[place] for place in places]
            arguments = (self._run, self._make, places, first_rows, history, *rows)
            futures[self._submit(make_parts, address, arguments)] = (address, places)
        for future, answer in self._answers(futures):
            address, places = futures[future]
            if isinstance(answer, Failure):
                answer.throw(self.parts[answer.part].first_row)
            if answer is not LOST:
                self._home.update(dict.fromkeys(places, address))

    # ---- orders and answers ------------------------------------------------------------------------------------------

    def _all(self, order, values, kind, by_part=None):
        """Give all parts an order; return the answers of the workers, or raise the first failure."""
        self._watch.begin(kind)
        waiting, answers = set(range(len(self.parts))), []
        while waiting:
            self._settle()
            groups = defaultdict(list)
            for place in sorted(waiting):
                groups[self._home[place]].append(place)
            sent = self._sent(dumps(values), list(groups))
            futures = {}
            for address, places in groups.items():
                own = None if by_part is None else {place: by_part[place] for place in places}
                futures[self._submit(answer_order, address, (self._run, order, sent, own, places))] = (address, places)
            for future, answer in self._answers(futures):
                address, places = futures[future]
                if answer is LOST:
                    self._lose(address)
                    continue
                answers.append(answer)
                waiting -= set(places)
        self._watch.end()
        return checked_answers(answers, self.parts)

    def _submit(self, function, address, arguments):
        return self.client.submit(function, *arguments, workers=[address], allow_other_workers=False, pure=False)

    def _sent(self, message, addresses):
        """Return a message as an argument of tasks: large ones go from worker to worker."""
        if len(message) < _LARGE or not addresses:
            return message
        try:
            return self.client.scatter(message, workers=addresses, broadcast=True, hash=False)
        except (*_LOST, ValueError, TimeoutError):  # a worker has just gone
            return message

    def _answers(self, futures):
        """Yield each future with its answer, or with LOST where its worker is gone."""
        waiting = set(futures)
        while waiting:
            with contextlib.suppress(distributed.TimeoutError, TimeoutError, *_LOST):
                distributed.wait(list(waiting), timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
            done = {future for future in waiting if future.done()}
            if not done:
                alive = self._addresses()
                done = {future for future in waiting if futures[future][0] not in alive}
                self._watch.look(f"the worker {futures[future][0]}" for future in waiting - done)
            for future in done:
                waiting.discard(future)
                yield future, self._answer(future, futures[future][0])

    def _answer(self, future, address):
        """Return the answer of a task that is done, or LOST.

        Where the worker dies before the answer has left it, Dask waits for this worker to do the task again.
        """
        if future.status != "finished":
            error = future.exception() if future.status == "error" else None
            future.cancel()
            if error is not None and not isinstance(error, (*_LOST, OSError)):
                raise error
            return LOST
        seconds, deadline = _LOOK_EVERY, time.monotonic() + self.patience
        while True:
            try:
                return future.result(timeout=seconds)
            except (distributed.TimeoutError, TimeoutError):  # is an OSError too
                if address not in self._addresses() or time.monotonic() > deadline:
                    future.cancel()
                    return LOST
                seconds *= 2.0  # a large answer begins anew
            except (*_LOST, OSError):
                return LOST

    def _lose(self, address):
        """Forget which parts a worker holds."""
        self._home = {place: home for place, home in self._home.items() if home != address}
        self.n_lost += 1
        if self.n_lost > self._most_losses():
            raise EngineError(
                f"workers were lost {counted(self.n_lost, 'time')}, the last one at {address}: look at their logs for a"
                f" lack of memory, or allow more losses, DaskEngine(client, max_lost={4 * self.n_lost})"
            )


# ---- in the workers --------------------------------------------------------------------------------------------------

LOST = "lost"  # stands for the answer of a worker that is gone, or no longer holds a part
_runs: dict[str, tuple[threading.Lock, Worker]] = {}
_lock = threading.Lock()


def _held(run):
    with _lock:
        return _runs.setdefault(run, (threading.Lock(), Worker()))


def make_parts(run: str, make: Any, places: list[int], first_rows: list[int], history: bytes, *rows: Any) -> Any:
    """Make parts in this process, and repeat the changes of the journal.

    Parameters
    ----------
    run : str
        Name of the run.
    make : callable
        Called as ``make(rows, first_row)``.
    places : list of int
        Numbers of the parts.
    first_rows : list of int
        Number of the first row of each.
    history : bytes
        Pickled journal: what was saved, and the changes since.
    *rows
        Rows of each part.
    """
    lock, worker = _held(run)
    parts = {place: Part(first, int(X.shape[0]), X) for place, first, X in zip(places, first_rows, rows)}
    with lock:
        return worker.place(make, parts, pickle.loads(history))


def answer_order(run: str, order: str, values: bytes, own: dict[int, bytes] | None, places: list[int]) -> Any:
    """Carry out an order; return LOST if this process does not hold all of the parts.

    Parameters
    ----------
    run : str
        Name of the run.
    order : {"each", "total", "change", "take_back"}
        Name of a method of `Worker`.
    values : bytes
        Its first arguments, pickled.
    own : dict of int to bytes, or None
        A further argument of a change for each part, pickled.
    places : list of int
        Numbers of the parts.
    """
    lock, worker = _held(run)
    with lock:
        if any(place not in worker.residents for place in places):
            return LOST
        arguments = (*pickle.loads(values), own) if order == "change" else pickle.loads(values)
        return getattr(worker, order)(*arguments, places)


class _Past(NamedTuple):
    """How a part came to be as it is, but for what all parts were told alike."""

    make: Any
    base: int
    saved: bytes | None
    own: list[bytes | None]

    def resident(self, calls: list[bytes], part: Part, place: int) -> Resident:
        """Make the part again, and repeat its changes."""
        entries = [(call, None if own is None else {place: own}) for call, own in zip(calls, self.own)]
        worker = Worker()
        saved = None if self.saved is None else {place: self.saved}
        failure = worker.place(self.make, {place: part}, (self.base, saved, entries))
        if failure is not None:
            failure.throw(part.first_row)
        return worker.residents[place]


def answer_one(
    run: str, call: bytes, place: int, first_row: int, n_rows: int, past: _Past | None, calls: Any, rows: Any
) -> Any:
    """Return the answer of one part; make the part again if this process does not hold it."""
    method, values = pickle.loads(call)
    lock, worker = _runs.get(run, (threading.Lock(), Worker()))
    with lock:
        resident = worker.residents.get(place)
        if resident is not None:
            return resident.ask(method, values)
    if past is None:
        raise EngineError(
            f"the results of the rows {first_row} to {first_row + n_rows - 1} were lost with the worker that held them,"
            " and the steps that made them were too large to keep: write fit(X) once more, and save the results as soon"
            " as it ends, labels_.to_zarr('labels')"
        )
    return past.resident(calls, Part(first_row, n_rows, rows), place).ask(method, values)


def apply_to_rows(function: Callable[..., Any], rows: Any, values: tuple[Any, ...]) -> Any:
    """Return what a function makes of rows."""
    return function(rows, *values)


def forget(run: str) -> None:
    """Drop the parts of a run."""
    with _lock:
        _runs.pop(run, None)
