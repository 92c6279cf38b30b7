"""Merges, deletions and births of topics in a variational run of unknown number.

A move changes the responsibilities of few topics alone. What a topic adds to the bound follows from its own
responsibilities, and the shared weights are chosen anew for each trial, so a trial costs what these topics hold. A move
is kept where the whole bound rises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, gammaln, psi, xlogy

from expfam.samplers.nonparametric.stick_posterior import StickPosterior, Tables
from expfam.samplers.topics.local_step import Counts, Part, TopicPass
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.variational.alpha_bound import rising_slopes, tangent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAIN = 1e-9  # share of itself by which the bound must rise: less may be rounding
_NEAR = 3  # topics of the most similar words, with which each topic is compared
_HOPELESS = 30.0  # nats; shared weights do not make up for more
_TRIAL_STEPS = 6  # of the shared weights, to judge a trial
_REFINEMENTS = 10  # two-way steps of a divided topic before it is judged
_STEPS_WITHOUT = 3  # local steps of the documents of a topic that is deleted
_LEAST = 1e-8  # responsibilities below this share of their topic go to the other half


class Behind(NamedTuple):
    """What topics hold in documents that are not at hand, and that no move changes.

    Attributes
    ----------
    words : (V, K) float64 ndarray
        Tokens of each word.
    slopes : (2, K) float64 ndarray
        Slopes of the tangents of these documents.
    """

    words: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]


class Column(NamedTuple):
    """Responsibilities of one topic, and what they add to the bound.

    Attributes
    ----------
    entries : (n,) int64 ndarray
        Entries of the counts of words, ascending.
    r : (n,) float64 ndarray
        Positive responsibilities.
    words : (V,) float64 ndarray
        Tokens of each word.
    slopes : (2,) float64 ndarray
        Slopes of the documents' tangents at the pseudo-count `M`.
    M, rest : float
        `rest` is what the topic adds to the bound, nats, without its tangents.
    behind : tuple of int
        Topics whose tokens in documents that are not at hand it has.
    """

    entries: npt.NDArray[np.int64]
    r: npt.NDArray[np.float64]
    words: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    M: float
    rest: float
    behind: tuple[int, ...] = ()

    @property
    def value(self) -> float:
        """Return what the topic adds to the bound at its own pseudo-count, nats."""
        return self.rest + tangent(np.array([self.M]), self.slopes[:, None], 0.0)


class JudgedTopics:
    """Base of topics that trials change, kept where the whole bound rises.

    Subclasses write `near_pairs` and `merged`, and for other trials `sizes`, `without` and `halves`.

    Attributes
    ----------
    columns : list
        What each topic holds: its `words`, `slopes`, `M`, `rest`, `value` and `behind`, see `Column`.
    sticks : StickPosterior
    bound : float
        Nats; without what no trial changes.
    eta : (V,) float64 ndarray
    falling, n_groups : float
        As in `Tables`.
    """

    columns: list[Any]
    sticks: StickPosterior
    bound: float
    eta: npt.NDArray[np.float64]
    falling: float
    n_groups: float

    def merged(self, a: Any, b: Any) -> Any:
        """Return the topic that takes all of two topics."""
        raise NotImplementedError

    def near_pairs(self) -> list[tuple[int, int]]:
        """Return pairs (a, b), a < b, of topics that may be one."""
        raise NotImplementedError

    def sizes(self) -> npt.NDArray[np.float64]:
        """Return what the topics hold: (K,)."""
        raise NotImplementedError

    def without(self, k: int) -> list[Any] | None:
        """Return the topics without one, or None where that cannot be."""
        raise NotImplementedError

    def halves(self, k: int, rng: np.random.Generator) -> tuple[Any, Any] | None:
        """Return two topics that share what one holds, or None where it is not to be divided."""
        raise NotImplementedError

    def take(self, columns: list[Any], sticks: StickPosterior, bound: float) -> None:
        """Take other topics, their shared weights and bound."""
        self.columns, self.sticks, self.bound = columns, sticks, bound

    def value_of(self, columns: list[Any], sticks: StickPosterior) -> float:
        """Return the bound of these topics at a posterior of the shared weights, nats."""
        return sum(column.rest for column in columns) + sticks.value(self.tables_of(columns))

    def tables_of(self, columns: list[Any]) -> Tables:
        """Return what the documents say of the shared weights of these topics."""
        return Tables(np.stack([column.slopes for column in columns], axis=1), self.falling, self.n_groups)

    def accept_if_better(self, columns: list[Any]) -> bool:
        """Take other topics if they raise the bound; return whether they did."""
        _, _, alpha, gamma, n_known = self.sticks
        beta = np.array([column.M for column in columns]) / alpha
        first = StickPosterior.around(beta, self.n_groups, alpha, gamma, n_known)
        sticks = first.best(self.tables_of(columns), learn=False, n_steps=_TRIAL_STEPS)
        bound = self.value_of(columns, sticks)
        if not bound > self.bound + _GAIN * abs(self.bound):
            return False
        self.take(columns, sticks, bound)
        return True

    def finish(self, *, learn: bool) -> None:
        """Choose the shared weights; the largest topic follows the known ones if that is better."""
        self.sticks = self.sticks.best(self.tables_of(self.columns), learn=learn)
        self.bound = self.value_of(self.columns, self.sticks)
        q, known = self.sticks, np.arange(self.sticks.n_known)
        order = np.append(known, len(known) + np.argsort(-q.pseudocounts[len(known) :], kind="stable"))
        columns = [self.columns[k] for k in order]
        first = StickPosterior.around(q.beta[:-1][order], self.n_groups, q.alpha, q.gamma, q.n_known)
        sticks = first.best(self.tables_of(columns), learn=learn)
        bound = self.value_of(columns, sticks)
        if bound > self.bound:
            self.take(columns, sticks, bound)

    def homes(self) -> npt.NDArray[np.int64]:
        """Return the topic that each topic of the documents not at hand has become: (K,) int64."""
        places = {k: place for place, column in enumerate(self.columns) for k in column.behind}
        return np.array([places[k] for k in range(len(places))], dtype=np.int64)


class Allocation(JudgedTopics):
    """Responsibilities of documents topic by topic, changed by accepted trials.

    Parameters
    ----------
    state : TopicProcessVariationalState or DocumentsAtHand
        With all that is remembered of its documents.
    behind : Behind, optional
        What the topics hold in other documents.
    """

    columns: list[Column]

    def __init__(self, state: Any, behind: Behind | None = None) -> None:
        self.state, self.eta = state, state.eta
        self.behind: Any = behind
        passes = state.passes
        self.rows = [np.concatenate([part.rows for part in parts]) for parts in state.remembered]
        self.order = order = np.concatenate(self.rows)
        self.n_types = passes.n_types[order].astype(np.int64)
        starts = passes.X.indptr.astype(np.int64)[order]
        entries = np.repeat(starts - np.cumsum(self.n_types) + self.n_types, self.n_types) + np.arange(
            self.n_types.sum()
        )
        self.starts = np.cumsum(self.n_types) - self.n_types
        self.doc = np.repeat(np.arange(len(order)), self.n_types)  # in the order of the batches
        self.word, self.count = passes.X.indices[entries].astype(np.int64), passes.X.data[entries].astype(np.float64)
        self.weight = state.occupied.weight[order]
        self.weighted = self.count * self.weight[self.doc]
        self.falling, self.n_groups = state.sums.falling, state.sums.weight
        self.sticks = state.sticks
        R = _by_topic(state.remembered, self.n_types, passes.n_topics)
        self._by_entry: Any = None
        self.columns = self.columns_of(R, self.sticks.pseudocounts, has_behind=behind is not None)
        self.bound = self.value_of(self.columns, self.sticks)

    def column(
        self, entries: npt.NDArray[np.int64], r: npt.NDArray[np.float64], M: float, behind: tuple[int, ...] = ()
    ) -> Column:
        """Return a topic with given responsibilities, at a pseudo-count, and what it has behind."""
        words: npt.NDArray[Any] = np.bincount(self.word[entries], self.weighted[entries] * r, minlength=len(self.eta))
        docs, place = _runs(self.doc[entries])
        N: npt.NDArray[Any] = np.bincount(place, self.count[entries] * r, minlength=len(docs))
        weight = self.weight[docs]
        slopes = np.array([(weight * x).sum() for x in rising_slopes(M, N)])
        value = float((weight * (gammaln(M + N) - gammaln(M))).sum()) - tangent(np.array([M]), slopes[:, None], 0.0)
        value -= float((self.weighted[entries] * xlogy(r, r)).sum())
        for k in behind:
            words, slopes = words + self.behind.words[:, k], slopes + self.behind.slopes[:, k]
        words = np.maximum(words, 0.0) if behind else words  # rounding of differences
        return Column(entries, r, words, slopes, M, value + log_evidence_of_topics(words[:, None], self.eta), behind)

    def columns_of(self, R: Any, M: npt.NDArray[np.float64], *, has_behind: bool = False) -> list[Column]:
        """Return the topics of responsibilities (E, K), CSC, at pseudo-counts (K,).

        With `has_behind` each has what its number has in other documents.
        """
        R.sort_indices()
        return [
            self.column(R.indices[a:b].astype(np.int64), R.data[a:b], float(M[k]), (k,) if has_behind else ())
            for k, (a, b) in enumerate(zip(R.indptr[:-1], R.indptr[1:]))
        ]

    def merged(self, a: Column, b: Column) -> Column:
        """Return the topic that takes all of two topics."""
        entries, place = np.unique(np.concatenate([a.entries, b.entries]), return_inverse=True)
        r = np.bincount(place, np.concatenate([a.r, b.r]), minlength=len(entries))
        return self.column(entries, np.minimum(r, 1.0), a.M + b.M, a.behind + b.behind)

    def near_pairs(self) -> list[tuple[int, int]]:
        """Return pairs (a, b), a < b, of topics of similar words."""
        return pairs_of_words(self.columns, self.eta)

    def sizes(self) -> npt.NDArray[np.float64]:
        """Return the tokens of the topics: (K,)."""
        return np.array([column.words.sum() for column in self.columns])

    def without(self, k: int) -> list[Column]:
        """Return the topics without one, whose documents take local steps among the others."""
        return _without(self, k)

    def halves(self, k: int, rng: np.random.Generator) -> tuple[Column, Column] | None:
        """Return two topics that share those of one, or None where it is that of one document."""
        return _divided(self, self.columns[k], rng)

    def take(self, columns: list[Column], sticks: StickPosterior, bound: float) -> None:
        """Take other topics, their shared weights and bound."""
        super().take(columns, sticks, bound)
        self._by_entry = None

    def by_entry(self) -> Any:
        """Return the responsibilities of all topics: (E, K) CSR, made anew after an accepted trial."""
        if self._by_entry is not None:
            return self._by_entry
        entries = np.concatenate([column.entries for column in self.columns])
        topics = np.repeat(np.arange(len(self.columns)), [len(column.r) for column in self.columns])
        r = np.concatenate([column.r for column in self.columns])
        self._by_entry = sparse.csr_array((r, (entries, topics)), shape=(len(self.doc), len(self.columns)))
        return self._by_entry

    def entries_of(self, docs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the entries of some documents, one document after the other."""
        n = self.n_types[docs]
        return np.repeat(self.starts[docs] - np.cumsum(n) + n, n) + np.arange(n.sum())

    def local_steps(
        self,
        docs: npt.NDArray[np.int64],
        R: Any,
        gone: int,
        M: npt.NDArray[np.float64],
        words: npt.NDArray[np.float64],
    ) -> Any:
        """Return the responsibilities of some documents after local steps without one topic.

        `R` are those of all entries, (E, K) CSR, `M` (K - 1,) and `words` (V, K - 1) pseudo-counts and tokens of the
        other topics. The documents are in the order of their rows. The result is a CSC array (entries of these
        documents, K - 1).
        """
        state, entries, n_types = self.state, self.entries_of(docs), self.n_types[docs]
        others = np.delete(np.arange(R.shape[1]), gone)
        old = R[entries]
        places = (self.word[entries], np.arange(len(entries)))
        by_word = sparse.csr_array((self.weighted[entries], places), shape=(len(self.eta), len(entries)))
        now = (by_word @ old).toarray()[:, others]
        rest = words - now
        doc = np.repeat(np.arange(len(docs)), n_types)
        counts = _counts(doc, len(docs), self.count[entries], old[:, others])
        passes = TopicPass(state.data, len(others), state.settings)
        for _ in range(_STEPS_WITHOUT):
            words = np.maximum(rest + now, 0.0)
            step, now = passes.step(passes.tables(words, self.eta), M), np.zeros_like(words)
            parts = list(passes.parts(step, self.order[docs], counts))
            for part in parts:
                passes.add(part, now)
            counts = Counts.joined([part.counts() for part in parts])
        return _by_topic([parts], n_types, len(others))

    def parts(self) -> Iterator[tuple[npt.NDArray[np.int64], Part, Counts, float]]:
        """Yield for each batch its documents, their responsibilities, counts of topics and entropy."""
        R, dtype = self.by_entry(), self.state.passes.dtype
        done = docs = 0
        for rows in self.rows:
            n_types = self.n_types[docs : docs + len(rows)]
            end = done + int(n_types.sum())
            yield _as_part(rows, n_types, R[done:end], self.count[done:end], self.weighted[done:end], dtype)
            done, docs = end, docs + len(rows)


def _runs(ascending):
    """Return the distinct values of an ascending array, and the place of each entry among them."""
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    return ascending[starts], np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ascending)))


def _by_topic(remembered, n_types, n_topics):
    """Return the responsibilities of all entries, batch by batch: (E, K) CSC without zeros."""
    parts = [part for batch in remembered for part in batch]
    sizes = np.concatenate([part.sizes for part in parts]).astype(np.int64)
    topics, values = np.concatenate([part.topics for part in parts]), np.concatenate([part.values for part in parts])
    of_entry = np.repeat(sizes, n_types)
    first = np.repeat(np.cumsum(sizes) - sizes, n_types)
    ends = np.cumsum(of_entry)
    place = np.repeat(first - ends + of_entry, of_entry) + np.arange(len(values))
    R = sparse.csr_array(
        (values.astype(np.float64), topics[place], np.append(0, ends)), shape=(len(of_entry), n_topics)
    )
    R.eliminate_zeros()
    return R.tocsc()


def _counts(doc, n_docs, count, R):
    """Return counts of topics from responsibilities (E, K), CSR; `doc` (E,) is ascending."""
    N = sparse.csr_array((count, (doc, np.arange(len(doc)))), shape=(n_docs, len(doc))) @ R
    N.sort_indices()
    return Counts(N.indptr.astype(np.int64), N.indices.astype(np.int32), N.data)


def _as_part(rows, n_types, R, count, weighted, dtype):
    """Return documents, their responsibilities as a `Part`, their counts and entropy."""
    R.sort_indices()
    doc, K = np.repeat(np.arange(len(rows)), n_types), R.shape[1]
    counts = _counts(doc, len(rows), count, R)
    sizes = np.diff(counts.starts)
    entry = np.repeat(np.arange(len(doc)), np.diff(R.indptr))
    pairs = np.repeat(np.arange(len(rows)), sizes) * K + counts.topics
    place = np.searchsorted(pairs, doc[entry] * K + R.indices) - counts.starts[doc[entry]]
    of_entry = sizes[doc]
    starts = np.cumsum(of_entry) - of_entry
    values = np.zeros(int(of_entry.sum()), dtype=dtype)
    values[starts[entry] + place] = R.data
    part = Part.__new__(Part)
    part.documents = part.places = part.N = None
    part.rows, part.sizes, part.bounds = rows, sizes.astype(np.int32), np.zeros(len(rows))
    part.topics, part.values, part.counters = counts.topics, values, np.zeros(3, dtype=np.int64)
    return rows, part, counts, -float((weighted[entry] * xlogy(R.data, R.data)).sum())


# ---- merges ----------------------------------------------------------------------------------------------------------


