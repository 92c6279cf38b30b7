"""Roles of the columns of a frame on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expfam.engines.dask import DaskEngine  # isort: skip  (it says what to install where Dask is missing)
import distributed

from expfam.dask.collections import holds_frames, parts_of
from expfam.errors import DataTypeError
from expfam.families.columns.family import Columns
from expfam.samplers.shards.table import TableShard, columns_of_parts


def columns_from_frame(
    X: Any,
    /,
    *,
    client: distributed.Client | None = None,
    columns: Sequence[str] | None = None,
    **settings: Any,
) -> Columns:
    """Return the family of a frame on a Dask cluster by the roles of its columns.

    It is what `expfam.Columns.from_frame` returns of the whole frame. All rows are read once, and the workers send
    summaries: the distinct cells of each column and how many rows hold them. If a column has more than 2^20 distinct
    numbers, they send a sample of these, which decides between families. Of so many texts they send the first ones in
    alphabetical order.

    Parameters
    ----------
    X : dask frame, path or list of paths of Parquet files, or frame in memory
    client : distributed.Client, optional
        The current one if not given.
    columns : sequence of str, optional
        Columns of Parquet files; all if not given.
    **settings
        Those of `expfam.Columns.from_frame`, such as ``missing_values=["?"]`` and ``age="numeric"``.

    Returns
    -------
    Columns
        For `expfam.dask.Mixture`.

    Raises
    ------
    DataError, DataTypeError, SupportError
        The message names the column, the row among all, and what to do.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> from distributed import Client
    >>> from expfam.dask import Mixture, columns_from_frame
    >>> client = Client(n_workers=2, threads_per_worker=1)                                          # doctest: +SKIP
    >>> df = dd.read_parquet("s3://bucket/people")                                                  # doctest: +SKIP
    >>> Mixture(columns_from_frame(df, visits="count"), 20).fit(df)                                 # doctest: +SKIP
    """
    if not holds_frames(X):
        raise DataTypeError(
            f"columns_from_frame reads a frame or Parquet files; got {type(X).__name__}: write"
            " columns_from_frame(dask.dataframe.from_dask_array(X))"
        )
    client = distributed.get_client() if client is None else client
    parts, _ = parts_of(X, client, columns, as_frames=True)
    with DaskEngine(client) as engine:
        engine.place(parts, TableShard)
        return columns_of_parts(engine, **settings)
