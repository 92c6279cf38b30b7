"""Memory that each worker of a cluster needs for its rows, and how many workers suffice."""

from __future__ import annotations

import math
from dataclasses import dataclass

from expfam.amounts import counted
from expfam.errors import ResourceError
from expfam.structures.ground.memory import format_bytes

_LABEL_BYTES = 16  # of a row: its label before, now and in the best draw, and numbers of rows that move
_PARAMETER_BYTES = 20  # of a statistic of a cluster: in double precision twice, and in single precision
_SUMS_BYTES = 3 * 24  # three pieces of a sum: of the rows of a part, of the worker, and of another worker
_SOFT_BYTES = 36  # of a soft sum, for each thread: in double and in single precision, and three pieces
_BLOCK_BYTES = 64 << 20  # statistics and scores of the rows that are worked on
_PAUSED_AT = 0.8  # share of its memory at which a worker of Dask takes no more work


@dataclass(frozen=True)
class WorkerForecast:
    """Bytes that rows, and the clusters of all rows, take in each of several workers.

    Attributes
    ----------
    rows : int
        All rows, as they are stored.
    labels : int
        Their labels.
    clusters : int
        Parameters and sums of the clusters, in every worker.
    n_workers : int

    Examples
    --------
    >>> from expfam.forecast.workers import forecast_workers
    >>> forecast = forecast_workers(row_bytes=8_000_000, n_rows=1000, n_statistics=2000, n_components=10, n_workers=2)
    >>> forecast.of_worker - forecast.clusters
    4008000
    >>> forecast.enough(forecast.clusters + 1_000_000)
    9
    """

    rows: int
    labels: int
    clusters: int
    n_workers: int

    @property
    def of_worker(self) -> int:
        """Bytes that one worker needs."""
        return -(-(self.rows + self.labels) // self.n_workers) + self.clusters

    def enough(self, limit: float) -> int | None:
        """Return the number of workers that need at most `limit` bytes each; None if none suffices."""
        left = limit - self.clusters
        return math.ceil((self.rows + self.labels) / left) if left > 0 else None


def forecast_workers(
    *, row_bytes: int, n_rows: int, n_statistics: int, n_components: int, n_workers: int, n_soft_threads: int = 0
) -> WorkerForecast:
    """Forecast the memory of each worker of a fit to data in parts, from sizes alone.

    Parameters
    ----------
    row_bytes : int
        Of all rows.
    n_rows, n_statistics, n_components, n_workers : int
    n_soft_threads : int
        Threads of a worker that hold soft sums of their own: those of EM.
    """
    table = n_components * (n_statistics + 1)
    return WorkerForecast(
        rows=int(row_bytes),
        labels=_LABEL_BYTES * n_rows,
        clusters=(_PARAMETER_BYTES + _SUMS_BYTES + _SOFT_BYTES * n_soft_threads) * table + _BLOCK_BYTES,
        n_workers=n_workers,
    )


def check_workers(forecast: WorkerForecast, free: int) -> None:
    """Raise ResourceError where a worker needs more than `free` bytes.

    The message names the number of workers that suffices.

    Parameters
    ----------
    forecast : WorkerForecast
    free : int
        Memory of the smallest worker, less what it holds already.
    """
    limit = int(_PAUSED_AT * free)
    if forecast.of_worker <= limit:
        return
    enough = forecast.enough(limit)
    way_on = (
        "no number of workers of this size would do: take fewer components or columns, or give each more memory,"
        f" Client(memory_limit={math.ceil(forecast.of_worker / _PAUSED_AT / 1e6) * 1_000_000})"
        if enough is None
        else f"{counted(enough, 'worker')} of this size would do: write Client(n_workers={enough})"
    )
    raise ResourceError(
        f"each of {counted(forecast.n_workers, 'worker')} needs about {format_bytes(forecast.of_worker)}: rows"
        f" {format_bytes(forecast.rows // forecast.n_workers)}, labels"
        f" {format_bytes(forecast.labels // forecast.n_workers)}, parameters and sums of the clusters"
        f" {format_bytes(forecast.clusters)}; the smallest one can take {format_bytes(limit)} before Dask stops it:"
        f" {way_on}"
    )
