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
from expfam.families.columns.family import Columns
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.fitting.candidates import Candidate
from expfam.fitting.count_sizes import sized_counts
from expfam.fitting.held_rows import densities_by_other_columns, held_out_densities
from expfam.fitting.plan import learned_hyper
from expfam.fitting.whole_numbers import WholeNumbers, whole_candidates
from expfam.model.assignment import extended_labels
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import compact_labels
from expfam.params import is_auto
from expfam.samplers.warm_starts.search import search_start
from expfam.samplers.warm_starts.settle import Settler
from expfam.samplers.warm_starts.ties import spread_ties
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family
    from expfam.protocols import Floats, Weights

_MOST_COLUMNS_OF_FULL = 40  # more, and few rows of a sample tell nothing of covariances
_MOST_OF_MANY_ROWS, _ROWS_A_COLUMN = 64, 20  # unless there are as many rows a column, for an open number of clusters
_FEWEST_COLUMNS_OF_SHARED = 64
_FEWEST_ROWS, _FEWEST_WHOLE_ROWS, _FEWEST_ROWS_A_CLUSTER = 20, 6, 2  # of four fifths of the rows
_FEWEST_WHOLE_COLUMNS = 2  # a mixture of categories in one column is a categorical again: nothing tells clusters
_MOST_ROWS, _MOST_CELLS = 2500, 2_500_000
_N_PARTS = 5
_CLEAR = 2.0  # standard errors of a difference, from which no further part is held out
_CLEARLY_AGREED = 0.05  # by which two halves of the rows agree more under one family
_FEWEST_HELD = 50  # rows, of which a standard error says something
_UNIT = 15  # stream of the purpose "start"


class FamilyChoice(NamedTuple):
    """Family of columns of numbers, and how well each one in question describes held-out rows.

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
    whole: WholeNumbers | None = None,
) -> FamilyChoice | None:
    """Choose the family of columns of numbers by held-out rows, or by the agreement of halves.

    Parameters
    ----------
    X : (N, V) ndarray
        Numbers without holes.
    weights : Weights
        Prior of the clusters' weights.
    sample_weight : (N,) array_like of float, optional
        Multiplicities of the rows.
    seed : int
        Decides which rows are held out.
    n_threads : int or None
        The choice does not depend on it.
    whole : WholeNumbers, optional
        What is known of `X` where it holds whole numbers alone: the family by the roles of the columns, such as
        categories, and, of numbers from 0 on, Poisson and negative binomial columns are compared too, unless the
        columns have many values. Of columns with holes the diagonal alone is.

    Returns
    -------
    FamilyChoice or None
        The diagonal Gaussian where no other one is better by a standard error. Categories and counts that find one
        cluster are left out where clusters of Gaussian columns tell held-out cells by the others. From 64 columns on
        and for a given number of clusters it is the family under which two halves of the rows agree more, by 0.05. None
        where there is nothing to choose: one column, or 41 to 63 of them for a given number of clusters or with
        fewer than 20 rows a column; fewer than 25 rows (of whole numbers 8), or 2.5 a cluster that was asked for; rows
        that no family takes.

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
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is not None and weight.shape != X.shape[:1]:
        return None
    by_roles = None if whole is None else whole.by_roles
    if by_roles is not None and (X[0] != X).any(axis=0).sum() < _FEWEST_WHOLE_COLUMNS:
        by_roles = None
    rows = _sample(X, weight, seed)
    reals = _reals(X.shape[1], len(rows), is_open=weights.max_components is None)
    if whole is not None and whole.has_holes:
        reals = reals[:1]
    is_by_cells = whole is not None and not whole.has_many_values  # else spikes, as of black pixels, decide
    if len(reals) == 1 and not is_by_cells:
        return None
    fewest = _FEWEST_WHOLE_ROWS if is_by_cells else _FEWEST_ROWS
    fewest = max(fewest, _FEWEST_ROWS_A_CLUSTER * (weights.max_components or 0))
    if len(rows) * (_N_PARTS - 1) < fewest * _N_PARTS:
        return None
    with warnings.catch_warnings():  # what they say of the rows, the fit itself says
        warnings.simplefilter("ignore")
        try:
            few = X[rows]
            plain = few[:, _varies(few)]
            compared = _Comparison(None if weight is None else weight[rows], weights, seed, n_threads)
            is_wide = type(reals[-1]) is SphericalGaussian and weights.max_components is not None
            if is_wide and len(rows) >= 2 * fewest:
                agreed = compared.more_agreed([Candidate(one, compared.spread(plain)) for one in reals])
                if agreed is not None:
                    return agreed
            if is_by_cells:
                return compared.choice(whole_candidates(few, reals, by_roles, seed=seed))
            if not plain.shape[1]:
                return None
            return compared.choice([Candidate(one, compared.spread(plain)) for one in reals])
        except ExpFamError:  # the fit itself says why
            return None