class Moves(NamedTuple):
    """How many moves of a step were tried and accepted, and the accepted ones by kind."""

    n_tried: int
    n_accepted: int
    kinds: dict[str, int]


def try_moves(allocation: JudgedTopics, kernel: Any, rng: np.random.Generator) -> Moves:
    """Try the moves that a kernel asks for; finish the allocation if any was accepted."""
    moves = {
        "n_merge": try_merges(allocation) if kernel.merge else (0, 0),
        "n_delete": try_deletions(allocation, kernel.n_deletions, rng),
        "n_birth": try_births(allocation, kernel.n_births, rng),
    }
    n_tried, n_accepted = (sum(found) for found in zip(*moves.values()))
    if n_accepted:
        allocation.finish(learn=kernel.learn_alpha)
    return Moves(n_tried, n_accepted, {name: accepted for name, (_, accepted) in moves.items()})


def try_merges(allocation: JudgedTopics) -> tuple[int, int]:
    """Try merges of topics of similar words; each joins at most once, and no two known ones.

    The most promising merge comes first. Return how many were tried, and how many accepted.
    """
    if len(allocation.columns) < 2:
        return 0, 0
    before = allocation.columns
    trials = []
    for a, b in allocation.near_pairs():
        if b < allocation.sticks.n_known:
            continue
        joined = allocation.merged(before[a], before[b])
        trials.append((joined.value - before[a].value - before[b].value, a, b, joined))
    trials.sort(key=lambda trial: -trial[0])
    places, n_tried, n_accepted = list(range(len(before))), 0, 0
    used: set[int] = set()
    for gain, a, b, joined in trials:
        if gain < -_HOPELESS:
            break
        if used & {a, b}:
            continue
        n_tried += 1
        columns = list(allocation.columns)
        columns[places.index(a)] = joined
        columns.pop(places.index(b))
        if allocation.accept_if_better(columns):
            places.remove(b)
            used |= {a, b}
            n_accepted += 1
    return n_tried, n_accepted


