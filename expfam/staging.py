"""Atomic replacement of directories: a reader sees the old or the new one, never a mixture.

A new directory is first written to a staging folder beside its place, `.NAME.HEX.saving`. The process that writes it
holds a lock on that folder. On Linux the staging folder and the old directory exchange their names in one call. Where
the file system cannot exchange names, the old directory is renamed to `.NAME.HEX.old` before the new one is renamed to
its place. If the process is killed between these two renames, the next reader or writer renames the old directory back.
Writers and readers hold a lock on the parent folder while they rename, so they never interrupt an unfinished save. The
operating system releases a lock when its process dies: a locked folder is still being written, and an unlocked one is
left over from a dead process and can be deleted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: directories have no locks, so no folder is deleted as left over
    fcntl = None  # type: ignore[assignment]

_SAVING, _OLD = "saving", "old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # values from linux/fcntl.h and linux/fs.h
_IS_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}  # of a rename onto a directory that is not empty; a file gives others


def staging_place(target: Path) -> Path:
    """Return a new path for a staging folder of `target`; no folder is made."""
    return target.parent / f".{target.name}.{uuid.uuid4().hex[:16]}.{_SAVING}"


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Make a locked staging folder beside `target`; remove it at the end of the block.

    `target` is a real path. If a killed process set the directory aside, it is first renamed back. Staging folders of
    killed processes are deleted. Fill the empty folder that is yielded, then call `put_in_place`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    standing(target)
    _remove_waste(target)
    stage, lock = _new_stage(target)
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        _unlock(lock)


def put_in_place(stage: Path, target: Path) -> None:
    """Move the staging folder to `target`; the old directory is deleted last."""
    flush_directory(stage)
    if not target.exists() or not _exchange(stage, target):
        with _alone_in(target.parent):
            _replace(stage, target)
    flush_directory(target.parent)


def standing(target: str | os.PathLike[str]) -> Path | None:
    """Return the path where the directory `target` can be read, or None if there is none.

    If a killed process had set the directory aside, it is first renamed back; where that fails, its present path is
    returned.
    """
    path = Path(target)
    if path.exists():
        return path
    target = Path(os.path.realpath(path))
    with _alone_in(target.parent):  # a save may be between its two renames
        if target.exists():
            return path
        for old in _beside(target, _OLD):
            try:
                os.rename(old, target)
            except OSError:
                return old
            return path
    return None


def flush_directory(path: str | os.PathLike[str]) -> None:
    """Write the entries of a directory to the disk."""
    if os.name == "posix":  # elsewhere a directory cannot be opened
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- renames ---------------------------------------------------------------------------------------------------------


def _exchange(stage, target):
    """Exchange the names of two directories in one call; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return renameat2(_AT_FDCWD, os.fsencode(stage), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE) == 0


def _replace(stage, target):
    """Rename `stage` to `target`; an old directory there is first set aside, then deleted."""
    old = _sibling(stage, _OLD)
    while True:  # repeats only if, without locks, another process puts its own directory there
        try:
            os.rename(stage, target)  # replaces an empty directory
            break
        except OSError as error:
            if error.errno not in _IS_OCCUPIED or (target.exists() and not target.is_dir()):
                _bring_back(old, target)
                raise
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(target, old)
    flush_directory(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _bring_back(old, target):
    if old.exists() and not target.exists():
        os.rename(old, target)


# ---- folders beside the target ---------------------------------------------------------------------------------------


def _beside(target, ending):
    """Return the folders beside `target` with that ending, sorted by name."""
    name = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\." + ending)
    try:
        found = sorted(entry for entry in os.listdir(target.parent) if name.fullmatch(entry))
    except OSError:  # no such folder, or not for this user
        return []
    return [target.parent / entry for entry in found]


def _sibling(folder, ending):
    return folder.with_name(f"{folder.name.rpartition('.')[0]}.{ending}")


def _remove_waste(target):
    """Delete staging folders of dead processes and the directories that they set aside."""
    for stage in _beside(target, _SAVING):
        lock = _lock(stage)
        if lock is not None:
            shutil.rmtree(stage, ignore_errors=True)
            _unlock(lock)
    for old in _beside(target, _OLD) if target.exists() else ():
        if not _sibling(old, _SAVING).exists():
            shutil.rmtree(old, ignore_errors=True)


# ---- locks -----------------------------------------------------------------------------------------------------------


def _new_stage(target):
    """Make a locked staging folder; return it and its lock, None without locks."""
    while True:
        stage = staging_place(target)
        stage.mkdir()
        try:
            lock = _open_locked(stage)
        except (BlockingIOError, FileNotFoundError):  # another process deletes the new folder as left over
            continue
        except OSError:
            return stage, None
        if lock is None or _is_same(lock, stage):
            return stage, lock
        _unlock(lock)


def _open_locked(folder, *, wait=False):
    """Lock a folder and return the descriptor that holds the lock.

    None on systems without locks of folders. OSError if another process holds the lock.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(folder, *, wait=False):
    """Lock a folder as `_open_locked` does, but return None instead of an OSError."""
    try:
        return _open_locked(folder, wait=wait)
    except OSError:
        return None


@contextmanager
def _alone_in(folder):
    """Hold the lock of a folder during the block; other processes wait for it.

    This has no effect on systems without locks of folders.
    """
    lock = _lock(folder, wait=True)
    try:
        yield
    finally:
        _unlock(lock)


def _unlock(descriptor):
    if descriptor is not None:
        os.close(descriptor)


def _is_same(descriptor, folder):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except FileNotFoundError:
        return False
