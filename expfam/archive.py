"""Archives of models and checkpoints: a directory with arrays and a JSON header.

An archive holds two files, `header.json` and `arrays.npz`; the header stores a checksum of the arrays. The archive is
written in a folder beside its place and then moved there in one call, so a reader finds either the old archive or the
new one, also after a kill or a loss of power; see `expfam.staging`. Nothing is pickled when you write, and nothing is
unpickled when you read. A file that differs from what was written raises an `ArchiveError`. O(bytes) time and memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ArchiveError
from expfam.staging import put_in_place, staged, staging_place, standing

FORMAT = 1
_MARK = "expfam"
_HEADER, _ARRAYS = "header.json", "arrays.npz"
_CSR_PARTS = ("data", "indices", "indptr")
_CHUNK = 1 << 20
_TRIES = 20  # attempts to read an archive while another process replaces it
_NPY_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_archive(path: str | os.PathLike[str], kind: str, *, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a header and named arrays as the archive at `path`.

    Parameters
    ----------
    path : path-like
        An archive of the same kind, or an empty directory, is replaced.
    kind : str
        What the archive holds, for example "checkpoint".
    header : dict
        JSON values with finite numbers.
    arrays : dict
        Arrays that are numeric, boolean or text, sparse matrices (stored as CSR), or nested dicts of these.

    Raises
    ------
    ArchiveError
        Something else is at `path`; it stays unchanged.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from expfam.archive import read_archive, write_archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run")
    ...     write_archive(path, "sums", header={"sweep": 3}, arrays={"cluster": {"n": np.ones(2)}})
    ...     read_archive(path, "sums")
    ({'sweep': 3}, {'cluster': {'n': array([1., 1.])}})
    """
    target = Path(os.path.realpath(_possible(path)))
    _refuse_foreign(target, kind)
    members, listing = _flatten(arrays)
    with staged(target) as stage:
        _refuse_foreign(target, kind)  # `staged` may have renamed back what a killed process had set aside
        with open(stage / _ARRAYS, "w+b") as file:
            np.savez(file, allow_pickle=False, **members)
            _flush(file)
            checksum = _digest(file)
        document = {
            "archive": _MARK,
            "format": FORMAT,
            "version": version("expfam"),
            "kind": kind,
            "header": header,
            "arrays": listing,
            "sha256": checksum,
        }
        with open(stage / _HEADER, "w", encoding="utf-8") as file:
            file.write(_to_json(document))
            _flush(file)
        put_in_place(stage, target)


