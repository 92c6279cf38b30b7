"""Laws of the cells of a table under a mixture, by which tools with other families are compared.

A cell of a column of resolution delta is the event x - delta/2 < X <= x + delta/2; delta is the smallest gap of values
that repeat or are whole. Its probability is that of a Gaussian, a log-normal, a Poisson or a category alike, so columns
may have other families on the two sides. Where no value repeats, delta is 0, and the score is the density in the units
of the data, that of a log-normal with its Jacobian.
"""

import sys
import warnings
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import nbinom, t

from expfam.estimators.mixture_results import drawn_clusters
from expfam.families.columns.cells import cell_laws
from expfam.families.support import dense_rows

_LEAST = -700.0  # nats; a probability below the smallest number counts as this
_LEAST_LEVEL = np.log(1e-12)  # of a level that no row of the fit had


class Law(NamedTuple):
    """Law of one column in each cluster.

    `kind` is "t", "log t", "counts" or "levels"; `parameters` are location, scale and freedom, or shape and
    probability, or log probabilities of levels, each with one row a cluster. `center` is what stands for a hidden
    number, of the logarithm for "log t".
    """

    kind: str
    parameters: tuple
    center: Any

    def log_cells(self, x, delta):
        """Log probability of the cells x (m,) in each cluster: (m, K)."""
        if self.kind == "levels":
            return np.maximum(self.parameters[0].T[x.astype(int)], _LEAST_LEVEL)
        x = x[:, None]
        if self.kind == "counts":
            return _between(lambda edge: nbinom.logcdf(edge, *self.parameters), x, delta)
        if self.kind == "t":
            return log_t_cells(x - delta / 2, x + delta / 2, *self.parameters, delta)
        with np.errstate(divide="ignore"):
            edges = np.log(np.maximum(x - delta / 2, 0.0)), np.log(x + delta / 2)
        return log_t_cells(*edges, *self.parameters, delta) - (0.0 if delta else np.log(x))

    def filled(self, p):
        """What stands for hidden cells, given the probabilities p (m, K) of clusters: (m,)."""
        if self.kind == "levels":
            return (p @ np.exp(self.parameters[0])).argmax(axis=1)
        found = p @ self.center
        return np.exp(found) if self.kind == "log t" else found


class CellMixture(NamedTuple):
    """Log weights (K,) of clusters, and the law of each column."""

    log_weights: np.ndarray
    laws: list

    def log_joint(self, X, deltas):
        """Log weight of each cluster with the observed cells of each row: (N, K) nats."""
        total = np.tile(self.log_weights, (len(X), 1))
        for x, law, delta in zip(X.T, self.laws, deltas):
            rows = np.flatnonzero(~np.isnan(x))
            total[rows] += law.log_cells(x[rows], delta)
        return total

    def row_scores(self, X, deltas):
        """Log probability of each row by its observed cells: (N,) nats."""
        return logsumexp(self.log_joint(X, deltas), axis=1)

    def hidden_scores(self, X, given, deltas):
        """Log probability of each cell that `given` lacks and X has, and what stands for it, given the rest of its row.

        Returns
        -------
        rows, columns, scores, filled : (m,) ndarrays
        """
        joint = self.log_joint(given, deltas)
        posterior = joint - logsumexp(joint, axis=1, keepdims=True)
        found = []
        for j, law in enumerate(self.laws):
            rows = np.flatnonzero(np.isnan(given[:, j]) & ~np.isnan(X[:, j]))
            scores = logsumexp(posterior[rows] + law.log_cells(X[rows, j], deltas[j]), axis=1)
            found.append((rows, np.full(len(rows), j), scores, law.filled(np.exp(posterior[rows]))))
        return [np.concatenate(values) for values in zip(*found)]


def log_t_cells(low, high, location, scale, freedom, delta):
    """Log probability of (low, high] under Student's t, from the tail that keeps its digits; density if delta is 0."""
    if not delta:
        return np.maximum(t.logpdf(high, freedom, location, scale), _LEAST)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (low - location) / scale, (high - location) / scale
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
        upper, lower = t.logcdf(high, freedom), t.logcdf(low, freedom)
        found = upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300)))
    return np.maximum(np.where(np.isfinite(found), found, _LEAST), _LEAST)


def _between(log_cdf, x, delta):
    with np.errstate(divide="ignore", invalid="ignore"):
        upper, lower = log_cdf(np.floor(x + delta / 2 - 1e-9)), log_cdf(np.ceil(x - delta / 2) - 1)
        found = upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300)))
    return np.maximum(np.where(np.isfinite(found), found, _LEAST), _LEAST)


def resolutions(X, is_category):
    """Resolution of each column of numbers: the smallest gap where values repeat or are whole, else 0."""
    found = np.zeros(X.shape[1])
    for j in np.flatnonzero(~is_category):
        values = np.sort(X[~np.isnan(X[:, j]), j].astype(np.float64))
        gaps = np.diff(np.unique(values))
        gaps = gaps[gaps > 1e-9 * (values[-1] - values[0])]
        if 2 * (gaps.size + 1) <= values.size or np.all(np.diff(values) == np.rint(np.diff(values))):
            found[j] = gaps.min()
    return found


