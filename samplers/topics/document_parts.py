"""Documents that lie in parts, with the topics of their tokens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.amounts import counted
from expfam.engines.base import Engine
from expfam.engines.parts import cut_rows
from expfam.engines.serial import SerialEngine
from expfam.errors import DataError
from expfam.families.support import first_where
from expfam.frames.names import rows_from
from expfam.samplers.shards.checkpoint import read_rows, write_rows
from expfam.samplers.topics.documents import count_words, document_keys, draw_topics
from expfam.structures.ground.threads import run, segments

if TYPE_CHECKING:
    from expfam.families.base import Family

_BLOCK_TOKENS = 1 << 14  # of the documents that a thread draws at a time
_BLOCK_CELLS = 1 << 16  # of a table of words and topics
_MOST_KEYS = 1 << 22  # of pairs that are counted in a table


class TopicCounts(NamedTuple):
    """Counts of some documents; ``a + b`` are those of both.

    Attributes
    ----------
    n_moved : int
        Tokens whose topic changed.
    words : (V, K) int64 ndarray
        Tokens of each word in each topic.
    pairs, times : (P,) int64 ndarray
        Topic and number of its tokens in a document, as topic * 2^32 + number, sorted; how often it occurs.
    """

    n_moved: int
    words: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]

    def __add__(self, other: TopicCounts) -> TopicCounts:  # type: ignore[override]
        pairs, place = np.unique(np.concatenate([self.pairs, other.pairs]), return_inverse=True)
        times = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(times, place, np.concatenate([self.times, other.times]))
        return TopicCounts(self.n_moved + other.n_moved, self.words + other.words, pairs, times)


class DocumentShard:
    """Documents of a part, and the topics of their tokens.

    Engines ask it by the names of its methods. The methods `bind`, `number_tokens`, `begin`, `redraw`, `take_topics`,
    `read_labels` and `restore` change it: they replace attributes and write into none.

    Parameters
    ----------
    X : (n, V) array_like or sparse matrix
        Counts of words.
    first_row : int
        Number of the first document among all.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Multinomial
    >>> from expfam.samplers.topics.document_parts import DocumentShard
    >>> shard = DocumentShard(np.array([[2, 0], [0, 1]]), 0)
    >>> shard.bind(Multinomial(0.1).bind([[2, 0], [0, 1]]))
    >>> shard.begin(np.eye(2), np.ones(2), 0).words.tolist()
    [[2, 0], [0, 1]]
    """

    def __init__(self, X: Any, first_row: int) -> None:
        self.X: Any = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        self.first_row = int(first_row)
        self.topics: npt.NDArray[np.int32] | None = None

    def bind(self, family: Family) -> None:
        """Check the counts, and list the tokens document by document."""
        with rows_from(self.first_row):
            self.X = family.validate(self.X)
            fraction = first_where(self.X, lambda values: values != np.floor(values))
            if fraction is not None:
                raise DataError(
                    f"topics of tokens need whole counts; row {fraction[0]}, column {fraction[1]} holds {fraction[2]}:"
                    " write X = numpy.rint(X), or take expfam.TopicModel(sampler='variational') on one machine"
                )
        self._list_tokens(family)

    def _list_tokens(self, family):
        counts = sparse.csr_array(self.X)
        times = counts.data.astype(np.int64)
        self.family = family
        self.words = np.repeat(counts.indices.astype(np.int32), times)
        ends = np.concatenate([[0], np.cumsum(times)])
        self.starts = np.ascontiguousarray(ends[counts.indptr], dtype=np.int64)

    def begin(
        self, phi: npt.NDArray[np.float64], alpha: npt.NDArray[np.float64], seed: int, n_threads: int | None = None
    ) -> TopicCounts:
        """Draw the first topics, given those of words.

        Parameters
        ----------
        phi : (V, K) float64 ndarray
            Probability of each word in each topic.
        alpha : (K,) float64 ndarray
            Pseudo-count of each topic in a document.
        seed : int
            Seed of the chain, 64 bits.
        n_threads : int or None
        """
        self.topics = np.full(len(self.words), -1, dtype=np.int32)
        places = np.arange(len(alpha), dtype=np.int32)
        return self._draw(phi, alpha, places, seed, 0, n_threads, is_first=True)

    def redraw(
        self,
        phi: npt.NDArray[np.float64],
        alpha: npt.NDArray[np.float64],
        places: npt.NDArray[np.int32],
        seed: int,
        step: int,
        n_threads: int | None = None,
    ) -> TopicCounts:
        """Draw the topics of tokens anew; return their counts.

        Parameters
        ----------
        phi, alpha, seed, n_threads
            As in `begin`, of the topics that take part.
        places : (K,) int32 ndarray
            Column of each topic; -1 is a topic that does not take part, which its tokens keep.
        step : int
            Number of the step.
        """
        return self._draw(phi, alpha, places, seed, step, n_threads)

    def _draw(self, phi, alpha, places, seed, step, n_threads, *, is_first=False):
        """Draw the topics of the documents, in blocks on threads; return the counts."""
        topics, sums = self.topics.copy(), _sums_of_masses(phi, alpha, n_threads)
        of_part = (self.starts, self.words, topics, phi, sums, places, seed, step, self.first_row)
        blocks = _blocks_of(self.starts)
        moved = run(draw_topics, [(*of_part, *block, is_first) for block in blocks], n_threads, uses_blas=False)
        self.topics = topics
        return self.counts(len(phi), len(places), n_threads)._replace(n_moved=sum(moved))

    def counts(self, n_words: int, n_topics: int, n_threads: int | None = None) -> TopicCounts:
        """Return the counts of the present topics."""
        topics, width = self.topics_now(), int(self.lengths().max(initial=0)) + 1
        words = np.zeros((n_words, n_topics), dtype=np.int64)
        tasks = [(count_words, self.words, topics, words), (document_keys, self.starts, topics, n_topics, width)]
        _, keys = run(_called, tasks, n_threads, uses_blas=False)
        if n_topics * width <= _MOST_KEYS:
            times = np.bincount(keys)
            found = np.flatnonzero(times)
            times = times[found]
        else:
            found, times = np.unique(keys, return_counts=True)
        return TopicCounts(0, words, (found // width << 32) + found % width, times)

    def number_tokens(self, first_token: int) -> None:
        """Take the number of the first token among those of all documents."""
        self.first_token = int(first_token)

    def take_topics(self, topics: npt.NDArray[np.int32], n_topics: int) -> TopicCounts:
        """Take the topics of the tokens here from those of all tokens; return their counts."""
        self.topics = topics[self.first_token : self.first_token + self.words.size].copy()
        return self.counts(int(self.X.shape[1]), n_topics)

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def write_labels(self, folder: str) -> list[Any]:
        """Write the topics of the tokens; return an entry of a listing."""
        topics = self.topics_now()
        if not topics.size:
            return [self.first_token, 0, "", ""]
        return write_rows(folder, self.first_token, topics[None])

    def read_labels(self, folder: str, listing: list[Any], n_topics: int, scale: None) -> TopicCounts:
        """Take the topics that parts of any bounds wrote into a folder; return their counts."""
        self.topics = np.empty(0, dtype=np.int32)
        if self.words.size:
            self.topics = read_rows(folder, listing, self.first_token, self.words.size, n_topics)[0].copy()
        return self.counts(int(self.X.shape[1]), n_topics)

    # ---- questions ---------------------------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the counts."""
        return tuple(int(size) for size in self.X.shape)

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each document: (n,) int64."""
        return np.diff(self.starts)

    def topics_now(self) -> npt.NDArray[np.int32]:
        """Return the topic of each token, document by document."""
        assert self.topics is not None
        return self.topics

    def rows(self, numbers: npt.NDArray[np.int64]) -> Any:
        """Return the documents with these numbers that are here, as CSR."""
        here = numbers[(numbers >= self.first_row) & (numbers < self.first_row + self.X.shape[0])]
        return sparse.csr_array(self.X[here - self.first_row])

    # ---- loss and resumption -----------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return all that the counts do not hold."""
        names = ("family", "topics", "first_token")
        return {name: self.__dict__[name] for name in names if name in self.__dict__}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring a new shard of the same documents to where another one was saved."""
        if "family" in saved:
            self.bind(saved["family"])
        for name in ("topics", "first_token"):
            if name in saved:
                setattr(self, name, saved[name])


class DocumentParts:
    """Documents that stay where an engine has put them.

    Parameters
    ----------
    parts : iterable of Part, or (D, V) ndarray or CSR
        An array is cut into `n_parts`.
    family : Multinomial
    engine : Engine, optional
        `SerialEngine` if not given.
    n_parts : int

    Attributes
    ----------
    engine : Engine
    family : Family
    n_rows, n_features : int
    lengths : (D,) int64 ndarray
        Tokens of each document.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Multinomial
    >>> from expfam.samplers.topics.document_parts import DocumentParts
    >>> DocumentParts(np.array([[1, 1], [0, 3]]), Multinomial(0.1), n_parts=2).lengths
    array([2, 3])
    """

    weight = None
    known = None
    groups = None
    scale = None  # counts are whole numbers

    def __init__(self, parts: Any, family: Any, *, engine: Engine | None = None, n_parts: int = 1) -> None:
        self.engine = SerialEngine() if engine is None else engine
        self.engine.place(cut_rows(parts, n_parts, grain=1) if hasattr(parts, "shape") else parts, DocumentShard)
        width = self._checked_width()
        self.family = family if family.is_bound else family.bind(np.ones((1, width)))
        self.engine.change("bind", self.family)
        self.n_rows, self.n_features = self.engine.n_rows, width
        lengths = self.engine.each("lengths")
        self.lengths: npt.NDArray[np.int64] = np.concatenate(lengths)
        first_tokens = np.cumsum([0, *(int(own.sum()) for own in lengths[:-1])]).tolist()
        self.engine.change("number_tokens", by_part=first_tokens)

    def _checked_width(self):
        """Return the number of words; refuse parts of other shapes than was said."""
        shapes = self.engine.each("shape")
        for part, shape in zip(self.engine.parts, shapes):
            found = f"the part that begins at row {part.first_row} has "
            if shape[0] != part.n_rows:
                raise DataError(f"{found}{counted(shape[0], 'row')}, not {part.n_rows} as was said")
            if shape[1] != shapes[0][1]:
                raise DataError(
                    f"{found}{counted(shape[1], 'column')}, the first part {shapes[0][1]}: give all parts the columns"
                    " of one vocabulary"
                )
        return shapes[0][1]

    def __len__(self):
        return self.n_rows

    def gathered(self, numbers: npt.NDArray[np.int64]) -> Any:
        """Return the documents with these numbers, in order, as CSR."""
        return sparse.csr_array(sparse.vstack(self.engine.each("rows", numbers)))

    def first_state(
        self, kernel: Any, model: Any, *, seed: Any = None, start: Any = "random", n_clusters: int | None = None
    ) -> Any:
        """Make the first state of a chain; `Kernel.init` calls it.

        Parameters
        ----------
        kernel : DocumentGibbs
        model : AdmixtureModel
        seed : None, int, numpy Generator or RandomState
        start : "random" or (V, K) array_like
            Probabilities of words in topics, from which the first topics of tokens are drawn.
        n_clusters : None
            Not used: the model has the number of topics.
        """
        model = model if model.is_bound else model.with_family(self.family)
        kernel.check(model, self)
        return kernel.state_type(model, self, start, seed=seed, n_threads=kernel.n_threads)


def _called(function, *values):
    return function(*values)


def _blocks_of(starts):
    """Return bounds of blocks of documents with about as many tokens each."""
    n_blocks = max(1, int(starts[-1]) // _BLOCK_TOKENS)
    inner = np.searchsorted(starts, np.arange(1, n_blocks) * _BLOCK_TOKENS)
    bounds = np.unique(np.concatenate([[0], inner, [len(starts) - 1]])).tolist()
    return list(pairwise(bounds))


def _sums_of_masses(phi, alpha, n_threads):
    """Return the sums of alpha_k phi_wk over the topics up to each one: (V, K)."""
    sums = np.empty_like(phi)

    def fill(start, stop):
        np.multiply(phi[start:stop], alpha, out=sums[start:stop])
        np.cumsum(sums[start:stop], axis=1, out=sums[start:stop])

    run(fill, blocks_of_words(*phi.shape), n_threads, uses_blas=False)
    return sums


def blocks_of_words(n_words: int, n_topics: int) -> list[tuple[int, int]]:
    """Return bounds of blocks of the words of a table (V, K), by its shape alone.

    Examples
    --------
    >>> from expfam.samplers.topics.document_parts import blocks_of_words
    >>> blocks_of_words(1000, 100)
    [(0, 500), (500, 1000)]
    """
    return segments(n_words, 1 + n_words * n_topics // _BLOCK_CELLS)
