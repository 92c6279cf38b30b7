"""Rows of a dense array or CSR matrix in checked blocks, of which sign codes are made."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from expfam.errors import DataError, DataTypeError

ROWS = 512  # in a task
MOST_ENTRIES = 1 << 17  # of a random matrix that is made for dense rows: more do not fit into the cache


def real_vector(name: str, values: Any, n: int) -> Any:
    """Return `values` as (n,) float64; raise DataError for another shape or infinity."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"{name} has shape {values.shape}; expected ({n},)")
    if not np.isfinite(values).all():
        raise DataError(f"{name}[{np.flatnonzero(~np.isfinite(values))[0]}] is not finite")
    return values


class CodedRows:
    """Blocks of rows of a dense array or CSR matrix.

    A block has float64 values and int64 coordinates.
    """

    def __init__(self, X: Any, scale: Any = None) -> None:
        self.is_sparse = hasattr(X, "indptr")
        if self.is_sparse and getattr(X, "format", None) != "csr":
            raise DataTypeError(f"sparse data must be CSR; got {X.format!r}: convert with .tocsr()")
        self.X: Any = X if self.is_sparse else np.asarray(X)
        if self.X.dtype.kind not in "fiub":
            raise DataTypeError(f"data must be real numbers; got dtype {self.X.dtype}")
        if self.X.ndim != 2:
            raise DataError(f"data must have two dimensions (rows, coordinates); got shape {self.X.shape}")
        self.n_rows, self.n_columns = self.X.shape
        self.scale = None if scale is None else real_vector("scale", scale, self.n_columns)
        self.columns = np.arange(0 if self.is_sparse else self.n_columns, dtype=np.int64)

    def entries(self, hash: Any) -> NDArray[np.float64] | None:
        """Return the random matrix (n_columns, n_bits) if it saves time to have it, or None."""
        is_small = not self.is_sparse and 0 < self.n_columns * hash.n_bits <= MOST_ENTRIES
        if not is_small or hash.entries != "gaussian8" or self.n_rows < 2:
            return None
        return np.ascontiguousarray(hash.matrix(self.columns).T, dtype=np.float64)

    def tasks(self) -> list[tuple[int, int]]:
        """Return the first row of each task and the row after its last."""
        return [(start, min(start + ROWS, self.n_rows)) for start in range(0, self.n_rows, ROWS)]

    def block(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Return values, coordinates and bounds of some rows.

        Dense rows share their coordinates, which are returned once.
        """
        if self.is_sparse:
            bounds = np.asarray(self.X.indptr[start : stop + 1], dtype=np.int64)
            inside = slice(bounds[0], bounds[stop - start])
            coordinates = np.ascontiguousarray(self.X.indices[inside], dtype=np.int64)
            values, bounds = np.array(self.X.data[inside], dtype=np.float64), bounds - bounds[0]
            if len(coordinates) and not (coordinates.min() >= 0 and coordinates.max() < self.n_columns):
                raise DataError(f"rows {start} to {stop - 1} have column indices outside [0, {self.n_columns})")
            if self.scale is not None:
                values *= self.scale[coordinates]
        else:
            bounds = np.arange(stop - start + 1, dtype=np.int64) * self.n_columns
            coordinates = self.columns
            values = np.array(self.X[start:stop], dtype=np.float64)
            if self.scale is not None:
                values *= self.scale
            values = values.reshape(-1)
        if not np.isfinite(values).all():
            bad = start + np.searchsorted(bounds, np.flatnonzero(~np.isfinite(values))[0], side="right") - 1
            raise DataError(f"row {bad} has a value that is not finite")
        return values, coordinates, bounds
