"""Exact Gibbs draws of linked rows, of one or several groups, that move as one.

The rows of a link group are added up in a slot behind the clusters. One call of the components scores them, all
together, under all clusters. The cost of a link group is that of adding its rows and of scoring one slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.structures.ground.rng import generator

_UNIT = 1  # of the purpose "order", whose unit 0 are random orders of rows


def draw_linked_groups(state: Any) -> int:
    """Draw the cluster of each link group from its exact conditional law.

    Parameters
    ----------
    state : GroupedState
        With links among what is known of the rows. Changed in place.

    Returns
    -------
    int
        Number of link groups that moved.

    Notes
    -----
    A link group has m_g rows in group g, and the sums S. With n_gk other rows of group g in cluster k, it joins the
    cluster with mass prod_g G(n_gk + alpha_k + m_g) / G(n_gk + alpha_k) exp(A(n_k + m, S_k + S) - A(n_k, S_k)). These
    are ratios of the joint density of labels and data, weights and parameters integrated out.
    """
    known, K = state.data.known, state.model.n_components
    drawn = generator(state.seed, "order", unit=_UNIT, step=state.n_steps).random(len(known.groups))
    counts, n_moved = state.group_counts().toarray(), 0
    state.components.reserve(K + 1)
    for rows, u in zip(known.groups, drawn):
        old, groups = int(state.labels[rows[0]]), state.data.groups.of_row[rows]
        np.subtract.at(counts[:, old], groups, 1)
        mass = linked_law(state, rows, old, counts)
        new = min(int(np.searchsorted(np.cumsum(mass), u * mass.sum(), side="right")), K - 1)
        state.components.absorb(new, K)
        np.add.at(counts[:, new], groups, 1)
        state.labels[rows] = new
        n_moved += new != old
    state.components.clear(K)
    state.adopt_labels()
    return n_moved


def linked_law(
    state: Any, rows: npt.NDArray[np.intp], old: int, counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Take linked rows out of their cluster and weigh all clusters for them.

    Parameters
    ----------
    state : GroupedState
        The rows leave the statistics of cluster `old`, and are the statistics of slot K.
    rows : (m,) intp ndarray
    old : int
    counts : (G, K) int64 ndarray
        Numbers of rows of each group in each cluster, without these rows.

    Returns
    -------
    (K,) float64 ndarray
        Masses; the largest is 1.
    """
    K, components = state.model.n_components, state.components
    components.set_members(rows, K)
    if counts[:, old].any():
        components.subtract(old, K)
    else:  # sums of reals would leave rounding in an empty cluster
        components.clear(old)
    groups, m = np.unique(state.data.groups.of_row[rows], return_counts=True)
    first = counts[groups] + state.model.pseudocounts
    log_mass = (gammaln(first + m[:, None]) - gammaln(first)).sum(axis=0)
    log_mass += components.log_joint_predictive(K, np.arange(K))
    return np.exp(log_mass - log_mass.max())


__all__ = ["draw_linked_groups", "linked_law"]
