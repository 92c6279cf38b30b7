"""Hyper-parameters and concentration by the evidence of a tree; Ward's tree for comparison."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.errors import CapabilityError, DataWarning
from expfam.families.base import Family
from expfam.families.support import YES_NO
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import by_first_appearance
from expfam.model.weights import DirichletProcess
from expfam.samplers.geometry.coordinates import Rows
from expfam.samplers.hierarchy.kernel import HierarchicalClustering, MergeState, chain_weight
from expfam.structures.ground.rng import generator, resolve_seed
from expfam.structures.merging.queue import MergeQueue
from expfam.structures.merging.ward import WardPartners
from expfam.user_warnings import warn

_ALPHAS = np.geomspace(1e-3, 1e3, 13)
_WORTHS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_FACTORS = {1: np.geomspace(1e-2, 1e2, 9), 2: np.geomspace(1e-2, 1e2, 5)}


def tuned_alpha(data: Dataset, *, subsample: int = 1000, seed: Any = 0, alphas: Sequence[float] | None = None) -> float:
    """Return the concentration under which the tree over a subsample has the most evidence.

    Parameters
    ----------
    data : Dataset
        Of a bound family.
    subsample : int
        Number of data used, drawn without replacement.
    seed : None, int, numpy Generator or RandomState
        Chooses the data.
    alphas : sequence of float, optional
        To choose from; 13 from 1/1000 to 1000 if not given.

    Returns
    -------
    float

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.samplers.hierarchy.tuning import tuned_alpha
    >>> tuned_alpha(Dataset([[0], [1], [40], [41]], Poisson(shape=1.0, rate=0.1)), alphas=[0.01, 1.0, 100.0])
    1.0
    """
    N = data.n_rows
    rows = np.arange(N)
    if subsample < N:
        rows = np.sort(generator(resolve_seed(seed), "subsample").choice(N, subsample, replace=False))
    part = Dataset(data.X[rows], data.family)
    values = _ALPHAS if alphas is None else np.asarray(alphas, dtype=np.float64)
    return float(values[int(np.argmax([tree_evidence(part, alpha) for alpha in values]))])


def tuned_family(
    family: Family,
    X: Any,
    *,
    subsample: int = 1000,
    grid: dict[str, Sequence[Any]] | None = None,
    seed: Any = 0,
    alpha: float = 1.0,
) -> Family:
    """Return the family with the hyper-parameters of a grid that have the most evidence.

    The evidence is the lower bound that a Bayesian hierarchical clustering of a subsample gives. It sums the
    probabilities of all partitions that the tree is consistent with (Heller & Ghahramani 2005).

    Parameters
    ----------
    family : Family
        Bound to X here if it is not yet.
    X : array_like or sparse matrix, shape (N, V)
    subsample : int
        Data used, drawn without replacement; time grows with its square.
    grid : dict of str to sequence, optional
        Values of one or two declared hyper-parameters, each a number or what the constructor takes. If not given,
        those that the family has learned by default, else the first two that it declares, times 9 factors (of one)
        or 5 x 5 (of two) from 1/100 to 100, within the family's `hyper_bounds`. Those of a table are tuned part by
        part, each with its own grid.
    seed : None, int, numpy Generator or RandomState
        Chooses the subsample.
    alpha : float
        Concentration of the Dirichlet process.

    Returns
    -------
    Family
        Bound.

    Raises
    ------
    CapabilityError
        The family declares nothing to tune.
    ValueError
        The grid names something else, or more than two.

    Warns
    -----
    DataWarning
        The best value lies at the edge of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0], [30.0], [90.0]], 20, axis=0))
    >>> from expfam.samplers import tuned_family
    >>> tuned_family(Poisson(shape=1.0, rate=1.0), X, grid={"rate": [0.0001, 0.03, 10.0]})
    Poisson(shape=1.0, rate=0.03)
    """
    family = family.bind(X)
    if grid is None and len(_tuned_parts(family)) > 1:
        for names in _tuned_parts(family):
            part = _grid_of(family, names)
            family = tuned_family(family, X, subsample=subsample, grid=part, seed=seed, alpha=alpha)
        return family
    grid = _default_grid(family) if grid is None else _checked_grid(family, grid)
    points = list(itertools.product(*(range(len(values)) for values in grid.values())))
    rows = _subsample(family.validate(X), subsample, resolve_seed(seed))
    candidates = [family.with_hyper(**{n: v[i] for (n, v), i in zip(grid.items(), point)}) for point in points]
    evidence = np.array([tree_evidence(Dataset(rows, candidate), alpha) for candidate in candidates])
    best = int(np.nanargmax(evidence))
    _warn_of_edges(family, grid, points[best])
    return candidates[best]


def tuned_worth(
    family: Family, X: Any, *, given: Family | None = None, subsample: int = 250, alpha: float = 1.0
) -> Family:
    """Return the family with priors worth as many observations as have the most evidence.

    How many rows of a small cluster it takes to overrule a prior decides which rows are merged first. The evidence is
    that of `tuned_family`, for 1/20 to 5 times the worth at binding, part by part of a table: smaller ones are tried as
    long as the evidence rises, and if it does not, larger ones.

    Parameters
    ----------
    family : Family
        Bound. Of families without `worth_hyper`, nothing is chosen.
    X : array_like or sparse matrix, shape (N, V)
    given : Family, optional
        The family before binding: what it gives as numbers is not chosen. If there is none, all are chosen.
    subsample : int
        Data used, drawn without replacement, always the same.
    alpha : float
        Concentration of the Dirichlet process.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Categorical
    >>> from expfam.samplers.hierarchy.tuning import tuned_worth
    >>> X = np.repeat([[0, 0, 0, 0], [1, 1, 1, 1]], 20, axis=0)
    >>> family = tuned_worth(Categorical().bind(X), X)
    >>> family.concentration
    array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    """
    for names in family.worth_hyper:
        if given is not None and not all(isinstance(getattr(given, name), str) for name in names):
            continue
        values = {name: np.asarray(getattr(family, name)) for name in names}
        candidates = [family.with_hyper(**{name: c * value for name, value in values.items()}) for c in _WORTHS]
        rows = _subsample(family.validate(X), subsample, resolve_seed(0))
        family = _uphill(candidates, _WORTHS.index(1.0), rows, alpha)
    return family


def _uphill(candidates, place, rows, alpha):
    """Return the family that is reached as long as the evidence rises: downwards, else upwards."""
    best, begin = tree_evidence(Dataset(rows, candidates[place]), alpha), place
    for step in (-1, 1):
        while 0 <= place + step < len(candidates):
            found = tree_evidence(Dataset(rows, candidates[place + step]), alpha)
            if not found > best:
                break
            place, best = place + step, found
        if place != begin:
            break
    return candidates[place]


def tree_evidence(data: Dataset, alpha: float) -> float:
    """Return the greedy tree's lower bound of the log evidence under a Dirichlet process.

    The family is bound. The result is in nats, without log-base, and comparable between hyper-parameters and between
    values of the concentration `alpha`.

    Parameters
    ----------
    data : Dataset
        With a bound family.
    alpha : float
        Concentration of the process, positive.
    """
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite; got {alpha!r}")
    kernel = HierarchicalClustering(order="odds")  # as published: evidence does not depend on how trees look best
    state = kernel.init(MixtureModel(data.family, DirichletProcess(float(alpha))), data)
    while state.merge():
        pass
    return state.log_joint


def ward_state(
    model: MixtureModel,
    data: Dataset,
    labels: npt.ArrayLike | None = None,
    *,
    rows: Dataset | None = None,
    collapse: bool = False,
) -> MergeState:
    """Return Ward's tree over the leaves, as a state with the odds of its merges.

    Parameters
    ----------
    model : MixtureModel
    data : Dataset
    labels : (N,) array_like of int, optional
        Leaf of each datum; single data if not given.
    rows : Dataset, optional
        Data whose distances are taken, where those of `data` have repeated values that are spread.
    collapse : bool
        Whether leaves are copies of one datum each, weighed like a chain of merges.

    Returns
    -------
    MergeState

    Notes
    -----
    Ward 1963, in the coordinates of `Rows`: standardised columns, where greedy odds follow scale and shape of each
    cluster. About N**2 distances are computed, O(N) memory.
    """
    points = Rows(data if rows is None else rows).embedding(0, None).astype(np.float64)
    labels = np.arange(data.n_rows) if labels is None else np.asarray(labels)
    n_leaves, leaf = by_first_appearance(labels)
    means = np.zeros((n_leaves, points.shape[1]))
    np.add.at(means, leaf, points)
    sizes = np.bincount(leaf).astype(np.float64)
    partners = WardPartners(means / sizes[:, None], size=sizes)
    children, _ = MergeQueue(n_leaves, partners).run(partners.absorb)
    weight = chain_weight(model, data, labels) if collapse else None
    return MergeState.of_children(model, data, children, labels=labels, leaf_weight=weight)


# ---- grids ----------------------------------------------------------------------------------------------------------


def _tuned_parts(family):
    """Return the hyper-parameters that are tuned together, those of each part of a table."""
    names: dict[str, list[str]] = {}
    for name in family.learned_by_default or family.hyper:
        if family.hyper[name] == YES_NO:  # a grid has no room for a choice of each column
            continue
        names.setdefault(name.rpartition(".")[0], []).append(name)
    return [part[:2] for part in names.values()]


def _default_grid(family):
    if not family.hyper:
        raise CapabilityError(f"family {family.name!r} declares nothing in `hyper`: there is nothing to tune")
    return _grid_of(family, _tuned_parts(family)[0])


def _grid_of(family, names):
    grid = {}
    for name in names:
        low, high = family.hyper_bounds(name)
        base = np.asarray(getattr(family, name), dtype=np.float64)
        factors = np.unique(np.clip(_FACTORS[len(names)], low, high))
        grid[name] = [float(base * c) if base.ndim == 0 else base * c for c in factors]
    return grid


def _checked_grid(family, grid):
    unknown = [name for name in grid if name not in family.hyper]
    if unknown or not 1 <= len(grid) <= 2:
        raise ValueError(
            f"grid must have one or two of the hyper-parameters {list(family.hyper)} of {family.name!r};"
            f" got {list(grid)}"
        )
    for name, values in grid.items():
        if len(values) == 0:
            raise ValueError(f"grid[{name!r}] is empty")
        for value in values:
            if not (np.isfinite(value).all() and np.all(np.asarray(value) > 0)):
                raise ValueError(f"grid[{name!r}] must hold positive values; got {value!r}")
    return {name: list(values) for name, values in grid.items()}


def _subsample(X, size, seed):
    if size != int(size) or size < 2:
        raise ValueError(f"subsample must be an integer of at least 2; got {size!r}")
    if X.shape[0] <= size:
        return X
    return X[np.sort(generator(seed, "subsample").permutation(X.shape[0])[: int(size)])]


def _warn_of_edges(family, grid, point):
    for (name, values), i in zip(grid.items(), point):
        if len(values) > 2 and i in (0, len(values) - 1):
            warn(
                f"{family.name}: the best {name} lies at the edge of the grid ({values[i]}): widen it, or check the"
                " data (columns with repeated exact values have no best scale)",
                DataWarning,
            )
