"""What the steps of a run leave behind: the best partition, draws, and their statistics.

Densities and probabilities of new rows under one partition are too sure. Their means over draws need the statistics of
the draws, which are made once, at the end of a fit, while its rows are there. Their size does not depend on the number
of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.evaluation.posterior import PartitionPosterior
from expfam.fitting.drawn_hyper import values_of_draws, values_of_steps
from expfam.model.drawn import DrawnStatistics
from expfam.model.statistics import weighted_statistics
from expfam.samplers.chain.agreement import record_of_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family
    from expfam.fitting.run import ChainRun
    from expfam.fitting.spread_statistics import AddedSquares
    from expfam.model.data import Dataset
    from expfam.samplers.chain.agreement import StepRecord

MOST_DRAWS = 20
MOST_BYTES = 1 << 26  # of the statistics of more than two draws


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


# ---- statistics of some draws ----------------------------------------------------------------------------------------


def drawn_statistics(
    runs: Sequence[ChainRun],
    data: Dataset,
    labels: npt.NDArray[np.integer],
    family: Family,
    *,
    added: AddedSquares | None = None,
) -> list[DrawnStatistics]:
    """Return the statistics of at most 20 draws of all chains, evenly spaced.

    They are fewer where they would take more than 64 MB, down to two. The list is empty where no draws were kept.

    Parameters
    ----------
    runs : sequence of ChainRun
    data : Dataset
        Rows of the draws.
    labels : (N,) ndarray of int
        Partition that the fit reports, numbers from 0 without gaps.
    family : Family
        Of the fit, where no hyper-parameters were drawn.
    added : AddedSquares, optional
        What repeated values add to the statistics of the rows.
    """
    n_kept = min(run.trace.n_kept for run in runs)
    if not n_kept:
        return []
    draw_at = _draws_of(runs, n_kept, family)
    first = _statistics(draw_at(0), data, labels, added)
    most = max(2, min(MOST_DRAWS, MOST_BYTES // max(1, n_bytes(first))))
    chosen = np.unique(np.linspace(0, n_kept * len(runs) - 1, most).round().astype(int))
    return [first, *(_statistics(draw_at(int(place)), data, labels, added) for place in chosen[1:])]


def drawn_memory(n_draws: int, n_clusters: int, n_statistics: int) -> int:
    """Return the bytes that the statistics of draws may need.

    Examples
    --------
    >>> from expfam.fitting.kept import drawn_memory
    >>> drawn_memory(400, 3, 4), drawn_memory(0, 3, 4), drawn_memory(1, 3, 4)
    (3840, 0, 192)
    """
    each = 8 * n_clusters * (n_statistics + 1 + n_clusters)
    return min(n_draws, MOST_DRAWS, max(2, MOST_BYTES // each)) * each


def n_bytes(draw: DrawnStatistics) -> int:
    """Return the bytes of the arrays of one draw."""
    S = draw.S
    of_S = S.data.nbytes + S.indices.nbytes + S.indptr.nbytes if sparse.issparse(S) else S.nbytes
    return int(draw.n.nbytes + draw.home.nbytes + of_S)


def _draws_of(runs, n_kept, family):
    """Return a function from the place of a kept draw of all chains to its partition and family."""
    partitions = [run.trace.partitions for run in runs]
    values = [None if run.hyper is None else run.hyper.values for run in runs]
    steps = [run.trace.kept_steps - 1 - run.trace.n_warmup for run in runs]

    def draw_at(place):
        chain, number = divmod(place, n_kept)
        hyper, partition = runs[chain].hyper, partitions[chain][number]
        if hyper is None:
            return partition, family
        return partition, hyper.prior.model_at(values[chain][steps[chain][number]]).family

    return draw_at


def _statistics(draw, data, labels, added):
    drawn, family = draw
    K_m, K = int(drawn.max()) + 1, int(labels.max()) + 1
    n, S = weighted_statistics(data, drawn.astype(np.int32), K_m)
    S = S if added is None else S + added.of_labels(data, drawn, K_m)
    shared = np.bincount(drawn.astype(np.intp) * K + labels, minlength=K_m * K).reshape(K_m, K).astype(np.float64)
    return DrawnStatistics(family, n, S, shared / shared.sum(axis=1, keepdims=True))
