"""Memory of a fit, forecast from the sizes of data and model before the fit begins.

`check_memory` refuses a fit above the limit. The figures are sums over the arrays that a fit allocates, not
measurements. They are meant to be too large rather than too small: measured fits of 15 to 100 MB needed between a ninth
and the whole of the forecast. A forecast allocates no array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ResourceError
from expfam.families.columns.family import Columns
from expfam.families.counts.word_lists import list_bytes, suits_lists
from expfam.model.finite_process import FiniteProcess
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.structures.ground.memory import available_memory, format_bytes, parse_bytes

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel

_COUNT_FAMILIES = ("multinomial", "categorical", "poisson")
_CERTAINTY_BYTES = 4  # of the probability of a row's own cluster
_GUESSED_CLUSTERS = 200
_DRAW_COPIES = 3  # of kept draws: in the trace, in the posterior, and in its search
_NEVER_SHORT = 1 << 24  # bytes; to ask what is free takes a tenth of the time of a fit of so few rows
_BLOCK_BYTES = 3 << 25  # upper limit of blocks of statistics and of scores
_SMALL_BYTES = 8 << 20  # memory that does not depend on the sizes
_LEAF_BYTES = 1200  # queue, partners, links and lists of a leaf and the node above it, as measured
_LEAF_COPIES = 5  # copies of a leaf's dense statistics: in the leaf, in its node, in caches, and in the export
_ENTRY_BYTES = 100  # bytes of a stored entry: postings, sums, and their growth as leaves merge


@dataclass(frozen=True)
class Forecast:
    """Bytes that a fit holds at its peak, by purpose.

    Attributes
    ----------
    data : int
        The data themselves, which are in memory before the fit begins.
    labels : int
        Labels, orders and kept partitions, which grow with the number of rows.
    statistics : int
        Statistics of the clusters and values that are cached with them.
    scratch : int
        Blocks of statistics and scores.
    proposals : int
        Tables and codes of the sampler's proposals.
    n_components : int
        Assumed number of clusters.
    is_guess : bool
        Whether this number was guessed, because the model has no limit.
    remedy : str
        What needs less memory, as the end of the sentence "the fit needs ...: ".
    """

    data: int
    labels: int
    statistics: int
    scratch: int
    n_components: int
    is_guess: bool = False
    proposals: int = 0
    remedy: str = "use fewer components or columns"

    def with_chains(self, n_more: int, chain: Forecast) -> Forecast:
        """Return the forecast with more chains, each of which needs as much as `chain`."""
        names = ("labels", "statistics", "scratch", "proposals")
        return replace(self, **{name: getattr(self, name) + n_more * getattr(chain, name) for name in names})

    def with_copy(self, n_bytes: int) -> Forecast:
        """Return the forecast with a copy of the data that takes some bytes."""
        return replace(self, scratch=self.scratch + n_bytes)

    @property
    def beside_data(self) -> int:
        """Return the bytes without the data, which `check_memory` compares with the limit."""
        return self.labels + self.statistics + self.scratch + self.proposals

    @property
    def is_of_tables(self) -> bool:
        """Tell whether tables of the sampler are most of a large fit.

        Fewer clusters or columns do not help there.
        """
        return self.beside_data > _NEVER_SHORT and 2 * self.proposals > self.beside_data

    @property
    def total(self) -> int:
        """Return the bytes of the fit and its data."""
        return self.data + self.beside_data

    def __str__(self):
        guess = "(guessed) " if self.is_guess else ""
        return (
            f"{format_bytes(self.beside_data)} beside {format_bytes(self.data)} of data: statistics of "
            f"{counted(self.n_components, f'{guess}cluster')} {format_bytes(self.statistics)}, labels "
            f"{format_bytes(self.labels)}, scratch {format_bytes(self.scratch)}"
            + (f", proposals {format_bytes(self.proposals)}" if self.proposals else "")
        )


def forecast_memory(
    data: Dataset,
    *,
    n_components: int | None = None,
    kernel: Any = None,
    model: MixtureModel | None = None,
    n_draws: int = 0,
) -> Forecast:
    """Forecast the memory of a fit to these data.

    Parameters
    ----------
    data : Dataset
    n_components : int, optional
        Number of clusters; if not given, min(N, 200), marked as a guess.
    kernel : Kernel, optional
        Its working objects are counted, too.
    model : MixtureModel, optional
        Needed with `kernel`.
    n_draws : int
        Number of draws of the partition that are kept.

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
        n_draws=n_draws,
    )
    if isinstance(data.family, Columns):
        forecast = replace(forecast, scratch=forecast.scratch + data.family.bytes_of_parts(data.X))
    if data.groups is not None:
        cells = data.groups.n_groups * forecast.n_components
        # counts of clusters in groups, their sums over sweeps, and dense weights at the end with their logarithms; no
        # partitions are kept
        of_rows = (28 + _CERTAINTY_BYTES) * data.n_rows + 48 * min(data.n_rows, cells)
        forecast = replace(forecast, labels=of_rows + 32 * cells)
    if kernel is None:
        return forecast
    return replace(forecast, proposals=int(kernel.memory(model, data, forecast.n_components)))


