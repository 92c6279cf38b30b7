"""One thread pool for the whole package; the functions it runs release the gil.

Tasks are cut by the sizes of the data alone, never by the number of threads, and results come back in task order:
whatever is computed from them is the same for every `n_threads`. While a region runs, BLAS keeps to one thread.
The pool is grown on demand and forgotten in a forked child, where its threads do not exist. A region inside a task
runs in that task's thread: a worker that waited for the pool it occupies would wait for ever.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from itertools import pairwise
from numbers import Integral

N_SEGMENTS = 64  # sums over data are defined by this many contiguous segments, never by the schedule


class _BlasLimit:
    """The BLAS setting: lowered by each region that opens, restored by the last to close.

    It belongs to the process in some libraries and in part to the thread that set it in others (OpenBLAS 0.3.31); so
    every region sets it, and a thread whose region was not the last to close has its own restored with its next one.
    """

    def __init__(self):
        self._lock, self._controller, self._limiter, self._n_regions = threading.Lock(), None, None, 0
        self._n_modules = 0  # when the controller looked for libraries
        self._thread = threading.local()  # has `lowered` where a thread left a region with the setting still low

    def open(self):
        with self._lock:
            if self._n_regions == 0 and self._n_modules != len(sys.modules):
                self._find_libraries()
            limiter = self._controller.limit(limits=1, user_api="blas")
            if self._n_regions == 0 and not getattr(self._thread, "lowered", False):
                self._limiter = limiter
            self._n_regions += 1

    def _find_libraries(self):
        """Those loaded by now; SciPy and others bring a BLAS of their own with a module that is imported late."""
        from threadpoolctl import ThreadpoolController

        self._controller, self._n_modules = ThreadpoolController(), len(sys.modules)

    def close(self):
        with self._lock:
            self._n_regions -= 1
            self._thread.lowered = self._n_regions > 0
            if self._n_regions == 0:
                self._limiter.restore_original_limits()


_lock = threading.Lock()
_pool = None
_pool_size = 0
_blas = _BlasLimit()
_worker = threading.local()  # has `busy` in a thread of the pool


def _forget():
    global _lock, _pool, _pool_size, _blas, _worker
    _lock, _pool, _pool_size, _blas, _worker = threading.Lock(), None, 0, _BlasLimit(), threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def resolve_n_threads(n_threads):
    """Number of threads to use: None means one, -1 all available cores.

    Parameters
    ----------
    n_threads : int or None

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Unless it is None, -1 or positive.
    """
    if n_threads is None:
        return 1
    if n_threads == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not isinstance(n_threads, (int, float, Integral)) or n_threads < 1 or n_threads != int(n_threads):
        raise ValueError(f"n_threads must be a positive integer, -1 (all cores) or None (one); got {n_threads!r}")
    return int(n_threads)


@contextmanager
def single_blas():
    """Context in which BLAS uses one thread; contexts of several threads may overlap."""
    blas = _blas
    blas.open()
    try:
        yield
    finally:
        if blas is _blas:  # else this is a child forked inside the region, whose lock may be held by a thread it lacks
            blas.close()


def _submit(work, n_threads, futures):
    """Append to `futures` those of ``n_threads - 1`` calls of `work` in the pool, grown first where it is too small.

    All under the lock: a pool that another region replaces with a larger one takes no work any more.
    """
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < n_threads:
            if _pool is not None:
                _pool.shutdown(wait=False)  # running regions keep their futures
            _pool, _pool_size = ThreadPoolExecutor(n_threads, thread_name_prefix="expfam"), n_threads
        futures.extend(_pool.submit(work) for _ in range(n_threads - 1))


class _Region:
    """The tasks of one call of `run`: each thread takes the next one, until none is left or one has failed."""

    def __init__(self, function, tasks):
        self.function, self.tasks = function, tasks
        self.results, self.failures = [None] * len(tasks), []  # failures: (number of the task, exception)
        self._numbers = iter(range(len(tasks)))
        self._changed = threading.Condition(threading.Lock())
        self._n_helpers, self._closed = 0, False

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
            except BaseException as error:  # handed to the caller of `run`
                self.failures.append((index, error))

    def help(self):
        """Run tasks in a thread of the pool, unless the region is closed."""
        with self._changed:
            if self._closed:
                return
            self._n_helpers += 1
        try:
            self.work()
        finally:
            with self._changed:
                self._n_helpers -= 1
                self._changed.notify_all()

    def close(self, futures):
        """Wait until no helper runs a task; none begins one afterwards.

        Helpers are counted beside their futures: a `submit` that fails may have handed its work over before.
        A Ctrl-C while waiting is a failure of the region, but the wait goes on.
        """
        while True:
            try:
                wait(futures)
                with self._changed:
                    self._closed = True
                    self._changed.wait_for(lambda: not self._n_helpers)
                return
            except BaseException as error:
                self.failures.append((-1, error))


def run(function, tasks, n_threads=1, *, uses_blas=True):
    """Results of ``function(*task)`` for every task, in the order of the tasks.

    No task is running when it returns or raises, whatever has failed. Where the system gives no further thread, the
    threads that there are do all tasks.

    Parameters
    ----------
    function : callable
        Should release the gil for most of its time.
    tasks : sequence of tuple
        Arguments of each call; cut by the sizes of the data, not by `n_threads`.
    n_threads : int or None
        As in `resolve_n_threads`. The caller's is one of them.
    uses_blas : bool
        False where no task calls BLAS: its number of threads is then left alone, which saves some 25 us.

    Returns
    -------
    list

    Examples
    --------
    >>> from expfam.structures.ground.threads import run
    >>> run(pow, [(2, 3), (3, 2)], n_threads=2)
    [8, 9]
    """
    tasks = list(tasks)
    n_threads = min(resolve_n_threads(n_threads), max(len(tasks), 1))
    with single_blas() if uses_blas else nullcontext():
        if n_threads == 1 or hasattr(_worker, "busy"):
            return [function(*task) for task in tasks]
        # Workers take the next task from a shared counter, so at most n_threads run at once however large the pool.
        region, futures = _Region(function, tasks), []
        try:
            with suppress(RuntimeError):  # no thread to be had: the others do its share
                _submit(region.help, n_threads, futures)
            region.work()
        except BaseException as error:  # Ctrl-C in the caller: no new task is begun, running ones end
            region.failures.append((-1, error))
        finally:
            region.close(futures)
            vars(_worker).pop("busy", None)  # absent in a child forked by a task
        if region.failures:
            raise min(region.failures, key=lambda failure: failure[0])[1]
        return region.results


def segments(n_rows, n_segments=N_SEGMENTS):
    """Bounds of the contiguous segments over which sums of data are defined.

    Parameters
    ----------
    n_rows, n_segments : int

    Returns
    -------
    list of (start, stop)
        At most `n_segments`, none of them empty.
    """
    bounds = [n_rows * s // n_segments for s in range(n_segments + 1)]
    return [(start, stop) for start, stop in pairwise(bounds) if stop > start]