def read_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of the archive at `path`, nested as they were written.

    Parameters
    ----------
    path : path-like
    kind : str
        Kind of the archive, as it was written.

    Returns
    -------
    header : dict
    arrays : dict
        Sparse matrices are `csr_array`.

    Raises
    ------
    ArchiveError
        There is no archive, or it is damaged, of another kind, or of a newer format.
    """
    path = _possible(path)
    for _ in range(_TRIES):
        place = _place_of(path)
        before = _identity(place)
        try:
            return _read_whole(place, path, kind)
        except ArchiveError:
            if before is not None and _identity(place) == before:
                raise
    raise ArchiveError(f"{path}: was replaced {_TRIES} times while it was read; read it when nothing writes it")


def is_archive(path: str | os.PathLike[str], kind: str | None = None) -> bool:
    """Say whether `path` holds a readable archive header, of that kind if one is given.

    Parameters
    ----------
    path : path-like
    kind : str, optional
        Kind of the archive; any kind if not given.
    """
    try:
        document = _read_header(_place_of(path), path)
    except ArchiveError:
        return False
    return kind is None or document["kind"] == kind


def check_place(path: str | os.PathLike[str], kind: str) -> None:
    """Check, before any work, that `write_archive` can write at `path`.

    Directories that the check makes are removed again.

    Parameters
    ----------
    path : path-like
    kind : str
        Kind of the archive that is to be written.

    Raises
    ------
    ArchiveError
        `write_archive` would not replace what is there.
    OSError
        No directory can be made.
    """
    target = Path(os.path.realpath(_possible(path)))
    _refuse_foreign(target, kind)
    missing = [folder for folder in reversed(target.parents) if not folder.exists()]
    trial = staging_place(target)
    made = []
    try:
        for folder in (*missing, trial):
            folder.mkdir()
            made.append(folder)
    finally:
        for folder in reversed(made):
            folder.rmdir()


def _possible(path):
    """Return a path that the system can have."""
    path = Path(path)
    if "\0" in str(path):
        raise ArchiveError(f"{str(path)!r} holds a null character, which no name of a directory has")
    return path


def _place_of(path):
    """Return the directory from which the archive `path` is read."""
    place = standing(path)
    if place is None:
        raise ArchiveError(f"{path}: there is nothing here; give the directory that save() made")
    return place


def _identity(path):
    """Return an inode and change time that differ once a directory is replaced.

    None where there is no directory.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _read_whole(place, path, kind):
    """Read the header and arrays of the archive at `place`; error messages name `path`."""
    document = _read_header(place, path)
    if document["kind"] != kind:
        raise ArchiveError(f"{path}: is an archive of kind {document['kind']!r}; {kind!r} was asked for")
    file = place / _ARRAYS
    if not file.is_file():
        raise ArchiveError(f"{path}: {_ARRAYS} is missing; the archive is incomplete, copy the whole directory again")
    try:
        with open(file, "rb") as stream:
            if _digest(stream) != document["sha256"]:
                raise ArchiveError(
                    f"{path}: {_ARRAYS} is truncated or altered (its checksum differs); copy or save it again"
                )
            with np.load(stream, allow_pickle=False) as members:
                _check_sizes(members.zip, os.fstat(stream.fileno()).st_size)
                flat = {name: _restore(members, name, entry) for name, entry in document["arrays"].items()}
        return document["header"], _nest(flat)
    except ArchiveError:
        raise
    except Exception as error:  # parsers raise many types of errors for altered bytes
        raise ArchiveError(f"{path}: the arrays do not match {_HEADER} ({error}); save the archive again") from error


# ---- header ----------------------------------------------------------------------------------------------------------


def _to_json(document):
    try:
        return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ArchiveError(f"the header of an archive takes finite JSON values only: {error}") from error


def _finite(text):
    """Return a float of a header, which holds finite numbers only."""
    if not math.isfinite(float(text)):
        raise ValueError(f"it holds {text}, which is no finite number")
    return float(text)


def _read_header(place, path):
    """Read and check the header of the archive at `place`; error messages name `path`."""
    if not (place / _HEADER).is_file():
        raise ArchiveError(f"{path}: is not an archive of expfam (no {_HEADER} in it)")
    try:
        text = (place / _HEADER).read_text(encoding="utf-8")
        document = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError, OSError) as error:
        raise ArchiveError(f"{path}: {_HEADER} is truncated or damaged ({error}); copy or save it again") from error
    if not isinstance(document, dict) or document.get("archive") != _MARK:
        raise ArchiveError(f"{path}: {_HEADER} was not written by expfam")
    number = document.get("format")
    if not isinstance(number, int) or number < 1:
        raise ArchiveError(f"{path}: {_HEADER} has no format number ({number!r}); the archive is damaged")
    if number > FORMAT:
        raise ArchiveError(
            f"{path}: has format {number}, written by expfam {document.get('version')}; "
            f"expfam {version('expfam')} reads formats up to {FORMAT}: upgrade expfam"
        )
    types = {"kind": str, "header": dict, "arrays": dict, "sha256": str}
    missing = [name for name, kind in types.items() if not isinstance(document.get(name), kind)]
    if missing:
        raise ArchiveError(f"{path}: {_HEADER} lacks {missing}; the archive is damaged")
    return document


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _flatten(arrays, prefix=""):
    """Return the members of the .npz file and the layout, dtype and shape of each array."""
    members, listing = {}, {}
    for key, value in arrays.items():
        if not isinstance(key, str) or not key or "/" in key:
            raise ArchiveError(f"name {key!r} of an array must be a non-empty string without '/'")
        name = prefix + key
        if isinstance(value, dict):
            inner, entries = _flatten(value, name + "/")
            members |= inner
            listing |= entries
            continue
        is_sparse = sparse.issparse(value)
        value = sparse.csr_array(value) if is_sparse else np.asarray(value)
        if value.dtype.kind not in "biufUS":
            raise ArchiveError(f"array {name!r} has dtype {value.dtype}; archives take numbers, booleans and strings")
        members |= {f"{name}/{part}": getattr(value, part) for part in _CSR_PARTS} if is_sparse else {name: value}
        layout = "csr" if is_sparse else "dense"
        listing[name] = {"layout": layout, "dtype": value.dtype.str, "shape": [int(size) for size in value.shape]}
    return members, listing


