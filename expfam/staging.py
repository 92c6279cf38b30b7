"""Directories that are replaced whole, whatever happens: two of them change places, or the old one is set aside.

A directory is made in a staging folder beside its place, `.NAME.HEX.saving`, which the process that writes it holds
locked. On Linux the staging folder and the old directory exchange their names in one call. Where the file system cannot
do that, the old directory is renamed to `.NAME.HEX.old` before the new one takes its place; a process that is killed in
between leaves no directory at the place, and the next reader or writer renames the old one back. Both hold the lock of
the parent folder meanwhile, so nobody renames under a save that is only half done. The operating system
gives a lock back when its process dies, so a locked folder is one that is still written, and an unlocked one is waste.
"""

import ctypes
import errno
import os
import re
import shutil
import sys
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: no locks of directories, so nothing there counts as waste
    fcntl = None  # type: ignore[assignment]

_SAVING, _OLD = "saving", "old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h
_IS_OCCUPIED = {errno.ENOTEMPTY, errno.EEXIST}  # by a directory; a file gives another error


def staging_place(target):
    """A new name for a staging folder of `target`; nothing stands there yet."""
    return target.parent / f".{target.name}.{uuid.uuid4().hex[:16]}.{_SAVING}"


@contextmanager
def staged(target):
    """A new, locked staging folder for `target`; what is left of it at the end of the block is removed.

    Parameters
    ----------
    target : Path
        Real path of the directory to replace. A directory that a killed process set aside comes back first, and what
        killed processes have left is removed.

    Yields
    ------
    Path
        Empty directory beside the target, for `put_in_place`.
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


def put_in_place(stage, target):
    """Give the staging folder its place; what stood there is deleted last."""
    flush_directory(stage)
    if not target.exists() or not _exchange(stage, target):
        with _alone_in(target.parent):
            _take_place(stage, target)
    flush_directory(target.parent)


def standing(target):
    """Where the directory `target` stands, after one that a killed process set aside has been renamed back.

    Parameters
    ----------
    target : path_like

    Returns
    -------
    Path or None
        `target` itself; where it may not be renamed back, the place of the directory that was set aside; None where
        there is neither.
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


def flush_directory(path):
    """Have the entries of a directory written to the disk."""
    if os.name == "posix":  # elsewhere a directory cannot be opened
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- changing places -------------------------------------------------------------------------------------------------


def _exchange(stage, target):
    """Let two directories exchange their names in one call; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return renameat2(_AT_FDCWD, os.fsencode(stage), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE) == 0


def _take_place(stage, target):
    """Rename `stage` to `target`, with what stands there set aside for that moment."""
    old = _sibling(stage, _OLD)
    while True:  # again only where there are no locks and another process puts its own there meanwhile
        try:
            os.rename(stage, target)  # an empty directory gives way
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


# ---- what stands beside ----------------------------------------------------------------------------------------------


def _beside(target, ending):
    """Folders beside `target` of that ending, in the order of their names."""
    name = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\." + ending)
    try:
        found = sorted(entry for entry in os.listdir(target.parent) if name.fullmatch(entry))
    except OSError:  # no such folder, or not for this user
        return []
    return [target.parent / entry for entry in found]


def _sibling(folder, ending):
    return folder.with_name(f"{folder.name.rpartition('.')[0]}.{ending}")


def _remove_waste(target):
    """Delete staging folders of processes that are gone, and what they had set aside."""
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
    """A locked staging folder and its lock, None where the file system has no locks."""
    while True:
        stage = staging_place(target)
        stage.mkdir()
        try:
            lock = _open_locked(stage)
        except (BlockingIOError, FileNotFoundError):  # another process takes the new folder for waste
            continue
        except OSError:
            return stage, None
        if lock is None or _is_same(lock, stage):
            return stage, lock
        _unlock(lock)


def _open_locked(folder, *, wait=False):
    """Descriptor that holds the lock of a folder, None on systems without such locks; OSError where another has it."""
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
    """As `_open_locked`, but None too where the lock is not to be had."""
    try:
        return _open_locked(folder, wait=wait)
    except OSError:
        return None


@contextmanager
def _alone_in(folder):
    """Whoever else wants this folder waits until the end of the block; without effect where there are no locks."""
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
