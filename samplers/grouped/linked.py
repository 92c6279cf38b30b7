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


def draw_linked_groups(state: Any, *, backward: bool = False) -> int:
    """Draw the cluster of each link group from its exact conditional law.

    Parameters
    ----------
    state : GroupedState
        With links among what is known of the rows. Changed in place.
    backward : bool
        Go from the last link group to the first.

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
    of_row, n, n_moved = state.data.groups.of_row, state.counts.copy(), 0
    touched = np.unique(of_row[known.grouped_rows])
    counts = state.group_counts()[touched].toarray()  # other groups have no part in any of these laws
    state.components.reserve(K + 1)
    order = slice(None, None, -1 if backward else 1)
    for rows, u in zip(known.groups[order], drawn[order]):
        old = int(state.labels[rows[0]])
        own, m = np.unique(np.searchsorted(touched, of_row[rows]), return_counts=True)
        counts[own, old] -= m
        n[old] -= len(rows)
        mass = linked_law(state, rows, old, m, counts[own], is_emptied=not n[old])
        new = min(int(np.searchsorted(np.cumsum(mass), u * mass.sum(), side="right")), K - 1)
        state.components.absorb(new, K)
        counts[own, new] += m
        n[new] += len(rows)
        state.labels[rows] = new
        n_moved += new != old
    state.components.clear(K)
    state.adopt_labels()
    return n_moved


def linked_law(
    state: Any,
    rows: npt.NDArray[np.intp],
    old: int,
    m: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    *,
    is_emptied: bool,
) -> npt.NDArray[np.float64]:
    """Take linked rows out of their cluster and weigh all clusters for them.

    Parameters
    ----------
    state : GroupedState
        The rows leave the statistics of cluster `old`, and are the statistics of slot K.
    rows : (L,) intp ndarray
    old : int
    m : (g,) int64 ndarray
        Number of these rows in each group that has some of them.
    counts : (g, K) int64 ndarray
        Numbers of the other rows of these groups in each cluster.
    is_emptied : bool
        Whether the old cluster has no other rows, of any group.

    Returns
    -------
    (K,) float64 ndarray
        Masses; the largest is 1.
    """
    K, components = state.model.n_components, state.components
    components.set_members(rows, K)
    if is_emptied:  # sums of reals would leave rounding in an empty cluster
        components.clear(old)
    else:
        components.subtract(old, K)
    first = counts + state.model.pseudocounts
    log_mass = (gammaln(first + m[:, None]) - gammaln(first)).sum(axis=0)
    log_mass += components.log_joint_predictive(K, np.arange(K))
    return np.exp(log_mass - log_mass.max())
