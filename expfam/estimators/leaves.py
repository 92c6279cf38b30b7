"""Which leaves a hierarchy begins from: single rows, or clusters of a mixture.

Rows of a few words say too little to be merged first: the tree over them puts wrong pairs together, and no later merge
mends that. And pairs of many rows are too many to score. The clusters of a mixture are better leaves for both.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from expfam.estimators.mixture import Mixture
from expfam.model.weights import DirichletProcess

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset

FEW_TOKENS = 10  # of a row of counts, on average
FEW_ROWS = 1000  # of counts: below, clusters were no better than rows on two texts, above they were
MANY_ROWS = 20_000


def has_cluster_leaves(data: Dataset) -> bool:
    """Return whether ``leaves="auto"`` takes clusters of a mixture in place of single rows.

    It does for more than 20,000 rows of any family, and for counts in 1000 rows or more that have fewer than 10 tokens
    on average.

    Parameters
    ----------
    data : Dataset

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, Poisson
    >>> from expfam.estimators.leaves import has_cluster_leaves
    >>> has_cluster_leaves(Dataset(np.full((2000, 3), 3), Poisson()))
    True
    >>> has_cluster_leaves(Dataset(np.full((2000, 3), 4), Poisson()))
    False
    """
    if data.n_rows > MANY_ROWS:
        return True
    if not data.family.has_counts or data.n_rows < FEW_ROWS:
        return False
    values = data.X.data if sparse.issparse(data.X) else data.X
    return float(values.sum(dtype=np.float64)) < FEW_TOKENS * data.n_rows


def fitted_leaves(
    family: Family,
    data: Dataset,
    *,
    links: npt.ArrayLike | None = None,
    alpha: float,
    seed: int,
    n_threads: int | None = None,
    shows_progress: bool = False,
    memory_limit: float | str | None = None,
    time_limit: float | str | None = None,
) -> tuple[npt.NDArray[np.int32], bool]:
    """Return the cluster of each row under a mixture with an open number of clusters.

    Parameters
    ----------
    family : Family
        With the settings of the user; the mixture binds it and learns what it learns by default.
    data : Dataset
    links : (N,) array_like of int, optional
        Rows that belong together, as of `Mixture.fit`.
    alpha : float
        Concentration of the Dirichlet process, which is that of the tree.
    seed : int
    shows_progress : bool
    n_threads, memory_limit, time_limit
        As of `Mixture`.

    Returns
    -------
    labels : (N,) int32 ndarray
    interrupted : bool
        Whether Ctrl-C ended the fit.

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.estimators.leaves import fitted_leaves
    >>> data = Dataset([[0], [1], [0], [90], [91], [92]], Poisson())
    >>> fitted_leaves(Poisson(), data, alpha=1.0, seed=0)
    (array([0, 0, 0, 1, 1, 1], dtype=int32), False)
    """
    prior: Any = DirichletProcess(alpha)
    mixture: Any = Mixture(
        family,
        weights=prior,
        n_threads=n_threads,
        random_state=seed,
        callbacks="progress" if shows_progress else None,
        memory_limit=memory_limit,
        time_limit=time_limit,
    )
    with warnings.catch_warnings():
        # leaves need no settled chain, and its remedy, more steps, cannot be taken here
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(data.X, links=links)
    return mixture._labels, mixture.interrupted_
