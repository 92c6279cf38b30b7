"""Rules that say when a variational pass scores all clusters, and when only candidates.

The first passes score all clusters, until few labels change; then one pass in every `full_every`, and the last one. A
run has converged only when a pass over all clusters gained nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

_FEW_CLUSTERS = 128  # below it passes score all clusters: the choice of candidates would cost more
_CANDIDATES = 48
_SAMPLED_ROWS = 1024
# Cost of one score, in units of one product of the graph. The numbers are fixed: measured times would make the results
# depend on the load of the machine.
_DENSE_COST, _SPARSE_COST = 0.25, 10.0


class CandidatePasses:
    """Mixin for kernels with the settings `n_candidates` and `full_every`.

    The kernels write `n_active_of`. Their states have the attributes `since_all` (number of passes since the last one
    over all clusters), `must_score_all` (whether the next pass must score all clusters), `share_moved` (share of the
    rows whose label the last pass over all clusters changed) and `converged`.
    """

    n_candidates: int | Literal["auto"] | None
    full_every: int

    def n_active_of(self, n_clusters: int) -> int:
        """Return L, the number of clusters that a row keeps of `n_clusters`."""
        raise NotImplementedError

    def n_candidates_of(self, n_clusters: int) -> int:
        """Return G, the number of candidates of a row among `n_clusters`."""
        G = self.n_candidates
        if isinstance(G, str):
            G = None if n_clusters < _FEW_CLUSTERS else _CANDIDATES
        return n_clusters if G is None else min(n_clusters, max(int(G), self.n_active_of(n_clusters)))

    def has_candidates(self, n_clusters: int) -> bool:
        """Tell whether some passes score fewer than all clusters."""
        return self.n_candidates_of(n_clusters) < n_clusters and self.n_active_of(n_clusters) < n_clusters

    def _is_due(self, state):
        """Tell whether the next pass must score all clusters."""
        return state.since_all + 1 >= self.full_every or state.must_score_all

    def _note_pass(self, state, n_moved, *, scores_all):
        """Count a pass that changed `n_moved` labels."""
        state.since_all = 0 if scores_all else state.since_all + 1
        if scores_all:
            state.share_moved = n_moved / state.data.n_rows

    def _look_for_convergence(self, state, before, tol, *, scores_all):
        """Set `converged`, or ask for a pass over all clusters where a pass over few gained little."""
        gained_little = state.n_steps > 0 and state.log_joint - before < tol * abs(state.log_joint)
        state.converged = gained_little and scores_all
        state.must_score_all = gained_little and not scores_all

    def _finish_with_all(self, state):
        """Make one more pass where the last one did not score all clusters."""
        if state.since_all > 0:
            state.must_score_all = True
            self.step(state)


def graph_pays(state: Any) -> bool:
    """Tell whether the graph of near clusters costs less than scores of the data.

    The graph is a product K x F x K in double precision. Sizes alone decide.
    """
    K, N, phi = state.K, state.data.n_rows, state.phi
    if not phi.is_sparse:
        return _DENSE_COST * N > K
    rows = np.arange(0, N, max(1, N // _SAMPLED_ROWS))
    return _SPARSE_COST * phi.entries(rows)[0][-1] / len(rows) * N > K * phi.n_statistics


__all__ = ["CandidatePasses", "graph_pays"]
