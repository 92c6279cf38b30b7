"""The best of several partitions by the posterior density that EM reaches from each.

The joint density of a hard partition prefers clusters of unequal sizes where clusters overlap: it gains by cutting them
so that each is tight. The posterior density of parameters, with labels summed out, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.families.modes import mode_law_of
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.partitions import division_of, fitted_labels
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.uncollapsed.em_few_rows import FewRowsClimb, may_climb_at_once
from expfam.structures.ground.threads import single_blas

_MOST_STEPS, _TOL = 20, 1e-3  # nats a row
_HOPE = 0.01  # nats a row that a step may gain yet: EM can leave a ridge by steps that gain more and more


class RaceResult(NamedTuple):
    """Partition from which EM has reached the highest posterior density.

    Attributes
    ----------
    name : str
    labels : (N,) int32 ndarray
        Most probable components where EM has ended.
    scores : dict of str to float
        Log posterior density, nats, that each candidate has reached. A candidate that was left behind has stopped
        before its end, but at least at the second step.
    """

    name: str
    labels: npt.NDArray[np.int32]
    scores: dict[str, float]


def best_by_em(
    model: MixtureModel,
    data: Dataset,
    candidates: Mapping[str, npt.ArrayLike],
    *,
    seed: int,
    n_threads: int | None = None,
) -> RaceResult:
    """Run EM from several partitions; return the one of the highest posterior density.

    Parameters
    ----------
    model : MixtureModel
        With a finite number of components, of a family with `map_natural` and `log_prior`.
    data : Dataset
    candidates : mapping of str to (N,) array_like of int
    seed : int
    n_threads : int or None
        The result does not depend on it.

    Returns
    -------
    RaceResult
        Of equal candidates the first.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers.warm_starts.em_race import best_by_em
    >>> data = Dataset([[0.0], [0.1], [0.2], [8.0], [8.1], [8.2]], DiagonalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2, 1.0))
    >>> best = best_by_em(model, data, {"odd": [0, 1, 0, 1, 0, 1], "halves": [0, 0, 0, 1, 1, 1]}, seed=0)
    >>> best.name, best.labels
    ('halves', array([0, 0, 0, 1, 1, 1], dtype=int32))

    Notes
    -----
    A step of EM is made from all candidates in turn. A candidate leaves the race where another one divides the rows in
    the same way, and where steps that gain twice its last gain, or 0.01 nats a row, would not take it to the best. The
    race ends after 20 steps, when all that are left gain less than 0.001 nats a row, or when
    no label of the only one changes.
    """
    with single_blas():  # once for all steps: to make the setting takes as long as a step on a few rows
        states, step_of = _begun(model, data, candidates, seed, n_threads)
        scores = dict.fromkeys(states, -np.inf)
        for step in range(1, _MOST_STEPS + 1):
            gains, n_moved = {}, 0
            for name, state in states.items():
                n_moved += step_of(state)
                reached = state.log_joint
                gains[name], scores[name] = reached - scores[name], reached
            hopes = {name: max(2.0 * gain, _HOPE * data.n_rows) * (_MOST_STEPS - step) for name, gain in gains.items()}
            states = _in_the_race(states, scores, hopes)
            if all(state.converged for state in states.values()) or (len(states) == 1 and not n_moved):
                break
    name = max(states, key=lambda each: scores[each])
    return RaceResult(name, np.asarray(states[name].labels, dtype=np.int32), scores)


def _begun(
    model: MixtureModel, data: Dataset, candidates: Mapping[str, npt.ArrayLike], seed: int, n_threads: int | None
) -> tuple[dict[str, Any], Callable[[Any], int]]:
    """Return what EM moves, and the function that makes a step and counts changed labels."""
    kernel, weights = ExpectationMaximization(tol=_TOL, n_threads=n_threads), model.weights
    is_plain = type(weights) is SymmetricDirichlet and data.known is None and data.groups is None
    if is_plain and may_climb_at_once(data, weights.n_components) and (law := mode_law_of(model.family)) is not None:
        fitting = {name: fitted_labels(labels, weights.n_components, kernel) for name, labels in candidates.items()}
        climbs = {name: FewRowsClimb(law, data, labels, weights, tol=_TOL) for name, labels in fitting.items()}
        return climbs, FewRowsClimb.step
    kernel.check(model, data)
    states = {name: kernel.init(model, data, seed=seed, start=labels) for name, labels in candidates.items()}
    return states, lambda state: kernel.move(state)[1]  # nobody reads the report of a step, which takes as long


def _in_the_race(states: dict[str, Any], scores: dict[str, float], hopes: dict[str, float]) -> dict[str, Any]:
    """Return the states that may become the best, one of those with the same labels."""
    if len(states) == 1:
        return states
    best = max(scores[name] for name in states)
    kept: dict[bytes, str] = {}
    for name, state in states.items():
        if scores[name] + (0.0 if state.converged else hopes[name]) < best:
            continue
        division = division_of(state.labels)
        rival = kept.setdefault(division, name)
        if scores[rival] < scores[name]:
            kept[division] = name
    return {name: state for name, state in states.items() if name in kept.values()}
