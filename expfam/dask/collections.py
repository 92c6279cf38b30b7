"""Parts of dask collections, delayed blocks, files and arrays, and results on the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import expfam.engines.dask  # noqa: F401  # isort: skip  (it says what to install where Dask is missing)
import dask
import dask.array as da
import distributed

from expfam.amounts import counted
from expfam.engines.parts import Part
from expfam.errors import DataError, DataTypeError
from expfam.frames.frame import as_frame, is_frame
from expfam.samplers.shards.grouped import GroupedRows
from expfam.samplers.shards.shard import WeightedRows


class Sizes(NamedTuple):
    """Width of rows, and their bytes: 0 where they cannot be known, in sparse blocks."""

    n_columns: int
    n_bytes: int


def parts_of(
    X: Any,
    client: distributed.Client,
    columns: Sequence[str] | None = None,
    sample_weight: Any = None,
    *,
    group_column: str | None = None,
    as_frames: bool = False,
) -> tuple[list[Part], Sizes]:
    """Return the parts of a collection, of files or of an array in order, and their sizes.

    Parameters
    ----------
    X : dask array, dask frame, list of delayed blocks or futures, path or list of paths, or ndarray
    client : distributed.Client
    columns : sequence of str, optional
        Columns of a frame or of files; all if not given.
    sample_weight : (N,) dask array or array_like, optional
        Multiplicity of each row.
    group_column : str, optional
        Column of Parquet files with the groups of the rows; parts are `GroupedRows` then.
    as_frames : bool
        Whether the parts of a frame or of Parquet files are frames, see `holds_frames`.
    """
    if as_frames:
        parts, sizes = _parts_of_frames(X, client, columns)
    else:
        parts, sizes = _parts_of_rows(X, client, columns, group_column)
    if sample_weight is None:
        return parts, sizes
    weighted = dask.delayed(_weighted_rows, pure=False)
    blocks = cut_along(parts, sample_weight, "sample_weight", "write fit(X, sample_weight=w) with w.shape == (len(X),)")
    parts = [part._replace(source=weighted(part.source, block)) for part, block in zip(parts, blocks)]
    return parts, sizes._replace(n_bytes=sizes.n_bytes + 8 * sum(p.n_rows for p in parts))


def cut_along(parts: Sequence[Part], values: Any, name: str, line: str) -> list[Any]:
    """Return delayed blocks of values, one for each row, cut where the parts are.

    Parameters
    ----------
    parts : sequence of Part
    values : (N,) dask array, dask series or array_like
    name : str
        Name of the values, for a message.
    line : str
        What to type, the end of the message.

    Raises
    ------
    DataError
        There are more or fewer values than rows.
    """
    array = values.to_dask_array(lengths=True) if hasattr(values, "to_dask_array") else values
    if not isinstance(array, da.Array):
        array = da.from_array(np.asarray(array))
    array = known_chunks(array)
    n_rows = sum(part.n_rows for part in parts)
    if array.shape != (n_rows,):
        raise DataError(
            f"{name} must have one number for each of {counted(n_rows, 'row')}; got shape {array.shape}: {line}"
        )
    return list(array.rechunk((tuple(part.n_rows for part in parts),)).to_delayed().ravel())


def known_chunks(array: da.Array) -> da.Array:
    """Return a dask array whose lengths of blocks are known; unknown ones are counted."""
    if any(np.isnan(size) for axis in array.chunks for size in axis):
        array = array.copy()  # its lengths are set in place
        array.compute_chunk_sizes()
    return array


def _weighted_rows(source, weight):
    """Return rows with their weights, on the worker."""
    return WeightedRows(source() if callable(source) else source, weight)


def _parts_of_rows(X, client, columns, group_column=None):
    if _are_paths(X):
        readers = [reader for path in _listed_paths(X) for reader in _readers(Path(path), columns, group_column)]
        n_bytes = sum(8 * reader.n_rows * reader.n_columns for reader in readers)
        sizes = Sizes(readers[0].n_columns if readers else 0, n_bytes)
        return _numbered((reader.n_rows, reader) for reader in readers), sizes
    if group_column is not None:
        raise DataError(
            f"groups={group_column!r} is the name of a column, and X is no dask frame and no Parquet file: write"
            " fit(X, groups=groups) with the group of each row"
        )
    if columns is not None:
        raise DataError("columns= is for Parquet files: write fit(X[columns]) for a frame")
    if isinstance(X, Sequence) and X and all(map(_is_delayed, X)):
        return _parts_of_blocks(X, client)
    if hasattr(X, "to_dask_array"):
        _refuse_text(X)
        X = X.to_dask_array(lengths=True)
    if not isinstance(X, da.Array):
        if not hasattr(X, "shape"):
            raise DataTypeError(
                "fit takes a dask array or frame, a list of delayed blocks, paths or an array; got"
                f" {type(X).__name__}: write fit(dask.array.from_array(X))"
            )
        X = da.from_array(X, chunks=(max(1, -(-X.shape[0] // len(client.nthreads()))), X.shape[1]))
    if X.ndim != 2:
        raise DataError(f"the rows need two dimensions; got shape {X.shape}: write X.reshape(-1, 1)")
    X = known_chunks(X.rechunk({1: -1}))
    sizes = Sizes(int(X.shape[1]), 0 if sparse.issparse(X._meta) else int(X.nbytes))
    return _numbered(zip(X.chunks[0], X.to_delayed().ravel())), sizes


def holds_frames(X: Any) -> bool:
    """Return whether rows are a frame, of Dask or in memory, or lie in Parquet files.

    >>> from expfam.dask.collections import holds_frames                                            # doctest: +SKIP
    >>> holds_frames("rows.parquet"), holds_frames("rows.npy")                                      # doctest: +SKIP
    (True, False)
    """
    if _are_paths(X):
        return all(Path(path).suffix == ".parquet" for path in _listed_paths(X))
    return hasattr(X, "to_dask_array") or is_frame(X)


def _are_paths(X):
    return isinstance(X, (str, Path)) or (isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], (str, Path)))


def _listed_paths(X):
    return [X] if isinstance(X, (str, Path)) else list(X)


def _parts_of_frames(X, client, columns):
    """Return the parts of a frame or of Parquet files, whose sources are frames."""
    if _are_paths(X):
        readers = [reader for path in _listed_paths(X) for reader in _readers(Path(path), columns, None)]
        readers = [_ReadTable(r.path, r.n_rows, r.n_columns, r.group, r.columns) for r in readers]
        n_columns = readers[0].n_columns if readers else 0
        parts = _numbered((reader.n_rows, reader) for reader in readers)
    elif columns is not None:
        raise DataError("columns= is for Parquet files: write fit(X[columns]) for a frame")
    elif hasattr(X, "to_dask_array"):
        n_columns = len(X.columns)
        lengths = X.map_partitions(len).compute()
        parts = _numbered(zip(lengths, X.to_delayed()))
    else:
        frame = as_frame(X, owner="fit")
        n_columns = len(frame.names)
        step = max(1, -(-frame.n_rows // max(1, len(client.nthreads()))))
        cut = [_some_rows(X, first, min(step, frame.n_rows - first)) for first in range(0, frame.n_rows, step)]
        parts = _numbered((len(rows), rows) for rows in cut)
    return parts, Sizes(n_columns, 8 * n_columns * sum(part.n_rows for part in parts))


def _some_rows(X, first, n_rows):
    """Return rows of a frame in memory."""
    if hasattr(X, "slice"):  # of Polars and PyArrow
        return X.slice(first, n_rows)
    return X.iloc[first : first + n_rows]


def _refuse_text(frame):
    """Refuse a frame with columns that hold no numbers."""
    found = [
        str(name) for name, dtype in getattr(frame, "dtypes", {}).items() if getattr(dtype, "kind", "O") not in "iufb"
    ]
    if found:
        raise DataTypeError(
            f"the columns {found[:20]} hold no numbers, and this family reads numbers alone: write"
            " fit(X.select_dtypes('number')), or expfam.dask.Mixture().fit(X), which reads columns of several kinds"
        )


def _is_delayed(block):
    return isinstance(block, distributed.Future) or hasattr(block, "__dask_graph__")


def _parts_of_blocks(blocks, client):
    """Return the parts of delayed blocks or futures, whose sizes the workers tell."""
    futures = [block if isinstance(block, distributed.Future) else client.compute(block) for block in blocks]
    sizes = client.gather(client.map(_size_of, futures, pure=False))
    for number, (shape, _) in enumerate(sizes):
        if len(shape) != 2:
            raise DataError(
                f"block {number} has shape {tuple(shape)}: the rows need two dimensions: write"
                " fit([block.reshape(-1, 1) for block in blocks])"
            )
    parts = _numbered((shape[0], future) for (shape, _), future in zip(sizes, futures))
    return parts, Sizes(sizes[0][0][1], sum(n_bytes for _, n_bytes in sizes))


def _size_of(block):
    """Return shape and bytes of a block, on the worker; 0 bytes of a sparse one."""
    return np.shape(block) if not sparse.issparse(block) else block.shape, int(getattr(block, "nbytes", 0))


def free_bytes(client: distributed.Client) -> int:
    """Return the memory that the fullest worker has left; very much where no worker has a limit."""
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"].values()
    return min(
        (worker["memory_limit"] - worker["metrics"].get("memory", 0) for worker in workers if worker["memory_limit"]),
        default=1 << 62,
    )


def _numbered(sources):
    parts, first = [], 0
    for n_rows, source in sources:
        parts.append(Part(first, int(n_rows), source))
        first += int(n_rows)
    return parts


def _readers(path: Path, columns: Sequence[str] | None, group_column: str | None) -> Iterator[_ReadArray | _ReadGroup]:
    """Yield a reader of each part of a file."""
    if path.suffix == ".npy" and group_column is None:
        shape = np.load(path, mmap_mode="r").shape
        yield _ReadArray(str(path), shape[0], shape[-1])
    elif path.suffix == ".parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(path)
        names = file.schema_arrow.names
        if group_column is not None and group_column not in names:
            raise DataError(f"groups={group_column!r}: {path} has no column of this name; it has {names[:20]}")
        rows = [name for name in (names if columns is None else columns) if name != group_column]
        for group in range(file.metadata.num_row_groups):
            n_rows = file.metadata.row_group(group).num_rows
            yield _ReadGroup(str(path), n_rows, len(rows), group, rows, group_column)
    elif path.suffix == ".npy":
        raise DataError(
            f"groups={group_column!r} is the name of a column, and {path} has none: write fit(paths, groups=groups)"
            " with the group of each row"
        )
    else:
        raise DataError(f"{path} is neither .npy nor .parquet: write its rows with numpy.save")


class _ReadArray:
    """Reader of a .npy file."""

    def __init__(self, path, n_rows, n_columns):
        self.path, self.n_rows, self.n_columns = path, n_rows, n_columns

    def __call__(self):
        return np.load(self.path)


class _ReadGroup:
    """Reader of one row group of a Parquet file, perhaps with a column of groups."""

    def __init__(self, path, n_rows, n_columns, group, columns, group_column=None):
        self.path, self.n_rows, self.n_columns = path, n_rows, n_columns
        self.group, self.columns, self.group_column = group, list(columns), group_column

    def __call__(self):
        from pyarrow import parquet

        wanted = self.columns if self.group_column is None else [*self.columns, self.group_column]
        table = parquet.ParquetFile(self.path).read_row_group(self.group, columns=wanted)
        rows = np.column_stack([table.column(name).to_numpy() for name in self.columns])
        if self.group_column is None:
            return rows
        cells = table.column(self.group_column).to_pylist()
        is_whole = all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells)
        return GroupedRows(rows, np.array(cells, dtype=np.int64 if is_whole else object))


class _ReadTable(_ReadGroup):
    """Reader of one row group of a Parquet file as a frame."""

    def __call__(self):
        from pyarrow import parquet

        return parquet.ParquetFile(self.path).read_row_group(self.group, columns=self.columns)


def labels_of(parts: Sequence[Part], futures: Sequence[distributed.Future]) -> da.Array:
    """Return the labels of all parts, which are futures, as a dask array on the workers."""
    blocks = [
        da.from_delayed(dask.delayed(future), shape=(part.n_rows,), dtype=np.int32)
        for part, future in zip(parts, futures)
    ]
    return da.concatenate(blocks)


def mapped(answer: Any, X: Any, dtype: Any, width: int | None) -> Any:
    """Return what a function makes of rows, lazily of a dask array or frame.

    Parameters
    ----------
    answer : callable
        Called with a block of rows.
    X : dask array, dask frame, or anything that `answer` takes
    dtype : dtype
        Of the result.
    width : int or None
        Number of columns of the result; None for a result with one axis.
    """
    if hasattr(X, "to_dask_array"):
        lazy, further = dask.delayed(answer, pure=False), () if width is None else (width,)
        blocks = [da.from_delayed(lazy(part), shape=(np.nan, *further), dtype=dtype) for part in X.to_delayed()]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    if not isinstance(X, da.Array):
        return answer(X)
    X = X.rechunk({1: -1})
    meta = np.empty((0,) if width is None else (0, 0), dtype=dtype)
    if width is None:
        return X.map_blocks(answer, drop_axis=1, dtype=dtype, meta=meta)
    return X.map_blocks(answer, chunks=(X.chunks[0], (width,)), dtype=dtype, meta=meta)
