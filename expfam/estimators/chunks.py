"""Fits from chunks of data that are not kept: one by one, or in passes over all.

A chunk is whatever the estimator's `fit` takes. Statistics of clusters or topics are all that stays of it, so memory
does not grow with the number of rows but by what a memoized schedule remembers of each chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.estimators.base import step_numbers
from expfam.estimators.loaded import drop_loaded, names_of_fit
from expfam.estimators.row_lines import lines_about_rows
from expfam.estimators.row_results import drop_row_names
from expfam.families.columns.family import Columns
from expfam.fitted.scoring import opened_data
from expfam.fitting.chunk_passes import made_passes
from expfam.fitting.free_covariances import compared_with_simpler, warn_of_simpler
from expfam.fitting.kept_chunks import Chunk, KeptChunks, complete_rows, joined_chunks, learned_again
from expfam.model.data import Dataset
from expfam.params import is_auto
from expfam.samplers.chain.trace import Trace
from expfam.samplers.variational.soft_stream import mixed_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable


class ChunkLearner:
    """What an estimator does with chunks: it opens a stream and reads its results.

    Subclasses write `open`, `kernel`, `read` and, where they differ, `parts` and the other small methods.

    Parameters
    ----------
    estimator : Estimator
        Its results are those of the stream, `stream_`.
    """

    of_rows: ClassVar[tuple[str, ...]] = ("labels_",)  # results that are of the rows of one chunk
    other_parts: ClassVar[str] = ""  # what else a chunk may be, for messages

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    # ---- what estimators write ---------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        """Return the kernel that learns chunks."""
        raise NotImplementedError

    def open(self, X: Any, options: dict[str, Any], *, is_first: bool, in_passes: bool = False) -> tuple[Any, Dataset]:
        """Return the stream of a first chunk, or one that goes on from a fit; and the chunk."""
        raise NotImplementedError

    def read(self, stream: Any) -> None:
        """Set the results of the estimator."""
        raise NotImplementedError

    @property
    def keeps_first(self) -> bool:
        """Whether the start of chunks is searched, so that first chunks are kept for it."""
        return False

    def rows_for_start(self, data: Dataset) -> int:
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        raise NotImplementedError

    def doubt(self, data: Dataset) -> None:
        """Tell which rows of a chunk contradict their known class, where chunks have classes."""

    def counted(self, data: Dataset) -> Dataset:
        """Return the rows of a chunk that are learned: by default all, else those of weight above 0."""
        return data

    def label_all(self, data: Dataset) -> None:
        """Extend the labels of the rows that were learned to all rows of a chunk."""

    def part_names(self, n_parts: int) -> tuple[str, ...]:
        """Return the names of the parts of a chunk beside the rows."""
        return ("sample_weight",)

    def parts(self, chunk: Any) -> tuple[Any, dict[str, Any]]:
        """Return the rows of a chunk, and options of their `Dataset`."""
        if not isinstance(chunk, tuple):
            return chunk, {}
        if len(chunk) != 2:
            raise DataError(
                f"a chunk is an array of rows, or a tuple (rows, sample_weight); got {counted(len(chunk), 'part')}"
                f"{self.other_parts}"
            )
        return chunk[0], {"weight": chunk[1]}

    def validated(self, X: Any, family: Any, *, reset: bool) -> Any:
        """Return the rows of a chunk, checked."""
        return self.estimator._validate(X, reset=reset, family=family, learns=True)

    # ---- one chunk ---------------------------------------------------------------------------------------------------

    def learn(self, X: Any, options: dict[str, Any], batch: int | str | None, *, is_first: bool) -> Any:
        """Learn one more chunk, with options of its `Dataset`: `partial_fit`."""
        X, is_kept = self.validated(X, None, reset=is_first), False
        if hasattr(self.estimator, "stream_"):
            self._check_same_settings()
            data = self._data(X, self.estimator.stream_, options)
        else:
            self.estimator.__dict__.pop("_told_of_covariances", None)
            self.estimator.stream_, data = self.open(X, options, is_first=is_first)
            self.estimator.trace_, self.estimator.n_iter_ = Trace(), getattr(self.estimator, "n_iter_", 0)
            self.estimator.__dict__.pop("_kept_chunks", None)
            if is_first and self.keeps_first:
                self.estimator._kept_chunks = KeptChunks(self.rows_for_start(data), Chunk(X, options, batch))
            is_kept = True
        info = self.estimator.stream_.learn(self.counted(data), batch=batch)
        if "_kept_chunks" in self.estimator.__dict__:
            info, data = self._with_kept(info, data, None if is_kept else Chunk(X, options, batch))
        self._read_learned([info])
        self.label_all(data)
        self.doubt(data)
        return self.estimator

    def _with_kept(self, info, data, chunk):
        """Keep a chunk, and begin again where all have grown; return what was learned last."""
        kept = self.estimator._kept_chunks
        if chunk is not None:
            kept.add(chunk)
            if kept.is_due:
                again = learned_again(kept, self._start_of, self._data_of, self.counted)
                self.estimator.stream_, info, data = again
        if kept.is_complete:
            del self.estimator._kept_chunks
        return info, data

    def _start_of(self, joined):
        """Return the stream that begins with joined chunks."""
        return self.open(*self._for_start(joined)[:2], is_first=True)[0]

    def _data_of(self, chunk, stream):
        """Return the rows of a kept chunk, with its options."""
        return self._data(chunk.X, stream, chunk.options)

    def learn_all(self, chunks: Iterable[Any]) -> Any:
        """Learn from all chunks, in one or several passes: `fit_chunks`."""
        chunk_iterator = iter(chunks)
        first = next(chunk_iterator, None)
        if first is None:
            raise DataError("there are no chunks: nothing to learn from")
        for name in ("stream_", "_kept_chunks", "_told_of_covariances", *self.of_rows):
            self.estimator.__dict__.pop(name, None)
        held = self._first_chunks(first, chunk_iterator)
        first = None  # nor held while the others come
        sample = joined_chunks(held) if len(held) == 1 else self._for_start(joined_chunks(held))
        stream, data = self.open(*sample[:2], is_first=True, in_passes=True)
        rows = [self._data_of(one, stream) for one in held] if len(held) > 1 else [data]
        begin = list(map(self.counted, rows))
        del held, sample, data, rows

        def next_data(chunk):
            with self._lines_of(chunk):
                X, options = self.parts(chunk)
                X = self.validated(X, stream.model.family, reset=False)
                return self.counted(self._data(X, stream, options))

        n_passes = 1 if chunk_iterator is chunks else max(1, step_numbers(self.estimator)[0])
        begin = _joined(begin, map(next_data, chunk_iterator))
        callbacks = self.estimator.callbacks or ()
        infos, is_interrupted = made_passes(stream, begin, lambda: map(next_data, chunks), n_passes, callbacks)
        self.estimator.stream_, self.estimator.trace_, self.estimator.n_iter_ = stream, Trace(), 0
        self.estimator.interrupted_ = is_interrupted
        self._read_learned(infos)
        for name in self.of_rows:
            self.estimator.__dict__.pop(name, None)
        return self.estimator

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def _first_chunks(self, first, others):
        """Return the first chunk, and as many others as the search for a start needs."""
        with self._lines_of(first):
            X, options = self.parts(first)
            held = [Chunk(self.validated(X, None, reset=True), options)]
        if not self.keeps_first:
            return held
        data = self.first_data(*held[0][:2])
        n_left = self.rows_for_start(data) - data.n_rows
        while n_left > 0 and (chunk := next(others, None)) is not None:
            with self._lines_of(chunk):
                X, options = self.parts(chunk)
                held.append(Chunk(self.validated(X, data.family, reset=False), options))
                if sparse.issparse(held[-1].X) != sparse.issparse(held[0].X):
                    raise DataError(mixed_kinds(sparse.issparse(held[0].X)))
                opened_data(
                    held[-1].X, data.family, learns=True, names=names_of_fit(self.estimator), **options
                )  # errors have rows of the chunk
            n_left -= held[-1].n_rows
        return held

    def _for_start(self, joined):
        """Return joined chunks without the rows to which the family cannot be bound.

        It is opened for these rows later. The first chunk alone has shown that some rows remain.
        """
        return joined if self.estimator._family().allows_missing else complete_rows(joined)

    def first_data(self, X: Any, options: dict[str, Any]) -> Dataset:
        """Return the first chunk, to which the family is bound."""
        return Dataset(X, for_chunks(self.estimator._family()), names=names_of_fit(self.estimator), **options)

    def _lines_of(self, chunk):
        """Return the block whose errors tell what to do with all parts of a chunk."""
        parts = chunk if isinstance(chunk, tuple) else (chunk,)
        return lines_about_rows(parts[0] if parts else None, dict(zip(self.part_names(len(parts)), parts[1:])))

    def _data(self, X, stream, options):
        """Return a further chunk; its family is opened where it lacks cells."""
        return opened_data(X, stream.model.family, learns=True, names=names_of_fit(self.estimator), **options)

    def _check_same_settings(self):
        changed = self.estimator.stream_.settings_changed(self.kernel())
        if changed:
            raise CapabilityError(
                f"the sampler's {', '.join(changed)} changed since the first chunk: set what it was, or fit anew"
            )

    def _read_learned(self, infos):
        drop_loaded(self.estimator)
        drop_row_names(self.estimator)  # of an earlier fit
        for name in ("probabilities_", "converged_"):  # of the rows of an earlier fit
            self.estimator.__dict__.pop(name, None)
        self.read(self.estimator.stream_)
        if not isinstance(getattr(self.estimator, "trace_", None), Trace):  # that of a file cannot be gone on with
            self.estimator.trace_ = Trace()
        for info in infos:
            self.estimator.trace_.append(info, self.estimator.stream_)
        self.estimator.n_iter_ += len(infos)
        self.estimator.interrupted_ = getattr(self.estimator, "interrupted_", False)


def tell_of_covariances(estimator: Any, data: Dataset, start: Any, *, seed: int) -> None:
    """Warn, once for a run of chunks, where a simpler family describes the first ones better.

    `data` are the rows of the first chunks that count; `start` has their labels where they were searched.
    """
    is_searched = is_auto(estimator.start) and not isinstance(start, str)
    if not is_searched or estimator.__dict__.get("_told_of_covariances", False):
        return
    asked = estimator._asked()
    compared = compared_with_simpler(asked, data, np.asarray(start), seed=seed)
    if compared is not None and compared.pays:
        estimator._told_of_covariances = True
        warn_of_simpler(asked, compared, data.n_features)


def for_chunks(family: Any) -> Any:
    """Return the family of a first chunk, which also takes missing cells in later chunks."""
    is_open = not isinstance(family, Columns) or family.is_bound
    return family if is_open else family.with_hyper(holes="any")


def _joined(held, others):
    """Yield the items of a list, which releases each, and then others."""
    while held:
        yield held.pop(0)
    yield from others


__all__ = ["ChunkLearner", "for_chunks", "tell_of_covariances"]
