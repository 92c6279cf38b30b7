"""Fits from chunks of data that are not kept: one by one, or in passes over all.

A chunk is whatever the estimator's `fit` takes. Statistics of clusters or topics are all that stays of it, so memory
does not grow with the number of rows but by what a memoized schedule remembers of each chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.estimators.arguments import with_whole_lines
from expfam.estimators.base import step_numbers
from expfam.estimators.classes import known_of_chunk, line_of_classes, n_numbered_classes
from expfam.estimators.known_doubts import OF_DOUBTS, drop_doubts, set_doubts
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import drop_loaded, names_of_fit
from expfam.estimators.row_lines import lines_about_rows
from expfam.families.columns.family import Columns
from expfam.fitted.scoring import opened_data, opened_rows
from expfam.fitting.free_covariances import compared_with_simpler, warn_of_simpler
from expfam.fitting.kept_chunks import Chunk, KeptChunks, complete_rows, joined_chunks
from expfam.fitting.searched_starts import searched_start
from expfam.fitting.weighted_rows import start_of_counted
from expfam.forecast.memory import check_memory, forecast_memory
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto
from expfam.samplers.chain.callbacks import close_all
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.chain.trace import Trace
from expfam.samplers.named import load_sampler
from expfam.samplers.variational.soft_stream import mixed_kinds
from expfam.samplers.variational.stream import VariationalStream
from expfam.samplers.warm_starts.sample_rows import rows_for_start
from expfam.structures.ground.rng import resolve_seed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

_OF_CLASSES = ("classes_", "cluster_classes_", "n_known_")
_WITH_LINKS = 4  # parts of a chunk


def _learns_chunks(estimator):
    kernel = None if is_auto(estimator.sampler) else load_sampler(estimator.sampler)
    if not hasattr(kernel, "stream"):
        name = "the automatic sampler" if kernel is None else type(kernel).__name__
        raise AttributeError(
            f"{name} needs all data at once; chunks are learned with sampler='variational' or"
            f" SparseVariational(...): write {_line_for_chunks(estimator)}"
        )
    return True


def _line_for_chunks(estimator):
    """Return the line whose sampler learns chunks; hyper-parameters are not learned from them."""
    learns = {"learn_hyper": False} if estimator.learn_hyper is True else {}
    return line_of(estimator, sampler="variational", **learns)


class ChunkLearner:
    """Base of the estimators that learn chunks.

    Subclasses write `_open_stream`, `_stream_kernel`, `_read_stream` and, where they differ, `_parts` and
    `_validate_chunk`, and have `callbacks` and `n_steps`.

    Attributes
    ----------
    stream_ : ChunkStream
        What learning goes on from.
    """

    _of_rows: tuple[str, ...] = ("labels_",)  # results that are of the rows of one chunk
    # attributes that the file of a loaded model lacks, and the remedy
    _not_kept: Mapping[str, str] = MappingProxyType({})

    def __getattr__(self, name):
        """Say how to have an attribute that a loaded model lacks; other errors stay as they are."""
        if name in self.__dict__.get("_not_kept", ()):
            raise AttributeError(
                f"this {type(self).__name__} was read from a file, which does not hold {name}: {self._not_kept[name]}"
            )
        if name in OF_DOUBTS and "stream_" in self.__dict__ and "classes_" in self.__dict__:
            raise AttributeError(
                f"this {type(self).__name__} has learned chunks, whose rows are not kept, so that it has no {name}; for"
                " the rows of a chunk with classes y, write np.flatnonzero((y != -1) & (model.predict_class(X) != y))"
            )
        if name == "probabilities_" and "stream_" in self.__dict__:
            raise AttributeError(
                f"this {type(self).__name__} has learned chunks, whose rows are not kept, so that it has no"
                " probabilities_; they come with fit"
            )
        return super().__getattr__(name)  # type: ignore[misc]  # raises its own error

    def _learn_chunk(self, X, options, batch, *, is_first):
        """Learn one more chunk, with options of its `Dataset`: `partial_fit`."""
        X, is_kept = self._validate_chunk(X, None, reset=is_first), False
        if hasattr(self, "stream_"):
            self._check_same_settings()
            data = self._chunk_of(X, self.stream_, options)
        else:
            self.__dict__.pop("_told_of_covariances", None)
            self.stream_, data = self._open_stream(X, options, is_first=is_first)
            self.trace_, self.n_iter_ = Trace(), getattr(self, "n_iter_", 0)
            self.__dict__.pop("_kept_chunks", None)
            if is_first and self._searches_chunks():
                self._kept_chunks = KeptChunks(self._rows_for_start(data), Chunk(X, options, batch))
            is_kept = True
        info = self.stream_.learn(self._counted(data), batch=batch)
        if "_kept_chunks" in self.__dict__:
            info, data = self._with_kept(info, data, None if is_kept else Chunk(X, options, batch))
        self._read_learned([info])
        self._label_all(data)
        self._doubt_chunk(data)
        return self

    def _with_kept(self, info, data, chunk):
        """Keep a chunk, and begin again where all have grown; return what was learned last."""
        kept = self._kept_chunks
        if chunk is not None:
            kept.add(chunk)
            if kept.is_due:
                stream, _ = self._open_stream(*self._for_start(kept.joined())[:2], is_first=True)
                for one in kept.chunks:
                    data = self._chunk_of(one.X, stream, one.options)
                    info = stream.learn(self._counted(data), batch=one.name)
                self.stream_ = stream
        if kept.is_complete:
            del self._kept_chunks
        return info, data

    def _after_save(self):
        self.__dict__.pop("_kept_chunks", None)  # no file holds rows, and learning goes on with the same bits

    def __getstate__(self):
        """Return what copies and pickles hold: no rows of chunks, as a file does.

        So what copies of one model learn can be merged.
        """
        self._after_save()
        return super().__getstate__()

    def _searches_chunks(self):
        """Tell whether the start of chunks is searched, so that first chunks are kept for it."""
        return False

    def _rows_for_start(self, data):
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        raise NotImplementedError

    def _tell_of_covariances(self, data, start, *, seed):
        """Warn, once for a run of chunks, where a simpler family describes the first ones better.

        `data` are the rows of the first chunks that count; `start` has their labels where they were searched.
        """
        is_searched = is_auto(self.start) and not isinstance(start, str)
        if not is_searched or self.__dict__.get("_told_of_covariances", False):
            return
        asked = self._asked()
        compared = compared_with_simpler(asked, data, np.asarray(start), seed=seed)
        if compared is not None and compared.pays:
            self._told_of_covariances = True
            warn_of_simpler(asked, compared, data.n_features)

    def _doubt_chunk(self, data):
        """Say which known rows of a chunk are doubtful, where chunks have classes."""

    def _counted(self, data):
        """Return the rows of a chunk that are learned: by default all, else those of weight above 0."""
        return data

    def _label_all(self, data):
        """Extend the labels of the rows that were learned to all rows of a chunk."""

    def _learn_chunks(self, chunks):
        """Make passes over all chunks: `fit_chunks`."""
        chunk_iterator = iter(chunks)
        first = next(chunk_iterator, None)
        if first is None:
            raise DataError("there are no chunks: nothing to learn from")
        for name in ("stream_", "_kept_chunks", "_told_of_covariances", *self._of_rows):
            self.__dict__.pop(name, None)
        held = self._first_chunks(first, chunk_iterator)
        first = None  # nor held while the others come
        sample = joined_chunks(held) if len(held) == 1 else self._for_start(joined_chunks(held))
        stream, data = self._open_stream(*sample[:2], is_first=True, in_passes=True)
        if len(held) > 1:
            begin = [self._counted(self._chunk_of(one.X, stream, one.options)) for one in held]
        else:
            begin = [self._counted(data)]
        held = sample = data = None

        def next_data(chunk):
            with self._lines_of(chunk):
                X, options = self._parts(chunk)
                X = self._validate_chunk(X, stream.model.family, reset=False)
                return self._counted(self._chunk_of(X, stream, options))

        n_passes = 1 if chunk_iterator is chunks else max(1, step_numbers(self)[0])
        infos, self.interrupted_ = [], False
        try:
            for info in stream.sweeps(
                _joined(begin, map(next_data, chunk_iterator)), lambda: map(next_data, chunks), n_passes
            ):
                infos.append(info)
                stops = [bool(callback(info, stream)) for callback in self.callbacks or ()]
                if any(stops):
                    break
        except KeyboardInterrupt:
            if not infos:
                raise
            self.interrupted_ = True
        finally:
            close_all(self.callbacks or ())
        self.stream_, self.trace_, self.n_iter_ = stream, Trace(), 0
        self._read_learned(infos)
        for name in self._of_rows:
            self.__dict__.pop(name, None)
        return self

    _other_parts = ""  # what else a chunk may be, for messages

    def _first_chunks(self, first, others):
        """Return the first chunk, and as many others as the search for a start needs."""
        with self._lines_of(first):
            X, options = self._parts(first)
            held = [Chunk(self._validate_chunk(X, None, reset=True), options)]
        if not self._searches_chunks():
            return held
        data = self._first_data(*held[0][:2])
        n_left = self._rows_for_start(data) - data.n_rows
        while n_left > 0 and (chunk := next(others, None)) is not None:
            with self._lines_of(chunk):
                X, options = self._parts(chunk)
                held.append(Chunk(self._validate_chunk(X, data.family, reset=False), options))
                if sparse.issparse(held[-1].X) != sparse.issparse(held[0].X):
                    raise DataError(mixed_kinds(sparse.issparse(held[0].X)))
                opened_data(
                    held[-1].X, data.family, learns=True, names=names_of_fit(self), **options
                )  # errors have rows of the chunk
            n_left -= held[-1].n_rows
        return held

    def _for_start(self, joined):
        """Return joined chunks without the rows to which the family cannot be bound.

        It is opened for these rows later. The first chunk alone has shown that some rows remain.
        """
        return joined if self._family().allows_missing else complete_rows(joined)

    def _first_data(self, X, options):
        """Return the first chunk, to which the family is bound."""
        return Dataset(X, for_chunks(self._family()), names=names_of_fit(self), **options)

    def _lines_of(self, chunk):
        """Return the block whose errors tell what to do with all parts of a chunk."""
        parts = chunk if isinstance(chunk, tuple) else (chunk,)
        return lines_about_rows(parts[0] if parts else None, dict(zip(self._part_names(len(parts)), parts[1:])))

    def _part_names(self, n_parts):
        """Return the names of the parts of a chunk beside the rows."""
        return ("sample_weight",)

    def _parts(self, chunk):
        """Return the rows of a chunk, and options of their `Dataset`."""
        if not isinstance(chunk, tuple):
            return chunk, {}
        if len(chunk) != 2:
            raise DataError(
                f"a chunk is an array of rows, or a tuple (rows, sample_weight); got {counted(len(chunk), 'part')}"
                f"{self._other_parts}"
            )
        return chunk[0], {"weight": chunk[1]}

    def _chunk_of(self, X, stream, options):
        """Return a further chunk; its family is opened where it lacks cells."""
        return opened_data(X, stream.model.family, learns=True, names=names_of_fit(self), **options)

    def _validate_chunk(self, X, family, *, reset):
        return self._validate(X, reset=reset, family=family, learns=True)

    def _check_same_settings(self):
        changed = self.stream_.settings_changed(self._stream_kernel())
        if changed:
            raise CapabilityError(
                f"the sampler's {', '.join(changed)} changed since the first chunk: set what it was, or fit anew"
            )

    def _read_learned(self, infos):
        drop_loaded(self)
        for name in ("probabilities_", "converged_"):  # of the rows of an earlier fit
            self.__dict__.pop(name, None)
        self._read_stream(self.stream_)
        if not isinstance(getattr(self, "trace_", None), Trace):  # that of a file cannot be gone on with
            self.trace_ = Trace()
        for info in infos:
            self.trace_.append(info, self.stream_)
        self.n_iter_ += len(infos)
        self.interrupted_ = getattr(self, "interrupted_", False)


def for_chunks(family: Any) -> Any:
    """Return the family of a first chunk, open for cells that later chunks lack."""
    is_open = not isinstance(family, Columns) or family.is_bound
    return family if is_open else family.with_hyper(holes="any")


def _joined(held, others):
    """Yield the items of a list, which releases each, and then others."""
    while held:
        yield held.pop(0)
    yield from others


class ChunkedFit(ChunkLearner):
    """Base of mixtures: `partial_fit` and `fit_chunks` where the sampler can learn chunks.

    Attributes
    ----------
    stream_ : VariationalStream
        What learning goes on from.
    """

    _other_parts = "; with links it is (rows, y, sample_weight, links)"

    @available_if(_learns_chunks)
    @with_whole_lines
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        batch: int | str | None = None,
        classes: npt.ArrayLike | None = None,
        links: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn one more chunk of data: one local step, one update.

        The first chunks resolve hyper-parameters left at ``"auto"`` and give the start, so they should look like the
        rest. They are kept until they have the rows that the search for a start looks at, at most some thousands. Until
        then learning begins again from all kept rows when these have grown by half: `predict` always works, but
        clusters may get other numbers. `save` ends this, and with a start of your own nothing is kept.

        After `fit` or `load` learning goes on from the statistics of the fit.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, V)
        y : (m,) array_like, optional
            Class of each row as in `fit`, under ``labels="clusters"``.
        sample_weight : (m,) array_like of non-negative float, optional
            Multiplicity of each row.
        batch : int or str, optional
            Under a memoized schedule (the default): name of the chunk, which when it comes again replaces what it
            contributed; a chunk without a name is added for good. A stochastic schedule takes no names.
        classes : (C,) array_like, optional
            All classes; the first chunk needs them if its `y` lacks some.
        links : (m,) array_like of int, optional
            Rows of this chunk with the same number of 0 or more belong together, as in `fit`; -1 is a row alone. Rows
            of other chunks with the same number are other rows.

        Returns
        -------
        self
            `labels_` are those of this chunk. `cluster_sizes_` are the expected numbers of rows of all chunks, rounded,
            or the expected sums of their weights where weights were given.

        Raises
        ------
        AttributeError
            Under samplers that need all data at once.
        CapabilityError
            For settings of the sampler that changed since the first chunk.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> mixture = Mixture("poisson", 2, sampler="variational", random_state=0)
        >>> for _ in range(5):
        ...     mixture = mixture.partial_fit(rng.poisson([[1.0], [50.0]] * 20))
        >>> mixture.cluster_sizes_
        array([100, 100])
        """
        is_first = not hasattr(self, "family_")
        if is_first or not n_numbered_classes(self):
            self.__dict__.pop("classes_", None)
            self._told_of_parts = False
        known = known_of_chunk(self, y, classes, _n_rows(X), is_anew=is_first, links=links)
        return self._learn_chunk(X, {"weight": sample_weight, "known": known}, batch, is_first=is_first)

    @available_if(_learns_chunks)
    @with_whole_lines
    def fit_chunks(self, chunks: Iterable, y: Any = None, *, classes: npt.ArrayLike | None = None) -> Self:
        """Fit to data that come in chunks and are never held together.

        Parameters
        ----------
        chunks : iterable
            Arrays or sparse matrices of rows, or pairs of one and its ``sample_weight`` as a tuple; under
            ``labels="clusters"`` tuples of rows and `y`, or of rows, `y` and ``sample_weight``. With links a chunk is a
            tuple of rows, `y`, ``sample_weight`` and the `links` of `partial_fit`; `y` and ``sample_weight`` may be
            None. From an iterator, which gives each chunk once, one pass is made. From anything that can be gone
            through again, such as a list of memory maps, up to `n_steps` passes, until the bound has settled; the same
            chunks must then come in the same order.
        y : ignored
        classes : (C,) array_like, optional
            All classes, if the first chunk may lack some.

        Returns
        -------
        self
            Without `labels_`: use `predict` on each chunk. `cluster_sizes_` are those that `partial_fit` gives.

        Raises
        ------
        AttributeError
            Under samplers that need all data at once.
        DataError
            When there is no chunk.

        Notes
        -----
        Each chunk is a batch of the schedule, whatever its number or size of batches; under `Full` there is one update
        a pass and nothing is remembered of a chunk. A stochastic schedule takes the number of rows that the stream
        stands for from its `n_total`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> chunks = [rng.poisson([[1.0], [50.0]] * 20) for _ in range(5)]
        >>> Mixture("poisson", 2, sampler="variational", random_state=0).fit_chunks(chunks).cluster_sizes_
        array([100, 100])
        """
        for name in _OF_CLASSES:
            self.__dict__.pop(name, None)
        self._given_classes = classes
        try:
            return self._learn_chunks(chunks)
        finally:
            del self._given_classes

    def _part_names(self, n_parts):
        is_plain = self.labels is None and n_parts < _WITH_LINKS
        return ("sample_weight",) if is_plain else ("y", "sample_weight", "links")

    def _parts(self, chunk):
        """Return the rows of a chunk, and options of their `Dataset`."""
        if isinstance(chunk, tuple) and len(chunk) == _WITH_LINKS:
            X, y, weight, links = chunk
            known = known_of_chunk(self, y, self._given_classes, _n_rows(X), is_anew=True, links=links)
            return X, {"known": known, "weight": weight}
        if self.labels is None:
            return super()._parts(chunk)
        if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
            raise DataError(
                f"with labels={self.labels!r} a chunk is a tuple (rows, y) or (rows, y, sample_weight); got"
                f" {f'{len(chunk)} parts' if isinstance(chunk, tuple) else type(chunk).__name__}{self._other_parts}"
            )
        X, y, *weight = chunk
        known = known_of_chunk(self, y, self._given_classes, _n_rows(X), is_anew=True)
        return X, {"known": known, "weight": weight[0] if weight else None}

    def _counted(self, data):
        return data.counted()

    def _doubt_chunk(self, data):
        if data.known is not None and data.known.classes is not None:
            is_told = self.__dict__.get("_told_of_parts", False)
            tells = set_doubts(
                self,
                self.model_,
                data,
                self.cluster_classes_,
                self._log_mass_without(data),
                schedule=self.stream_.schedule,
                remedy="Give the parts of these classes names of their own in y, or take all rows at once."
                f" {line_of_classes(self, data)}",
                warns=not is_told,
            )
            self._told_of_parts = is_told or tells

    def restore_stream(self, arrays: dict[str, Any]) -> VariationalStream:
        """Return the stream whose `to_arrays` these are, for this estimator's model and sampler."""
        return self._told_of_fit(VariationalStream.from_arrays(self.model_, self._kernel(), arrays))

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _kernel(self):
        return load_sampler(self.sampler, n_threads=self.n_threads)

    _stream_kernel = _kernel

    def _open_stream(self, X, options, *, is_first, in_passes=False):
        """Return the stream of a first chunk, or one that goes on from a fit; and the chunk."""
        if self.learn_hyper is True:
            raise CapabilityError(
                "learn_hyper=True: hyper-parameters are not learned from chunks: write"
                f" {type(self).__name__}(learn_hyper=False), and give their values to the family"
            )
        kernel = self._kernel()
        if is_first:
            data = self._first_data(X, options)
            model = MixtureModel(data.family, self._weights())
        else:
            data, S = opened_rows(X, self.family_, self.n_, self.S_, names=names_of_fit(self), **options)
            model = self.model_.with_family(data.family)
        forecast = forecast_memory(data, n_components=kernel.max_clusters(model), kernel=kernel, model=model)
        check_memory(forecast, self.memory_limit)
        seed = resolve_seed(self.random_state)
        if is_first:
            weighted, start, K = data.counted(), start_of_counted(data, self.start), model.weights.max_components
            if K is not None or self._searches_chunks():
                start, model = self._searched(kernel, model, weighted, start, seed)
                self._tell_of_covariances(weighted, start, seed=seed)
            stream = kernel.stream(model, weighted, seed=seed, start=start)
            stream.n_classes = 0 if data.known is None else data.known.n_classes
            return stream, data
        if data.known is not None:
            check_known(kernel, model, data.known)
        return self._told_of_fit(kernel.resumed_stream(model, data, self.n_, S, seed=seed)), data

    def _searched(self, kernel, model, data, start, seed):
        """Return the start, searched where none was given, and the model whose prior fits it."""
        found = searched_start(
            data,
            start,
            model.weights.max_components,
            self._family(),
            weights=model.weights,
            most_clusters=kernel.max_clusters(model),
            learn_hyper=False if self.learn_hyper is False else "auto",
            seed=seed,
            n_threads=self.n_threads,
        )
        return found.start, model.with_family(found.family)

    def _searches_chunks(self):
        return isinstance(self.start, str) and self.start == "auto" and self.labels is None

    def _rows_for_start(self, data):
        return rows_for_start(MixtureModel(data.family, self._weights()), data)

    def _told_of_fit(self, stream):
        """Tell the stream whether rows had weights, and the number of classes."""
        stream.is_weighted = self.cluster_sizes_.dtype.kind == "f"
        stream.n_classes = n_numbered_classes(self)
        return stream

    def _read_stream(self, stream):
        self._adopt(stream.model, None, *stream.soft_partition(), bound=stream.log_joint)
        drop_doubts(self)
        for name in _OF_CLASSES[1 if stream.n_classes else 0 :]:
            self.__dict__.pop(name, None)
        if stream.n_classes:
            places = np.arange(len(self.n_), dtype=np.int32)
            self.cluster_classes_ = np.where(places < stream.n_classes, places, -1).astype(np.int32)
        self.cluster_sizes_ = self.n_.copy() if stream.is_weighted else np.rint(self.n_).astype(np.int64)


def _n_rows(X):
    if hasattr(X, "shape"):
        return X.shape[0] if len(X.shape) else 0
    return len(X) if hasattr(X, "__len__") else 0  # such data are refused later
