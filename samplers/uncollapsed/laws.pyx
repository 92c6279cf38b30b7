"""Law of one Metropolis step given parameters, for tests of exactness.

The functions of the sweep compute it. No sampler uses this module.
"""

import numpy as np

from expfam.samplers.uncollapsed.metropolis cimport MetropolisSweep, gain

from expfam.samplers.proposals.snapshot import Snapshot


def update_law(kernel, state, Py_ssize_t i, *, is_fresh=True):
    """Compute the exact law of the label of datum `i` after one Metropolis step: (K, K).

    Rows are labels before the step. The functions of the sweep compute it; the state is not changed. With `is_fresh`,
    the proposal is first refreshed with the parameters of the state.
    """
    cdef MetropolisSweep sweeper = kernel.sweeper(state)
    cdef Py_ssize_t k, to
    cdef const double[:, ::1] phi
    cdef const double *x = NULL
    if is_fresh:
        sweeper.refresh(
            Snapshot.of_parameters(state.model.family, state.Theta, state.G, state.log_pi, n_rows=state.data.n_rows,
                                   step=state.n_steps),
            True,
        )
    sweeper.sweep(state, 1, None)        # sets the pointers
    cdef const double[:, ::1] Theta = np.ascontiguousarray(state.Theta, dtype=np.float64)
    cdef const double[::1] bias = np.ascontiguousarray(state.log_pi - state.G)
    sweeper.w.Theta, sweeper.w.bias = &Theta[0, 0], &bias[0]
    if sweeper.w.rows == NULL:
        phi = sweeper._made(sweeper.data.X[np.array([i])])
        x = &phi[0, 0]
    K = len(state.G)
    law = np.zeros((K, K))
    log_q = sweeper.handle.log_prob(i, state.labels[i], np.arange(K))
    for k in range(K):
        for to in range(K):
            if k != to:
                ratio = gain(&sweeper.w, i, x, k, to) + log_q[k] - log_q[to]
                law[k, to] = np.exp(log_q[to]) * min(1.0, np.exp(min(ratio, 0.0)))
        law[k, k] = 1.0 - law[k].sum()
    return law
