"""Simple divisions of rows: by k-means, or by the values of single columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from expfam.samplers.geometry.column_cuts import best_cut, best_segments
from expfam.samplers.geometry.metrics import metrics_of
from expfam.structures.ground.rng import UniformStream
from expfam.structures.rows.kmeans import RowTiles

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_UNIT = 5  # stream of the purpose "start"; runs of the family's coordinates are those of `lloyd_labels`
_RUNS_A_METRIC = 1 << 16
_LEAST_TOLD = 0.05  # nats a row by which a cut of a column must pay
_FEWEST_SEGMENTS = 4
_MOST_LEVELS = 20
_NEAR = 0.5  # of the nats between the best and the median run
_MOST_COLUMNS = 64  # columns of few values that are looked at


class Divisions:
    """Divisions of the rows of a search; coordinates and runs are made once.

    Parameters
    ----------
    data : Dataset
    seed : int
    n_threads : int or None
        No result depends on it.

    Attributes
    ----------
    metrics : list of str
    n_rows : int

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.candidates import Divisions
    >>> divisions = Divisions(Dataset([[0.0], [0.1], [8.0], [8.1]], DiagonalGaussian()), seed=0)
    >>> labels = divisions.kmeans("own", 2)
    >>> labels[0] == labels[1] != labels[2] == labels[3]
    np.True_
    """

    def __init__(self, data: Dataset, *, seed: int, n_threads: int | None = None) -> None:
        self._data, self._seed, self._n_threads, self.n_rows = data, seed, n_threads, data.n_rows
        self._n_counted = data.n_rows if data.weight is None else float(data.weight.sum())
        self._points = metrics_of(data, seed=seed)
        self._tiles: dict[str, RowTiles] = {}
        self._made: dict[tuple[str, int, int], npt.NDArray[np.int32]] = {}
        self.metrics = list(self._points)

    def kmeans(self, metric: str, n_clusters: int, run: int = 0) -> npt.NDArray[np.int32]:
        """Return the labels of a k-means run, which is made once, in a metric: (N,) int32.

        Parameters
        ----------
        metric : str
            One of `metrics`.
        n_clusters : int
        run : int
            Number of the run, from 0; each has its own seeds.
        """
        if (name := (metric, n_clusters, run)) in self._made:
            return self._made[name]
        if metric not in self._tiles:
            self._tiles[metric] = self._tiles_of(self._points[metric])
        step = _RUNS_A_METRIC * self.metrics.index(metric) + run
        self._made[name] = self._run(self._tiles[metric], n_clusters, step)
        return self._made[name]

    def of_columns(self) -> dict[str, npt.NDArray[np.int32]]:
        """Return the partitions by the values of single columns of a table that have few of them."""
        if not hasattr(self._data.family, "parts"):
            return {}
        found: dict[str, npt.NDArray[np.int32]] = {}
        for j in range(self._data.n_features):
            values, labels = np.unique(self._data.X[:, j], return_inverse=True)
            if 2 <= values.size <= _MOST_LEVELS and len(found) < _MOST_COLUMNS:
                found[f"column {j}"] = labels.astype(np.int32)
        return found

    def of_best_column(self, n_clusters: int) -> npt.NDArray[np.int32] | None:
        """Return k-means on the column that separates the rows best; None where no column does."""
        points = self._points["own"]
        if n_clusters < 2 or points.shape[1] < 2 or (cut := best_cut(points, self._data.weight)) is None:
            return None
        if cut.gain < _LEAST_TOLD * self._n_counted:
            return None
        step = _RUNS_A_METRIC * len(self.metrics)
        return self._run(self._tiles_of(points[:, [cut.column]]), n_clusters, step)

    def of_segments(self, n_clusters: int | None = None) -> npt.NDArray[np.int32] | None:
        """Return the segments of the column that has the most telling ones, or None.

        Parameters
        ----------
        n_clusters : int, optional
            Number of segments; as many as pay if not given. Fewer than 4 are no candidate: one cut tells two groups,
            and k-means finds three.
        """
        points = self._points["own"]
        if (n_clusters or _FEWEST_SEGMENTS) < _FEWEST_SEGMENTS or points.shape[1] < 2:
            return None
        found = best_segments(points, self._data.weight, n_segments=n_clusters)
        if found is None or found.gain < _LEAST_TOLD * self._n_counted:
            return None
        return found.labels if found.labels.max() + 1 >= _FEWEST_SEGMENTS else None

    def _tiles_of(self, points):
        return RowTiles(points, weight=self._data.weight, n_threads=self._n_threads)

    def _run(self, tiles, n_clusters, step):
        rng = UniformStream(self._seed, "start", unit=_UNIT, step=step)
        return tiles.kmeans(min(n_clusters, self._data.n_rows), rng, n_threads=self._n_threads)[0]


def may_be_passed(log_joint: float, of_runs: npt.NDArray[np.float64]) -> bool:
    """Tell whether another run of k-means may have a higher log joint than the end of a run.

    Parameters
    ----------
    log_joint : float
        Of the end, nats.
    of_runs : (M, R) float64 ndarray
        Of the modes above R runs in each of M metrics, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.warm_starts.candidates import may_be_passed
    >>> may_be_passed(-500.0, np.array([[-520.0, -580.0, -640.0]])), may_be_passed(-500.0, np.array([[-520.0] * 3]))
    (True, False)
    """
    best = of_runs.max(axis=1)
    return bool((best + _NEAR * (best - np.median(of_runs, axis=1)) > log_joint).any())
