"""Dense draws of labels: of all clusters, or of those that products of small integers leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.errors import CapabilityError
from expfam.samplers.uncollapsed import coded as coded_draw
from expfam.samplers.uncollapsed import dense as dense_draw
from expfam.samplers.uncollapsed.coded_costs import BOUND_COST, CODE_COST, NARROW_COST, ROW_COST, SCORE_COST
from expfam.samplers.uncollapsed.remembered import memory_of
from expfam.samplers.uncollapsed.tree import dense_cost, sample_blocks
from expfam.structures.rows.byte_codes import LEAST_COLUMNS as _LEAST_COLUMNS
from expfam.structures.rows.byte_codes import LEAST_POINTS as _LEAST_CLUSTERS
from expfam.structures.rows.byte_codes import MOST_COLUMNS, has_byte_products

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from expfam.model.data import Dataset

_FIRST_TRIALS, _TRIALS = 16, 128  # rows; the first ones show where far too many clusters matter
_HOPELESS = 2.0  # times the cost of a dense pass

_MOST_FOR_CODES = 0.125  # of a dense pass


def check_pruned(kernel: Any, data: Dataset) -> None:
    """Refuse data whose scores are no products of dense rows."""
    name = type(kernel).__name__
    if data.has_sparse_phi:
        raise CapabilityError(
            f"draw='pruned' needs dense statistics, and those of {data.family.name} are sparse: write"
            f" {name}(draw='dense')"
        )
    if data.n_statistics > MOST_COLUMNS:
        raise CapabilityError(
            f"draw='pruned' takes {MOST_COLUMNS:,} statistics of a row at most, and {data.family.name} has"
            f" {data.n_statistics:,}: write {name}(draw='dense')"
        )


def draw_densely(state: Any, n_threads: int | None) -> tuple[npt.NDArray[np.int32], dict[str, float]]:
    """Draw all labels from the scores of all clusters: (N,) int32, and no diagnostics."""
    return dense_draw.draw_labels(state, n_threads), {}


def draw_pruned(
    state: Any, n_threads: int | None, coded: coded_draw.CodedScores | None = None
) -> tuple[npt.NDArray[np.int32], dict[str, float]]:
    """Draw all labels from the scores that matter: (N,) int32, and how many those are.

    Parameters that single precision cannot hold have no codes: their labels are drawn in double precision.
    """
    coded = coded_draw.coded_scores(state) if coded is None else coded
    if coded is None:
        return draw_densely(state, n_threads)
    return memory_of(state).draw(state, n_threads, coded)


def preferred_codes(state: Any) -> tuple[coded_draw.CodedScores | None, float | None]:
    """Make codes of the parameters if they should draw labels faster than a dense pass.

    A few rows at regular distances show how many clusters matter. The costs are constants of the package: a choice by
    the clock would make results depend on the machine's load.

    Parameters
    ----------
    state : UncollapsedState
        With drawn parameters.

    Returns
    -------
    coded : CodedScores or None
    cost : float or None
        Nanoseconds for a datum, of the faster way; None where codes are out of the question.
    """
    data, K = state.data, state.K
    if data.has_sparse_phi or K < _LEAST_CLUSTERS or not _LEAST_COLUMNS <= data.n_statistics <= MOST_COLUMNS:
        return None, None
    dense = dense_cost(data, K)
    making = CODE_COST * K * data.n_statistics / max(1, data.n_rows)
    if not has_byte_products() or making > _MOST_FOR_CODES * dense:
        return None, dense
    coded = coded_draw.coded_scores(state)
    if coded is None:
        return None, dense
    cost = making + _trial_cost(state, coded, _FIRST_TRIALS)
    if cost < _HOPELESS * dense:
        cost = making + _trial_cost(state, coded, _TRIALS)
    return (coded, cost) if cost < dense else (None, dense)


def _trial_cost(state, coded, n_rows):
    """Return the nanoseconds that the pass takes for a datum, from the scores of a few."""
    F = state.data.n_statistics
    n_near, n_exact = coded_draw.mean_visits(state, coded, sample_blocks(state.data.n_rows, n_rows, block=n_rows // 8))
    narrow, exact = (fixed + slope * F for fixed, slope in (NARROW_COST, SCORE_COST))
    return float(ROW_COST + BOUND_COST * state.K * F + n_near * narrow + n_exact * exact)
