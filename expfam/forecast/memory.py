"""Memory of a fit before it begins: what the sizes of data and model imply, and a refusal above the limit.

The figures are sums over the arrays that a fit allocates, not measurements, and meant to err upwards: measured fits of
15 to 100 MB took between a ninth and the whole of them. They cost nothing: no array is made.
"""

import math
from dataclasses import dataclass, replace

from scipy import sparse

from expfam.errors import ResourceError
from expfam.structures.ground.memory import available_memory, format_bytes, parse_bytes

_COUNT_FAMILIES = ("multinomial", "categorical", "poisson")
_GUESSED_CLUSTERS = 200
_KEPT_LABELS = 4e8  # label comparisons that choosing a partition may cost
_BLOCK_BYTES = 3 << 25  # most that blocks of statistics and of scores take
_SMALL_BYTES = 8 << 20  # what the sizes do not explain
_LEAF_BYTES = 1200  # queue, partners, links and lists of a leaf and the node above it, as measured
_LEAF_COPIES = 5  # of a leaf's dense statistics: its own, its node's, what is cached of them, and those exported
_ENTRY_BYTES = 100  # of a stored entry: postings, sums and what they grow to as leaves merge


@dataclass(frozen=True)
class Forecast:
    """Bytes that a fit holds at its peak, by what they are for.

    Attributes
    ----------
    data : int
        The data themselves, which are held already when a fit begins.
    labels : int
        Labels, orders and kept partitions: all that grows with the number of rows.
    statistics : int
        Statistics of the clusters and what is cached with them.
    scratch : int
        Blocks of statistics and scores.
    proposals : int
        What the sampler keeps beside the statistics: tables and codes of its proposals.
    n_components : int
        Number of clusters that was assumed.
    is_guess : bool
        Whether that number was guessed, the model having no limit.
    """

    data: int
    labels: int
    statistics: int
    scratch: int
    n_components: int
    is_guess: bool = False
    proposals: int = 0

    @property
    def beside_data(self):
        """Bytes needed beside the data: what `check_memory` compares with the limit."""
        return self.labels + self.statistics + self.scratch + self.proposals

    @property
    def total(self):
        """Bytes in all."""
        return self.data + self.beside_data

    def __str__(self):
        guess = " (guessed)" if self.is_guess else ""
        return (
            f"{format_bytes(self.beside_data)} beside {format_bytes(self.data)} of data: statistics of "
            f"{self.n_components}{guess} clusters {format_bytes(self.statistics)}, labels {format_bytes(self.labels)}, "
            f"scratch {format_bytes(self.scratch)}"
            + (f", proposals {format_bytes(self.proposals)}" if self.proposals else "")
        )


def forecast_memory(data, *, n_components=None, kernel=None, model=None):
    """Memory of a fit to these data.

    Parameters
    ----------
    data : Dataset
    n_components : int, optional
        Largest number of clusters; without it min(N, 200) is assumed and marked as a guess.
    kernel : Kernel, optional
        The sampler, whose working objects are then counted in; needs `model`.
    model : MixtureModel, optional

    Returns
    -------
    Forecast

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.forecast.memory import forecast_memory
    >>> forecast_memory(Dataset(np.ones((1000, 8)), Poisson()), n_components=5).data
    64000
    """
    forecast = forecast_sizes(
        data.family.name,
        n_rows=data.n_rows,
        n_features=data.n_features,
        n_statistics=data.n_statistics,
        nnz=data.X.nnz if data.is_sparse else None,
        data_bytes=_bytes_of(data.X),
        n_components=n_components,
    )
    if data.groups is not None:
        cells = data.groups.n_groups * forecast.n_components
        # counts of clusters in groups with their sums over sweeps, dense weights at the end, and no kept partitions
        forecast = replace(forecast, labels=28 * data.n_rows + 48 * min(data.n_rows, cells) + 24 * cells)
    if kernel is None:
        return forecast
    return replace(forecast, proposals=int(kernel.memory(model, data, forecast.n_components)))


def forecast_topics(data, *, kernel, model, start="auto"):
    """Memory of a fit of topics to these documents.

    Parameters
    ----------
    data : Dataset
    kernel : TopicGibbs or TopicVariational
    model : AdmixtureModel
    start : str
        What the kernel begins with: the larger of what it takes and what its steps take counts.

    Returns
    -------
    Forecast
        Its clusters are topics; what the kernels hold of tokens or in tables counts as proposals.

    Notes
    -----
    Statistics: counts of words in topics, their sums over sweeps, and the pseudo-counts that become `components_`.
    """
    K = model.n_components
    return Forecast(
        data=_bytes_of(data.X),
        labels=16 * data.n_rows,
        statistics=24 * data.n_features * K,
        scratch=_SMALL_BYTES + (0 if data.is_sparse else 20 * data.X.size),  # dense counts become CSR
        n_components=K,
        proposals=int(max(kernel.memory(model, data, K), kernel.start_memory(start, model, data))),
    )


