"""Rules that say when a variational pass scores all clusters, and when only candidates.

The first passes score all clusters, until few labels change; then one pass in every `full_every`, and the last one. A
run has converged only when a pass over all clusters gained nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from expfam.params import Integer, is_auto
from expfam.samplers.variational.held_rows import HeldSoft
from expfam.samplers.variational.learner import Pass
from expfam.samplers.variational.schedules import Memoized, Schedule
from expfam.samplers.variational.soft_state import SETTLED_SHARE
from expfam.samplers.variational.stream_kernel import StreamKernel

_FEW_CLUSTERS = 128  # below it passes score all clusters: the choice of candidates would cost more
_CANDIDATES = 48
_SAMPLED_ROWS = 1024
# Cost of one score, in units of one product of the graph. The numbers are fixed: measured times would make the results
# depend on the load of the machine.
_DENSE_COST, _SPARSE_COST = 0.25, 10.0
# The same where products of integers bound the scores: of a cluster and of each of its columns, in a pass over all
# clusters; of a column of a candidate; of a column of a cluster whose parameters are gathered for its rows; and of what
# the graph takes for a pair of clusters beside its product, in columns.
_BOUND_COST, _CANDIDATE_COST, _GATHERED_COST, _PAIR_COLUMNS = (15.0, 0.095), 0.55, 1400.0, 40


class CandidatePasses(StreamKernel):
    """Base of kernels with the settings `n_active`, `schedule`, `n_candidates` and `full_every`.

    Their states are `HeldSoft`.
    """

    n_active: int | None
    schedule: Any
    n_candidates: int | Literal["auto"] | None
    full_every: int

    _constraints: ClassVar = {
        "n_active": (Integer(1), None),
        "n_candidates": ("auto", Integer(1), None),
        "full_every": Integer(1),
    }

    def _check_settings(self, model, data):
        """Raise ValueError for settings out of range, and for a schedule that is none."""
        super()._check_settings(model, data)
        if not (isinstance(self.schedule, Schedule) or self.has_auto_schedule()):
            raise ValueError(
                f"{type(self).__name__}: schedule must be 'auto', Full(), Memoized() or Stochastic(); got"
                f" {self.schedule!r}"
            )

    def has_auto_schedule(self) -> bool:
        """Tell whether the sizes choose the schedule."""
        return is_auto(self.schedule)

    def stream_schedule(self) -> Any:
        """Return the schedule of a run that learns chunks."""
        return Memoized() if self.has_auto_schedule() else self.schedule

    def n_active_of(self, n_clusters: int) -> int:
        """Return L, the number of clusters that a row keeps of `n_clusters`."""
        return n_clusters if self.n_active is None else min(int(self.n_active), n_clusters)

    def n_candidates_of(self, n_clusters: int) -> int:
        """Return G, the number of candidates of a row among `n_clusters`."""
        G = self.n_candidates
        if isinstance(G, str):
            G = None if n_clusters < _FEW_CLUSTERS else _CANDIDATES
        return n_clusters if G is None else min(n_clusters, max(int(G), self.n_active_of(n_clusters)))

    def has_candidates(self, n_clusters: int) -> bool:
        """Tell whether some passes score fewer than all clusters."""
        return self.n_candidates_of(n_clusters) < n_clusters and self.n_active_of(n_clusters) < n_clusters

    def _make_pass(self, state: HeldSoft, tol: float) -> tuple[int, Pass]:
        """Make one pass; return the number of changed labels, and the results.

        The run has converged when a pass over all clusters gains less than the share `tol` of the bound. A pass over
        few clusters that gains less asks for a pass over all.
        """
        before, labels, scores_all = state.log_joint, state.labels.copy(), self._scores_all(state)
        done = state.make_pass(all_clusters=scores_all)
        n_moved = int(np.count_nonzero(labels != state.labels))
        state.since_all = 0 if scores_all else state.since_all + 1
        if scores_all:
            state.share_moved = n_moved / state.data.n_rows
        if not state.is_noisy:
            gained_little = state.n_steps > 0 and state.log_joint - before < tol * abs(state.log_joint)
            state.converged = bool(gained_little and scores_all)
            state.must_score_all = bool(gained_little and not scores_all)
        return n_moved, done

    def _scores_all(self, state):
        """Tell whether the next pass scores all clusters."""
        if not self.has_candidates(state.K) or (isinstance(self.n_candidates, str) and not graph_pays(state)):
            return True
        is_due = state.since_all + 1 >= self.full_every or state.must_score_all
        return is_due or state.share_moved >= SETTLED_SHARE

    def is_done(self, state: Any) -> bool:
        """Tell whether the bound has converged."""
        return state.converged

    def finish(self, state: Any) -> None:
        """Make one more pass where the last one did not score all clusters."""
        if state.since_all > 0:
            state.must_score_all = True
            self.step(state)


def graph_pays(state: Any) -> bool:
    """Tell whether a graph of near clusters costs less than what its candidates save.

    The graph is a product K x F x K in double precision. Sizes alone decide, and whether the machine has products of
    bytes.
    """
    K, N, phi = state.K, state.data.n_rows, state.phi
    if state.passes.has_bounds:
        return cheaper_than_bounds(N, K, phi.n_statistics, state.settings.n_candidates_of(K))
    if not phi.is_sparse:
        return _DENSE_COST * N > K
    rows = np.arange(0, N, max(1, N // _SAMPLED_ROWS))
    return _SPARSE_COST * phi.entries(rows)[0][-1] / len(rows) * N > K * phi.n_statistics


def cheaper_than_bounds(n_rows: int, n_clusters: int, n_statistics: int, n_candidates: int) -> bool:
    """Tell whether a pass over candidates costs less than one whose scores integers bound.

    Both take the same time for a row beside scores. Candidates need the graph, and the parameters of those of each
    cluster together, for its rows: they pay where many clusters have many rows each.

    Parameters
    ----------
    n_rows, n_clusters, n_statistics, n_candidates : int

    Examples
    --------
    >>> from expfam.samplers.variational.candidate_passes import cheaper_than_bounds
    >>> cheaper_than_bounds(12_000, 1024, 385, 48), cheaper_than_bounds(60_000, 1024, 385, 48)
    (False, True)
    """
    fixed, each = _BOUND_COST
    bounds = n_clusters * (fixed + each * n_statistics)
    graph = n_clusters**2 * (n_statistics + _PAIR_COLUMNS) / n_rows
    gathered = _GATHERED_COST * n_clusters * n_statistics / n_rows
    return _CANDIDATE_COST * n_candidates * n_statistics + graph + gathered < bounds
