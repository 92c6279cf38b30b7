"""The case for laws of rows in groups: data, and few rows with their exact posteriors."""

from __future__ import annotations

import itertools
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam import AdmixtureModel, Dataset, DirichletProcess, GroupedMixture, HierarchicalProcess, MixtureModel
from expfam.errors import DataWarning
from expfam.model.enumeration import ExactPosterior, canonical
from expfam.plugins.laws.data_case import Case
from expfam.samplers import Cycle, GroupedGibbs, GroupedProcessGibbs, GroupedProcessSplitMerge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expfam.families.base import Family

GIVEN, UNKNOWN = "of a given number", "of an unknown number"  # of clusters, in messages

_FEW = np.array([0, 0, 1, 1, 0])  # groups of the rows whose clusters are enumerated
_CHOICES = 30  # of few rows
_K, _ALPHA, _GAMMA = 2, 1.3, 0.8
_GROUPS, _CLUSTERS = 4, 3  # of all rows
_QUICK: dict[str, Any] = {"n_steps": 8, "n_warmup": 4, "learn_hyper": False, "random_state": 0}


class Few(NamedTuple):
    """Few rows in groups, a model and its kernel, and the probability of each partition."""

    kernel: Any
    model: Any
    data: Dataset
    exact: dict[tuple[int, ...], float]


class GroupedCase:
    """A family with rows in groups, to try laws on.

    The number of clusters is once given and once unknown. Hyper-parameters are those of the family bound to all rows.
    """

    others = ()  # other hyper-parameters are tried by the laws of families

    def __init__(self, family: Family, X: Any = None, *, seed: int = 0, n_moves: int = 4000) -> None:
        self.case, self.n_moves = Case(family, X, seed=seed), int(n_moves)
        self.family, self.X, self.seed = self.case.family, self.case.X, int(seed)
        self.groups = self.rng("groups").permutation(np.arange(self.X.shape[0]) % _GROUPS)

    @property
    def subject(self) -> Family:
        """Return what the laws are about: the bound family."""
        return self.family

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator that depends on the seed and on `name` alone."""
        return self.case.rng(name)

    def chains(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield words, a kernel, and a function that makes its state of all rows."""
        data = Dataset(self.X, self.family, groups=self.groups)
        for words, kernel, model in (
            (GIVEN, GroupedGibbs(), AdmixtureModel(self.family, _CLUSTERS, 0.5)),
            (UNKNOWN, _process(), HierarchicalProcess(self.family)),
        ):
            yield words, kernel, lambda kernel=kernel, model=model: kernel.init(model, data, seed=self.seed)

    @cached_property
    def fits(self) -> dict[str, GroupedMixture]:
        """Return short fits of all rows, by words."""
        return {words: self.fit(GroupedMixture(self.family, K, **_QUICK)) for words, K in self.numbers.items()}

    numbers: dict[str, int | None] = {GIVEN: _CLUSTERS, UNKNOWN: None}  # noqa: RUF012 - never changed

    def fit(self, mixture: GroupedMixture, X: Any = None, groups: Any = None, **options: Any) -> GroupedMixture:
        """Fit a mixture to all rows, or to others, without warnings about data that were made up.

        Parameters
        ----------
        mixture : GroupedMixture
        X, groups : array_like, optional
            Other rows, and the group of each.
        **options
            Further arguments of `GroupedMixture.fit`.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            given = (self.X, self.groups) if X is None else (X, groups)
            return mixture.fit(given[0], groups=given[1], **options)

    @cached_property
    def few(self) -> dict[str, Few]:
        """Return few rows with all their partitions, by words.

        Of some choices of rows the one with the most even posterior is taken: it tells most of wrong scores.
        """
        rng, model = self.rng("few rows"), MixtureModel(self.family, DirichletProcess())
        choices = [self.X[rng.permutation(self.X.shape[0])[: len(_FEW)]] for _ in range(_CHOICES)]
        X = max(choices, key=lambda rows: ExactPosterior(model, rows).n_effective)
        data, n = Dataset(X, self.family, groups=_FEW), len(_FEW)
        process, given = HierarchicalProcess(self.family, _ALPHA, _GAMMA), AdmixtureModel(self.family, _K, _ALPHA / _K)
        return {
            GIVEN: Few(GroupedGibbs(learn_alpha=False), given, data, _exact(given, data, _K)),
            UNKNOWN: Few(_process(learn_alpha=False), process, data, _exact(process, data, n)),
        }


def _process(**settings):
    """Return splits, merges and sweeps; `work` is enough for a try at every step."""
    return Cycle(GroupedProcessSplitMerge(n_tries=2, work=100.0), GroupedProcessGibbs(**settings))


def _exact(model, data, n_clusters):
    """Return the probability of each partition, whatever the numbers of its clusters."""
    numbered = list(itertools.product(range(n_clusters), repeat=data.n_rows))
    if isinstance(model, HierarchicalProcess):  # clusters have no numbers
        numbered = [labels for labels in numbered if canonical(labels) == labels]
    logs = np.array([model.log_joint(data, np.array(labels)) for labels in numbered])
    p = np.exp(logs - logs.max())
    exact = {}
    for labels, mass in zip(numbered, p / p.sum()):
        exact[canonical(labels)] = exact.get(canonical(labels), 0.0) + float(mass)
    return exact