# ---- the package -----------------------------------------------------------------------------------------------------


def cells_of_mixture(mixture):
    """Laws of the cells of a fitted `Mixture`, as it predicts by default: by the clusters of all kept draws.

    Where none are kept, they are those of the labels. Each has a new cluster beside them.
    """
    drawn = drawn_clusters(mixture)
    parts = [mixture._clusters()] if drawn is None else drawn.parts
    each = [cells_of_clusters(part) for part in parts]
    laws = [_of_all(laws) for laws in zip(*(one.laws for one in each))]
    return CellMixture(np.concatenate([one.log_weights for one in each]) - np.log(len(each)), laws)


def cells_of_clusters(clusters):
    """The same of some clusters, of which a new one is the last."""
    family = clusters.family
    n, S = np.append(clusters.n, 0.0), np.vstack([dense_rows(clusters.S), np.zeros(family.n_statistics_)])
    found = cell_laws(family, n, S)
    laws: dict[int, Law] = {}
    for part, _, count, sums in family._each(n, S):
        laws |= dict(zip(part.columns, _laws_of_part(part, count, sums, [found[j] for j in part.columns])))
    return CellMixture(clusters.log_weights, [laws[j] for j in range(family.n_features_in_)])


def _of_all(laws):
    """Law of a column in the clusters of all draws."""
    parameters = tuple(np.concatenate(values) for values in zip(*(law.parameters for law in laws)))
    center = None if laws[0].center is None else np.concatenate([law.center for law in laws])
    return Law(laws[0].kind, parameters, center)


def _laws_of_part(part, n, S, cells):
    if cells[0].probability is not None:
        return [Law("levels", (np.log(cell.probability),), None) for cell in cells]
    if part.family.name in ("gaussian_diag", "lognormal"):
        strength, mean, shape, rate = part.family._posterior(n, S)
        scale = np.sqrt(rate * (1 + 1 / strength) / shape)
        kind = "log t" if part.family.of_logs else "t"
        freedom = np.broadcast_to(2 * shape, mean.shape)
        columns = zip((mean + part.family.center_).T, scale.T, freedom.T)
        return [Law(kind, column, cell.center) for column, cell in zip(columns, cells)]
    if part.family.name == "poisson":
        shape, rate = part.family.shape + S, part.family.rate + n
        return [Law("counts", (a, rate / (rate + 1)), cell.center) for a, cell in zip(shape.T, cells)]
    raise ValueError(f"no law of cells for {part.family.name}")


# ---- StepMix ---------------------------------------------------------------------------------------------------------


def cells_of_stepmix(X, is_category, levels, K, seed=0):
    """Laws of the cells of a fitted StepMix, Gaussian and categories, on standardised numbers; None if it fails."""
    stepmix = import_module("stepmix")
    numbers, categories = np.flatnonzero(~is_category), np.flatnonzero(is_category)
    center, unit = np.zeros(X.shape[1]), np.ones(X.shape[1])
    center[numbers], unit[numbers] = np.nanmean(X[:, numbers], axis=0), np.nanstd(X[:, numbers], axis=0)
    unit[unit == 0] = 1.0
    order = np.concatenate([numbers, categories])
    descriptor = {}
    for j in order:
        kind = ("categorical" if is_category[j] else "gaussian_diag") + ("_nan" if np.isnan(X[:, j]).any() else "")
        descriptor[f"c{j}"] = {"model": kind, "n_columns": 1}
        if is_category[j]:
            descriptor[f"c{j}"]["max_n_outcomes"] = int(levels[j])
    laws = [None] * X.shape[1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = {"random_state": seed, "verbose": 0, "progress_bar": 0, "max_iter": 300}
            model = stepmix.StepMix(K, measurement=descriptor, **settings).fit(((X - center) / unit)[:, order])
        with np.errstate(divide="ignore"):
            for j in categories:
                p = np.reshape(model._mm.models[f"c{j}"].parameters["pis"], (K, -1))
                p = np.pad(p, ((0, 0), (0, max(0, levels[j] - p.shape[1]))))  # "_nan" drops levels without a row
                laws[j] = Law("levels", (np.log(p),), None)
            for j in numbers:
                found = model._mm.models[f"c{j}"].parameters
                mean = center[j] + unit[j] * np.ravel(found["means"])
                sd = unit[j] * np.sqrt(np.ravel(found["covariances"]))
                laws[j] = Law("t", (mean, sd, np.full(K, np.inf)), mean)
            log_weights = np.log(model.weights_)
    except Exception as error:
        print(f"  stepmix, K = {K}: {type(error).__name__}: {str(error)[:90]}", file=sys.stderr)
        return None
    is_sound = all(np.isfinite(value).all() for law in laws for value in law.parameters[:2] if law.kind == "t")
    return CellMixture(log_weights, laws) if is_sound else None
