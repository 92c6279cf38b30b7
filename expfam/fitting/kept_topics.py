"""Topics of some sweeps of a sampler, as they are.

Means over sweeps are of one set of topics. The probability of a word is a mean over the posterior, and topics of two
sweeps need not correspond: so whole draws are kept, as sparse counts of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.model.drawn import DrawnTopics
from expfam.model.finite_process import FiniteProcess

if TYPE_CHECKING:
    from expfam.model.data import Dataset

_LEAST = 1e-10  # pseudo-count of a topic in documents: draws of very small ones may be 0
_FEWEST = 2  # draws that are kept whatever they take


class KeptTopics:
    """Callback that keeps the topics of at most `n_draws` of `n_steps` steps, evenly spaced.

    Parameters
    ----------
    n_draws, n_steps : int
    most_bytes : int, optional
        Where all draws would take more, every second one is dropped, until two are left.

    Attributes
    ----------
    found : list of tuple
        Counts of words in topics, pseudo-counts of topics in documents and of words in topics, of each draw.

    Examples
    --------
    >>> from expfam import TopicModel
    >>> from expfam.fitting.kept_topics import KeptTopics
    >>> kept = KeptTopics(3, 10)
    >>> _ = TopicModel(2, n_steps=10, n_warmup=0, random_state=0, callbacks=[kept]).fit([[4, 4, 0], [0, 4, 4]] * 9)
    >>> [int(draw.counts.sum()) for draw in kept.draws()]
    [144, 144, 144]
    """

    def __init__(self, n_draws: int, n_steps: int, most_bytes: int | None = None) -> None:
        self.n_draws, self.n_steps, self.most_bytes, self.n_seen = min(n_draws, n_steps), n_steps, most_bytes, 0
        self.found: list[tuple[Any, ...]] = []  # plain tuples: snapshots of a run hold them as arrays

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep the topics of the step if it is due; never end the run."""
        before, self.n_seen = self.n_seen, self.n_seen + 1
        if self.n_seen * self.n_draws // self.n_steps > before * self.n_draws // self.n_steps:
            self.found.append(_topics_of(state))
            self._drop()
        return False

    def _drop(self):
        """Drop every second draw, and keep half as many from here on, where they take too much."""
        while self.most_bytes is not None and len(self.found) > _FEWEST and self.n_bytes() > self.most_bytes:
            self.found, self.n_draws = self.found[1::2], max(1, self.n_draws // 2)

    def n_bytes(self) -> int:
        """Return the bytes of all draws."""
        return sum(
            counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes + alpha.nbytes + eta.nbytes
            for counts, alpha, eta in self.found
        )

    def memory(self, data: Dataset, n_topics: int) -> int:
        """Return the bytes that the draws need at most: a word of a topic has a token.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Dataset, Multinomial
        >>> from expfam.fitting.kept_topics import KeptTopics
        >>> data = Dataset(np.ones((10, 5), dtype=int), Multinomial())
        >>> [KeptTopics(n, 100, most).memory(data, 3) for n, most in ((0, None), (2, None), (9, 1))]
        [0, 336, 505]
        """
        if not self.n_draws:
            return 0
        entries = min(int(data.X.sum()), data.n_features * n_topics)
        each = 8 * entries + 4 * data.n_features + 8 * n_topics + 4
        if self.most_bytes is None:
            return self.n_draws * each
        return min(self.n_draws * each, self.most_bytes + (_FEWEST + 1) * each)

    def draws(self) -> tuple[DrawnTopics, ...]:
        """Return the draws, in the order of the steps."""
        return tuple(DrawnTopics(*one) for one in self.found)


def _topics_of(state):
    """Return counts (V, K), pseudo-counts of topics and of words of a state."""
    counts, seeds, slots = state.word_topics(), state.model.seeds, None
    if isinstance(state.model, FiniteProcess):
        return _topics_of_places(state)
    if hasattr(state, "shared"):
        shared = state.shared
        slots = np.append(np.flatnonzero(shared.names >= 0), shared.rest)
        seeds, alpha = state.model.seeds_of(shared.capacity), shared.pseudocounts[slots]
    else:
        alpha = np.array(state.model.pseudocounts)
    if seeds is not None:
        counts = counts + seeds
    return _draw(counts if slots is None else counts.tocsc()[:, slots], alpha, state.eta)


def _topics_of_places(state):
    """Return what `_topics_of` does; topics without tokens are one topic, the last."""
    alpha, is_live = state.model.pseudocounts, state.sizes > 0
    counts = np.zeros((len(state.eta), np.count_nonzero(is_live) + 1), dtype=np.int32)
    counts[:, :-1] = state.word_counts[:, is_live]
    return _draw(counts, np.append(alpha[is_live], alpha[~is_live].sum()), state.eta)


def _draw(counts, alpha, etas):
    counts = sparse.csr_array(counts, dtype=np.int32)
    counts.indices, counts.indptr = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)
    eta = np.unique(etas)
    return counts, np.maximum(alpha, _LEAST), eta if len(eta) == 1 else etas.copy()
