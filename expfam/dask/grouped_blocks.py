"""Parts of rows in groups, and results of a fitted mixture for blocks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import expfam.engines.dask  # noqa: F401  # isort: skip  (it says what to install where Dask is missing)
import dask
import dask.array as da
import distributed

from expfam.dask.collections import Sizes, cut_along, known_chunks, parts_of
from expfam.engines.parts import Part
from expfam.errors import DataError
from expfam.estimators.grouped_results import most_probable
from expfam.model.data import Dataset
from expfam.model.groups import Groups
from expfam.samplers.shards.grouped import GroupedRows, groups_of, numbers_of

_LINE = "write fit(X, groups=groups) with len(groups) == len(X)"


def parts_in_groups(
    X: Any, groups: Any, client: distributed.Client, columns: Sequence[str] | None = None
) -> tuple[list[Part], Sizes]:
    """Return the parts of rows with their groups, and the sizes of the rows.

    Parameters
    ----------
    X : dask array, dask frame, list of delayed blocks or futures, path or list of paths, or ndarray
    groups : str, dask array, dask series or array_like
        Name of the column with the groups, or the group of each row (N,).
    client : distributed.Client
    columns : sequence of str, optional
        Columns of a frame or of files; all if not given.
    """
    if isinstance(groups, str):
        if hasattr(X, "to_dask_array"):
            X, groups = X.drop(columns=[groups]), X[groups]
        else:
            return parts_of(X, client, columns, group_column=groups)
    parts, sizes = parts_of(X, client, columns)
    blocks = cut_along(parts, groups, "groups", _LINE)
    joined = dask.delayed(_joined, pure=False)
    return [part._replace(source=joined(part.source, block)) for part, block in zip(parts, blocks)], sizes


def _joined(source, groups):
    """Return rows with their groups, on the worker."""
    return GroupedRows(source() if callable(source) else source, groups)


def main_clusters(rows: GroupedRows, model: Any, names: list[Any] | None) -> npt.NDArray[np.int32]:
    """Return the most probable cluster of rows of the fit, on the worker."""
    groups = numbers_of(groups_of(rows.groups, rows.shape[0]), names)
    return most_probable(model, Dataset(rows.rows, model.family_), groups)


def sizes_of(labels: npt.NDArray[np.int32], n_clusters: int) -> npt.NDArray[np.int64]:
    """Return how many rows each cluster has: (K,) int64.

    >>> from expfam.dask.grouped_blocks import sizes_of                                             # doctest: +SKIP
    >>> sizes_of([0, 2, 2], 3)                                                                      # doctest: +SKIP
    array([1, 0, 2])
    """
    return np.bincount(labels, minlength=n_clusters).astype(np.int64)


# ---- blocks of whole groups ------------------------------------------------------------------------------------------


def block_answers(model: Any, method: str, X: Any, groups: Any, dtype: Any, width: int | None) -> Any:
    """Return what a method of a fitted mixture says of rows in groups.

    The answer is lazy for a dask array or frame.

    Parameters
    ----------
    model : expfam.GroupedMixture
        Fitted.
    method : str
        Name of a method with the arguments X and `groups`.
    X, groups
        As in `GroupedMixture.predict`.
    dtype : dtype
        Of the result.
    width : int or None
        Number of columns of the result; None for a result with one axis.
    """
    X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if not isinstance(X, da.Array):
        return getattr(model, method)(X, groups=groups)
    X, rows, blocks, is_whole = _blocks(X, groups)
    answer = dask.delayed(_answer, pure=False)
    kept = dask.delayed(model)
    answers = [answer(kept, method, x, g, is_whole) for x, g in zip(rows, blocks)]
    shape: tuple[int, ...] = () if width is None else (width,)
    return da.concatenate(
        [da.from_delayed(a, shape=(size, *shape), dtype=dtype) for a, size in zip(answers, X.chunks[0])]
    )


def group_rows(model: Any, X: Any, groups: Any) -> Any:
    """Return the weights of new groups (G, K): lazily for a dask array or frame."""
    X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if not isinstance(X, da.Array):
        return model.transform(X, groups=groups)
    X, rows, blocks, is_whole = _blocks(X, groups)
    kept, weights = dask.delayed(model), dask.delayed(_weights, pure=False)
    found = [weights(kept, x, g, is_whole) for x, g in zip(rows, blocks)]
    merged = dask.delayed(_merged, pure=False)(found, model.alpha_ / model.alpha_.sum())
    return da.from_delayed(merged, shape=(np.nan, len(model.alpha_)), dtype=np.float64)


def block_score(model: Any, X: Any, groups: Any) -> Any:
    """Return the mean log density of left-out rows of new groups.

    It is a lazy number for a dask array or frame. The same rows are left out for any blocks.
    """
    X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if not isinstance(X, da.Array):
        return model.score(X, groups=groups)
    X, rows, blocks, is_whole = _blocks(X, groups)
    kept, held = dask.delayed(model), dask.delayed(_held, pure=False)
    firsts = np.cumsum([0, *X.chunks[0][:-1]]).tolist()
    found = [held(kept, x, g, first, is_whole) for x, g, first in zip(rows, blocks, firsts)]
    return da.from_delayed(dask.delayed(_mean, pure=False)(found), shape=(), dtype=np.float64)


def _held(model, X, groups, first_row, is_whole):
    """Return the sum of the log densities of left-out rows, and their number."""
    local = Groups(_local(groups))
    if not (local.sizes >= 2).any():
        return 0.0, 0
    densities, _ = model._held_densities(X, local.of_row, first_row)
    return float(densities.sum()), len(densities)


def _mean(found):
    total, count = np.sum(found, axis=0)
    if not count:
        raise DataError("a score needs groups of at least two rows; there is none: write score_samples(X, groups)")
    return np.float64(total / count)


def _blocks(X, groups):
    """Return a dask array, its blocks, their groups, and a check that groups are whole."""
    X = known_chunks(X.rechunk({1: -1}))
    rows = X.to_delayed().ravel()
    ends = np.cumsum(X.chunks[0])
    parts = [Part(int(end - size), int(size), None) for end, size in zip(ends, X.chunks[0])]
    blocks = cut_along(parts, groups, "groups", "write predict(X, groups) with len(groups) == len(X)")
    seen = [dask.delayed(_names, pure=False)(block) for block in blocks]
    return X, rows, blocks, dask.delayed(_check_whole, pure=False)(seen)


def _names(groups):
    """Return numbers or names of the groups of a block."""
    made = groups_of(groups, len(groups))
    return list(np.flatnonzero(made.sizes)) if made.names is None else list(made.names)


def _check_whole(seen):
    """Refuse a group that has rows in two blocks."""
    home: dict[Any, int] = {}
    for block, names in enumerate(seen):
        for name in names:
            if home.setdefault(name, block) != block:
                raise DataError(
                    f"the group {name!s} has rows in the blocks {home[name]} and {block}, and its weights need all of"
                    " them: sort the rows by group, or write predict(X.rechunk(-1), groups)"
                )


def _answer(model, method, X, groups, is_whole):
    """Return what a method of a mixture says of a block of whole groups."""
    return getattr(model, method)(X, groups=_local(groups))


def _weights(model, X, groups, is_whole):
    """Return names and weights of the groups of a block."""
    return _names(groups), model.transform(X, groups=_local(groups))


def _local(groups):
    """Return groups that are numbered in the order of their numbers or names."""
    made = groups_of(groups, len(groups))
    return np.unique(made.of_row, return_inverse=True)[1]


def _merged(found, prior):
    """Return the weights of the groups of all blocks, by their numbers or sorted names."""
    names = [name for block, _ in found for name in block]
    weights = np.concatenate([block for _, block in found])
    if names and isinstance(names[0], (int, np.integer)):
        table = np.tile(prior, (int(max(names)) + 1, 1))
        table[np.array(names)] = weights
        return table
    return weights[np.argsort(Groups.of_names(names).of_row)]
