"""Draws of clusters in groups, and of words, from the prior of an admixture.

Draws may also be given the first rows or tokens. Clusters and words are drawn one after the other from urns, which
integrate out weights and topics. So the draws do not use the code by which samplers move clusters.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from expfam.amounts import counted

MOST_STATES = 1 << 14  # joint clusters of link groups that are listed


def draw_clusters(
    alpha: npt.NDArray[np.float64],
    groups: npt.NDArray[np.integer],
    rng: np.random.Generator,
    *,
    given: npt.ArrayLike = (),
    links: npt.NDArray[np.integer] | None = None,
) -> npt.NDArray[np.int32]:
    """Draw the clusters of rows in groups from their prior, by an urn of each group.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
        Pseudo-count of each cluster in a group.
    groups : (N,) int ndarray
        Group of each row, from 0 on.
    rng : numpy.random.Generator
    given : (M,) array_like of int, optional
        Clusters of the first rows, which stay; the others are drawn given them.
    links : (N,) int ndarray, optional
        Rows with an equal number of at least 0 have one cluster; -1 for rows without a link. Links of given rows are
        left out: their clusters are given.

    Returns
    -------
    (N,) int32 ndarray

    Raises
    ------
    ValueError
        The link groups have too many joint clusters to list.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.grouped_simulation import draw_clusters
    >>> draw_clusters(np.array([1e-9, 1.0]), np.array([0, 0, 1]), np.random.default_rng(0))
    array([1, 1, 1], dtype=int32)

    Notes
    -----
    Given that linked rows agree, the clusters of the link groups have probabilities proportional to the urns' joint
    probability of these rows. All joint clusters of the link groups are listed and one is drawn. The free rows follow.
    """
    first = np.asarray(given, dtype=np.int32)
    labels = np.full(len(groups), -1, dtype=np.int32)
    labels[: first.size] = first
    counts = np.zeros((int(groups.max(initial=-1)) + 1, alpha.size))
    np.add.at(counts, (groups[: first.size], first), 1.0)
    if links is not None:
        _draw_linked(alpha, groups, counts, labels, link_blocks(links, first.size), rng)
    for i in np.flatnonzero(labels < 0):
        mass = np.cumsum(counts[groups[i]] + alpha)
        labels[i] = min(int(np.searchsorted(mass, rng.random() * mass[-1], side="right")), alpha.size - 1)
        counts[groups[i], labels[i]] += 1.0
    return labels


def link_blocks(links: npt.NDArray[np.integer], first: int = 0) -> list[npt.NDArray[np.intp]]:
    """Return the rows of each link group of at least two rows, from row `first` on."""
    numbers = np.where(np.arange(len(links)) < first, -1, links)
    blocks = [np.flatnonzero(numbers == number) for number in np.unique(numbers[numbers >= 0])]
    return [rows for rows in blocks if rows.size > 1]


def _draw_linked(alpha, groups, counts, labels, blocks, rng):
    """Draw the clusters of link groups, and add their rows to the counts."""
    if not blocks:
        return
    if alpha.size ** len(blocks) > MOST_STATES:
        raise ValueError(
            f"{counted(len(blocks), 'link group')} among {counted(alpha.size, 'cluster')}: too many partitions to list"
        )
    states, scores = _joint_clusters(alpha, groups, counts, blocks)
    p = np.exp(scores - scores.max())
    drawn = states[int(rng.choice(len(states), p=p / p.sum()))]
    for rows, k in zip(blocks, drawn):
        labels[rows] = k
        np.add.at(counts[:, k], groups[rows], 1.0)


def _joint_clusters(alpha, groups, counts, blocks):
    """Return all joint clusters of link groups, and the log mass of each."""
    states = list(product(range(alpha.size), repeat=len(blocks)))
    scores = np.empty(len(states))
    for place, state in enumerate(states):
        more = counts.copy()
        for rows, k in zip(blocks, state):
            np.add.at(more[:, k], groups[rows], 1.0)
        scores[place] = (gammaln(alpha + more) - gammaln(alpha + counts)).sum()
    return states, scores


def probability_of_links(
    alpha: npt.NDArray[np.float64], groups: npt.NDArray[np.integer], links: npt.NDArray[np.integer]
) -> float:
    """Compute the prior probability that linked rows have one cluster.

    Pseudo-counts that are learned beside links have their prior times this probability.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
    groups : (N,) int ndarray
    links : (N,) int ndarray
        As for `draw_clusters`.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.grouped_simulation import probability_of_links
    >>> round(probability_of_links(np.array([1.0, 3.0]), np.array([0, 1]), np.array([0, 0])), 6)
    0.625
    """
    blocks = link_blocks(links)
    linked = np.concatenate([*blocks, np.empty(0, dtype=np.intp)]).astype(np.intp)
    counts, sizes = np.zeros((int(groups.max(initial=-1)) + 1, alpha.size)), np.bincount(groups[linked])
    scores = _joint_clusters(alpha, groups, counts, blocks)[1]
    total = (gammaln(alpha.sum() + sizes) - gammaln(alpha.sum())).sum()
    return float(np.exp(scores - total).sum())


def draw_words(
    eta: npt.NDArray[np.float64],
    topics: npt.NDArray[np.integer],
    rng: np.random.Generator,
    *,
    seeds: Any = None,
    given: npt.ArrayLike = (),
) -> npt.NDArray[np.intp]:
    """Draw the words of tokens given their topics, by an urn of each topic.

    Parameters
    ----------
    eta : (V,) float64 ndarray
        Pseudo-count of each word.
    topics : (T,) int ndarray
    rng : numpy.random.Generator
    seeds : (V, K) sparse matrix, optional
        Further pseudo-counts of words in topics.
    given : (M,) array_like of int, optional
        Words of the first tokens, which stay.

    Returns
    -------
    (T,) intp ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.model.grouped_simulation import draw_words
    >>> draw_words(np.array([1.0, 1e-12]), np.array([0, 1, 0]), np.random.default_rng(0))
    array([0, 0, 0])
    """
    first = np.asarray(given, dtype=np.intp)
    words = np.zeros(len(topics), dtype=np.intp)
    words[: first.size] = first
    urns: dict[int, list[int]] = {}
    for k, word in zip(topics[: first.size].tolist(), first.tolist()):
        _urn(urns, k, seeds).append(word)
    base, uniforms = np.cumsum(eta), rng.random((len(topics), 2))
    for i in range(first.size, len(topics)):
        urn = _urn(urns, int(topics[i]), seeds)
        if uniforms[i, 0] * (base[-1] + len(urn)) < base[-1]:
            words[i] = min(int(np.searchsorted(base, uniforms[i, 1] * base[-1], side="right")), len(base) - 1)
        else:
            words[i] = urn[int(uniforms[i, 1] * len(urn))]
        urn.append(int(words[i]))
    return words


def _urn(urns, k, seeds):
    """Return the words in the urn of a topic; it begins with the seeds."""
    if k not in urns:
        column = None if seeds is None else seeds[:, [k]].tocoo()
        urns[k] = [] if column is None else np.repeat(column.coords[0], column.data.astype(np.int64)).tolist()
    return urns[k]
