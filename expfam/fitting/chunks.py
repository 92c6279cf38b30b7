"""Fits from chunks of data that are not kept: one by one, or in passes over all.

Statistics of clusters or topics are all that stays of a chunk, so memory does not grow with the number of rows but by
what a memoized schedule remembers of each chunk. No estimator is known here: a `ChunkPlan` goes in, a `LearnedChunks`
comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scipy import sparse

from expfam.errors import CapabilityError, DataError
from expfam.fitted.scoring import opened_data
from expfam.fitting.chunk_passes import made_passes
from expfam.fitting.kept_chunks import Chunk, KeptChunks, joined_chunks
from expfam.samplers.variational.soft_stream import mixed_kinds
from expfam.structures.ground.rng import resolve_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from expfam.model.data import Dataset
    from expfam.protocols import Info


class Opened(NamedTuple):
    """A stream that was opened, its first chunk, and whether a warning named a better family."""

    stream: Any
    data: Dataset
    is_told: bool = False


class LearnedChunks(NamedTuple):
    """What the chunks of a run have given so far.

    Attributes
    ----------
    stream : StreamBase
    infos : list of Info
        Of the chunks or passes of this call.
    data : Dataset or None
        The last chunk; None after passes.
    kept : KeptChunks or None
        First chunks, until they have the rows that the search for a start looks at.
    is_told : bool
        Whether a warning has told of a better family.
    is_interrupted : bool
        Whether Ctrl-C has ended the passes.
    """

    stream: Any
    infos: list[Info]
    data: Dataset | None = None
    kept: KeptChunks | None = None
    is_told: bool = False
    is_interrupted: bool = False


@dataclass(frozen=True)
class ChunkPlan:
    """What is done with chunks; subclasses open the stream of their model.

    Attributes
    ----------
    kernel : Kernel
        Learns chunks.
    start : str or (N,) array_like of int
        Of the first chunk.
    random_state : None, int or generator
        Gives the seed of each stream that is opened.
    n_threads : int or None
    memory_limit : float, str or None
    names : (V,) ndarray of str, or None
        Names of the columns, for messages.
    """

    kernel: Any
    start: Any
    random_state: Any
    n_threads: int | None
    memory_limit: Any
    names: Any

    def opened(self, chunk: Chunk, *, is_told: bool = False) -> Opened:
        """Return the stream of a first chunk, or one that goes on from a fit."""
        raise NotImplementedError

    @property
    def searches(self) -> bool:
        """Whether a start is searched, so that first chunks are kept for it."""
        return False

    def first_data(self, chunk: Chunk) -> Dataset:
        """Return the first chunk, to which the family is bound."""
        raise NotImplementedError

    def rows_for_start(self, data: Dataset) -> int:
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        raise NotImplementedError

    def sample_of(self, joined: Chunk) -> Chunk:
        """Return the rows of joined chunks among which a start is searched."""
        return joined

    def counted(self, data: Dataset) -> Dataset:
        """Return the rows of a chunk that are learned: those of weight above 0."""
        return data.counted()

    @property
    def seed(self) -> int:
        """A seed, which a generator as `random_state` draws anew each time."""
        return resolve_seed(self.random_state)

    def data_of(self, chunk: Chunk, stream: Any) -> Dataset:
        """Return a further chunk; its family is opened where it lacks cells."""
        return opened_data(chunk.X, stream.model.family, learns=True, names=self.names, **chunk.options)

    def check_settings(self, stream: Any) -> None:
        """Raise CapabilityError where the kernel is no longer that of the stream."""
        changed = stream.settings_changed(self.kernel)
        if changed:
            raise CapabilityError(
                f"the sampler's {', '.join(changed)} changed since the first chunk: set what it was, or fit anew"
            )


def learned_chunk(plan: ChunkPlan, chunk: Chunk, before: LearnedChunks | None) -> LearnedChunks:
    """Learn one more chunk.

    Parameters
    ----------
    plan : ChunkPlan
    chunk : Chunk
        Validated.
    before : LearnedChunks or None
        What the chunks before it have given; None before the first.
    """
    if before is None:
        stream, data, is_told = plan.opened(chunk)
        kept = KeptChunks(plan.rows_for_start(data), chunk) if plan.searches else None
    else:
        plan.check_settings(before.stream)
        stream, kept, is_told = before.stream, before.kept, before.is_told
        data = plan.data_of(chunk, stream)
    info = stream.learn(plan.counted(data), batch=chunk.name)
    if kept is not None and before is not None:
        kept.add(chunk)
        if kept.is_due:
            stream, info, data, is_told = _learned_again(plan, kept, is_told=is_told)
    return LearnedChunks(stream, [info], data, None if kept is None or kept.is_complete else kept, is_told)


def _learned_again(plan, kept, *, is_told):
    """Open a stream from all kept rows, and learn the kept chunks again, each under its name."""
    stream, _, is_told = plan.opened(plan.sample_of(kept.joined()), is_told=is_told)
    info, data = None, None
    for chunk in kept.chunks:
        data = plan.data_of(chunk, stream)
        info = stream.learn(plan.counted(data), batch=chunk.name)
    return stream, info, data, is_told


def learned_passes(
    plan: ChunkPlan,
    first: list[Chunk],
    others: Iterator[Any],
    again: Iterable[Any],
    reading: Callable[[Any, Any], AbstractContextManager[Chunk]],
    *,
    n_passes: int,
    callbacks: Any = (),
) -> LearnedChunks:
    """Learn from all chunks, in one or several passes.

    Parameters
    ----------
    plan : ChunkPlan
    first : list of Chunk
        The first one, validated. The list is emptied, so that the memory of the chunk is free while the others come.
    others : iterator
        The other chunks of the first pass, as the user gives them.
    again : iterable
        All chunks of each further pass.
    reading : callable
        ``reading(chunk, family)`` is a block with the chunk, validated, in which errors tell its rows.
    n_passes : int
    callbacks : sequence of callable

    Returns
    -------
    LearnedChunks
    """
    held = _for_start(plan, first, others, reading)
    stream, data, is_told = plan.opened(held[0] if len(held) == 1 else plan.sample_of(joined_chunks(held)))
    begin = [plan.counted(plan.data_of(one, stream) if len(held) > 1 else data) for one in held]
    held.clear()
    del data

    def next_data(given):
        with reading(given, stream.model.family) as chunk:
            return plan.counted(plan.data_of(chunk, stream))

    first_pass = _joined(begin, map(next_data, others))
    infos, is_interrupted = made_passes(stream, first_pass, lambda: map(next_data, again), n_passes, callbacks)
    return LearnedChunks(stream, infos, is_told=is_told, is_interrupted=is_interrupted)


def _for_start(plan, held, others, reading):
    """Add to the first chunk as many others as the search for a start needs."""
    if not plan.searches:
        return held
    data = plan.first_data(held[0])
    n_left = plan.rows_for_start(data) - data.n_rows
    while n_left > 0 and (given := next(others, None)) is not None:
        with reading(given, data.family) as chunk:
            held.append(chunk)
            if sparse.issparse(chunk.X) != sparse.issparse(held[0].X):
                raise DataError(mixed_kinds(sparse.issparse(held[0].X)))
            # its errors have rows of the chunk
            opened_data(chunk.X, data.family, learns=True, names=plan.names, **chunk.options)
        n_left -= held[-1].n_rows
    return held


def _joined(held, others):
    """Yield the items of a list, which releases each, and then others."""
    while held:
        yield held.pop(0)
    yield from others
