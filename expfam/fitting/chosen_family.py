"""The family of real columns that describes unseen rows best.

A fifth of some rows is held out. Each family in question is fitted to the others by the search for a start, and the
density of the held-out rows is compared: free covariances of each cluster with a diagonal, and in many columns one
variance that all clusters share with a diagonal. Where a fifth of the rows does not tell, other fifths are added.

Of many columns in a given number of clusters another question is asked: under which family do two halves of the rows
find the same clusters? A diagonal fits the spread of each column of embeddings better, and cuts their topics by it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.errors import ExpFamError
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.fitting.held_rows import held_out_densities
from expfam.fitting.plan import learned_hyper
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import compact_labels
from expfam.params import is_auto
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.ties import spread_ties
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.protocols import Floats, Weights

_MOST_COLUMNS_OF_FULL = 40  # more, and a sample has too few rows for covariances
_FEWEST_COLUMNS_OF_SHARED = 64
_FEWEST_ROWS, _FEWEST_ROWS_A_CLUSTER = 20, 2
_MOST_ROWS, _MOST_CELLS = 2500, 2_500_000
_N_PARTS = 5
_CLEAR = 2.0  # standard errors of a difference, from which no further part is held out
_CLEARLY_AGREED = 0.05  # by which two halves of the rows agree more under one family
_FEWEST_HELD = 50  # rows, of which a standard error says something
_UNIT = 15  # stream of the purpose "start"


class FamilyChoice(NamedTuple):
    """Family of real columns, and how well each one in question describes held-out rows.

    Attributes
    ----------
    family : Family
        Unbound.
    scores : dict of str to float
        Mean log density of the held-out rows under each family, by its name: nats a row. Empty where halves chose.
    agreement : dict of str to float
        Adjusted Rand index of the clusters of two halves of the rows under each family. Empty where held-out rows
        chose.
    """

    family: Family
    scores: dict[str, float]
    agreement: dict[str, float] = {}  # noqa: RUF012


def chosen_family(
    X: npt.NDArray[np.floating],
    weights: Weights,
    sample_weight: npt.ArrayLike | None = None,
    *,
    seed: int,
    n_threads: int | None,
) -> FamilyChoice | None:
    """Choose the family of real columns by held-out rows, or by the agreement of halves.

    Parameters
    ----------
    X : (N, V) ndarray
        Real values without holes.
    weights : Weights
        Prior of the clusters' weights.
    sample_weight : (N,) array_like of float, optional
        Multiplicities of the rows.
    seed : int
        Decides which rows are held out.
    n_threads : int or None
        The choice does not depend on it.

    Returns
    -------
    FamilyChoice or None
        The diagonal Gaussian where no other one is better by a standard error. From 64 columns on and for a given
        number of clusters it is the family under which two halves of the rows agree more, by 0.05. None where
        there is nothing to choose: one column, or 41 to 63; fewer than 20 rows, or two a cluster that was asked for;
        rows that no family takes.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess
    >>> from expfam.fitting.chosen_family import chosen_family
    >>> Z = np.random.default_rng(0).normal(size=(200, 2))
    >>> choice = chosen_family(Z @ [[1.0, 0.9], [0.0, 0.1]], DirichletProcess(), seed=0, n_threads=None)
    >>> choice.family.name, sorted(choice.scores)
    ('gaussian', ['gaussian', 'gaussian_diag'])
    """
    other, weight = _other_family(X.shape[1]), None if sample_weight is None else np.asarray(sample_weight)
    if other is None or (weight is not None and weight.shape != X.shape[:1]):
        return None
    rows = _sample(X, weight, seed)
    fewest = max(_FEWEST_ROWS, _FEWEST_ROWS_A_CLUSTER * (weights.max_components or 0))
    if len(rows) * (_N_PARTS - 1) < fewest * _N_PARTS:
        return None
    with warnings.catch_warnings():  # what they say of the rows, the fit itself says
        warnings.simplefilter("ignore")
        try:
            data = Dataset(X[rows], DiagonalGaussian(), weight=None if weight is None else weight[rows])
            compared = _Comparison(spread_ties(data, weights.max_components, seed=seed), weights, seed, n_threads)
            is_wide = type(other) is SphericalGaussian and weights.max_components is not None
            if is_wide and len(rows) >= 2 * fewest:
                agreed = compared.more_agreed(DiagonalGaussian(), other)
                if agreed is not None:
                    return agreed
            return compared.choice(DiagonalGaussian(), other)
        except ExpFamError:  # the fit itself says why
            return None


def _other_family(n_columns):
    """Return what is compared with the diagonal Gaussian."""
    if 2 <= n_columns <= _MOST_COLUMNS_OF_FULL:
        return Gaussian()
    return SphericalGaussian(variance="shared") if n_columns >= _FEWEST_COLUMNS_OF_SHARED else None


def _sample(X, weight, seed):
    """Return some rows of weight above 0 in random order."""
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_CELLS // X.shape[1]))
    counted = X.shape[0] if weight is None else np.flatnonzero(weight > 0)
    return generator(seed, "start", unit=_UNIT).permutation(counted)[:most]


class _Comparison:
    """Densities of parts of the rows under families that are fitted to the other parts."""

    def __init__(self, data: Dataset, weights: Weights, seed: int, n_threads: int | None) -> None:
        self.data, self.weights, self.seed, self.n_threads = data, weights, seed, n_threads

    def choice(self, simple: Family, other: Family) -> FamilyChoice:
        """Choose the simple family, unless the other one is clearly better."""
        held, of_simple, of_other = [], [], []
        for part in range(_N_PARTS):
            rows = np.arange(part, self.data.n_rows, _N_PARTS)
            held.append(rows)
            of_simple.append(self._densities(simple, rows))
            of_other.append(self._densities(other, rows))
            gain, error = self._mean(np.concatenate(of_other) - np.concatenate(of_simple), np.concatenate(held))
            if abs(gain) > _CLEAR * error and sum(map(len, held)) >= _FEWEST_HELD:
                break
        means = [self._mean(np.concatenate(each), np.concatenate(held))[0] for each in (of_simple, of_other)]
        scores = {family.name: mean for family, mean in zip((simple, other), means)}
        return FamilyChoice(other if gain > error else simple, scores)

    def more_agreed(self, simple: Family, other: Family) -> FamilyChoice | None:
        """Choose the family under which halves agree clearly more on the clusters, if one is."""
        agreement = {family.name: self._agreement(family) for family in (simple, other)}
        gain = agreement[other.name] - agreement[simple.name]
        return FamilyChoice(other if gain > 0 else simple, {}, agreement) if abs(gain) > _CLEARLY_AGREED else None

    def _agreement(self, family):
        from sklearn.metrics import adjusted_rand_score

        half = self.data.n_rows // 2
        whole = Dataset(self.data.X, family, weight=self.data.weight)
        found = []
        for rows in (np.arange(half), np.arange(half, whole.n_rows)):
            part = whole.take(rows)
            start = self._start(family, part)
            labels = compact_labels(start.labels)
            found.append(extended_labels(start.model, part, labels, whole, n_threads=self.n_threads))
        return float(adjusted_rand_score(*found))

    def _start(self, family, data):
        model = MixtureModel(data.family, self.weights)
        settings: dict[str, Any] = {"adapt_prior": is_auto(getattr(family, "scale", None)), "n_threads": self.n_threads}
        return search_start(model, data, learned=learned_hyper("auto", family), seed=self.seed, **settings)

    def _densities(self, family: Family, held: npt.NDArray[np.int64]) -> Floats:
        seen = np.delete(np.arange(self.data.n_rows), held)
        weight = self.data.weight
        data = Dataset(self.data.X[seen], family, weight=None if weight is None else weight[seen])
        found = self._start(family, data)
        labels = compact_labels(found.labels)
        return held_out_densities(found.model, data, labels, self.data.X[held], n_threads=self.n_threads)

    def _mean(self, values, rows):
        """Return the mean of some rows and its standard error."""
        weight = np.ones(len(rows)) if self.data.weight is None else self.data.weight[rows]
        mean = np.average(values, weights=weight)
        return float(mean), float(np.sqrt(np.sum(weight * (values - mean) ** 2)) / np.sum(weight))
