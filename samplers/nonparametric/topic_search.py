"""A search for topics that should be one.

Two topics that predict documents no better than their union does become one. Two topics of the same words are far less
probable than one, and yet they last: each has learned what is accidental in its own documents, and no proposal divides
the tokens of one topic in exactly this way. The search asks other documents. It is no step of an exact chain, and
serves the sweeps of a warm-up.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from expfam.params import Integer
from expfam.samplers.nonparametric.token_moves import TopicMoves
from expfam.samplers.nonparametric.topics import TopicProcessGibbs
from expfam.samplers.states.large import count_large
from expfam.structures.ground.rng import generator

_N_NEAR = 2


class TopicProcessMerges(TopicProcessGibbs):
    """Join two topics where one topic in their place predicts documents as well.

    Each topic is compared with the topics whose words are most similar. The documents are divided into halves at
    random. Words and weights of the two topics, and of the one in their place, are learned in one half, and predict the
    tokens of these topics in the other half; then the halves change places. It is a search, not a step of an exact
    chain: use it in a warm-up only.

    Parameters
    ----------
    n_near : int
        Similar topics that are compared with each topic.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import TopicProcessMerges
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> topics = np.random.default_rng(0).integers(0, 2, X.sum()) + 2 * (np.arange(X.sum()) >= X.sum() // 2)
    >>> state = TopicProcessMerges().init(HierarchicalProcess(Multinomial(0.1)), X, seed=0, start=topics)
    >>> state.n_clusters
    4
    >>> TopicProcessMerges().step(state).n_clusters
    2
    """

    _constraints: ClassVar = {"n_near": Integer(1)}

    def __init__(self, *, n_near: int = _N_NEAR) -> None:
        super().__init__(learn_alpha=False)
        self.n_near = n_near

    @property
    def is_sampler(self) -> bool:
        """Return False: the steps do not leave the posterior invariant."""
        return False

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Compare similar topics, and make one of those that should be one."""
        pairs = similar_topics(state, self.n_near)
        rng = generator(state.seed, "order", step=state.n_steps)
        rank, share = rng.permutation(state.tokens.n_docs).astype(np.int32), state.shared.pseudocounts
        moves = TopicMoves(state.tokens, rank, state.eta)
        benefit = [
            moves.benefit(a, b, float(share[a] + share[b]), state.seed, unit, state.n_steps)
            for unit, (a, b) in enumerate(pairs)
        ]
        n_merged = _merge(state, [pairs[n] for n in np.argsort(benefit, kind="stable") if benefit[n] < 0.0])
        return len(pairs), n_merged, {"n_large": count_large(state.tokens.topic_size)}


def similar_topics(state: Any, n_near: int) -> list[tuple[int, int]]:
    """Return pairs of topics, each of a topic and one of the `n_near` most similar ones.

    The similarity is the Bhattacharyya coefficient of the counts of words.
    """
    live = np.flatnonzero(state.tokens.topic_size)
    if len(live) < 2:
        return []
    roots = state.tokens.word_topics().tocsc()[:, live].astype(np.float64)
    roots.data = np.sqrt(roots.data)
    similar = (roots.T @ roots).toarray() / np.sqrt(np.outer(*2 * [state.tokens.topic_size[live].astype(np.float64)]))
    np.fill_diagonal(similar, -1.0)
    near = np.argsort(-similar, axis=1, kind="stable")[:, : min(n_near, len(live) - 1)]
    found = {(min(i, j), max(i, j)) for i, row in enumerate(near.tolist()) for j in row}
    return [(int(live[i]), int(live[j])) for i, j in sorted(found)]


def _merge(state, pairs):
    """Make one topic of each pair, the first pairs first; return how many were merged.

    A topic that was merged is left out of the later pairs.
    """
    shared = state.shared
    places, taken, n_merged = np.arange(shared.capacity, dtype=np.int32), set(), 0
    for a, b in pairs:
        if a in taken or b in taken or max(a, b) < shared.n_known:
            continue
        taken |= {a, b}
        n_merged += 1
        kept, left = shared.by_age(a, b)
        places[left] = kept
        shared.pseudocounts[kept] += shared.pseudocounts[left]
        shared.pseudocounts[left] = 0.0
    if n_merged:
        state.set_topics(places[state.tokens.topic])
        shared.name(state.tokens.topic_size)
        state.log_joint = state.compute_log_joint()
    return n_merged
