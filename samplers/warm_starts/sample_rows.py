"""How many rows a search for a start looks at, and which."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.samplers.geometry.drawn_rows import drawn_rows

MOST_CENTRES = 256  # of the k-means run from which an open number of clusters starts
_SAMPLE_ROWS = 20_000
_SAMPLE_ROWS_EACH = 20  # for each cluster
# of the candidates for a given number of clusters, whose steps take most of the time of a search
_CANDIDATE_ROWS, _CANDIDATE_ROWS_EACH = 2000, 100
_CANDIDATE_ROWS_A_STATISTIC = 4  # of each cluster: a full covariance needs more
_TILE_ROWS = 512  # of EM, which takes nearly as long for a tile of a few rows
_RACE_ROWS = 5000  # of the candidates for an open number of clusters
_RACE_ROWS_A_COLUMN = 80  # of a full covariance
_SAMPLE_UNIT, _CANDIDATE_UNIT, _RACE_UNIT = 7, 8, 10  # streams of the purpose "start"


def search_rows(n_rows: int, n_clusters: int | None, seed: int) -> npt.NDArray[np.int64] | None:
    """Draw the rows on which a start is searched: sorted, or None for all rows.

    At most 20,000 rows and 20 for each cluster are drawn; an open number of clusters counts as 256.

    Examples
    --------
    >>> from expfam.samplers.warm_starts.sample_rows import search_rows
    >>> search_rows(1000, 3, 0) is None, len(search_rows(100_000, 3, 0))
    (True, 20060)
    """
    return drawn_rows(n_rows, _most_rows(n_clusters), seed=seed, unit=_SAMPLE_UNIT)


def has_many_rows(n_rows: int, n_clusters: int | None) -> bool:
    """Tell whether a start is searched on some of the rows, see `search_rows`.

    Examples
    --------
    >>> from expfam.samplers.warm_starts.sample_rows import has_many_rows
    >>> has_many_rows(20_060, 3), has_many_rows(20_061, 3), has_many_rows(25_120, None)
    (False, True, False)
    """
    return n_rows > _most_rows(n_clusters)


def candidate_rows(model: MixtureModel, data: Dataset, seed: int) -> npt.NDArray[np.int64] | None:
    """Draw the rows for candidates of a given number of clusters: sorted, or None for all."""
    K = model.weights.max_components
    if K is None or has_few_rows(model, data):
        return None
    return drawn_rows(data.n_rows, _n_candidate_rows(data, K), seed=seed, unit=_CANDIDATE_UNIT)


def race_rows(data: Dataset, seed: int) -> npt.NDArray[np.int64] | None:
    """Draw the rows for candidates of an open number of clusters: sorted, or None for all."""
    return drawn_rows(data.n_rows, _n_race_rows(data), seed=seed, unit=_RACE_UNIT)


def rows_for_start(model: MixtureModel, data: Dataset) -> int:
    """Return how many rows of chunks are kept for a start: as many as its candidates look at."""
    K = model.weights.max_components
    return _n_race_rows(data) if K is None else _n_candidate_rows(data, K)


def search_memory(data: Dataset, n_clusters: int | None) -> int:
    """Return the bytes that a search needs at its peak, beside the statistics of the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian
    >>> from expfam.samplers.warm_starts.sample_rows import search_memory
    >>> search_memory(Dataset(np.eye(100, 10), DiagonalGaussian()), 3)
    35600
    """
    n = min(data.n_rows, _most_rows(n_clusters))
    of_part = 0 if n == data.n_rows else _bytes_of_rows(data, n)
    n_candidate = _n_race_rows(data) if n_clusters is None else _n_candidate_rows(data, n_clusters)
    if n_candidate < n:
        of_part += _bytes_of_rows(data, n_candidate)
    # coordinates in three metrics, one of them in single precision as well; labels of some candidates
    columns = 64 if data.is_sparse else min(data.n_features, 1 << 16)
    return of_part + min(n, n_candidate) * (28 * columns + 76)


def has_few_rows(model: MixtureModel, data: Dataset) -> bool:
    """Tell whether clusters with a full covariance have fewer rows on average than parameters.

    The joint density of a partition, EM and held-out densities then all prefer one wide cluster and some tight ones.
    """
    K = model.weights.max_components
    return K is not None and model.family.has_full_covariance and data.n_rows < K * data.n_statistics


def _n_race_rows(data):
    return max(_RACE_ROWS, _RACE_ROWS_A_COLUMN * data.n_features if data.family.has_full_covariance else 0)


def _n_candidate_rows(data, n_clusters):
    each = max(_CANDIDATE_ROWS_EACH, _CANDIDATE_ROWS_A_STATISTIC * data.n_statistics)
    return -(-(_CANDIDATE_ROWS + each * n_clusters) // _TILE_ROWS) * _TILE_ROWS


def _most_rows(n_clusters):
    return _SAMPLE_ROWS + _SAMPLE_ROWS_EACH * (MOST_CENTRES if n_clusters is None else n_clusters)


def _bytes_of_rows(data, n):
    X = data.X
    whole = X.data.nbytes + X.indices.nbytes if data.is_sparse else X.nbytes
    return int(whole * (n / data.n_rows)) + 8 * n