def forecast_tree(data, *, n_leaves=None, n_neighbors=0, n_trees=1):
    """Memory of trees over these data.

    Parameters
    ----------
    data : Dataset
    n_leaves : int, optional
        N if not given.
    n_neighbors : int
        Candidates of each leaf, where a graph of them is made.
    n_trees : int
        Held together, to choose from.

    Returns
    -------
    Forecast
        Its clusters are leaves.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.forecast.memory import forecast_tree
    >>> forecast_tree(Dataset(np.ones((1000, 8)), Poisson())).n_components
    1000
    """
    L = data.n_rows if n_leaves is None else int(n_leaves)
    width = 8 * _LEAF_COPIES * data.n_statistics
    if data.is_sparse and data.has_sparse_phi:
        width = min(width, _ENTRY_BYTES * data.X.nnz // max(1, L))
    return Forecast(
        data=_bytes_of(data.X),
        labels=16 * data.n_rows,
        statistics=n_trees * L * (_LEAF_BYTES + width),
        scratch=_SMALL_BYTES,
        n_components=L,
        proposals=48 * n_neighbors * L,
    )


def forecast_sizes(family, *, n_rows, n_features, n_statistics=None, nnz=None, data_bytes=None, n_components=None):
    """Memory of a fit to data of given sizes, which need not exist yet.

    Parameters
    ----------
    family : str
        Entry-point name.
    n_rows, n_features : int
    n_statistics : int, optional
        F, the width of the sufficient statistics; for the built-in families known from `n_features`, else taken to be
        `n_features`. For ``"categorical"`` it is the number of levels of all columns.
    nnz : int, optional
        Stored entries of sparse data; dense if not given.
    data_bytes : int, optional
        Bytes of the data; 8 a value and 4 an index if not given.
    n_components : int, optional
        Largest number of clusters; without it min(N, 200) is assumed and marked as a guess.

    Returns
    -------
    Forecast

    Notes
    -----
    Count families: word-major tables of int32 counts, V rows of K slots padded to a cache line, held in float64 where
    the counts are fractions; one bit a slot and lists of the words present. Full Gaussians: F = d + d (d + 1) / 2 sums
    and two d x d factors a cluster. Others: twice K F doubles. A copy of the statistics is exported at the end.
    """
    K = min(n_rows, _GUESSED_CLUSTERS) if n_components is None else int(n_components)
    F = _statistics_width(family, n_features) if n_statistics is None else int(n_statistics)
    if data_bytes is None:
        data_bytes = 8 * n_rows * n_features if nnz is None else 12 * nnz + 4 * (n_rows + 1)
    return Forecast(
        data=int(data_bytes),
        labels=int(n_rows * (3 * 4 + 8 + 8 + 4 * most_kept_partitions(n_rows))),
        statistics=int(_statistics_bytes(family, n_features, F, K, nnz if nnz is not None else n_rows * F)),
        scratch=int(min(_BLOCK_BYTES, 3 * 8 * n_rows * F + _SMALL_BYTES) + 8 * (K + 1) * 4),
        n_components=K,
        is_guess=n_components is None,
    )


def most_kept_partitions(n_rows):
    """Partitions that a fit keeps at most, to choose the point estimate from: 5 to 50, fewer of many rows."""
    return min(50, max(5, int(math.sqrt(_KEPT_LABELS / max(n_rows, 1)) / 10)))


def _statistics_width(family, n_features):
    d = n_features
    widths = {
        "gaussian": d + d * (d + 1) // 2,
        "gaussian_zero": d * (d + 1) // 2,
        "gaussian_diag": 2 * d,
        "gaussian_spherical": d + 1,
    }
    return widths.get(family, d)


def _statistics_bytes(family, n_features, F, K, n_entries):
    if family in _COUNT_FAMILIES:
        slots = -(-(K + 1) // 16) * 16
        present = min(K * F, n_entries)
        return slots * F * 4 + slots * F // 8 + present * (4 + 12) + 8 * F
    factors = 2 * n_features**2 if family in ("gaussian", "gaussian_zero") else 0
    return 8 * (K + 1) * (3 * F + factors)


def check_memory(forecast, limit=None):
    """Raise where a fit would need more memory beside the data than it may have.

    Parameters
    ----------
    forecast : Forecast
    limit : int, float or str, optional
        Bytes, or text such as ``"4GB"``; without it what the machine, or the container, has free. Where that cannot be
        found out nothing is checked.

    Raises
    ------
    ResourceError
        With the figures.
    """
    allowed = available_memory() if limit is None else parse_bytes(limit)
    if allowed is not None and forecast.beside_data > allowed:
        whose = "are free" if limit is None else "are allowed (memory_limit)"
        raise ResourceError(
            f"the fit needs about {forecast}; {format_bytes(allowed)} {whose}: fewer components or columns, or a higher"
            " memory_limit"
        )


def _bytes_of(X):
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes
