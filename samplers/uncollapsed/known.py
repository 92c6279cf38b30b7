"""Labels of rows of which something is known, given parameters and weights.

Given these, labels of different rows are independent. So known rows keep theirs, and the rows of a link group have one
label, whose probabilities are the product of those of its rows. Samplers draw it, and EM takes its expectation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import logsumexp

from expfam.families.support import dense_rows
from expfam.model.statistics import weighted_statistics
from expfam.structures.ground.rng import generator

_UNIT = 1 << 62  # of the random stream: rows and moves have smaller numbers


def with_known(state: Any, labels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return drawn labels, with the right ones for known rows and link groups.

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


def known_rows_expected(
    state: Any, labels: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    """Return the statistics and log likelihood of the rows of known classes; set their labels.

    The statistics are counts (K,) and sums (K, F).

    Parameters
    ----------
    state : ExpectationState
        Its labels agree with what is known of its data.
    labels
        As of `with_known`.
    """
    known, K = state.data.known, state.K
    rows = np.flatnonzero(known.classes >= 0) if known.fixes_rows else np.empty(0, dtype=np.intp)
    if not rows.size:
        return np.zeros(K), np.zeros(state.Theta.shape), 0.0
    labels[rows] = state.labels[rows]
    n, S = _statistics_of(state.data, rows, labels[rows], K)
    log_likelihood = n @ np.where(n > 0, state.log_pi - state.G, 0.0) + (S * state.Theta).sum()
    return n, S, float(log_likelihood)


def linked_rows_expected(
    state: Any, labels: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    """Return the statistics and log likelihood of the link groups; set their labels.

    A group is one item of the weight and the sums of its rows. The arguments are those of `known_rows_expected`.
    """
    known = state.data.known
    if not known.groups:
        return np.zeros(state.K), np.zeros(state.Theta.shape), 0.0
    sizes = np.diff(known.group_starts)
    of_row = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    m, S = _statistics_of(state.data, known.grouped_rows, of_row, len(sizes))
    scores = S @ state.Theta.T + m[:, None] * (state.log_pi - state.G)
    total = logsumexp(scores, axis=1)
    labels[known.grouped_rows] = np.repeat(scores.argmax(axis=1).astype(np.int32), sizes)
    shares = np.exp(scores - total[:, None])
    return shares.T @ m, shares.T @ S, float(total.sum())


def _statistics_of(data, rows, labels, n_labels):
    """Return the weighted counts and dense sums of some rows by their labels."""
    part = data.without_known().take(rows)
    n, S = weighted_statistics(part, labels, n_labels)
    return np.asarray(n, dtype=np.float64), dense_rows(S)


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
