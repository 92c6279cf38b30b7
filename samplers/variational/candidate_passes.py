"""When variational passes score rows against few candidate clusters, and when against all.

Passes over all clusters come first, until labels have settled, then every so often, and at the end: a run has converged
only where one of them gained nothing.
"""

import numpy as np

_FEW_CLUSTERS = 128  # below it all clusters are scored: choosing candidates costs more
_CANDIDATES = 48
_SAMPLED_ROWS = 1024
# cost of a score of dense or sparse data in products of the graph: fixed, a clock would make results depend on the load
_DENSE_COST, _SPARSE_COST = 0.25, 10.0


class CandidatePasses:
    """Part of the kernels with settings `n_candidates` and `full_every`, and `n_active_of`.

    Their states have the attributes `since_all` (passes since one over all clusters), `must_score_all` (whether the
    next one must be), `share_moved` (share of the rows whose label the last pass over all clusters changed) and
    `converged`.
    """

    def n_candidates_of(self, n_clusters):
        """G among so many clusters."""
        G = self.n_candidates
        if isinstance(G, str):
            G = None if n_clusters < _FEW_CLUSTERS else _CANDIDATES
        return n_clusters if G is None else min(n_clusters, max(int(G), self.n_active_of(n_clusters)))

    def has_candidates(self, n_clusters):
        """Whether some passes score fewer than all clusters."""
        return self.n_candidates_of(n_clusters) < n_clusters and self.n_active_of(n_clusters) < n_clusters

    def _is_due(self, state):
        """Whether it is time for a pass over all clusters."""
        return state.since_all + 1 >= self.full_every or state.must_score_all

    def _note_pass(self, state, n_moved, *, scores_all):
        """What a pass that changed so many labels was."""
        state.since_all = 0 if scores_all else state.since_all + 1
        if scores_all:
            state.share_moved = n_moved / state.data.n_rows

    def _look_for_convergence(self, state, before, tol, *, scores_all):
        gained_little = state.n_steps > 0 and state.log_joint - before < tol * abs(state.log_joint)
        state.converged = gained_little and scores_all
        state.must_score_all = gained_little and not scores_all

    def _finish_with_all(self, state):
        """One more pass where the last one did not score all clusters."""
        if state.since_all > 0:
            state.must_score_all = True
            self.step(state)


def graph_pays(state):
    """Whether a graph, a product K x F x K in double precision, costs less than scores of the data: by sizes alone."""
    K, N, phi = state.K, state.data.n_rows, state.phi
    if not phi.is_sparse:
        return _DENSE_COST * N > K
    rows = np.arange(0, N, max(1, N // _SAMPLED_ROWS))
    return _SPARSE_COST * phi.entries(rows)[0][-1] / len(rows) * N > K * phi.n_statistics


__all__ = ["CandidatePasses", "graph_pays"]
