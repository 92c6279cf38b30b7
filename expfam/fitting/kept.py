"""What the steps of a run leave behind: the best partition, and the draws of all chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.evaluation.posterior import PartitionPosterior
from expfam.fitting.drawn_hyper import values_of_draws, values_of_steps
from expfam.samplers.chain.agreement import record_of_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.fitting.run import ChainRun
    from expfam.samplers.chain.agreement import StepRecord


class BestDraw:
    """Callback that keeps the partition of the highest log joint.

    Examples
    --------
    >>> from expfam.fitting.kept import BestDraw
    >>> BestDraw().labels is None
    True
    """

    def __init__(self) -> None:
        self.labels: npt.NDArray[np.int32] | None = None
        self.log_joint = -np.inf

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep the labels of the step if it is the best so far."""
        if info.objective > self.log_joint:
            self.labels, self.log_joint = state.partition, info.objective
        return False


class KeptDraws(NamedTuple):
    """Draws of the partition of all chains, and what is known of each.

    Attributes
    ----------
    columns : dict of str to ndarray
        "draws" (M, N), "chain", "log_joint", "acceptance_rate" and "seconds" (M,) each; "hyper", a dict of (M,) arrays,
        where hyper-parameters were drawn too.
    steps : StepRecord or None
        Every step that counts, of several chains.
    """

    columns: dict[str, Any]
    steps: StepRecord | None = None

    def posterior(self, **options: Any) -> PartitionPosterior:
        """Return the posterior of these draws; options are those of `PartitionPosterior`."""
        named = {name: self.columns[name] for name in ("chain", "log_joint")}
        stats = {name: self.columns[name] for name in ("acceptance_rate", "seconds")}
        hyper = self.columns.get("hyper")
        draws = self.columns["draws"]
        return PartitionPosterior(draws, **named, sample_stats=stats, hyper=hyper, steps=self.steps, **options)


def kept_draws(runs: Sequence[ChainRun]) -> KeptDraws | None:
    """Return the draws of all chains, cut to the shortest; None where none were kept."""
    n_kept = min(run.trace.n_kept for run in runs)
    if not n_kept:
        return None
    rows = [run.trace.kept_steps[:n_kept] - 1 for run in runs]
    recorders = [run.hyper for run in runs]

    def of_draws(name):
        return np.concatenate([run.trace.column(name)[own] for run, own in zip(runs, rows)])

    with np.errstate(invalid="ignore", divide="ignore"):
        rate = of_draws("accepted") / of_draws("proposed")
    columns = {
        "draws": np.concatenate([run.trace.partitions[:n_kept] for run in runs]),
        "chain": np.repeat(np.array([run.state.chain for run in runs], dtype=np.int64), n_kept),
        "log_joint": of_draws("objective"),
        "acceptance_rate": rate,
        "seconds": of_draws("seconds"),
    }
    hyper = values_of_draws(recorders, [own - run.trace.n_warmup for run, own in zip(runs, rows)])
    if hyper:
        columns["hyper"] = hyper
    if len(runs) == 1:
        return KeptDraws(columns)
    of_chains = [run.recorder for run in runs if run.recorder is not None]  # each of several chains has one
    return KeptDraws(columns, record_of_steps(of_chains, values_of_steps(recorders)))


__all__ = ["BestDraw", "KeptDraws", "kept_draws"]
