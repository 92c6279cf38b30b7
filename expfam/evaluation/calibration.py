"""Check of whole runs: whether draws after the warm-up have the law of the posterior.

Data sets come from the prior of the model, each with the partition that made it. A run as the user starts it gives
draws, and the true partition must be one among them: its rank by each test quantity is uniform (simulation-based
calibration, Talts et al. 2018; Modrak et al. 2023), the number of its clusters lies within the draws as often as it
should, and pairs of rows are together as often as the draws say. Unlike the checks of single steps, this one fails
where a chain is exact and has not arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats

from expfam.evaluation.exactness import Found, Problem, Ranks, Skipped, generator_of, possible_draw, prior_draw, started
from expfam.evaluation.quantities import distances_to_others
from expfam.evaluation.ranks import gaussian_p, rank_of_truth, uniform_p
from expfam.samplers.chain.driver import sample
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

DRAWS = (19, 9, 4, 1)  # with the truth so many that ten, or all, places of ranks are alike
_MOST_CORRELATION = 0.1  # of the log joint from one used draw to the next
_DISTANCE = "distance to the draws"


class Draw(NamedTuple):
    """A partition, and the model with the hyper-parameters that it was drawn with."""

    partition: npt.NDArray[np.int32]
    model: MixtureModel


class ColdRun(Protocol):
    """How a user starts a run: a function of data and a seed that returns the draws."""

    n_warmup: int
    n_steps: int

    def __call__(self, X: Any, seed: int) -> list[Draw]:
        """Return the draw after each step that counts."""


class KernelRun:
    """Run of a kernel from its own start.

    Parameters
    ----------
    model : MixtureModel
    kernel : Kernel
    n_warmup, n_steps : int
    """

    def __init__(self, model: Any, kernel: Kernel, *, n_warmup: int, n_steps: int) -> None:
        self.model, self.kernel, self.n_warmup, self.n_steps = model, kernel, n_warmup, n_steps

    def __call__(self, X: Any, seed: int) -> list[Draw]:
        """Return the draw after each step that counts."""
        state = started(self.kernel, self.model, X, seed=seed)
        sample(self.kernel, state, self.n_warmup)
        draws: list[Draw] = []

        def collect(info: Any, state: Any) -> None:
            draws.append(Draw(state.partition, state.model))

        sample(self.kernel.frozen(state), state, self.n_steps, callbacks=[collect])
        return draws


class EstimatorRun:
    """Fits of an estimator, with the hyper-parameters of the model and no learning of them.

    Parameters
    ----------
    estimator : Mixture
    model : MixtureModel
        Bound; its family and weights replace those of the estimator.
    n_steps : int
        Steps that count, where the estimator leaves them to a rule.
    """

    def __init__(self, estimator: Any, model: Any, *, n_steps: int) -> None:
        given = estimator.get_params(deep=False)
        self.n_steps = n_steps if given["n_steps"] == "auto" else int(given["n_steps"])
        is_auto = isinstance(given["n_warmup"], str)
        self.n_warmup = min(self.n_steps, 100) if is_auto else int(given["n_warmup"])
        self._type = type(estimator)
        self._settings = given | {
            "family": model.family,
            "weights": model.weights,
            "n_components": model.weights.max_components,
            "n_steps": self.n_steps,
            "n_warmup": self.n_warmup,
            "learn_hyper": False,
            "start": given["start"] if isinstance(given["start"], str) else "auto",
            "partition": "last",
            "n_threads": 1,
            "memory_limit": None,
            "time_limit": None,
        }

    def __call__(self, X: Any, seed: int) -> list[Draw]:
        """Return the draw after each step that counts."""
        draws: list[Draw] = []
        settings = self._settings | {
            "random_state": seed,
            "callbacks": [lambda info, state: draws.append(Draw(state.partition, state.model))],
        }
        fitted = self._type(**settings).fit(X)
        return draws[fitted.trace_.n_warmup :]


class Replicate(NamedTuple):
    """Result of one run: quantities of the true partition and of the draws, and all partitions."""

    values: npt.NDArray[np.float64]  # (1 + n_draws, Q), the truth first
    partitions: npt.NDArray[np.int32]
    seed: int


def draws_compared(cold_run: Any) -> int:
    """Return how many draws of a run are compared with the truth; skip runs without draws."""
    n_draws = next((n for n in DRAWS if n <= cold_run.n_steps), 0)
    if not n_draws:
        raise Skipped("no step counts (n_steps=0): there are no draws")
    return n_draws


def check_cold(problem: Problem, cold_run: ColdRun, n_replicates: int, seed: int) -> Found:
    """Run from a cold start on data of the prior; compare the draws with the true partition.

    Parameters
    ----------
    problem : Problem
    cold_run : ColdRun
        Makes a run of the user's settings on given data.
    n_replicates : int
        Number of data sets that are drawn.
    seed : int

    Returns
    -------
    Found
    """
    n_draws, draw = draws_compared(cold_run), prior_draw(problem)

    def replicate(number):
        rng = generator_of(seed, "cold", number)
        model, labels, data, _ = possible_draw(draw, rng)
        draws = cold_run(data.X, int(rng.integers(2**63)))
        chosen = np.linspace(len(draws) / n_draws, len(draws), n_draws).astype(int) - 1
        truth = Draw(np.unique(labels, return_inverse=True)[1].astype(np.int32), model)
        partitions, models = zip(truth, *(draws[t] for t in chosen))
        values = problem.values(data.X, np.array(partitions), models)
        return Replicate(values, np.array(partitions), int(rng.integers(2**63)))

    parts = run(replicate, [(number,) for number in range(n_replicates)], problem.n_threads)
    return joined(parts, n_draws, problem.names)


def joined(parts: Sequence[Replicate], n_draws: int, names: tuple[str, ...]) -> Found:
    """Return the p-values over all runs, by as many draws as depend little on each other.

    Parameters
    ----------
    parts : sequence of Replicate
    n_draws : int
        Number of draws of each.
    names : tuple of str
        Names of the quantities; one is "log joint".
    """
    column = names.index("log joint")
    joints = np.array([part.values[1:, column] for part in parts])
    for n in DRAWS[DRAWS.index(n_draws) :]:
        used = np.linspace(n_draws / (n + 1), n_draws, n, endpoint=False).astype(int) if n < n_draws else np.arange(n)
        correlation = _lag_one(joints[:, used])
        if correlation < _MOST_CORRELATION:
            break
    ranks = np.array([_ranks(_narrowed(part, used)) for part in parts])
    ranked = Ranks((*names, _DISTANCE), ranks, n + 1)
    p = dict(zip(ranked.names, map(float, uniform_p(ranks, n + 1))))
    # all draws: they are what a user reads an interval from, also where they depend on each other
    inside = np.array([_is_inside(part.values[:, names.index("clusters")]) for part in parts])
    wanted = (n_draws - 1) / (n_draws + 1)
    # from the smallest to the largest of the draws; numbers of clusters tie, so more of the truths may lie within
    p["interval of clusters"] = float(stats.binom.cdf(inside.sum(), len(parts), wanted))
    together = np.array([part.values[:, names.index("rows 0 and 1")] for part in parts])
    gaps = together[:, 0] - together[:, 1:].mean(axis=1)
    spread = np.sqrt((gaps**2).sum())
    p["pairs of rows"] = float(gaussian_p(gaps.sum() / spread)) if spread > 0 else 1.0
    notes = (
        f"ranks among {n} draws of each run" if n > 1 else "ranks beside 1 draw of each run",
        f"the true number of clusters is within the draws in {inside.mean():.3f} of the runs, {wanted:.2f} asked",
    )
    return Found(p, len(parts), notes, ranked)


def _narrowed(part, used):
    """Return the same with some of the draws."""
    chosen = np.concatenate([[0], used + 1])
    return part._replace(values=part.values[chosen], partitions=part.partitions[chosen])


def _ranks(part):
    """Return the ranks of the truth among the draws."""
    values = np.column_stack([part.values, distances_to_others(part.partitions)])
    return rank_of_truth(values[0], values[1:], np.random.default_rng(part.seed))


def _is_inside(numbers):
    return numbers[1:].min() <= numbers[0] <= numbers[1:].max()


def _lag_one(values):
    """Return the autocorrelation of lag 1 of (R, T) series; 1 for chains that stand still."""
    T = values.shape[1]
    if T < 3:
        return 0.0
    centred = values - values.mean(axis=1, keepdims=True)
    variance = (centred**2).mean()
    if variance <= 0:
        return 1.0
    lagged = (centred[:, 1:] * centred[:, :-1]).mean() / variance
    return float(lagged + 1.0 / (T - 1))  # the mean is that of the series itself, which lowers the first number