def forecast_topics(
    data: Dataset, *, kernel: Any, model: AdmixtureModel, start: Any = "auto", kept: Any = None
) -> Forecast:
    """Forecast the memory of a topic model of these documents.

    The larger of the memory of the start and of the steps counts. Clusters of the forecast are topics; tokens and
    tables of the kernel count as proposals. The statistics are counts of words in topics, their sums over sweeps, and
    the pseudo-counts that become `components_`.

    Parameters
    ----------
    data : Dataset
    kernel : Kernel
    model : AdmixtureModel
    start : str or array_like
        Start of the kernel.
    kept : KeptTopics, optional
        What keeps draws of topics.
    """
    K = model.n_components
    forecast = Forecast(
        data=_bytes_of(data.X),
        labels=16 * data.n_rows,
        statistics=24 * data.n_features * K + (0 if kept is None else kept.memory(data, K)),
        scratch=_SMALL_BYTES + (0 if data.is_sparse else 20 * data.X.size),  # dense counts become CSR
        n_components=K,
        proposals=int(max(kernel.memory(model, data, K), kernel.start_memory(start, model, data))),
    )
    tables = kernel.table_bytes(model, data) if isinstance(kernel, DocumentGibbs) else 0
    if tables and 2 * (forecast.statistics + tables) > forecast.beside_data:
        number = None if isinstance(model, FiniteProcess) else K
        found = f"tables of {counted(data.n_features, 'word')} and {counted(K, 'topic')} take most of it"
        return replace(forecast, remedy=f'{found}: leave out rare words, write TopicModel({number}, sampler="gibbs")')
    if not isinstance(kernel, TopicGibbs) or 2 * forecast.proposals < forecast.beside_data:
        return forecast
    n_tokens = float(data.X.sum())
    return replace(
        forecast,
        remedy=f"Gibbs sampling holds each of the {n_tokens:.3g} tokens. Variational inference holds counts:"
        f' write TopicModel({K}, sampler="variational")',
    )