def _check_sizes(file, size):
    """Refuse members that declare more bytes than the file holds, before any allocation."""
    infos = file.infolist()
    if sum(info.file_size for info in infos) > size:
        raise ValueError(f"its members declare more than the {counted(size, 'byte')} that it has")
    for info in infos:
        with file.open(info) as stream:
            number = np.lib.format.read_magic(stream)
            if number not in _NPY_READERS:
                raise ValueError(f"{info.filename} is of another format of .npy files, {number}")
            shape, _, dtype = _NPY_READERS[number](stream)
            if math.prod(shape) * dtype.itemsize + stream.tell() != info.file_size:
                raise ValueError(f"{info.filename} declares {dtype} {shape}, which is not what it holds")


def _restore(members, name, entry):
    if entry["layout"] == "csr":
        parts = tuple(members[f"{name}/{part}"] for part in _CSR_PARTS)
        value = sparse.csr_array(parts, shape=tuple(entry["shape"]))
        value.check_format(full_check=True)
    else:
        value = members[name]
    if value.dtype.str != entry["dtype"] or list(value.shape) != entry["shape"]:
        raise ValueError(
            f"{name} is {value.dtype.str} {value.shape}, the header says {entry['dtype']} {entry['shape']}"
        )
    return value


def _nest(flat):
    nested = {}
    for name, value in flat.items():
        *parents, key = name.split("/")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[key] = value
    return nested


# ---- files -----------------------------------------------------------------------------------------------------------


def _refuse_foreign(target, kind):
    """Refuse a place that holds something other than an archive of this kind.

    If another process replaces the directory during the check, the check is repeated.
    """
    for _ in range(_TRIES):
        before = _identity(target)
        try:
            reason = _foreign(target, kind)
        except FileNotFoundError:
            continue
        if reason is None:
            return
        if _identity(target) == before:
            raise ArchiveError(f"{target}: {reason}")
    raise ArchiveError(f"{target}: was replaced {_TRIES} times while it was looked at; write it when nobody else does")


def _foreign(target, kind):
    """Return the reason why no archive of that kind may be written at `target`, or None."""
    if not target.exists():
        return None
    if not target.is_dir():
        return "is a file; an archive is a directory, choose another path"
    found = {entry.name for entry in target.iterdir()}
    if found and not (found <= {_HEADER, _ARRAYS} and is_archive(target, kind)):
        return (
            f"is a directory with other contents ({', '.join(sorted(found)[:3])}) than an archive of kind {kind!r};"
            " nothing was overwritten, choose another path"
        )
    return None


def _flush(file):
    file.flush()
    os.fsync(file.fileno())


def _digest(stream):
    """Return the checksum of a whole file and rewind the file."""
    digest = hashlib.sha256()
    stream.seek(0)
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
    stream.seek(0)
    return digest.hexdigest()
