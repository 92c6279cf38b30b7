"""Rows of data in parts that are gathered: for the prior of a family, and for a start.

They are chosen by their global numbers, so they are the same for any number of parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.engines.base import Engine
from expfam.errors import DataError, DataTypeError
from expfam.families.base import bound_family
from expfam.samplers.shards.all_rows import RowsOfParts
from expfam.structures.ground.rng import generator

MOST_BINDING_ROWS = 100_000
_SEEDING_ROWS = 20_000  # of a start, and as many more for each cluster as below
_ROWS_A_CLUSTER = 20
_SEED = 0  # the prior of a family does not depend on the seed of a chain


def chosen_rows(n_rows: int, most: int, seed: int, unit: int) -> npt.NDArray[np.int64]:
    """Return global numbers of at most `most` rows, drawn without replacement, in order.

    Parameters
    ----------
    n_rows : int
        Number of all rows.
    most : int
        Largest number of rows that are drawn.
    seed : int
        Seed of the chain, 64 bits.
    unit : int
        Names the stream of random numbers of the purpose "subsample".
    """
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(generator(seed, "subsample", unit=unit).choice(n_rows, most, replace=False, shuffle=False))


def gathered(engine: Engine, numbers: npt.NDArray[np.int64]) -> Any:
    """Return the rows with these global numbers, in order: ndarray or CSR."""
    blocks = [rows for rows, _ in engine.each("rows", numbers) if rows.shape[0]]
    return sparse.csr_array(sparse.vstack(blocks)) if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def gathered_weights(engine: Engine, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the weights of the rows with these global numbers, in order."""
    return np.concatenate(engine.each("weights_of", numbers))


def check_kinds(engine: Engine) -> dict[str, Any]:
    """Refuse parts of different kinds or widths; return what holds for all of them.

    It is "is_sparse", "is_weighted", "n_columns", "dtype", the number "n_counted" of rows of weight above 0, and
    whether these are "is_of_ones".
    """
    kinds = engine.each("kind")
    for part, kind in zip(engine.parts, kinds):
        if kind["n_rows"] != part.n_rows:
            raise DataError(
                f"the part that begins at row {part.first_row} has {counted(kind['n_rows'], 'row')}, not"
                f" {part.n_rows} as was said"
            )
        if kind["is_sparse"] != kinds[0]["is_sparse"]:
            raise DataTypeError(
                f"the part that begins at row {part.first_row} is {'sparse' if kind['is_sparse'] else 'dense'}, the"
                " first part is not: give all parts one kind, scipy.sparse.csr_array(X)"
            )
        if kind["is_weighted"] != kinds[0]["is_weighted"]:
            raise DataError(
                f"the part that begins at row {part.first_row} has {'' if kind['is_weighted'] else 'no '}weights, the"
                " first part not: give all rows weights, or none: write WeightedRows(X, np.ones(len(X)))"
            )
        if kind["n_columns"] != kinds[0]["n_columns"]:
            raise DataError(
                f"the part that begins at row {part.first_row} has {counted(kind['n_columns'], 'column')}, the first"
                f" part {kinds[0]['n_columns']}: give all parts the same columns"
            )
    n_counted = sum(kind["n_counted"] for kind in kinds)
    if not n_counted:
        raise DataError("the weights are zero in all rows: at least one must count")
    return kinds[0] | {"n_counted": n_counted, "is_of_ones": all(kind["is_of_ones"] for kind in kinds)}


def bound_to_parts(engine: Engine, family: Any, kind: dict[str, Any]) -> Any:
    """Return a family bound to the rows of all parts, of which `check_kinds` has found the kind.

    It is ``family.bind(X)``, by sums of the parts. A family that reads all rows at once, as those do that override
    `Family.resolve`, gets all of up to 100,000 rows. Of more it gets as many, drawn at random; where the values are
    categories, a row with the largest level of each column is among them.

    Parameters
    ----------
    engine : Engine
        Holds the rows.
    family : Family
        Returned unchanged if it is bound.
    kind : dict
        Result of `check_kinds`.
    """
    if family.is_bound:
        return family
    if _resolves_from_rows(family) and kind["dtype"] != np.float16:  # half precision has checks of its own
        family = family.for_kind(kind["dtype"])
        engine.change("check", family)
        rows = RowsOfParts(engine, kind, reads_uncounted=family.reads_uncounted_rows)
        return family.bind_rows(rows, gathered(engine, np.zeros(1, dtype=np.int64)))
    return _bound_to_sample(engine, family, is_weighted=kind["is_weighted"])


def _resolves_from_rows(family):
    """Return whether a family, and those of the parts of a table, are bound by sums over rows."""
    return family.resolves_from_rows() and all(part[0].resolves_from_rows() for part in getattr(family, "parts", ()))


def _bound_to_sample(engine, family, *, is_weighted):
    """Return a family bound to all of few rows, or to a sample of many."""
    numbers = chosen_rows(engine.n_rows, MOST_BINDING_ROWS, _SEED, 1)
    if numbers.size < engine.n_rows and family.support == "categories":
        largest = engine.each("largest")
        best = np.argmax([most for most, _ in largest], axis=0)
        of_largest = [largest[part][1][column] for column, part in enumerate(best)]
        numbers = np.union1d(numbers, np.array(of_largest, dtype=np.int64))
    weight = gathered_weights(engine, numbers) if is_weighted else None
    return bound_family(family, gathered(engine, numbers), weight)


def starting_rows(n_rows: int, n_clusters: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the global numbers of the rows on which a start works."""
    return chosen_rows(n_rows, _SEEDING_ROWS + _ROWS_A_CLUSTER * n_clusters, seed, 2)
