"""Checkpoints of chains over data in parts: each worker writes the labels of its rows.

A checkpoint is a folder with the archive of what the coordinator holds and a file of labels for each part, and a
manifest beside it that names both. The manifest is written last, in one piece: a run that is killed in between leaves
the checkpoint before. Parts of other bounds can read it, so a chain goes on over any number of workers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError
from expfam.samplers.shards.places import names, read_bytes, remove, write_bytes
from expfam.structures.ground.stored import restoring

_KIND, _FORMAT = "parts", 1
_FILES = ("header.json", "arrays.npz")  # of an archive
_MANIFEST = "manifest-"


class PartsCheckpoint:
    """Callback that stores a chain over data in parts, to go on over any parts, bit for bit.

    Parameters
    ----------
    path : path_like
        Folder that all workers see, or an address that fsspec opens. Each checkpoint replaces the one before of this
        object, completely or not at all.
    every_seconds : float
        Wall time between checkpoints; 0 writes one after each step.
    also : mapping of str to object, optional
        Objects with `to_arrays` and `from_arrays` to store with the state, for example its trace.

    Attributes
    ----------
    n_written : int

    Raises
    ------
    ArchiveError
        The folder holds checkpoints of an earlier run, and `goes_on` is not set.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from expfam import MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import ShardedData, UncollapsedGibbs, sample
    >>> from expfam.samplers.shards.checkpoint import PartsCheckpoint, restore_parts
    >>> X, kernel = np.repeat([[0, 9], [9, 0]], 600, axis=0), UncollapsedGibbs()
    >>> def state_of(n_parts):
    ...     data = ShardedData(X, Poisson(), n_parts=n_parts)
    ...     return kernel.init(MixtureModel(data.family, SymmetricDirichlet(5)), data, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     state = state_of(2)
    ...     trace = sample(kernel, state, 5, callbacks=[PartsCheckpoint(folder + "/run", every_seconds=0)])
    ...     again = state_of(1)
    ...     restore_parts(folder + "/run", again)
    ...     again.n_steps, bool((again.labels == state.labels).all())
    (5, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_seconds: float = 600.0,
        also: Mapping[str, Any] | None = None,
        goes_on: bool = False,
    ) -> None:
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds must be non-negative; got {every_seconds!r}")
        self.path, self.every_seconds, self.also = os.fspath(path), every_seconds, dict(also or {})
        self.n_written, self._previous, self._last = 0, None, perf_counter()  # type: int, str | None, float
        if not goes_on and _manifests(self.path):
            raise ArchiveError(
                f"{self.path} holds a checkpoint of an earlier run: write resume={self.path!r} to go on with it, or"
                f" checkpoint={self.path.rstrip('/') + '-2'!r} for another folder"
            )

    def __call__(self, info: Any, state: Any) -> bool:
        """Write a checkpoint if one is due; never end the run."""
        if state.data.engine.once(lambda: perf_counter() - self._last >= self.every_seconds):
            self.write(state)
        return False

    def write(self, state: Any) -> None:
        """Write a checkpoint of the present state."""
        engine = state.data.engine
        name = engine.once(lambda: f"{state.n_steps:012d}-{uuid.uuid4().hex[:8]}")
        folder = _under(self.path, name)
        header = {"seed": int(state.seed), "n_rows": state.data.n_rows, "n_clusters": state.K}
        arrays = {"state": state.arrays_without_labels()} | {key: kept.to_arrays() for key, kept in self.also.items()}
        engine.once(lambda: _write_chain(folder, header, arrays))
        listing = engine.each("write_labels", folder)
        manifest = json.dumps({"format": _FORMAT, "folder": name, "labels": listing}).encode()
        engine.once(lambda: write_bytes(_under(self.path, f"{_MANIFEST}{name}.json"), manifest))
        engine.once(self._remove_previous)
        self.n_written += 1
        self._previous, self._last = name, perf_counter()

    def _remove_previous(self):
        if self._previous is not None:
            remove(_under(self.path, f"{_MANIFEST}{self._previous}.json"))
            remove(_under(self.path, self._previous))


def stored_seed(path: str | os.PathLike[str]) -> int:
    """Return the seed of the chain of a checkpoint."""
    with restoring(path):
        return int(_read_chain(os.fspath(path), _manifest(os.fspath(path)))[0]["seed"])


def restore_parts(path: str | os.PathLike[str], state: Any, *, also: Mapping[str, Any] | None = None) -> None:
    """Restore a state over data in parts from the newest checkpoint in a folder.

    Parameters
    ----------
    path : path_like
        See `PartsCheckpoint`. The files stay as long as the run lasts: workers that take the place of lost ones read
        them again.
    state : ShardedState
        Made by the same kernel for the same rows, in any parts, with the same seed.
    also : mapping of str to object, optional

    Raises
    ------
    ArchiveError
        There is no checkpoint, its files were altered, or it is of other rows, another seed or number of clusters.
    """
    place = os.fspath(path)
    manifest = _manifest(place)
    with restoring(place):
        header, arrays = _read_chain(place, manifest)
        state._open_to(arrays["state"])
        wanted = {"seed": int(state.seed), "n_rows": state.data.n_rows, "n_clusters": state.K}
        for name, value in wanted.items():
            if header[name] != value:
                raise ArchiveError(f"is of {name} {header[name]}, the run of {value}: give it what that run had")
        folder, listing = _under(place, manifest["folder"]), manifest["labels"]
        state.restore(
            arrays["state"],
            lambda: state.data.engine.change("read_labels", folder, listing, state.K, state.data.scale),
        )
        for key, kept in (also or {}).items():
            kept.from_arrays(arrays[key])


# ---- labels, in the workers ------------------------------------------------------------------------------------------


def write_rows(folder: str, first_row: int, labels: npt.NDArray[np.int32]) -> list[Any]:
    """Write the labels (L, n) of a part; return first row, size, and the file's name and digest.

    Parameters
    ----------
    folder : str
    first_row : int
        Number of the first row of the part among all rows.
    labels : (L, n) int32 ndarray
        Labels of its rows; a second line are labels that the shard keeps.
    """
    buffer = io.BytesIO()
    np.save(buffer, labels, allow_pickle=False)
    name = f"labels-{first_row:015d}.npy"
    write_bytes(_under(folder, name), buffer.getvalue())
    return [first_row, int(labels.shape[1]), name, hashlib.sha256(buffer.getvalue()).hexdigest()]


def read_rows(folder: str, listing: list[Any], first_row: int, n_rows: int, n_clusters: int) -> npt.NDArray[np.int32]:
    """Return the labels (L, n) of some rows from the files that hold them.

    Parameters
    ----------
    folder : str
    listing : list
        One entry of `write_rows` for each file.
    first_row, n_rows : int
        The rows first_row..first_row + n_rows - 1 of all rows. They may lie in several files.
    n_clusters : int
        K; other labels are refused.

    Raises
    ------
    ArchiveError
        A file is not what was written, or the files do not hold these rows.
    """
    pieces = []
    for first, size, name, digest in listing:
        low, high = max(first, first_row) - first, min(first + size, first_row + n_rows) - first
        if low >= high:
            continue
        content = read_bytes(_under(folder, name))
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArchiveError(f"{_under(folder, name)} is not what was written: take an earlier checkpoint")
        pieces.append(np.load(io.BytesIO(content), allow_pickle=False)[:, low:high])
    labels = np.concatenate(pieces, axis=1) if pieces else np.empty((1, 0), dtype=np.int32)
    if labels.shape[1] != n_rows or labels.min() < 0 or labels.max() >= n_clusters:
        raise ArchiveError(f"{folder} does not hold the labels of the rows {first_row} to {first_row + n_rows - 1}")
    return labels


# ---- files -----------------------------------------------------------------------------------------------------------


def _under(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


def _manifests(path: str) -> list[str]:
    return [name for name in names(path) if name.startswith(_MANIFEST) and name.endswith(".json")]


def _manifest(path: str) -> dict[str, Any]:
    """Return the newest manifest of a folder."""
    found = _manifests(path)
    if not found:
        raise ArchiveError(f"{path} holds no checkpoint of data in parts: write checkpoint={path!r} to make one")
    with restoring(path):
        manifest = json.loads(read_bytes(_under(path, found[-1])))
        if manifest["format"] != _FORMAT:
            raise ArchiveError(f"the manifest has format {manifest['format']}: take the version that wrote it")
        return dict(manifest)


def _write_chain(folder: str, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the archive of what the coordinator holds."""
    with tempfile.TemporaryDirectory() as local:
        write_archive(Path(local, "chain"), _KIND, header=header, arrays=arrays)
        for name in _FILES:
            write_bytes(_under(folder, f"chain/{name}"), Path(local, "chain", name).read_bytes())


def _read_chain(path: str, manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of the archive that a manifest names."""
    with tempfile.TemporaryDirectory() as local:
        for name in _FILES:
            content = read_bytes(_under(path, f"{manifest['folder']}/chain/{name}"))
            write_bytes(str(Path(local, "chain", name)), content)
        return read_archive(Path(local, "chain"), _KIND)
