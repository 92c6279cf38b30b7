"""`Mixture.partial_fit` and `fit_chunks`: chunks with weights, known classes and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from expfam.errors import CapabilityError, DataError
from expfam.estimators.chunks import ChunkLearner, tell_of_covariances
from expfam.estimators.classes import known_of_chunk, line_of_classes, n_numbered_classes
from expfam.estimators.known_doubts import drop_doubts, log_mass_of_rows, set_doubts
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import names_of_fit
from expfam.estimators.mixture_results import adopt, label_all
from expfam.fitted.scoring import opened_rows
from expfam.fitting.searched_starts import searched_start
from expfam.fitting.weighted_rows import start_of_counted
from expfam.forecast.memory import check_memory, forecast_memory
from expfam.model.mixture import MixtureModel
from expfam.params import is_auto
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.named import load_sampler
from expfam.samplers.variational.stream import VariationalStream
from expfam.samplers.warm_starts.sample_rows import rows_for_start
from expfam.structures.ground.rng import resolve_seed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expfam.model.data import Dataset

_OF_CLASSES = ("classes_", "cluster_classes_", "n_known_")
_WITH_LINKS = 4  # parts of a chunk


def learns_chunks(estimator: Any) -> bool:
    """Return True; AttributeError says what to write where the sampler learns no chunks."""
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


class MixtureChunks(ChunkLearner):
    """What a mixture does with chunks.

    Parameters
    ----------
    estimator : Mixture
    classes : (C,) array_like, optional
        All classes, if the first chunk may lack some.
    """

    other_parts: ClassVar[str] = "; with links it is (rows, y, sample_weight, links)"

    def __init__(self, estimator: Any, classes: Any = None) -> None:
        super().__init__(estimator)
        self.classes = classes

    def learn_known(self, X: Any, y: Any, sample_weight: Any, *, batch: int | str | None, links: Any) -> None:
        """Learn one more chunk, with what is known of its rows."""
        mixture = self.estimator
        is_first = not hasattr(mixture, "family_")
        if is_first or not n_numbered_classes(mixture):
            mixture.__dict__.pop("classes_", None)
            mixture._told_of_parts = False
        known = known_of_chunk(mixture, y, self.classes, _n_rows(X), is_anew=is_first, links=links)
        self.learn(X, {"weight": sample_weight, "known": known}, batch, is_first=is_first)

    def learn_all(self, chunks: Iterable[Any]) -> Any:
        """Learn from all chunks, in one or several passes: `fit_chunks`."""
        for name in _OF_CLASSES:
            self.estimator.__dict__.pop(name, None)
        return super().learn_all(chunks)

    def restored(self, arrays: dict[str, Any]) -> VariationalStream:
        """Return the stream whose `to_arrays` these are."""
        return self._told_of_fit(VariationalStream.from_arrays(self.estimator.model_, self.kernel(), arrays))

    # ---- parts -------------------------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        """Return the kernel that learns chunks."""
        return load_sampler(self.estimator.sampler, n_threads=self.estimator.n_threads)

    @property
    def keeps_first(self) -> bool:
        """Whether the start of chunks is searched, so that first chunks are kept for it."""
        return is_auto(self.estimator.start) and self.estimator.labels is None

    def rows_for_start(self, data: Dataset) -> int:
        """Return the number of rows that the search for a start looks at; `data` is the first chunk."""
        return rows_for_start(MixtureModel(data.family, self.estimator._weights()), data)

    def counted(self, data: Dataset) -> Dataset:
        """Return the rows of weight above 0."""
        return data.counted()

    def label_all(self, data: Dataset) -> None:
        """Extend the labels of the rows that were learned to all rows of a chunk."""
        label_all(self.estimator, data)

    def part_names(self, n_parts: int) -> tuple[str, ...]:
        """Return the names of the parts of a chunk beside the rows."""
        is_plain = self.estimator.labels is None and n_parts < _WITH_LINKS
        return ("sample_weight",) if is_plain else ("y", "sample_weight", "links")

    def parts(self, chunk: Any) -> tuple[Any, dict[str, Any]]:
        """Return the rows of a chunk, and options of their `Dataset`."""
        mixture = self.estimator
        if isinstance(chunk, tuple) and len(chunk) == _WITH_LINKS:
            X, y, weight, links = chunk
            known = known_of_chunk(mixture, y, self.classes, _n_rows(X), is_anew=True, links=links)
            return X, {"known": known, "weight": weight}
        if mixture.labels is None:
            return super().parts(chunk)
        if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
            raise DataError(
                f"with labels={mixture.labels!r} a chunk is a tuple (rows, y) or (rows, y, sample_weight); got"
                f" {f'{len(chunk)} parts' if isinstance(chunk, tuple) else type(chunk).__name__}{self.other_parts}"
            )
        X, y, *weight = chunk
        known = known_of_chunk(mixture, y, self.classes, _n_rows(X), is_anew=True)
        return X, {"known": known, "weight": weight[0] if weight else None}

    def doubt(self, data: Dataset) -> None:
        """Tell which rows of a chunk contradict their known class, where chunks have classes."""
        mixture = self.estimator
        if data.known is not None and data.known.classes is not None:
            is_told = mixture.__dict__.get("_told_of_parts", False)
            tells = set_doubts(
                mixture,
                mixture.model_,
                data,
                mixture.cluster_classes_,
                log_mass_of_rows(mixture, data),
                schedule=mixture.stream_.schedule,
                remedy="Give the parts of these classes names of their own in y, or take all rows at once."
                f" {line_of_classes(mixture, data)}",
                warns=not is_told,
            )
            mixture._told_of_parts = is_told or tells

    def open(self, X: Any, options: dict[str, Any], *, is_first: bool, in_passes: bool = False) -> tuple[Any, Dataset]:
        """Return the stream of a first chunk, or one that goes on from a fit; and the chunk."""
        mixture = self.estimator
        if mixture.learn_hyper is True:
            raise CapabilityError(
                "learn_hyper=True: hyper-parameters are not learned from chunks: write"
                f" {type(mixture).__name__}(learn_hyper=False), and give their values to the family"
            )
        kernel = self.kernel()
        if is_first:
            data = self.first_data(X, options)
            model = MixtureModel(data.family, mixture._weights())
        else:
            data, S = opened_rows(X, mixture.family_, mixture.n_, mixture.S_, names=names_of_fit(mixture), **options)
            model = mixture.model_.with_family(data.family)
        forecast = forecast_memory(data, n_components=kernel.max_clusters(model), kernel=kernel, model=model)
        check_memory(forecast, mixture.memory_limit)
        seed = resolve_seed(mixture.random_state)
        if is_first:
            weighted, start, K = data.counted(), start_of_counted(data, mixture.start), model.weights.max_components
            if K is not None or self.keeps_first:
                start, model = self._searched(kernel, model, weighted, start, seed)
                tell_of_covariances(mixture, weighted, start, seed=seed)
            stream = kernel.stream(model, weighted, seed=seed, start=start)
            stream.n_classes = 0 if data.known is None else data.known.n_classes
            return stream, data
        if data.known is not None:
            check_known(kernel, model, data.known)
        return self._told_of_fit(kernel.resumed_stream(model, data, mixture.n_, S, seed=seed)), data

    def _searched(self, kernel, model, data, start, seed):
        """Return the start, searched where none was given, and the model whose prior fits it."""
        mixture = self.estimator
        found = searched_start(
            data,
            start,
            model.weights.max_components,
            mixture._family(),
            weights=model.weights,
            most_clusters=kernel.max_clusters(model),
            learn_hyper=False if mixture.learn_hyper is False else "auto",
            seed=seed,
            n_threads=mixture.n_threads,
        )
        return found.start, model.with_family(found.family)

    def _told_of_fit(self, stream):
        """Tell the stream whether rows had weights, and the number of classes."""
        mixture = self.estimator
        stream.is_weighted = mixture.cluster_sizes_.dtype.kind == "f"
        stream.n_classes = n_numbered_classes(mixture)
        return stream

    def read(self, stream: Any) -> None:
        """Set the results of the mixture."""
        mixture = self.estimator
        labels, n, S = stream.soft_partition()
        adopt(mixture, stream.model, None, labels, n, S, bound=stream.log_joint)
        drop_doubts(mixture)
        for name in _OF_CLASSES[1 if stream.n_classes else 0 :]:
            mixture.__dict__.pop(name, None)
        if stream.n_classes:
            places = np.arange(len(mixture.n_), dtype=np.int32)
            mixture.cluster_classes_ = np.where(places < stream.n_classes, places, -1).astype(np.int32)
        mixture.cluster_sizes_ = mixture.n_.copy() if stream.is_weighted else np.rint(mixture.n_).astype(np.int64)


def _n_rows(X):
    if hasattr(X, "shape"):
        return X.shape[0] if len(X.shape) else 0
    return len(X) if hasattr(X, "__len__") else 0  # such data are refused later


__all__ = ["MixtureChunks", "learns_chunks"]
