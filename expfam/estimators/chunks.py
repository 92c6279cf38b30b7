"""`partial_fit` and `fit_chunks`: from settings to a plan, and from learned sums to results.

A chunk is whatever the estimator's `fit` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.estimators.base import step_numbers
from expfam.estimators.loaded import drop_loaded, names_of_fit
from expfam.estimators.row_lines import lines_about_rows
from expfam.estimators.row_results import drop_row_names, keep_row_names
from expfam.fitting.chunks import ChunkPlan, LearnedChunks, learned_chunk, learned_passes
from expfam.fitting.kept_chunks import Chunk
from expfam.samplers.chain.trace import Trace
from expfam.stages import PROGRESS, asked_callbacks

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_RUN = {"kept": "_kept_chunks", "is_told": "_told_of_covariances"}  # attributes that a run keeps, beside the stream


class ChunkWays(NamedTuple):
    """What an estimator does with chunks.

    Attributes
    ----------
    plan : callable
        ``plan(estimator, is_first=..., in_passes=..., X=..., options=...)`` is the `ChunkPlan`.
    read : callable
        ``read(estimator, stream)`` sets the results.
    parts : callable
        ``parts(estimator, chunk)`` is the rows of a chunk of `fit_chunks`, and options of their `Dataset`.
    part_names : callable
        ``part_names(estimator, n_parts)`` is the names of the parts of a chunk beside the rows.
    finish : callable
        ``finish(estimator, data)`` sets what the rows of the last chunk have.
    of_rows : tuple of str
        Results that are of the rows of one chunk.
    """

    plan: Callable[..., ChunkPlan]
    read: Callable[[Any, Any], None]
    parts: Callable[[Any, Any], tuple[Any, dict[str, Any]]]
    part_names: Callable[[Any, int], tuple[str, ...]] = lambda estimator, n_parts: ("sample_weight",)
    finish: Callable[[Any, Any], None] = lambda estimator, data: None
    of_rows: tuple[str, ...] = ("labels_",)


def settings_of_plan(estimator: Any, kernel: Any) -> dict[str, Any]:
    """Return the settings that the plans of all estimators have."""
    return {
        "kernel": kernel,
        "start": estimator.start,
        "random_state": estimator.random_state,
        "n_threads": estimator.n_threads,
        "memory_limit": estimator.memory_limit,
        "names": names_of_fit(estimator),
    }


def rows_and_weight(chunk: Any, others: str = "") -> tuple[Any, dict[str, Any]]:
    """Return the rows of a chunk and their weights; `others` are other forms, for errors."""
    if not isinstance(chunk, tuple):
        return chunk, {}
    if len(chunk) != 2:
        raise DataError(
            f"a chunk is an array of rows, or a tuple (rows, sample_weight); got {counted(len(chunk), 'part')}{others}"
        )
    return chunk[0], {"weight": chunk[1]}


def learn(
    estimator: Any, ways: ChunkWays, X: Any, options: dict[str, Any], batch: int | str | None, *, is_first: bool
) -> Any:
    """Learn one more chunk, with options of its `Dataset`: `partial_fit`.

    Parameters
    ----------
    estimator : Mixture, GroupedMixture or TopicModel
    ways : ChunkWays
        How this kind of estimator plans, reads and ends its chunks.
    X : array_like, sparse matrix or frame, shape (n, V)
        The chunk.
    options : dict
        Keywords of its `Dataset`, for example `weight`.
    batch : int, str or None
        Name of the chunk, see `ChunkStream.learn`.
    is_first : bool
        Whether the estimator is not fitted.
    """
    given, before = X, None
    X = _validated(estimator, given, None, reset=is_first)
    if hasattr(estimator, "stream_"):
        kept = {key: estimator.__dict__[name] for key, name in _OF_RUN.items() if name in estimator.__dict__}
        before = LearnedChunks(estimator.stream_, [], **kept)
    plan = ways.plan(estimator, is_first=is_first and before is None, in_passes=False, X=X, options=options)
    found = learned_chunk(plan, Chunk(X, options, batch), before)
    if before is None:
        estimator.trace_, estimator.n_iter_ = Trace(), getattr(estimator, "n_iter_", 0)
    _adopt(estimator, ways, found)
    ways.finish(estimator, found.data)
    keep_row_names(estimator, given)  # `labels_` are those of this chunk
    return estimator


def learn_all(estimator: Any, ways: ChunkWays, chunks: Iterable[Any]) -> Any:
    """Learn from all chunks, in one or several passes: `fit_chunks`."""
    others = iter(chunks)
    first = next(others, None)
    if first is None:
        raise DataError("there are no chunks: nothing to learn from")
    for name in ("stream_", *_OF_RUN.values(), *ways.of_rows):
        estimator.__dict__.pop(name, None)
    with _reading(estimator, ways, first, None, reset=True) as chunk:
        held = [chunk]
    plan = ways.plan(estimator, is_first=True, in_passes=True, X=chunk.X, options=chunk.options)
    del first, chunk  # nor held while the others come

    def reading(given, family):
        return _reading(estimator, ways, given, family, reset=False)

    n_passes = 1 if others is chunks else max(1, step_numbers(estimator)[0])
    callbacks = [each for each in asked_callbacks(estimator.callbacks) if each != PROGRESS]
    found = learned_passes(plan, held, others, chunks, reading, n_passes=n_passes, callbacks=callbacks)
    estimator.trace_, estimator.n_iter_, estimator.interrupted_ = Trace(), 0, found.is_interrupted
    _adopt(estimator, ways, found)
    for name in ways.of_rows:
        estimator.__dict__.pop(name, None)
    return estimator


@contextmanager
def _reading(estimator: Any, ways: ChunkWays, given: Any, family: Any, *, reset: bool) -> Iterator[Chunk]:
    """Give a chunk, validated; errors of the block tell what to do with all its parts."""
    parts = given if isinstance(given, tuple) else (given,)
    names = ways.part_names(estimator, len(parts))
    with lines_about_rows(parts[0] if parts else None, dict(zip(names, parts[1:]))):
        X, options = ways.parts(estimator, given)
        yield Chunk(_validated(estimator, X, family, reset=reset), options)


def _validated(estimator, X, family, *, reset):
    """Return the rows of a chunk, checked."""
    return estimator._validate(X, reset=reset, family=family, learns=True)


def _adopt(estimator, ways, found):
    """Set the results of what was learned."""
    estimator.stream_ = found.stream
    for key, name in _OF_RUN.items():
        estimator.__dict__.pop(name, None)
        if value := getattr(found, key):
            setattr(estimator, name, value)
    drop_loaded(estimator)
    drop_row_names(estimator)  # of an earlier fit
    for name in ("probabilities_", "converged_"):  # of the rows of an earlier fit
        estimator.__dict__.pop(name, None)
    ways.read(estimator, found.stream)
    if not isinstance(getattr(estimator, "trace_", None), Trace):  # that of a file cannot be gone on with
        estimator.trace_ = Trace()
    for info in found.infos:
        estimator.trace_.append(info, found.stream)
    estimator.n_iter_ += len(found.infos)
    estimator.interrupted_ = getattr(estimator, "interrupted_", False)
