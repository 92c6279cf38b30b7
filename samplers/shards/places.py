"""Files of a checkpoint, in a local folder or at an address such as ``s3://bucket/run``."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import Any


def write_bytes(path: str, content: bytes) -> None:
    """Write a file whole or not at all; folders above it are made.

    >>> import os, tempfile
    >>> from expfam.samplers.shards.places import names, read_bytes, write_bytes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bytes(os.path.join(folder, "run", "a"), b"content")
    ...     names(os.path.join(folder, "run")), read_bytes(os.path.join(folder, "run", "a"))
    (['a'], b'content')
    """
    if _is_remote(path):
        files, place = _opened(path)
        files.pipe_file(place, content)  # object stores show a file when it is whole
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def read_bytes(path: str) -> bytes:
    """Return the content of a file; raise FileNotFoundError if there is none."""
    if _is_remote(path):
        files, place = _opened(path)
        return bytes(files.cat_file(place))
    return Path(path).read_bytes()


def names(path: str) -> list[str]:
    """Return the names of what lies in a folder, sorted; none if there is no folder."""
    if _is_remote(path):
        files, place = _opened(path)
        found = files.ls(place, detail=False) if files.exists(place) else []
        return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in found)
    return sorted(entry.name for entry in Path(path).iterdir()) if Path(path).is_dir() else []


def remove(path: str) -> None:
    """Remove a file, or a folder with what it holds."""
    if _is_remote(path):
        files, place = _opened(path)
        files.rm(place, recursive=True)
    elif Path(path).is_dir():
        shutil.rmtree(path)
    else:
        Path(path).unlink()


def _is_remote(path: str) -> bool:
    return "://" in path


def _opened(path: str) -> tuple[Any, str]:
    """Return the file system of an address, and the place in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(f"{path} is opened by fsspec: pip install 'expfam[dask]'") from error
    files, place = url_to_fs(path)
    return files, str(place)
