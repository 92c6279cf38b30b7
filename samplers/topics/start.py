"""Starting topics of tokens for a sampler, from variational passes.

The passes read a part of the documents; the topics of the other documents are drawn after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.model.data import Dataset
from expfam.near_names import near_names
from expfam.samplers.chain.driver import advance
from expfam.samplers.topics._sums import draw_tokens
from expfam.samplers.topics.corpus import count_tokens, memory_of_tokens
from expfam.samplers.topics.tokens import TokenTopics
from expfam.samplers.topics.variational import TopicVariational
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from expfam.samplers.topics.gibbs import TopicGibbs

PART_TOKENS = 1 << 20  # tokens of the part, at least
PART = 4  # of a larger corpus the part has one token in PART
N_PASSES, N_SWEEPS = 2, 4  # over the part
_PLACING = 1 << 63  # number of a step that no chain reaches, for a random stream of its own


@dataclass(frozen=True)
class VariationalStart:
    """Topics of tokens after a few variational passes: a start for a sampler.

    The passes read only a part of a large corpus. The sampler makes a few sweeps over this part; then the topics of all
    other tokens are drawn one by one, each given the topics drawn so far. `share`, in 0..1, is the share of the tokens
    that the passes read; None chooses it by the size of the corpus.
    """

    share: float | None = None

    def topics(self, model: Any, data: Dataset, *, seed: int, kernel: TopicGibbs) -> npt.NDArray[np.int32]:
        """Draw the topics of all tokens: (T,) int32, sorted by word, and within a word by document.

        Parameters
        ----------
        model : AdmixtureModel
            With a bound family.
        data : Dataset
            Whole counts.
        seed : int
            Seed of the chain, 64 bits.
        kernel : TopicGibbs
            It makes the sweeps.
        """
        X = sparse.csr_array(data.X)
        rows = self.part_of(X, seed)
        if len(rows) == X.shape[0]:
            return drawn_topics(model, data, seed=seed)
        part = Dataset(X[rows], model.family)
        state = kernel.init(model, part, seed=seed, start=drawn_topics(model, part, seed=seed))
        advance(kernel, state, N_SWEEPS)
        tokens = TokenTopics(X, model.n_components, model.seeds)
        is_part = np.zeros(X.shape[0], dtype=bool)
        is_part[rows] = True
        tokens.topic[:] = -1
        tokens.topic[is_part[tokens.doc]] = state.labels  # both are sorted by word, then by document
        tokens.count_topics()
        histogram = np.zeros(tokens.n_tokens + 1, dtype=np.int64)
        tokens.sweep(model.pseudocounts, state.eta, 0, tokens.n_words, seed, _PLACING, histogram)
        return tokens.topic

    def part_of(self, X: Any, seed: int) -> npt.NDArray[np.int64]:
        """Draw the documents that the passes read, ascending; all of a small corpus."""
        lengths = np.asarray(X.sum(axis=1)).ravel()
        order = generator(seed, "start").permutation(len(lengths))
        n = int(np.searchsorted(np.cumsum(lengths[order]), self._n_passed(lengths.sum()))) + 1
        return np.sort(order[:n])

    def like(self, data: Dataset) -> VariationalStart:
        """Return a start with the share of the tokens that this start reads of `data`.

        It is the start for samples of these documents.
        """
        n_tokens, _ = count_tokens(data)
        return VariationalStart(self._share_of(n_tokens))

    def memory(self, model: Any, data: Dataset) -> int:
        """Return the bytes of the start at its peak.

        The peak is reached by the passes and their draws. Where the passes read only a part, it may be reached by the
        chain over the part together with the tokens of all documents.
        """
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
        """Return the number of tokens that the passes read of `n_tokens`."""
        return max(PART_TOKENS, n_tokens / PART) if self.share is None else self.share * n_tokens


def drawn_topics(model: Any, data: Dataset, *, seed: int) -> npt.NDArray[np.int32]:
    """Draw the topics of tokens from responsibilities, after passes over all documents: (T,)."""
    kernel = _passes()
    state = kernel.init(model, data, seed=seed, start="documents")  # sweeps draw these apart better
    advance(kernel, state, N_PASSES)
    passes = state.passes
    indptr = passes.X.indptr.astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(passes.X.data)]).astype(np.int64)
    drawn = np.zeros(int(starts[-1]), dtype=np.int32)
    step = passes.step(passes.tables(model.seeded(state.word_counts), state.eta), model.pseudocounts)
    for part in passes.parts(step, np.arange(data.n_rows)):
        draw_tokens(indptr, part.rows, part.sizes, part.topics, part.values, starts, seed, drawn)
    order = np.argsort(passes.X.indices, kind="stable")  # entries sorted by word, then by document
    sizes = np.diff(starts)[order]
    return drawn[np.repeat(starts[:-1][order] - np.cumsum(sizes) + sizes, sizes) + np.arange(len(drawn))]


def _passes():
    return TopicVariational(local="active", n_restarts=0)


def passes_of(start: Any) -> VariationalStart | None:
    """Return the VariationalStart that a start is or names; None for other starts."""
    if isinstance(start, str):
        return VariationalStart() if start == "variational" else None
    return start if isinstance(start, VariationalStart) else None


def check_named(start: str, kernel: str, others: str = "topics of tokens") -> None:
    """Refuse names of starts that kernels of topics do not have.

    Parameters
    ----------
    start : str
    kernel : str
        Name of the kernel, for the message.
    others : str
        What else a start can be, for the message.
    """
    if start not in ("auto", "random"):
        near = near_names(start, ("random", "variational", "auto")) or ("random",)
        raise ValueError(
            f"{kernel}: start must be 'random', 'variational' or {others}; got {start!r}: write start={near[0]!r}"
        )


def start_of_sample(start: Any, data: Dataset) -> Any:
    """Return the start of a sample of documents.

    Variational passes read the same share of the sample as they would read of all documents. Given topics belong to the
    tokens of all documents: a sample begins with random ones, which cost as little.
    """
    passes = passes_of(start)
    if passes is not None:
        return passes.like(data)
    return start if isinstance(start, str) else "random"
