"""Check of the steps of chains over an unknown number of topics, or of clusters of groups.

Clusters, their weights and data are drawn from the prior: the clusters are then a draw of the posterior, and stay one
under every step. There is no reversed chain, because weights are drawn after the sweep: the mean of each quantity along
a short chain must be that at its start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.amounts import counted
from expfam.evaluation.admixture_checks import require_drawn_values
from expfam.evaluation.exactness import (
    IMPOSSIBLE,
    LARGEST,
    LENGTH,
    STATE,
    Found,
    Skipped,
    generator_of,
    is_consistent,
    means_p,
)
from expfam.evaluation.units import Units, group_counts
from expfam.model.admixture import AdmixtureModel
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.pseudo_counts import positive
from expfam.samplers.nonparametric.weights import TINY, SharedWeights
from expfam.structures.ground.threads import run

_REFUSALS = 1000
_OF_CLUSTERS = (
    "clusters",
    "largest cluster",
    "sum of squared sizes",
    "clusters of a group",
    "units of one group",
    "units of two groups",
    "log evidence",
    "log probability by the weights",
    "largest weight",
    "weight of the rest",
)


class ProcessProblem(NamedTuple):
    """A model of an unknown number of clusters, a kernel to certify, and the units of the user.

    Attributes
    ----------
    model : HierarchicalProcess
        Bound.
    kernel, kind, n_units, n_threads
        As of `expfam.evaluation.admixture_checks.AdmixtureProblem`.
    learns_alpha, learns_eta : bool
        Whether the kernel draws the concentrations, and the pseudo-count of words.
    """

    model: HierarchicalProcess
    kernel: Any
    kind: Any
    n_units: int
    n_threads: int | None
    learns_alpha: bool
    learns_eta: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the test quantities."""
        drawn = ("concentration alpha", "concentration gamma") if self.learns_alpha else ()
        return (*_OF_CLUSTERS, *drawn, *(("pseudo-count eta",) if self.learns_eta else ()))

    def draw_model(self, rng: np.random.Generator) -> HierarchicalProcess:
        """Draw what the kernel draws from its Gamma(1, 1) priors."""
        model = self.model
        if self.learns_alpha:
            model = model.with_concentrations(*(float(positive(rng.standard_gamma(1.0))) for _ in range(2)))
        if self.learns_eta:
            eta = float(positive(rng.standard_gamma(1.0)))
            model = model.with_family(model.family.with_hyper(concentration=eta))
        return model


def draw_with_sticks(
    model: HierarchicalProcess, groups: npt.NDArray[np.integer], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], SharedWeights]:
    """Draw the clusters of units in groups one after the other, with their weights.

    A unit beyond all clusters so far breaks the stick of the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import HierarchicalProcess, Poisson
    >>> from expfam.evaluation.process_checks import draw_with_sticks
    >>> model, rng = HierarchicalProcess(Poisson()), np.random.default_rng(0)
    >>> labels, weights = draw_with_sticks(model, np.array([0, 0, 1]), rng)
    >>> len(weights.beta) == labels.max() + 1 and round(float(weights.beta.sum() + weights.rest), 12)
    1.0
    """
    labels, rest = np.empty(len(groups), dtype=np.int32), 1.0
    beta: list[float] = []
    counts: list[npt.NDArray[np.int64]] = []  # of each cluster, by group
    for i, group in enumerate(np.asarray(groups).tolist()):
        mass = np.cumsum([*(n[group] + model.alpha * b for n, b in zip(counts, beta)), model.alpha * rest])
        k = min(int(np.searchsorted(mass, rng.random() * mass[-1], side="right")), len(beta))
        if k == len(beta):
            left = float(rng.random()) ** (1.0 / model.gamma)  # of a Beta(1, gamma) share
            beta.append((1.0 - left) * rest)
            rest = max(left * rest, TINY)
            counts.append(np.zeros(int(np.max(groups)) + 1, dtype=np.int64))
        counts[k][group] += 1
        labels[i] = k
    return labels, SharedWeights(model.alpha, model.gamma, np.array(beta), rest)


def check_true_clusters(problem: ProcessProblem, n_replicates: int, seed: int) -> Found:
    """Compare means along short chains with those at their starts, drawn from the prior."""
    require_drawn_values(problem)
    found = run(lambda number: _chain(problem, seed, number), [(n,) for n in range(n_replicates)], problem.n_threads)
    values, are_right, refused = zip(*found)
    p = dict(zip(problem.names, map(float, means_p(np.array(values))))) | {STATE: float(all(are_right))}
    notes = [f"no reversal: means along chains of {LENGTH} states"]
    if sum(refused):
        notes.append(f"{counted(sum(refused), 'draw')} gave data that the family cannot hold")
    return Found(p, n_replicates, tuple(notes))


def _chain(problem, seed, number):
    """Return quantities along one chain, whether its state agrees, and refused draws."""
    rng = generator_of(seed, "truth", number)
    model, weights, (data, units, labels), n_refused = _possible(problem, rng)
    state = problem.kernel.init(model, data, seed=int(rng.integers(2**63)), start=labels)
    beta = np.zeros(state.shared.capacity)
    beta[: len(weights.beta)] = weights.beta
    state.set_weights(weights._replace(beta=beta))
    rows = [_numbers(problem, units, labels, weights, model)]
    for _ in range(LENGTH - 1):
        problem.kernel.step(state)
        rows.append(_numbers(problem, units, state.labels, state.weights, state.model))
    return np.array(rows), is_consistent(state), n_refused


def _possible(problem, rng):
    """Draw until the family takes the values; what is refused depends on them alone."""
    for n_refused in range(_REFUSALS):
        model = problem.draw_model(rng)
        groups = problem.kind.design(problem.n_units, rng).groups
        labels, weights = draw_with_sticks(model, groups, rng)
        try:
            values = problem.kind.draw_values(model, labels, rng)
            if not hasattr(problem.kind, "slope") and not np.abs(values).max() < LARGEST:
                raise ValueError("values beyond all numbers")
            return model, weights, problem.kind.data(model, Units(groups, values), labels), n_refused
        except IMPOSSIBLE:
            continue
    raise Skipped("a thousand draws in a row gave data that the family cannot hold")


def _numbers(problem, units, labels, weights, model):
    """Return the test quantities of clusters and weights, in the order of the names."""
    used, z = np.unique(labels, return_inverse=True)
    z, groups, beta = z.ravel(), units.groups, weights.beta[used]
    counts = group_counts(groups, z[None], len(used))[0]
    sizes, a = counts.sum(axis=0), np.maximum(weights.alpha * beta, TINY)
    own, others = np.flatnonzero(groups == groups[0]), np.flatnonzero(groups != groups[0])
    evidence = problem.kind.log_evidence(AdmixtureModel(model.family, len(used)), units, z[None])[0]
    found = [
        len(used),
        sizes.max(),
        (sizes**2).sum(),
        np.count_nonzero(counts),
        z[own[0]] == z[own[-1]],
        z[own[0]] == z[others[0] if len(others) else own[-1]],
        evidence,
        (gammaln(a + counts) - gammaln(a)).sum(),
        beta.max(),
        weights.rest,
    ]
    found += [weights.alpha, weights.gamma] if problem.learns_alpha else []
    found += [model.family.concentration] if problem.learns_eta else []
    return np.array(found, dtype=np.float64)
