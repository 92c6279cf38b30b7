"""One thread pool for the whole package, for functions that release the gil.

Tasks are cut by the sizes of the data alone, never by the number of threads, and results are returned in task order, so
results are the same for every `n_threads`. One call of `run` is a region. While a region runs, BLAS uses one thread.
The pool grows on demand. A forked child starts with a new pool, because the threads of the old one do not exist there.
A region inside a task runs in the thread of that task: a worker that waits for its own pool would wait for ever.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from functools import lru_cache
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from expfam.structures.ground.spin import Watched
from expfam.structures.ground.team import Team

N_SEGMENTS = 64  # sums over data are defined by this number of contiguous segments, never by the schedule
_WATCHING = 1e-3  # seconds for which a thread watches, before it sleeps: to wake takes a twentieth of this


class _BlasLimit:
    """Number of BLAS threads: each region lowers it, the last one to close restores it.

    In some libraries the setting belongs to the process, in others partly to the thread that made it (OpenBLAS 0.3.31).
    So every region makes the setting. A thread whose region was not the last one to close gets its own setting restored
    when its next region closes. Threads of the pool, which run tasks alone, keep the setting that they make.
    """

    def __init__(self):
        self._lock, self._n_regions = threading.Lock(), 0
        self._libraries, self._former = [], []  # those of BLAS; each with its number of threads before
        self._n_modules = 0  # number of loaded modules when the libraries were last looked for
        # attributes `lowered`: the thread left a region with the setting low; `depth`: regions that it is in; `held`:
        # `_n_modules` when a thread of the pool made the setting
        self._thread = threading.local()

    def open(self):
        depth = getattr(self._thread, "depth", 0)
        if depth == 0:  # else this thread has made the setting, and no region restores it while another is open
            self._lower()
        self._thread.depth = depth + 1

    def _lower(self):
        with self._lock:
            if self._n_regions == 0 and self._n_modules != len(sys.modules):
                self._find_libraries()
            if self._n_regions == 0 and not getattr(self._thread, "lowered", False):
                self._former = [(library, library.get_num_threads()) for library in self._libraries]
            for library in self._libraries:
                library.set_num_threads(1)
            self._n_regions += 1

    def _find_libraries(self):
        """Find the BLAS libraries that are loaded now.

        SciPy and other packages load their own BLAS with modules that are imported late.
        """
        from threadpoolctl import ThreadpoolController

        found = ThreadpoolController().lib_controllers
        self._libraries, self._n_modules = [one for one in found if one.user_api == "blas"], len(sys.modules)

    def hold(self):
        """Make the setting of a thread of the pool, while a region is open."""
        if getattr(self._thread, "held", 0) != self._n_modules:
            for library in self._libraries:
                library.set_num_threads(1)
            self._thread.held = self._n_modules

    def close(self):
        self._thread.depth -= 1
        if self._thread.depth:
            return
        with self._lock:
            self._n_regions -= 1
            self._thread.lowered = self._n_regions > 0
            if self._n_regions == 0:
                for library, n_threads in self._former:
                    library.set_num_threads(n_threads)


_lock = threading.Lock()
_pool = None
_pool_size = 0
_blas = _BlasLimit()
_worker = threading.local()  # attribute `busy`: the thread is running tasks of a region
_begun = Watched()  # number of regions that have helpers


def _forget():
    global _lock, _pool, _pool_size, _blas, _worker
    _lock, _pool, _pool_size, _blas, _worker = threading.Lock(), None, 0, _BlasLimit(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def resolve_n_threads(n_threads: int | None) -> int:
    """Return the number of threads to use: None means one, -1 all available cores."""
    if n_threads is None:
        return 1
    if n_threads == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not isinstance(n_threads, (int, float, Integral)) or n_threads < 1 or n_threads != int(n_threads):
        raise ValueError(f"n_threads must be a positive integer, -1 (all cores) or None (one); got {n_threads!r}")
    return int(n_threads)


class single_blas:
    """Limit BLAS to one thread in the block; blocks of several threads may overlap."""

    def __enter__(self) -> None:
        self._blas = _blas
        self._blas.open()

    def __exit__(self, *error: object) -> None:
        # Else this is a child forked inside the region: a thread that does not exist here may hold the old lock.
        if self._blas is _blas:
            self._blas.close()


def _submit(work, n_threads):
    """Submit ``n_threads - 1`` calls of `work` to the pool.

    A pool that is too small is replaced by a larger one first. All this happens under the lock, because a pool that
    another region has replaced accepts no more work.
    """
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < n_threads:
            if _pool is not None:
                _pool.shutdown(wait=False)  # what was submitted is still run
            _pool, _pool_size = ThreadPoolExecutor(n_threads, thread_name_prefix="expfam"), n_threads
        for _ in range(n_threads - 1):
            _pool.submit(work)
        _begun.change()


class _Region:
    """Tasks of one call of `run`.

    Each thread runs the next task until no task is left or one has failed.
    """

    def __init__(self, function, tasks, uses_blas):
        self.function, self.tasks, self.uses_blas = function, tasks, uses_blas
        self.results, self.failures = [None] * len(tasks), []  # a failure: (number of the task, exception)
        self._numbers = iter(range(len(tasks)))
        self._changed = threading.Condition(threading.Lock())
        self._n_helpers, self._closed = 0, False
        self._ended = Watched()  # number of helpers that have run their last task

    def work(self):
        """Run tasks in this thread."""
        _worker.busy = True
        while not self.failures:
            with self._changed:
                index = next(self._numbers, None)
            if index is None:
                return
            try:
                self.results[index] = self.function(*self.tasks[index])
            except BaseException as error:  # raised again in the caller of `run`
                self.failures.append((index, error))

    def help(self):
        """Run tasks in a thread of the pool; return immediately if the region is closed."""
        with self._changed:
            if self._closed:
                return
            self._n_helpers += 1
        try:
            if self.uses_blas:
                _blas.hold()
            self.work()
        finally:
            with self._changed:
                self._n_helpers -= 1
                self._changed.notify_all()
                begun = _begun.value
            self._ended.change()
            _begun.watch(begun, _WATCHING)

    def close(self):
        """Wait until no helper runs a task; afterwards no helper starts one.

        The futures of the pool are not waited for: a helper that has not begun is not needed any more. A Ctrl-C during
        the wait counts as a failure of the region, but the wait goes on.
        """
        while True:
            try:
                with self._changed:
                    self._closed = True
                    waits, ended = self._n_helpers > 0, self._ended.value
                if waits:
                    self._ended.watch(ended, _WATCHING)
                with self._changed:
                    self._changed.wait_for(lambda: not self._n_helpers)
                return
            except BaseException as error:
                self.failures.append((-1, error))


def run(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_threads: int | None = 1,
    *,
    uses_blas: bool = True,
) -> list[Any]:
    """Return the results of ``function(*task)`` for every task, in the order of the tasks.

    When `run` returns or raises, no task is running any more, also after an error. If the system cannot start another
    thread, the existing threads run all tasks.

    Parameters
    ----------
    function : callable
        It should release the gil for most of its time.
    tasks : iterable of tuple
        Arguments of each call. Cut tasks by the sizes of the data, not by `n_threads`.
    n_threads : int or None
        Largest number of threads; the thread of the caller is one of them.
    uses_blas : bool
        False if no task calls BLAS: the number of BLAS threads is then not changed, which saves about 25 us.

    Returns
    -------
    list
    """
    tasks = list(tasks)
    n_threads = min(resolve_n_threads(n_threads), max(len(tasks), 1))
    with single_blas() if uses_blas else nullcontext():
        if n_threads == 1 or hasattr(_worker, "busy"):
            return [function(*task) for task in tasks]
        # Workers get the next task from a shared counter, so at most n_threads run together, however large the pool is.
        region = _Region(function, tasks, uses_blas)
        try:
            with suppress(RuntimeError):  # no further thread: the others run its tasks
                _submit(region.help, n_threads)
            region.work()
        except BaseException as error:  # Ctrl-C in the caller: no new task starts, running ones end
            region.failures.append((-1, error))
        finally:
            region.close()
            vars(_worker).pop("busy", None)  # the attribute is absent in a child forked by a task
        if region.failures:
            raise min(region.failures, key=lambda failure: failure[0])[1]
        return region.results


@contextmanager
def team_of(n_threads: int | None, *, uses_blas: bool = False) -> Iterator[Team]:
    """Let threads of the pool serve a `Team` in the block.

    It is for loops that are over before a thread of the pool wakes. In a task of `run` the caller works alone. Results
    must not depend on the number of threads. With `uses_blas` each thread calls a BLAS of one thread.
    """
    team = Team(1 if hasattr(_worker, "busy") else resolve_n_threads(n_threads))

    def serve():
        _blas.hold()
        team.serve()

    with single_blas() if uses_blas else nullcontext():
        try:
            if team.n_threads > 1:
                with suppress(RuntimeError):  # no further thread: the caller does all items
                    _submit(serve if uses_blas else team.serve, team.n_threads)
            yield team
        finally:
            team.end()


def segments(n_rows: int, n_segments: int = N_SEGMENTS) -> list[tuple[int, int]]:
    """Return the bounds of the contiguous segments over which sums of data are defined.

    They are pairs (start, stop), at most `n_segments`, none of them empty.
    """
    return list(_bounds_of_segments(n_rows, n_segments))


@lru_cache(maxsize=64)  # a pass over few rows takes as long as the bounds
def _bounds_of_segments(n_rows: int, n_segments: int) -> tuple[tuple[int, int], ...]:
    bounds = [n_rows * s // n_segments for s in range(n_segments + 1)]
    return tuple((start, stop) for start, stop in pairwise(bounds) if stop > start)


# ---- reading of rows -------------------------------------------------------------------------------------------------

# Families, which may be those of others, stand between the callers who know this number and the functions that read.
READERS: ContextVar[int] = ContextVar("threads that read rows", default=1)
_PART_CELLS = 1 << 19  # least number of cells that a thread is to read: they take some tenths of a millisecond


class _Readers:
    """Threads that read rows in one block of code; a team begins when it is first asked for."""

    def __init__(self, n_threads):
        self.n_threads, self._team, self._served = n_threads, None, ExitStack()

    def team(self):
        if self._team is None:
            self._team = self._served.enter_context(team_of(self.n_threads))
        return self._team

    def leave(self):
        """End the team, whose threads are then free for other regions."""
        self._team = None
        self._served.close()


_reading: ContextVar[_Readers | None] = ContextVar("team that reads rows", default=None)


def readers(n_cells: int) -> Team:
    """Return the team that reads so many cells.

    It is the caller alone where they are few, or where one thread reads rows.

    >>> from expfam.structures.ground.threads import readers, rows_read_by
    >>> with rows_read_by(2):
    ...     readers(1 << 21).n_threads, readers(100).n_threads
    (2, 1)
    >>> readers(1 << 21).n_threads
    1
    """
    found = _reading.get()
    if found is None or READERS.get() == 1 or n_cells < 2 * _PART_CELLS:
        return Team(1)
    return found.team()


@contextmanager
def rows_read_by(n_threads: int | None) -> Iterator[None]:
    """Let several threads read rows in the block; results have the same bits for any number.

    >>> from expfam.structures.ground.threads import of_parts, rows_read_by
    >>> with rows_read_by(2):
    ...     of_parts(lambda start, stop: stop - start, 100, 1 << 21)
    [50, 50]
    >>> of_parts(lambda start, stop: stop - start, 100, 1 << 21)
    [100]
    """
    found = _Readers(resolve_n_threads(n_threads))
    tokens = READERS.set(found.n_threads), _reading.set(found)
    try:
        yield
    finally:
        READERS.reset(tokens[0])
        _reading.reset(tokens[1])
        found.leave()


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
    n_parts = min(READERS.get(), n_cells // _PART_CELLS)
    if n_parts < 2:
        return [function(0, size)]
    found = _reading.get()
    if found is not None:
        found.leave()
    silenced = np.geterr()  # NumPy 1.26 keeps it for each thread

    def of_part(context: Context, start: int, stop: int) -> Any:
        return context.run(_read_alone, function, start, stop, silenced)

    return run(of_part, [(copy_context(), *bounds) for bounds in segments(size, n_parts)], n_parts)


def _read_alone(function, start, stop, silenced):
    READERS.set(1)
    with np.errstate(**silenced):
        return function(start, stop)
