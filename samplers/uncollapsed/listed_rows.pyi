from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.model.data import Dataset
from expfam.model.occurring import OccurringColumns

class TileLists:
    size: int
    n_rows: int
    width: int
    def __init__(self, n_rows: int, width: int) -> None: ...
    def grow(self, more: int) -> None: ...
    def put_rough(self, rows: npt.NDArray[np.intp], p: npt.NDArray[np.float64]) -> None: ...
    def take(self, n_rows: int) -> tuple[npt.NDArray[Any], ...]: ...

class ListedRows:
    components: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    rough: npt.NDArray[np.uint8]
    def __init__(self, tiles: list[tuple[npt.NDArray[Any], ...]]) -> None: ...

class ScoredColumns:
    family: Any
    weight: npt.NDArray[np.float64] | None
    row_offset: int
    has_sparse_phi: bool
    def __init__(self, data: Dataset, entries: ColumnEntries) -> None: ...
    def phi_csr(self, start: int, stop: int) -> Any: ...

class ColumnEntries:
    shape: tuple[int, int]
    n_columns: int
    row_offset: int
    occurring: OccurringColumns | None
    def __init__(self, data: Dataset) -> None: ...
    def narrow(self, phi: Any) -> Any: ...
    def sums(
        self,
        listed: ListedRows,
        n_components: int,
        lift: npt.NDArray[np.float64],
        *,
        segment_rows: int,
        tile_rows: int,
        n_threads: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], Any]: ...

def put_by_component(
    numbers: npt.NDArray[np.int32],
    components: npt.NDArray[np.int32],
    values: npt.NDArray[np.float64],
    first: int,
    place: npt.NDArray[np.int64],
    columns: npt.NDArray[np.integer],
    sums: npt.NDArray[np.float64],
) -> None: ...
def given_to_columns(
    indptr: npt.NDArray[np.integer],
    rows: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
    K: int,
) -> int: ...
def cells_of_columns(
    indptr: npt.NDArray[np.integer],
    rows: npt.NDArray[np.int32],
    listed: ListedRows,
    first: int,
    last: int,
    rooms: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
) -> None: ...
def add_columns(
    indptr: npt.NDArray[np.integer],
    rows: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint8] | npt.NDArray[np.float64],
    first: int,
    listed: ListedRows,
    offset: int,
    segment_rows: int,
    tile_rows: int,
    lifts: npt.NDArray[np.float64],
    table: npt.NDArray[np.float64],
    *,
    is_count: bool,
) -> None: ...
def sparse_columns(
    indptr: npt.NDArray[np.integer],
    rows: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint8] | npt.NDArray[np.float64],
    first: int,
    last: int,
    listed: ListedRows,
    offset: int,
    segment_rows: int,
    tile_rows: int,
    lift: npt.NDArray[np.float64],
    K: int,
    room: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float64]]: ...
