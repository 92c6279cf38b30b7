"""The size of negative binomial columns: how much counts vary within groups.

No chain learns it, because the base density of counts depends on it. Clusters of Poisson columns, which are too many
where counts vary more, are merged under one size after the other, and rows that were held out decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.fitting.held_rows import held_out_densities

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.protocols import Floats
    from expfam.samplers.warm_starts.settle import Settler

SIZES = (128, 90, 64, 45, 32, 23, 16, 11, 8, 5.7, 4, 2.8, 2, 1.4, 1, 0.7, 0.5, 0.35, 0.25)  # by roots of two


class SizedCounts(NamedTuple):
    """Negative binomial columns of the size that describes held-out rows best.

    Attributes
    ----------
    family : NegativeBinomial
        Unbound.
    n_clusters : int
        After merges.
    densities : (M,) float64 ndarray
        Log density of each held-out row, nats.
    """

    family: NegativeBinomial
    n_clusters: int
    densities: Floats


def sized_counts(
    settler_of: Callable[[Family], Settler],
    labels: npt.NDArray[np.int32],
    held: npt.NDArray[np.floating],
    *,
    merges: bool,
    n_threads: int | None,
) -> SizedCounts:
    """Return the size of negative binomial columns that describes held-out rows best.

    Parameters
    ----------
    settler_of : callable
        ``settler_of(family)`` returns what moves partitions of the other rows under a family.
    labels : (N,) int32 ndarray
        Clusters of the other rows, numbers from 0 without gaps; too many, or as many as were asked for.
    held : (M, V) ndarray
    merges : bool
        Whether clusters are merged where that raises the log joint; those of a smaller size begin from those of the
        larger one before.
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    SizedCounts

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).negative_binomial(4.0, 0.2, (300, 3)).astype(float)
    >>> from expfam import Dataset, DirichletProcess, MixtureModel
    >>> from expfam.fitting.count_sizes import sized_counts
    >>> from expfam.samplers.warm_starts.settle import Settler
    >>> def settler_of(family):
    ...     data = Dataset(X[:200], family)
    ...     return Settler(MixtureModel(data.family, DirichletProcess()), data)
    >>> found = sized_counts(settler_of, np.arange(200, dtype=np.int32) % 9, X[200:], merges=True, n_threads=1)
    >>> found.family.r, found.n_clusters
    (4.0, 1)
    """
    tried = []
    for r in SIZES:
        family = NegativeBinomial(float(r))
        settler = settler_of(family)
        fitted = settler.fitted(labels)
        fitted = settler.merged(fitted) if merges else fitted
        labels = fitted.labels
        densities = held_out_densities(fitted.model, settler.data, labels, held, n_threads=n_threads)
        tried.append(SizedCounts(family, int(labels.max()) + 1, densities))
    return max(tried, key=lambda one: one.densities.mean())
