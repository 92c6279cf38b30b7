"""Exact splits and merges of topics whose number is unknown.

Sweeps move one token at a time, so two topics of the same words stay apart for long, and a topic of two themes hardly
divides. A move changes all tokens of a topic at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from expfam.samplers.nonparametric.pairs import CONSTRAINTS, Tries, number_of_pairs, try_pairs
from expfam.samplers.nonparametric.token_moves import TopicMoves
from expfam.samplers.nonparametric.topics import TopicProcessGibbs
from expfam.samplers.states.large import count_large
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    import numpy.typing as npt

WORK = 0.4  # tokens that the tries of a step visit by default, over all tokens
_TRIED = 500  # tokens of a pair's topics up to which it is always tried
_OF_WORD, _OF_DOCUMENT = 0.45, 0.45  # probabilities that a pair is of one word, and of one document


class TopicProcessSplitMerge(TopicProcessGibbs):
    """Exact splits and merges of an unknown number of topics.

    Two tokens are drawn, whatever their topics. Where both have one topic, its other tokens are divided between them,
    document by document; where they have two, the topics become one. Weights of documents and topics are integrated
    out, and the weights that all documents share are part of the move. A topic with seed words takes part too, and
    keeps them. Use this kernel in a `Cycle` with `TopicProcessGibbs`, which draws the shared weights and all that is
    learned.

    Parameters
    ----------
    n_tries : int or "auto"
        Pairs of tokens of a step.
    work : float
        Tokens that all tries of a step visit at most on average, as a share of all tokens. A step rests with
        probability 1 - work. Else a pair whose topics hold n of the T tokens is tried with probability
        min(1, max(1, work) T / (n_tries n)), which is the same before and after a move.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> from expfam.samplers import Cycle, TopicProcessGibbs, TopicProcessSplitMerge, sample
    >>> X = np.repeat([[8, 8, 0, 0], [0, 0, 8, 8]], 20, axis=0)
    >>> kernel = Cycle(TopicProcessSplitMerge(), TopicProcessGibbs())
    >>> state = kernel.init(HierarchicalProcess(Multinomial(0.1)), X, seed=0, n_clusters=8)
    >>> trace = sample(kernel, state, 20)
    >>> int(np.median(trace.column("n_clusters")[10:])) <= 3
    True

    Notes
    -----
    Jain and Neal 2004, Dahl 2005; see `expfam.samplers.nonparametric.pairs`.
    """

    _constraints: ClassVar = CONSTRAINTS

    def __init__(self, *, n_tries: int | Literal["auto"] = "auto", work: float = WORK) -> None:
        super().__init__(learn_alpha=False)
        self.n_tries, self.work = n_tries, work

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Propose splits and merges of topics, and accept or refuse each by Metropolis-Hastings."""
        T, tries = state.tokens.n_tokens, Tries(0, 0, 0)
        rng = generator(state.seed, "choice", step=state.n_steps)
        if T > 1 and (self.work >= 1.0 or rng.random() < self.work):  # to list the tokens costs as much as many tries
            work = max(1.0, self.work)
            rank = rng.permutation(state.tokens.n_docs).astype(np.int32)
            moves = TopicMoves(state.tokens, rank, state.eta)
            n_pairs = number_of_pairs(self.n_tries, work, T, _TRIED)
            pairs = draw_pairs(state.tokens, moves, rank, n_pairs, rng)
            attempt = partial(_try, state, moves, rng)
            tries = try_pairs(pairs, attempt, size_of=moves.size_of, most=work * T, rng=rng)
        if tries.n_accepted:
            state.count_all()
        found = {"n_large": count_large(state.tokens.topic_size), "n_splits": tries.n_split}
        return tries.n_tried, tries.n_accepted, found


def draw_pairs(
    tokens: Any, moves: TopicMoves, rank: npt.NDArray[np.int32], size: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw pairs of tokens: (size, 2), two equal ones for no move.

    The law does not look at topics. Most pairs are two tokens of one word or of one document, which often have one
    topic, or topics of the same words; the others are any two.
    """
    T, law = tokens.n_tokens, rng.random(size)
    first, uniforms = rng.integers(T, size=size), rng.random(size)
    word = np.searchsorted(tokens.word_start, first, side="right") - 1
    starts, ends = tokens.word_start[word], tokens.word_start[word + 1]
    same_word = starts + (uniforms * (ends - starts)).astype(np.int64)
    place = rank[tokens.doc[first]]
    starts, ends = moves.document_start[place], moves.document_start[place + 1]
    same_doc = moves.by_document[starts + (uniforms * (ends - starts)).astype(np.int64)]
    second = np.where(law < _OF_WORD, same_word, np.where(law < _OF_WORD + _OF_DOCUMENT, same_doc, uniforms * T))
    return np.column_stack([first, second.astype(np.int64)])


def _try(state, moves, rng, u, v, log_u, unit):
    """Try one move; return 1 for a split, -1 for a merge, 0 where nothing changes."""
    slots, topic = state.shared, state.tokens.topic
    a, b = int(topic[u]), int(topic[v])
    n_known = state.model.n_known
    if b < n_known and a != b:  # a known topic is that of the first token
        return 0
    if a < n_known:
        moves.know(*_seeds_of(state.model, a))
    else:
        moves.leave()
    if a != b:
        one, two = float(slots.pseudocounts[a]), float(slots.pseudocounts[b])
        if not moves.merge(u, v, one, two, state.model.gamma, log_u):
            return 0
        kept, left = slots.by_age(a, b)
        moves.assign(kept, kept)
        slots.pseudocounts[kept], slots.pseudocounts[left] = one + two, 0.0
        _close(state, moves)
        return -1
    mass = float(slots.pseudocounts[a])
    log_ratio, share = moves.split(u, v, mass, state.model.gamma, rng, state.seed, unit, state.n_steps)
    if log_u >= log_ratio:
        return 0
    if not len(slots.free):
        state.grow()
    new = int(slots.free[-1])
    one, two = mass * share, mass - mass * share
    first, second = moves.sizes
    if first >= second or a < n_known:
        moves.assign(a, new)
        slots.pseudocounts[a], slots.pseudocounts[new] = one, two
    else:
        moves.assign(new, a)
        slots.pseudocounts[new], slots.pseudocounts[a] = one, two
    _close(state, moves)
    return 1


def _seeds_of(model, topic):
    """Return the words that are seeds of a known topic, and how many of each."""
    if model.seeds is None:
        return np.empty(0, dtype=np.intp), np.empty(0)
    words, topics = model.seeds.tocoo().coords
    return words[topics == topic], model.seeds.data[topics == topic]


def _close(state, moves):
    """Name the topics after a move, and list their tokens."""
    state.shared.name(state.tokens.topic_size)
    moves.sort()