def forecast_tree(data: Dataset, *, n_leaves: int | None = None, n_neighbors: int = 0, n_trees: int = 1) -> Forecast:
    """Forecast the memory of trees over these data; clusters of the forecast are leaves.

    Parameters
    ----------
    data : Dataset
    n_leaves : int, optional
        Number of leaves; N if not given.
    n_neighbors : int
        Number of candidates of each leaf if a graph of them is made, else 0.
    n_trees : int
        Number of trees that are in memory together, to choose from.

    Returns
    -------
    Forecast
    """
    L = data.n_rows if n_leaves is None else int(n_leaves)
    width = 8 * _LEAF_COPIES * data.n_statistics
    if data.is_sparse and data.has_sparse_phi:
        width = min(width, _ENTRY_BYTES * data.X.nnz // max(1, L))
    return Forecast(
        data=_bytes_of(data.X),
        labels=(16 + _CERTAINTY_BYTES) * data.n_rows,
        statistics=n_trees * L * (_LEAF_BYTES + width),
        scratch=_SMALL_BYTES,
        n_components=L,
        proposals=48 * n_neighbors * L,
    )


def forecast_sizes(
    family: str,
    *,
    n_rows: int,
    n_features: int,
    n_statistics: int | None = None,
    nnz: int | None = None,
    data_bytes: int | None = None,
    n_components: int | None = None,
    n_draws: int = 0,
) -> Forecast:
    """Forecast the memory of a fit from sizes; the data need not exist yet.

    Parameters
    ----------
    family : str
        Entry-point name.
    n_rows, n_features : int
    n_statistics : int, optional
        F, the width of the sufficient statistics. It follows from `n_features` for the built-in families, but for
        ``"categorical"`` give the number of levels of all columns.
    nnz : int, optional
        Number of stored entries of sparse data; without it the data are dense.
    data_bytes : int, optional
        Bytes of the data; if not given, 8 for each value and 4 for each index.
    n_components : int, optional
        Number of clusters; if not given, min(N, 200), marked as a guess.
    n_draws : int
        Number of draws of the partition that are kept.

    Notes
    -----
    Count families have word-major tables of int32 counts (float64 for fractions): V rows of K slots, padded to a cache
    line, with one bit for each slot and lists of the words that occur. Full Gaussians have F = d + d (d + 1) / 2 sums
    and two d x d factors for each cluster. Other families have twice K F doubles. A copy of the statistics is exported
    at the end.
    """
    K = min(n_rows, _GUESSED_CLUSTERS) if n_components is None else int(n_components)
    F = statistics_width(family, n_features) if n_statistics is None else int(n_statistics)
    if data_bytes is None:
        data_bytes = 8 * n_rows * n_features if nnz is None else 12 * nnz + 4 * (n_rows + 1)
    of_draws = _DRAW_COPIES * n_draws * label_bytes(K if n_components else 1 << 16)
    return Forecast(
        data=int(data_bytes),
        labels=int(n_rows * (3 * 4 + 8 + 8 + _CERTAINTY_BYTES + of_draws)),
        statistics=int(_statistics_bytes(family, n_features, F, K, nnz if nnz is not None else n_rows * F)),
        scratch=int(min(_BLOCK_BYTES, 3 * 8 * n_rows * F + _SMALL_BYTES) + 8 * (K + 1) * 4),
        n_components=K,
        is_guess=n_components is None,
    )


def label_bytes(n_clusters: int) -> int:
    """Return the bytes of a label of a kept draw: 1, 2 or 4."""
    return int(np.min_scalar_type(max(n_clusters, 1) - 1).itemsize)


def statistics_width(family: str, n_features: int) -> int:
    """Return the number of sufficient statistics of a family, given by its entry-point name."""
    d = n_features
    widths = {
        "gaussian": d + d * (d + 1) // 2,
        "gaussian_zero": d * (d + 1) // 2,
        "gaussian_diag": 2 * d,
        "lognormal": 2 * d,
        "gaussian_spherical": d + 1,
    }
    return widths.get(family, d)


def _statistics_bytes(family, n_features, F, K, n_entries):
    if family in _COUNT_FAMILIES:
        slots = -(-(K + 1) // 16) * 16
        present = min(K * F, n_entries)
        if family != "categorical" and suits_lists(F, slots, n_entries):
            return list_bytes(F, slots, n_entries) + 8 * F
        return slots * F * 4 + slots * F // 8 + present * (4 + 12) + 8 * F
    factors = 2 * n_features**2 if family in ("gaussian", "gaussian_zero") else 0
    return 8 * (K + 1) * (3 * F + factors)


def check_memory(forecast: Forecast, limit: float | str | None = None) -> None:
    """Raise ResourceError if a fit needs more memory beside the data than allowed.

    Parameters
    ----------
    forecast : Forecast
    limit : float or str, optional
        Bytes, or text like ``"4GB"``. Without it, it is the free memory of the machine or container; if that is
        unknown, nothing is checked, nor for a fit of at most 16 MiB.

    Raises
    ------
    ResourceError
        The message holds the figures.
    """
    if limit is None and forecast.beside_data <= _NEVER_SHORT:
        return
    allowed = available_memory() if limit is None else parse_bytes(limit)
    if allowed is not None and forecast.beside_data > allowed:
        whose = "are free" if limit is None else "are allowed (memory_limit)"
        enough = f"memory_limit='{math.ceil(forecast.beside_data / 1e6)} MB'"
        raise ResourceError(
            f"the fit needs about {forecast}; {format_bytes(allowed)} {whose}: {forecast.remedy}, or write {enough}"
            " to run it nevertheless"
        )


def _bytes_of(X):
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes
