"""Topics of tokens from which a sampler starts: variational passes over a part of the documents, then the others."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from expfam.model.data import Dataset
from expfam.samplers.topics._sums import draw_tokens
from expfam.samplers.topics.corpus import count_tokens, memory_of_tokens
from expfam.samplers.topics.tokens import TokenTopics
from expfam.samplers.topics.variational import TopicVariational
from expfam.structures.ground.rng import generator

PART_TOKENS = 1 << 20  # of the part, at least
PART = 4  # at most one in so many documents beyond that
N_PASSES, N_SWEEPS = 2, 4  # over the part
_PLACING = 1 << 63  # a step that no chain reaches


@dataclass(frozen=True)
class VariationalStart:
    """Topics of tokens after a few variational passes: a start for a sampler.

    Of a large corpus only a part is passed over. The sampler makes a few sweeps there; then the topics of all other
    tokens are drawn one by one, each given those drawn so far.

    Parameters
    ----------
    share : float or None
        Of the tokens that are passed over, in 0..1; None for what the size of the corpus asks for.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Multinomial
    >>> from expfam.samplers import TopicGibbs
    >>> from expfam.samplers.topics.start import VariationalStart
    >>> model, X = AdmixtureModel(Multinomial(0.1), 2), [[4, 0], [0, 4], [4, 0], [0, 4]]
    >>> len(TopicGibbs().init(model, X, seed=0, start=VariationalStart(share=0.5)).labels)
    16
    """

    share: float | None = None

    def topics(self, model, data, *, seed, kernel):
        """Topics of the tokens.

        Parameters
        ----------
        model : AdmixtureModel
            Its family bound.
        data : Dataset
            Whole counts.
        seed : int
        kernel : TopicGibbs
            Makes the sweeps.

        Returns
        -------
        (T,) int32 ndarray
            Sorted by word, and within a word by document.
        """
        X = sparse.csr_array(data.X)
        rows = self.part_of(X, seed)
        if len(rows) == X.shape[0]:
            return drawn_topics(model, data, seed=seed)
        part = Dataset(X[rows], model.family)
        state = kernel.init(model, part, seed=seed, start=drawn_topics(model, part, seed=seed))
        for _ in range(N_SWEEPS):
            kernel.step(state)
        tokens = TokenTopics(X, model.n_components)
        is_part = np.zeros(X.shape[0], dtype=bool)
        is_part[rows] = True
        tokens.topic[:] = -1
        tokens.topic[is_part[tokens.doc]] = state.labels  # both sorted by word, then by document
        tokens.count_topics()
        histogram = np.zeros(tokens.n_tokens + 1, dtype=np.int64)
        tokens.sweep(model.pseudocounts, state.eta, 0, tokens.n_words, seed, _PLACING, histogram)
        return tokens.topic

    def part_of(self, X, seed):
        """Random documents, ascending, that the passes read: all of a small corpus."""
        lengths = np.asarray(X.sum(axis=1)).ravel()
        order = generator(seed, "start").permutation(len(lengths))
        n = int(np.searchsorted(np.cumsum(lengths[order]), self._n_passed(lengths.sum()))) + 1
        return np.sort(order[:n])

    def like(self, data):
        """The start of a sample of the documents that takes the same share of it as this one of all."""
        n_tokens, _ = count_tokens(data)
        return VariationalStart(self._share_of(n_tokens))

    def memory(self, model, data):
        """Bytes at the peak: passes and their draws, or, of a part, its chain beside the tokens of all documents."""
        n_tokens, n_entries = count_tokens(data)
        share, K = self._share_of(n_tokens), model.n_components
        part = (share * n_tokens, share * n_entries)
        drawn = _passes().memory(model, data, K) + 20 * part[0] + 24 * part[1]
        if share == 1.0:
            return int(drawn)
        swept = memory_of_tokens(*part, share * data.n_rows, K)
        placed = memory_of_tokens(n_tokens, n_entries, data.n_rows, K)
        return int(12 * part[1] + max(drawn, swept + placed))

    def _share_of(self, n_tokens):
        return min(1.0, self._n_passed(n_tokens) / n_tokens) if n_tokens else 1.0

    def _n_passed(self, n_tokens):
        """Tokens that suffice for the passes, of so many."""
        return max(PART_TOKENS, n_tokens / PART) if self.share is None else self.share * n_tokens


def drawn_topics(model, data, *, seed):
    """Topics of tokens drawn from their responsibilities after variational passes over all documents."""
    kernel = _passes()
    state = kernel.init(model, data, seed=seed)
    for _ in range(N_PASSES):
        kernel.step(state)
    passes = state.passes
    indptr = passes.X.indptr.astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(passes.X.data)]).astype(np.int64)
    drawn = np.zeros(int(starts[-1]), dtype=np.int32)
    step = passes.step(passes.tables(state.word_counts, state.eta), model.pseudocounts)
    for part in passes.parts(step, np.arange(data.n_rows)):
        draw_tokens(indptr, part.rows, part.sizes, part.topics, part.values, starts, seed, drawn)
    order = np.argsort(passes.X.indices, kind="stable")  # entries by word, each word's by document
    sizes = np.diff(starts)[order]
    return drawn[np.repeat(starts[:-1][order] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(drawn))]


def _passes():
    return TopicVariational(local="active", n_restarts=0)
