"""Saves that are killed between every two calls of the operating system: the child of `test_archive.py`.

A forked process counts what `write_archive` asks of the operating system and kills itself, by SIGKILL, before one
call. The parent then reads what stands there, saves once more, and looks for what was left behind. `python
killed_saves.py FOLDER WAY` prints the number of kills and what went wrong, as JSON.
"""

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from expfam import archive, staging
from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError

WAYS = ("exchange", "fallback", "first")
SYSTEM = {"posix", "fcntl", "_io", "io"}
CHANGING = {"open", "close", "write", "truncate", "flush", "fsync", "flock"}
CHANGING |= {"mkdir", "rename", "replace", "rmdir", "unlink", "remove"}
OURS = {archive.__file__, staging.__file__}


def save(target, value):
    write_archive(target, "test", header={"value": value}, arrays={"n": np.full(3, value), "m": np.ones(4000)})


def value_at(target):
    """What a reader finds there: the value that was saved, or None for nothing at all."""
    try:
        header, arrays = read_archive(target, "test")
    except ArchiveError:
        return None
    assert arrays["n"].tolist() == [header["value"]] * 3
    return header["value"]


def is_system_call(frame, event, called):
    """Whether files may change: kills between two calls that only look leave the same behind."""
    if event == "c_call":
        owner = getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__
        return owner in SYSTEM and called.__name__ in CHANGING
    return event == "return" and frame.f_code.co_filename in OURS  # such as the one that calls through ctypes


def die_at(place):
    """Kill this process at the event of that number."""
    seen = 0

    def profile(frame, event, called):
        nonlocal seen
        if is_system_call(frame, event, called):
            seen += 1
            if seen == place:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)


@contextmanager
def without_waiting_for_the_disk():
    """What the parent saves need not outlive the machine; `fsync` takes most of the time."""
    fsync, os.fsync = os.fsync, lambda descriptor: None
    try:
        yield
    finally:
        os.fsync = fsync


def killed_save(target, place):
    """Whether the process that saves the value 2 died."""
    child = os.fork()
    if child == 0:
        die_at(place)
        save(target, 2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0 or os.WIFSIGNALED(status), status
    return status != 0


def fault_after_kill(folder, way, place):
    """What is wrong after a kill at that place; None if nothing is, and "done" once the save outlives its kill."""
    folder.mkdir()
    target = folder / "model"
    if way != "first":
        with without_waiting_for_the_disk():
            save(target, 1)
    if not killed_save(target, place):
        return "done"
    found, allowed = value_at(target), (None, 2) if way == "first" else (1, 2)
    if found not in allowed:
        return f"killed at {place}: a reader finds {found}"
    with without_waiting_for_the_disk():
        save(target, 3)
    if value_at(target) != 3:
        return f"killed at {place}: the next save cannot be read"
    left = sorted(set(os.listdir(folder)) - {"model"})
    return f"killed at {place}: the next save leaves {left}" if left else None


def main(folder, way):
    if way == "fallback":
        staging._exchange = lambda stage, target: False
    faults, place = [], 1
    while (fault := fault_after_kill(Path(folder, str(place)), way, place)) != "done":
        faults += [fault] if fault else []
        place += 1
    print(json.dumps({"kills": place - 1, "faults": faults}))


if __name__ == "__main__":
    main(*sys.argv[1:])
