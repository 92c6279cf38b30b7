"""Files that Arrow reads: Parquet, Feather, and lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEATHER, LINES_OF_JSON = (".feather", ".arrow"), (".jsonl", ".ndjson")
KINDS = {".parquet": "Parquet"} | dict.fromkeys(FEATHER, "Feather") | dict.fromkeys(LINES_OF_JSON, "JSON lines")


def arrow_table(path: Path, suffix: str, require_table: Callable[[int, int], None]) -> Any:
    """Return the Arrow table of a file.

    Parameters
    ----------
    path : Path
    suffix : str
        One of `KINDS`.
    require_table : callable
        It is called with the numbers of rows and columns, as soon as they are known, and refuses too large tables.

    Raises
    ------
    DataError
        pyarrow is not installed.
    """
    try:
        import pyarrow.feather as feather
        import pyarrow.json as json
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(f"{path}: reading {KINDS[suffix]} needs pyarrow: pip install 'expfam[arrow]'") from error
    if suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            require_table(file.metadata.num_rows, file.metadata.num_columns)
        return parquet.read_table(path)
    if suffix in FEATHER:
        table = feather.read_table(path, memory_map=False)
        table.validate(full=True)  # offsets of a damaged file may lead anywhere
        return table
    options = json.ReadOptions(use_threads=False, block_size=max(1 << 20, _longest_line(path) + 1))
    return json.read_json(path, read_options=options)


def _longest_line(path):
    """Return the bytes of the longest line: Arrow refuses one that is longer than two blocks."""
    with open(path, "rb") as file:
        return max(map(len, file), default=0)
