"""Slice sampling of labels: a row can go to the clusters whose weight is above its slice.

See `expfam.samplers.states.sticks`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.states.sticks import log_slices
from expfam.samplers.uncollapsed import dense as dense_draw


class _Sorted:
    """What a dense draw reads of a state: the clusters with a weight, by falling weight."""

    def __init__(self, state: Any, order: npt.NDArray[np.intp]) -> None:
        rank = np.full(state.log_pi.size, -1, dtype=np.int32)
        rank[order] = np.arange(order.size, dtype=np.int32)
        self.data, self.seed, self.n_steps = state.data, state.seed, state.n_steps
        self.labels = rank[state.labels]
        self.Theta, self.G, self.log_pi = state.Theta[order], state.G[order], np.zeros(order.size)
        self.n, self.S = state.n[order], state.S[order]


def draw_labels(state: Any, n_threads: int | None) -> npt.NDArray[np.int32]:
    """Draw the label of each row among the clusters whose weight is above its slice: (n,) int32."""
    order = np.argsort(-state.log_pi, kind="stable")
    order = order[: np.count_nonzero(state.log_pi > -np.inf)]
    slices = log_slices(state.data.row_offset, state.labels, state.log_pi, state.seed, state.n_steps)
    limits = np.searchsorted(-state.log_pi[order], -slices, side="right").astype(np.int32)
    ranks = dense_draw.draw_labels(_Sorted(state, order), n_threads, limits)
    return order.astype(np.int32)[ranks]