def _reals(n_columns, n_rows, *, is_open):
    """Return the Gaussians that are compared, the simplest first."""
    found: list[Family] = [DiagonalGaussian()]
    has_rows = is_open and n_columns <= _MOST_OF_MANY_ROWS and n_rows >= _ROWS_A_COLUMN * n_columns
    if 2 <= n_columns <= _MOST_COLUMNS_OF_FULL or (n_columns > _MOST_COLUMNS_OF_FULL and has_rows):
        found.append(Gaussian())
    if n_columns >= _FEWEST_COLUMNS_OF_SHARED:
        found.append(SphericalGaussian(variance="shared"))
    return found


def _sample(X, weight, seed):
    """Return some rows of weight above 0 in random order."""
    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_CELLS // X.shape[1]))
    counted = X.shape[0] if weight is None else np.flatnonzero(weight > 0)
    return generator(seed, "start", unit=_UNIT).permutation(counted)[:most]


def _varies(X):
    """Return which columns have several values in all rows but those of any one part: (V,) bool.

    The others say nothing about groups, and each family has a density of its own for them.
    """
    parts = np.arange(len(X)) % _N_PARTS
    seen = (X[parts != part] for part in range(_N_PARTS))
    return np.all([(each != each[:1]).any(axis=0) for each in seen], axis=0)


def _all_apart(candidate):
    """Return a candidate in which no column may be alike in all clusters.

    Halves agree on which columns are alike more than on groups: of embeddings, by .78 where it finds an adjusted Rand
    index of .74, by .72 under one shared variance where that finds .88.
    """
    if "alike" not in candidate.family.get_params():
        return candidate
    return candidate._replace(family=candidate.family.with_hyper(alike=False))


class _Held(NamedTuple):
    """Log densities of held-out rows, and the clusters of the other rows."""

    densities: Floats
    labels: npt.NDArray[np.int32]