def pairs_of_words(columns: list[Any], eta: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return pairs (a, b), a < b, of topics of similar words: each with those nearest to it."""
    roots = roots_of_words(columns, eta)
    near = roots @ roots.T
    np.fill_diagonal(near, -1.0)
    best = np.argsort(-near, axis=1, kind="stable")[:, : min(_NEAR, len(columns) - 1)]
    return sorted({(min(k, j), max(k, j)) for k, row in enumerate(best.tolist()) for j in row})


def roots_of_words(columns: Sequence[Any], eta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return roots (K, V) of shares of words; inner products say how similar topics are."""
    words = np.stack([column.words for column in columns]) + eta
    return np.sqrt(words / words.sum(axis=1, keepdims=True))


# ---- deletions -------------------------------------------------------------------------------------------------------


def try_deletions(allocation: JudgedTopics, n_trials: int, rng: np.random.Generator) -> tuple[int, int]:
    """Try to do without topics that are not known; small ones are drawn more often.

    The documents of a topic take local steps among the other topics. Return how many were tried, and how many accepted.
    """
    n_tried, n_accepted, n_known = 0, 0, allocation.sticks.n_known
    for _ in range(n_trials):
        if len(allocation.columns) < max(2, n_known + 1):
            break
        odds = 1.0 / (1.0 + allocation.sizes()[n_known:])
        n_tried += 1
        columns = allocation.without(n_known + int(rng.choice(len(odds), p=odds / odds.sum())))
        n_accepted += columns is not None and allocation.accept_if_better(columns)
    return n_tried, n_accepted


def _without(allocation, k):
    """Return the topics without one."""
    gone, columns = allocation.columns[k], [*allocation.columns[:k], *allocation.columns[k + 1 :]]
    if not len(gone.entries):
        return columns
    M = pseudocounts_without(allocation.columns, k)
    words = np.stack([column.words for column in columns], axis=1)
    return allocation.columns_of(responsibilities_without(allocation, k, M, words), M)


def pseudocounts_without(columns: Sequence[Any], k: int) -> npt.NDArray[np.float64]:
    """Return pseudo-counts (K - 1,) of the topics but one, which share that of the one."""
    M = np.array([column.M for place, column in enumerate(columns) if place != k])
    return M * (1.0 + columns[k].M / M.sum())


def responsibilities_without(
    allocation: Allocation, k: int, M: npt.NDArray[np.float64], words: npt.NDArray[np.float64]
) -> sparse.csc_array:
    """Return responsibilities (E, K - 1) after local steps without one topic.

    Parameters
    ----------
    allocation : Allocation
    k : int
        The topic.
    M : (K - 1,) float64 ndarray
        Pseudo-counts of the other topics.
    words : (V, K - 1) float64 ndarray
        Tokens of each word in the other topics before the steps.
    """
    if not len(allocation.columns[k].entries):
        return allocation.by_entry().tocsc()[:, np.delete(np.arange(len(M) + 1), k)]
    docs = _runs(allocation.doc[allocation.columns[k].entries])[0]
    docs = docs[np.argsort(allocation.order[docs])]  # local steps are made in the order of the rows
    R, entries = allocation.by_entry(), allocation.entries_of(docs)
    fresh = allocation.local_steps(docs, R, k, M, words).tocoo()
    is_left = np.ones(R.shape[0], dtype=bool)
    is_left[entries] = False
    left = R.tocoo()
    kept = is_left[left.coords[0]]
    r = np.append(left.data[kept], fresh.data)
    topics = left.coords[1][kept]
    places = (
        np.append(left.coords[0][kept], entries[fresh.coords[0]]),
        np.append(topics - (topics > k), fresh.coords[1]),
    )
    return sparse.csc_array((r, places), (R.shape[0], len(M)))


# ---- births ----------------------------------------------------------------------------------------------------------


def try_births(allocation: JudgedTopics, n_trials: int, rng: np.random.Generator) -> tuple[int, int]:
    """Try to divide topics, drawn with probability proportional to their tokens.

    Return how many were tried, and how many accepted.
    """
    n_tried = n_accepted = 0
    for _ in range(n_trials):
        sizes = allocation.sizes()
        k = int(rng.choice(len(sizes), p=sizes / sizes.sum()))
        halves = allocation.halves(k, rng)
        if halves is None:
            continue
        n_tried += 1
        columns = list(allocation.columns)
        columns[k] = halves[0]
        n_accepted += allocation.accept_if_better([*columns, halves[1]])
    return n_tried, n_accepted


def _divided(allocation, column, rng):
    """Return two topics that share those of one, or None where it is that of one document.

    Documents begin in the half of the nearer one of two random documents; then tokens take two-way steps.
    """
    entries, r = column.entries, column.r
    docs, place = _runs(allocation.doc[entries])
    if len(docs) < 2:
        return None
    held, eta = allocation.word[entries], allocation.eta
    tokens, weighted = allocation.count[entries] * r, allocation.weighted[entries] * r
    sizes = np.bincount(place, weighted, minlength=len(docs))
    if np.count_nonzero(sizes) < 2:
        return None
    seeds = rng.choice(len(docs), 2, replace=False, p=sizes / sizes.sum())
    mean = (column.words + eta) / (column.words + eta).sum()
    counts = [np.bincount(held[place == s], tokens[place == s], minlength=len(eta)) + mean for s in seeds]
    logs = [np.log(c[held] / c.sum()) for c in counts]
    share = (np.bincount(place, tokens * (logs[0] - logs[1]), minlength=len(docs)) > 0)[place].astype(np.float64)
    half, priors = column.M / 2.0, [eta, eta]
    if column.behind:  # the first half keeps what documents have that are not at hand
        priors[0] = eta + np.maximum(column.words - np.bincount(held, weighted, minlength=len(eta)), 0.0)
    for _ in range(_REFINEMENTS):
        sides = [
            _log_scores(held, weighted * s, place, tokens * s, len(docs), half, prior)
            for s, prior in zip((share, 1.0 - share), priors)
        ]
        share = expit(sides[0] - sides[1])
    share = np.where(share < _LEAST, 0.0, np.where(share > 1.0 - _LEAST, 1.0, share))
    left, right = share > 0, share < 1
    if not left.any() or not right.any():
        return None
    part = 1.0 - float((weighted * (1.0 - share)).sum() / column.words.sum())
    M = column.M * np.clip([part, 1.0 - part], 1e-3, None)
    return (
        allocation.column(entries[left], (r * share)[left], float(M[0]), column.behind),
        allocation.column(entries[right], (r * (1.0 - share))[right], float(M[1])),
    )


def _log_scores(held, weighted, place, tokens, n_docs, M, prior):
    """Return the expected log probability of each entry in one half, up to a constant of both."""
    words = np.bincount(held, weighted, minlength=len(prior)) + prior
    N = np.bincount(place, tokens, minlength=n_docs)
    return psi(words)[held] - psi(words.sum()) + psi(M + N)[place]
