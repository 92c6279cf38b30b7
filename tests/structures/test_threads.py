"""The thread pool: results in task order whatever the schedule, exceptions, nesting, forks, and the limit on BLAS."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from expfam.structures.ground import threads as _threads
from expfam.structures.ground.spin import Watched
from expfam.structures.ground.team import Team
from expfam.structures.ground.threads import (
    of_parts,
    readers,
    resolve_n_threads,
    rows_read_by,
    run,
    segments,
    single_blas,
    team_of,
)
from expfam.structures.rows.kmeans import RowTiles

TIMEOUT = 30.0  # seconds; a deadlock fails instead of hanging


def finish(function):
    """Result of a call in a thread of its own; fails when it does not end."""
    box = []

    def call():
        try:
            box.append((function(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    assert not thread.is_alive(), "the call did not end"
    result, error = box[0]
    if error is not None:
        raise error
    return result


def blas_threads():
    return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]


# ---- numbers that threads watch --------------------------------------------------------------------------------------


def test_a_watched_number_tells_of_its_change_before_the_time_is_up():
    number, begin = Watched(), time.perf_counter()
    thread = threading.Timer(0.05, number.change)
    thread.start()
    assert number.watch(0, TIMEOUT)
    assert time.perf_counter() - begin < TIMEOUT / 2
    thread.join()
    assert number.value == 1


def test_a_watched_number_that_stays_is_watched_for_the_given_time():
    number, begin = Watched(), time.perf_counter()
    assert not number.watch(0, 0.02)
    assert time.perf_counter() - begin >= 0.02


def test_no_change_of_many_threads_is_lost():
    number = Watched()

    def change():
        for _ in range(2000):
            number.change()

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert number.value == 8000


# ---- teams -----------------------------------------------------------------------------------------------------------


def test_threads_of_a_team_serve_until_it_ends():
    team = Team(2)
    thread = threading.Thread(target=team.serve, daemon=True)
    thread.start()
    time.sleep(0.02)
    assert thread.is_alive()
    team.end()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    team.serve()  # returns at once


def test_a_team_in_a_task_works_alone():
    def size():
        with team_of(3) as team:
            return team.n_threads

    assert size() == 3
    assert run(size, [(), ()], 2) == [1, 1]


def test_readers_are_one_team_until_parts_are_read():
    many = 1 << 21
    with rows_read_by(2):
        team = readers(many)
        assert readers(many) is team
        assert readers(100).n_threads == 1
        assert of_parts(lambda start, stop: readers(many).n_threads, 100, many) == [1, 1]
        other = readers(many)
        assert other is not team
        assert other.n_threads == 2
        with rows_read_by(1):
            assert readers(many).n_threads == 1
    assert readers(many).n_threads == 1
    for ended in (team, other):
        ended.serve()  # returns at once


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_a_team_does_each_item_once(n_threads):
    rows = np.random.default_rng(0).normal(size=(9000, 40)).astype(np.float32)
    tiles = RowTiles(rows)
    alone, shared = (tiles.seeds(60, np.random.default_rng(1), n_threads=n) for n in (1, n_threads))
    np.testing.assert_array_equal(alone, shared)


# ---- results and schedule --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [None, 1, 2, 3, 8, -1, np.int64(2), 2.0])
@pytest.mark.parametrize("n_tasks", [0, 1, 2, 7, 64])
def test_results_come_in_task_order(n_threads, n_tasks):
    def late(index):
        time.sleep(0.001 * ((index * 7) % 3))
        return index * index

    assert run(late, [(i,) for i in range(n_tasks)], n_threads) == [i * i for i in range(n_tasks)]


def test_tasks_may_be_any_iterable_of_arguments():
    assert run(pow, ((i, 2) for i in range(5)), 2) == [0, 1, 4, 9, 16]


def test_one_thread_is_the_callers():
    assert run(threading.get_ident, [(), ()], 1) == [threading.get_ident()] * 2
    assert run(threading.get_ident, [()], 8) == [threading.get_ident()]  # a single task needs no other


@pytest.mark.parametrize("n_threads", [2, 3])
def test_never_more_than_n_threads_at_once(n_threads):
    run(time.sleep, [(0.0,)] * 8, 8)  # a pool larger than the region below
    running, peak, lock = 0, 0, threading.Lock()

    def work():
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    run(work, [()] * 20, n_threads)
    assert peak <= n_threads


def test_tasks_do_run_side_by_side():
    barrier = threading.Barrier(2, timeout=TIMEOUT)  # passes only if two tasks are running at one time
    assert sorted(run(barrier.wait, [(), ()], 2)) == [0, 1]


# ---- numbers of threads ----------------------------------------------------------------------------------------------


def test_resolved_numbers():
    assert resolve_n_threads(None) == 1
    assert resolve_n_threads(5) == 5
    cores = resolve_n_threads(-1)
    assert 1 <= cores <= os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        assert cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("bad", [0, -2, 1.5, float("nan"), float("-inf")])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError):
        resolve_n_threads(bad)
    with pytest.raises(ValueError):
        run(abs, [(1,)], bad)


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_an_exception_reaches_the_caller_and_the_pool_lives(n_threads):
    def fail(index):
        if index == 3:
            raise ZeroDivisionError(f"task {index}")
        return index

    with pytest.raises(ZeroDivisionError, match="task 3"):
        run(fail, [(i,) for i in range(8)], n_threads)
    assert run(fail, [(0,), (1,), (2,)], n_threads) == [0, 1, 2]


def test_of_several_failures_the_first_task_is_reported():
    barrier = threading.Barrier(2, timeout=TIMEOUT)

    def fail(index):
        barrier.wait()  # both are running when the first one fails
        time.sleep(0.01 * (1 - index))
        raise ValueError(f"task {index}")

    with pytest.raises(ValueError, match="task 0"):
        run(fail, [(0,), (1,)], 2)


def test_no_task_begins_after_a_failure():
    begun = []

    def work(index):
        begun.append(index)
        if index == 0:
            raise RuntimeError("stop")
        time.sleep(0.01)

    with pytest.raises(RuntimeError, match="stop"):
        run(work, [(i,) for i in range(200)], 2)
    assert len(begun) < 200


# ---- the pool when it fails ------------------------------------------------------------------------------------------


@pytest.fixture
def pool_of(monkeypatch):
    """Has the package begin with a pool of the given class, and restores its own afterwards."""

    def begin(kind):
        monkeypatch.setattr(_threads, "ThreadPoolExecutor", kind)
        monkeypatch.setattr(_threads, "_pool", None)
        monkeypatch.setattr(_threads, "_pool_size", 0)

    return begin


class _Watched:
    """Tasks of which the first is short and the others long; tells whether one is still running."""

    def __init__(self):
        self.begun, self.ended, self.lock = 0, 0, threading.Lock()

    def __call__(self, seconds):
        with self.lock:
            self.begun += 1
        time.sleep(seconds)
        with self.lock:
            self.ended += 1


def test_a_pool_that_grows_takes_the_work_of_a_region_that_is_about_to_begin(pool_of):
    others = []

    class GrownMeanwhile(ThreadPoolExecutor):
        def submit(self, *args, **kwargs):
            if not others:  # another thread needs a larger pool just before the first work is submitted
                others.append(threading.Thread(target=run, args=(pow, [(2, 2)] * 8, 8), daemon=True))
                others[0].start()
                others[0].join(0.3)
            return super().submit(*args, **kwargs)

    pool_of(GrownMeanwhile)
    assert run(pow, [(2, 3), (3, 2)], 2) == [8, 9]
    others[0].join(TIMEOUT)
    assert not others[0].is_alive()


@pytest.mark.parametrize("hands_over", [False, True])
def test_no_task_runs_on_after_a_submit_has_failed(pool_of, hands_over):
    """The first worker has begun when the second one cannot be had, with or without its work being in the queue."""
    watched = _Watched()

    class FailsOnce(ThreadPoolExecutor):
        n_calls = 0

        def submit(self, *args, **kwargs):
            self.n_calls += 1
            if self.n_calls == 2 and not hands_over:
                time.sleep(0.02)
                raise MemoryError("no room for a future")
            future = super().submit(*args, **kwargs)
            if self.n_calls == 2 or hands_over:
                time.sleep(0.02)
                raise MemoryError("no room for a future")
            return future

    pool_of(FailsOnce)
    with pytest.raises(MemoryError, match="no room"):
        run(watched, [(0.1,)] * 6, 3)
    assert watched.begun == watched.ended > 0
    begun = watched.begun
    time.sleep(0.15)
    assert watched.begun == begun


@pytest.mark.parametrize("after", [0, 1, 2])
def test_fewer_threads_than_wanted_do_all_tasks(pool_of, after):
    class Short(ThreadPoolExecutor):
        n_calls = 0

        def submit(self, *args, **kwargs):
            self.n_calls += 1
            if self.n_calls > after:
                raise RuntimeError("can't start new thread")
            return super().submit(*args, **kwargs)

    pool_of(Short)
    assert run(pow, [(i, 2) for i in range(40)], 4) == [i * i for i in range(40)]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads on this system")
def test_a_second_interrupt_does_not_leave_tasks_running(default_interrupt):
    watched, main = _Watched(), threading.get_ident()
    both = threading.Barrier(2, timeout=TIMEOUT)

    def task(index):
        both.wait()
        if threading.get_ident() == main:
            return
        for _ in range(2):  # while the caller waits for this task
            time.sleep(0.05)
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        watched(0.0)

    with pytest.raises(KeyboardInterrupt):
        run(task, [(0,), (1,)], 2)
    assert watched.ended == 1


# ---- nesting and concurrency -----------------------------------------------------------------------------------------


def test_a_region_inside_a_task_ends():
    def inner(base):
        return sum(run(pow, [(base, 1), (base, 2)], 2))

    assert finish(lambda: run(inner, [(i,) for i in range(16)], 2)) == [i + i * i for i in range(16)]


def test_a_region_inside_a_task_uses_the_tasks_thread():
    def inner():
        return {threading.get_ident()} == set(run(threading.get_ident, [()] * 4, 4))

    assert all(finish(lambda: run(inner, [()] * 6, 2)))


def test_an_exception_inside_a_nested_region():
    def inner(index):
        return run(lambda: 1 // index, [()] * 2, 2)

    with pytest.raises(ZeroDivisionError):
        finish(lambda: run(inner, [(1,), (0,), (1,)], 2))


def test_regions_of_several_threads():
    results = {}

    def call(number):
        results[number] = [run(pow, [(number, k) for k in range(6)], 2 + number % 3) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert results == {number: [[number**k for k in range(6)]] * 20 for number in range(6)}


# ---- forks -----------------------------------------------------------------------------------------------------------

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
# Python 3.12 and later warn of forking beside threads: that it is safe here is what these tests are about.
quiet = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def _ends(pid):
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung"


@forks
@quiet
def test_a_forked_child_has_a_pool_of_its_own():
    assert run(pow, [(2, 3), (3, 2)], 2) == [8, 9]  # the parent's threads exist
    pid = os.fork()
    if pid == 0:
        os._exit(0 if run(pow, [(2, 3), (3, 2)], 2) == [8, 9] and _threads._pool_size == 2 else 1)
    assert _ends(pid) == 0
    assert run(pow, [(2, 3), (3, 2)], 2) == [8, 9]


@forks
@quiet
def test_a_fork_within_a_task():
    def fork():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if run(pow, [(2, 3), (3, 2)], 2) == [8, 9] else 1)
        return _ends(pid)

    assert finish(lambda: run(fork, [(), ()], 2)) == [0, 0]


@forks
@quiet
def test_a_fork_while_another_thread_opens_regions():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            run(abs, [(1,), (2,)], 2)

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                with single_blas():
                    os._exit(0 if run(abs, [(-1,), (-2,)], 2) == [1, 2] else 1)
            assert _ends(pid) == 0
    finally:
        stop.set()
        thread.join(TIMEOUT)


def _in_process(base):
    return run(pow, [(base, k) for k in range(4)], 2)


@forks
@quiet
def test_multiprocessing_by_fork():
    run(abs, [(1,), (2,)], 2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        result = pool.map_async(_in_process, range(4)).get(timeout=TIMEOUT)
    assert result == [[base**k for k in range(4)] for base in range(4)]


# ---- BLAS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def free_blas():
    """The setting of BLAS outside of regions, raised to two threads where there is one."""
    from threadpoolctl import threadpool_limits

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        if not before or max(before) < 2:
            pytest.skip("no BLAS whose threads can be set")
        yield before


@pytest.mark.parametrize("n_threads", [1, 2])
def test_blas_has_one_thread_in_a_region_and_its_own_number_after(free_blas, n_threads):
    def late():
        time.sleep(0.01)  # all threads take part: in some libraries each has its own setting
        return blas_threads()

    for inside in run(late, [()] * 4, n_threads):
        assert set(inside) == {1}
    assert blas_threads() == free_blas


def test_a_library_that_is_loaded_after_the_first_region_is_held_too(tmp_path):
    script = """if True:
        import numpy as np
        from threadpoolctl import threadpool_info, threadpool_limits
        from expfam.structures.ground.threads import run
        def blas():
            return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
        run(abs, [(1,)])
        n_first = len(blas())
        import scipy.linalg
        with threadpool_limits(2, user_api="blas"):
            print(n_first, *blas(), "inside", *run(blas, [()])[0])
    """
    command = [sys.executable, "-c", script]  # where no checkout is, whose folders would be imported
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    first, inside = (part.split() for part in done.stdout.split("inside"))
    if len(first) - 1 <= int(first[0]) or first[-1] != "2":
        pytest.skip("SciPy has no BLAS of its own whose threads can be set")
    assert set(inside) == {"1"}


def test_blas_is_restored_after_a_failure(free_blas):
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0, [()])
    assert blas_threads() == free_blas


def test_blas_is_restored_after_nested_regions(free_blas):
    with single_blas():
        with single_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == free_blas


def test_the_setting_is_made_once_for_nested_regions(free_blas, monkeypatch):
    """To make it takes as long as a small task; threads other than the one that made it make their own."""
    lowered, lower = [], _threads._BlasLimit._lower
    monkeypatch.setattr(
        _threads._BlasLimit, "_lower", lambda limit: lowered.append(threading.get_ident()) or lower(limit)
    )
    with single_blas():
        for _ in range(3):
            run(blas_threads, [(), ()], 1)
        assert lowered == [threading.get_ident()]
        run(blas_threads, [(), ()], 1)
        thread = threading.Thread(target=run, args=(blas_threads, [()], 1))
        thread.start()
        thread.join()
        assert len(lowered) == 2
        assert lowered[1] != threading.get_ident()
    assert blas_threads() == free_blas


def test_blas_is_restored_when_regions_of_two_threads_overlap(free_blas):
    opened, closing, closed, after = (threading.Event() for _ in range(4))
    seen = []

    def first():
        opened.set()
        closing.wait(TIMEOUT)

    def other():
        run(first, [()])
        closed.set()
        after.wait(TIMEOUT)
        run(abs, [(1,)])
        seen.append(blas_threads())

    def second():
        closing.set()  # the other region closes while this one is open
        assert closed.wait(TIMEOUT)
        return blas_threads()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    assert opened.wait(TIMEOUT)
    assert set(run(second, [()])[0]) == {1}
    assert blas_threads() == free_blas
    after.set()
    thread.join(TIMEOUT)
    assert seen == [free_blas]
    assert blas_threads() == free_blas


# ---- segments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 1000, 10**12])
@pytest.mark.parametrize("n_segments", [1, 3, 64])
def test_segments_cover_the_rows_once(n_rows, n_segments):
    bounds = segments(n_rows, n_segments)
    assert len(bounds) == min(n_rows, n_segments)
    assert all(stop > start for start, stop in bounds)
    if n_rows:
        assert bounds[0][0] == 0
        assert bounds[-1][1] == n_rows
        assert all(a[1] == b[0] for a, b in pairwise(bounds))
        sizes = [stop - start for start, stop in bounds]
        assert max(sizes) - min(sizes) <= 1


def test_the_number_of_segments_is_part_of_what_a_sum_means():
    assert _threads.N_SEGMENTS == 64
    assert segments(128) == segments(128, 64)