class _Comparison:
    """Densities of parts of the rows under families that are fitted to the other parts."""

    def __init__(self, weight: Floats | None, weights: Weights, seed: int, n_threads: int | None) -> None:
        self.weight, self.weights, self.seed, self.n_threads = weight, weights, seed, n_threads
        self._told: bool | None = None  # whether clusters of numbers tell columns by the others, once it was asked

    def spread(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the rows with their repeated values spread, as a fit sees them."""
        data = Dataset(X, DiagonalGaussian(), weight=self.weight)
        return spread_ties(data, self.weights.max_components, seed=self.seed).X

    def choice(self, candidates: Sequence[Candidate]) -> FamilyChoice:
        """Choose the first candidate that is not clearly worse than the best.

        Simpler ones stand first.
        """
        if len(candidates) == 1:
            return FamilyChoice(candidates[0].family, {})
        candidates = list(candidates)
        found: list[list[_Held]] = [[] for _ in candidates]
        for part in range(_N_PARTS):
            for place, held in enumerate(found):
                if is_auto(candidates[place].family.get_params().get("r")):
                    candidates[place] = self._sized(candidates[place], found[place - 1][0])
                held.append(self._held_out(candidates[place], self._part(candidates[place], part)))
            densities = [np.concatenate([held.densities for held in of_one]) for of_one in found]
            tested = np.concatenate([self._part(candidates[0], seen) for seen in range(part + 1)])
            means = [self._mean(scores, tested)[0] for scores in densities]
            best, second = np.argsort(means)[::-1][:2]
            gain, error = self._mean(densities[best] - densities[second], tested)
            if gain > _CLEAR * error and len(tested) >= _FEWEST_HELD:
                break
        left = list(range(len(candidates)))
        chosen = self._first_of(left, densities, tested)
        while self._has_no_groups(candidates[chosen], found[chosen]) and self._numbers_have_groups(candidates[0]):
            left.remove(chosen)
            chosen = self._first_of(left, densities, tested)
        return FamilyChoice(candidates[chosen].family, {candidates[at].name: means[at] for at in left})

    def _sized(self, candidate, poisson):
        """Return negative binomial columns of the best size, from the clusters of Poisson columns."""
        held = self._part(candidate, 0)
        seen = np.delete(np.arange(len(candidate.X)), held)
        weight = None if self.weight is None else self.weight[seen]

        def settler_of(family):
            data = Dataset(candidate.X[seen], family, weight=weight)
            model, learned = MixtureModel(data.family, self.weights), learned_hyper("auto", family)
            return Settler(model, data, learned, seed=self.seed, n_threads=self.n_threads)

        is_open = self.weights.max_components is None
        options = {"merges": is_open, "n_threads": self.n_threads}
        return candidate._replace(family=sized_counts(settler_of, poisson.labels, candidate.X[held], **options).family)

    def _first_of(self, places, densities, rows):
        """Return the first of some candidates that is not clearly worse than the best of them."""
        means = [self._mean(densities[at], rows)[0] for at in places]
        best = places[int(np.argmax(means))]
        lacks = [(at, *self._mean(densities[best] - densities[at], rows)) for at in places]
        return next(at for at, lack, error in lacks if lack <= error)

    @staticmethod
    def _has_no_groups(candidate, found):
        """Return whether most fits of categories or counts have one cluster."""
        of_numbers = isinstance(candidate.family, (DiagonalGaussian, Gaussian, SphericalGaussian))
        return not of_numbers and 2 * sum(not held.labels.any() for held in found) > len(found)

    def _numbers_have_groups(self, candidate):
        """Return whether clusters of Gaussian columns tell held-out columns by the others.

        Categories have no order. So a few of them in few columns may be one cluster where their numbers are several.
        One cluster describes cells better than Gaussians, and says nothing of groups.
        """
        n_columns = candidate.X.shape[1]
        if type(candidate.family) is not DiagonalGaussian or n_columns < _FEWEST_WHOLE_COLUMNS:
            return False
        if self._told is None:
            family = Columns([(DiagonalGaussian(), (j,)) for j in range(n_columns)])
            apart = Candidate(family, candidate.X)
            parts = [self._part(apart, part) for part in range(_N_PARTS)]
            told = [self._held_out(apart, rows, densities_by_other_columns).densities for rows in parts]
            gain, error = self._mean(np.concatenate(told), np.concatenate(parts))
            self._told = gain > error
        return self._told

    @staticmethod
    def _part(candidate, part):
        return np.arange(part, len(candidate.X), _N_PARTS)

    def more_agreed(self, candidates: Sequence[Candidate]) -> FamilyChoice | None:
        """Choose the one of two candidates under which halves agree clearly more, if there is one."""
        simple, other = (self._agreement(_all_apart(one)) for one in candidates)
        agreement = {one.name: value for one, value in zip(candidates, (simple, other))}
        chosen = candidates[int(other > simple)]
        return FamilyChoice(chosen.family, {}, agreement) if abs(other - simple) > _CLEARLY_AGREED else None

    def _agreement(self, candidate):
        from sklearn.metrics import adjusted_rand_score

        whole = Dataset(candidate.X, candidate.family, weight=self.weight)
        half, found = whole.n_rows // 2, []
        for rows in (np.arange(half), np.arange(half, whole.n_rows)):
            part = whole.take(rows)
            model, labels = self._fitted(candidate.family, part)
            found.append(extended_labels(model, part, labels, whole, n_threads=self.n_threads))
        return float(adjusted_rand_score(*found))

    def _fitted(self, family, data):
        """Return the model and the labels that the search for a start finds."""
        model = MixtureModel(data.family, self.weights)
        settings: dict[str, Any] = {"adapt_prior": is_auto(getattr(family, "scale", None)), "n_threads": self.n_threads}
        found = search_start(model, data, learned=learned_hyper("auto", family), seed=self.seed, **settings)
        # counts begin a chain with random labels; what the search has found is beside them
        is_beside = data.family.is_discrete and found.others
        return found.model, compact_labels(next(iter(found.others.values())) if is_beside else found.labels)

    def _held_out(self, candidate: Candidate, held: npt.NDArray[np.int64], score: Any = held_out_densities) -> _Held:
        seen = np.delete(np.arange(len(candidate.X)), held)
        data = Dataset(candidate.X[seen], candidate.family, weight=None if self.weight is None else self.weight[seen])
        model, labels = self._fitted(candidate.family, data)
        found = score(model, data, labels, candidate.X[held], n_threads=self.n_threads)
        return _Held(found + candidate.log_base, labels)

    def _mean(self, values, rows):
        """Return the mean of some rows and its standard error."""
        weight = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        mean = np.average(values, weights=weight)
        return float(mean), float(np.sqrt(np.sum(weight * (values - mean) ** 2)) / np.sum(weight))
