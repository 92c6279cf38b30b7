"""Labels of rows of which something is known, given parameters and weights.

Given these, labels of different rows are independent. So known rows keep theirs, and the rows of a link group have one
label, whose probabilities are the product of those of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.structures.ground.rng import generator

_UNIT = 1 << 62  # of the random stream: rows and moves have smaller numbers


def with_known(state: Any, labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return drawn labels with those of known rows and of link groups put right.

    Parameters
    ----------
    state : UncollapsedState
        Its labels agree with what is known of its data.
    labels : (N,) int32 ndarray
        New labels of all rows; they are changed in place.

    Returns
    -------
    (N,) int32 ndarray
    """
    known = state.data.known
    if known.fixes_rows:
        rows = np.flatnonzero(known.classes >= 0)
        labels[rows] = state.labels[rows]
    if known.groups:
        drawn = _group_labels(state, known.groups)
        labels[np.concatenate(known.groups)] = np.repeat(drawn, [len(rows) for rows in known.groups])
    return labels


def _group_labels(state, groups):
    """Draw one label for each group."""
    of_row = np.full(state.data.n_rows, -1, dtype=np.int32)
    for place, rows in enumerate(groups):
        of_row[rows] = place
    m, S = state.data.statistics(of_row, len(groups))
    product = S @ state.Theta.T
    product = product.toarray() if sparse.issparse(product) else np.asarray(product)
    scores = product + m[:, None] * (state.log_pi - state.G)
    rng = generator(state.seed, "move", unit=_UNIT, step=state.n_steps)
    # the largest of the scores with Gumbel noise has the law of the softmax
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(np.int32)


__all__ = ["with_known"]
