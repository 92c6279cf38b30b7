"""Hierarchical Dirichlet processes with a limit of clusters, all of which have a place.

The weights that all groups share are drawn beside the clusters of the rows: given them a group has pseudo-counts as in
an admixture, so kernels of admixtures sample this model too, and have only its weights drawn between their steps.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln, logsumexp

from expfam.families.independent_columns import draw_log_gamma
from expfam.model.admixture import AdmixtureModel
from expfam.model.pseudo_counts import CountTable, draw_concentration, draw_pseudocounts
from expfam.structures.ground.stored import TINY, numbers

if TYPE_CHECKING:
    import numpy.typing as npt

_TIMES, _FEWEST, _MOST = 4, 50, 1000  # places for each cluster that was found, within these
_LEAST = 1e-300  # pseudo-count: a gamma variable of a small shape can be 0 in a double


@dataclasses.dataclass(frozen=True)
class FiniteProcess(AdmixtureModel):
    """Hierarchical Dirichlet process with at most L clusters.

    The weights beta of all clusters together have the law Dirichlet(gamma / L, ..., gamma / L), and the weights of a
    group Dirichlet(alpha beta). As L grows this becomes `HierarchicalProcess`: clusters without rows then stand for all
    that have none. It is the exact law of a model of its own for any L.

    Parameters
    ----------
    family : Family
        As of `AdmixtureModel`.
    n_components : int
        L, the most clusters.
    alpha : float or (L,) array_like, positive
        Present pseudo-counts alpha beta of the clusters in a group. Their sum is the concentration of the groups.
    seeds
        As of `AdmixtureModel`.
    gamma : float, positive
        Concentration of the shared weights: the larger, the more clusters in all.

    Raises
    ------
    ValueError
        As `AdmixtureModel` raises it, and for a `gamma` that is no positive number.

    Examples
    --------
    >>> from expfam import Multinomial
    >>> from expfam.model.finite_process import FiniteProcess
    >>> model = FiniteProcess(Multinomial(0.1), 4, alpha=[0.7, 0.1, 0.1, 0.1], gamma=2.0)
    >>> round(model.concentration, 12), model.beta.round(2).tolist()
    (1.0, [0.7, 0.1, 0.1, 0.1])

    Notes
    -----
    Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", section 4.2.
    """

    gamma: float = 1.0

    __hash__ = None  # type: ignore[assignment]

    def __post_init__(self):
        super().__post_init__()
        if not (np.ndim(self.gamma) == 0 and 0 < self.gamma < np.inf):
            raise ValueError(f"FiniteProcess: gamma must be one positive number; got {self.gamma!r}")

    @property
    def concentration(self) -> float:
        """Return the concentration alpha of the groups."""
        return float(self.pseudocounts.sum())

    @property
    def beta(self) -> npt.NDArray[np.float64]:
        """Return the weights that all groups share: (L,) float64."""
        return self.pseudocounts / self.concentration


def log_shared_density(model: AdmixtureModel, sizes: npt.NDArray[np.floating | np.integer]) -> float:
    """Return the log density of the weights that groups share, nats: 0 where they share none.

    Clusters without rows have one weight together, and the places of the others do not count.

    Parameters
    ----------
    model : AdmixtureModel or FiniteProcess
    sizes : (L,) ndarray
        Rows of the clusters.
    """
    if not isinstance(model, FiniteProcess):
        return 0.0
    L, found = model.n_components, model.beta[sizes > 0]
    each, n_empty = model.gamma / L, L - len(found)
    total = gammaln(model.gamma) - len(found) * gammaln(each) + (each - 1.0) * np.log(found).sum()
    total += gammaln(L + 1.0) - gammaln(n_empty + 1.0)
    if n_empty:
        rest = max(float(model.beta[sizes == 0].sum()), _LEAST)
        total += (n_empty * each - 1.0) * np.log(rest) - gammaln(n_empty * each)
    return float(total)


def default_n_places(n_found: float) -> int:
    """Return four times as many places as clusters were found, from 50 to 1,000.

    >>> from expfam.model.finite_process import default_n_places
    >>> default_n_places(3), default_n_places(40), default_n_places(600)
    (50, 160, 1000)
    """
    return int(np.clip(_TIMES * n_found, _FEWEST, _MOST))


def with_first_weights(model: Any, sizes: npt.NDArray[np.floating | np.integer]) -> Any:
    """Return a model whose shared weights are in proportion to its clusters.

    A chain may begin with these. Models without shared weights are returned unchanged.

    Parameters
    ----------
    model : AdmixtureModel or FiniteProcess
    sizes : (L,) ndarray
        Rows of the clusters.
    """
    if not isinstance(model, FiniteProcess):
        return model
    shape = sizes + model.gamma / model.n_components
    return dataclasses.replace(model, alpha=model.concentration * shape / shape.sum())


def law_arrays(model: AdmixtureModel) -> dict[str, npt.NDArray[np.float64]]:
    """Return what a stored state keeps of the pseudo-counts of a model, as a dict of arrays."""
    shared = {"gamma": np.array([model.gamma])} if isinstance(model, FiniteProcess) else {}
    return {"alpha": model.pseudocounts, **shared}


def stored_law(model: Any, arrays: dict[str, Any]) -> Any:
    """Return a model with the pseudo-counts of `law_arrays`.

    Parameters
    ----------
    model : AdmixtureModel or FiniteProcess
        Of the same kind.
    arrays : dict of ndarrays
    """
    model = model.with_alpha(numbers(arrays, "alpha", (model.n_components,), low=TINY))
    if not isinstance(model, FiniteProcess):
        return model
    return dataclasses.replace(model, gamma=float(numbers(arrays, "gamma", (1,), low=TINY)[0]))


def redrawn_pseudocounts(
    model: AdmixtureModel, table: CountTable, totals: npt.ArrayLike, rng: np.random.Generator, *, learn: bool
) -> AdmixtureModel:
    """Return the model with pseudo-counts of clusters in groups drawn given all counts.

    Parameters
    ----------
    model : AdmixtureModel or FiniteProcess
    table : CountTable
        Counts of rows of groups in clusters, with the clusters as its groups.
    totals : (G,) array_like
        Rows of each group.
    rng : numpy Generator
    learn : bool
        Whether independent pseudo-counts, and the concentrations of shared weights, are drawn. Their priors are
        Gamma(1, 1). Shared weights are drawn in any case.

    Returns
    -------
    AdmixtureModel or FiniteProcess

    Notes
    -----
    Of shared weights the numbers of tables are drawn first. Given these the concentrations are drawn with the weights
    integrated out, gamma by tables of the tables, and then the weights: Dirichlet(m + gamma / L).
    """
    if not isinstance(model, FiniteProcess):
        return model.with_alpha(draw_pseudocounts(model.pseudocounts, table, totals, rng)) if learn else model
    L, alpha, gamma = model.n_components, model.concentration, model.gamma
    tables = table.draw_tables(model.pseudocounts, rng)
    M, totals = float(tables.sum()), np.asarray(totals, dtype=np.float64)
    if learn:
        alpha = draw_concentration(alpha, M, totals[totals > 0], rng)
        of_tables = CountTable.of_counts(np.zeros(L, dtype=np.int64), tables.astype(np.int64), 1)
        n_shared = float(of_tables.draw_tables(np.array([gamma / L]), rng).sum())
        gamma = draw_concentration(gamma, n_shared, np.array([M]) if M else np.empty(0), rng)
    logs = draw_log_gamma(tables + gamma / L, rng)
    beta = np.exp(logs - logsumexp(logs))
    return dataclasses.replace(model, alpha=np.maximum(alpha * beta, _LEAST), gamma=gamma)
