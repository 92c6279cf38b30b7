"""`Mixture.partial_fit` and `fit_chunks`: chunks with weights, known classes and links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataError
from expfam.estimators.chunks import ChunkWays, learn, learn_all, rows_and_weight, settings_of_plan
from expfam.estimators.classes import known_of_chunk, line_of_classes, n_numbered_classes
from expfam.estimators.known_doubts import drop_doubts, log_mass_of_rows, set_doubts
from expfam.estimators.lines import line_of
from expfam.estimators.mixture_results import adopt, label_all
from expfam.fitting.chunk_models import FitOfRows, RowChunks
from expfam.params import is_auto
from expfam.samplers.named import load_sampler
from expfam.samplers.variational.stream import VariationalStream

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


def learn_rows(
    mixture: Any, X: Any, y: Any, sample_weight: Any, *, batch: int | str | None, classes: Any, links: Any
) -> None:
    """Learn one more chunk, with what is known of its rows."""
    is_first = not hasattr(mixture, "family_")
    if is_first or not n_numbered_classes(mixture):
        mixture.__dict__.pop("classes_", None)
        mixture._told_of_parts = False
    known = known_of_chunk(mixture, y, classes, _n_rows(X), is_anew=is_first, links=links)
    learn(mixture, _ways(classes), X, {"weight": sample_weight, "known": known}, batch, is_first=is_first)


def learn_all_rows(mixture: Any, chunks: Iterable[Any], classes: Any) -> None:
    """Learn from all chunks, in one or several passes."""
    for name in _OF_CLASSES:
        mixture.__dict__.pop(name, None)
    learn_all(mixture, _ways(classes), chunks)


def restored_stream(mixture: Any, arrays: dict[str, Any]) -> VariationalStream:
    """Return the stream whose `to_arrays` these are."""
    stream = VariationalStream.from_arrays(mixture.model_, _kernel(mixture), arrays)
    restored: VariationalStream = _fit_of(mixture).told(stream)
    return restored


def _ways(classes):
    """Return what a mixture does with chunks; the first one may lack some classes."""
    return ChunkWays(_plan, _read, partial(_parts, classes=classes), _part_names, _finish)


def _kernel(mixture):
    return load_sampler(mixture.sampler, n_threads=mixture.n_threads)


def _plan(mixture, *, is_first, **of_chunk):
    settings = settings_of_plan(mixture, _kernel(mixture))
    has_fit = not is_first and not hasattr(mixture, "stream_")
    fit = _fit_of(mixture) if has_fit else None
    return RowChunks(**settings, asked=mixture._asked(), has_classes=mixture.labels is not None, fit=fit)


def _fit_of(mixture):
    """Return the fit from which learning goes on."""
    is_weighted = mixture.cluster_sizes_.dtype.kind == "f"
    return FitOfRows(mixture.model_, mixture.n_, mixture.S_, is_weighted, n_numbered_classes(mixture))


def _part_names(mixture, n_parts):
    is_plain = mixture.labels is None and n_parts < _WITH_LINKS
    return ("sample_weight",) if is_plain else ("y", "sample_weight", "links")


def _parts(mixture, chunk, *, classes):
    """Return the rows of a chunk, and options of their `Dataset`."""
    others = "; with links it is (rows, y, sample_weight, links)"
    if isinstance(chunk, tuple) and len(chunk) == _WITH_LINKS:
        X, y, weight, links = chunk
        known = known_of_chunk(mixture, y, classes, _n_rows(X), is_anew=True, links=links)
        return X, {"known": known, "weight": weight}
    if mixture.labels is None:
        return rows_and_weight(chunk, others)
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise DataError(
            f"with labels={mixture.labels!r} a chunk is a tuple (rows, y) or (rows, y, sample_weight); got"
            f" {f'{len(chunk)} parts' if isinstance(chunk, tuple) else type(chunk).__name__}{others}"
        )
    X, y, *weight = chunk
    known = known_of_chunk(mixture, y, classes, _n_rows(X), is_anew=True)
    return X, {"known": known, "weight": weight[0] if weight else None}


def _read(mixture, stream):
    """Set the results of a mixture."""
    labels, n, S = stream.soft_partition()
    adopt(mixture, stream.model, None, labels, n, S, bound=stream.log_joint)
    drop_doubts(mixture)
    for name in _OF_CLASSES[1 if stream.n_classes else 0 :]:
        mixture.__dict__.pop(name, None)
    if stream.n_classes:
        places = np.arange(len(mixture.n_), dtype=np.int32)
        mixture.cluster_classes_ = np.where(places < stream.n_classes, places, -1).astype(np.int32)
    mixture.cluster_sizes_ = mixture.n_.copy() if stream.is_weighted else np.rint(mixture.n_).astype(np.int64)


def _finish(mixture: Any, data: Dataset) -> None:
    """Label all rows of the last chunk, and tell which contradict their known class."""
    label_all(mixture, data)
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


def _n_rows(X):
    if hasattr(X, "shape"):
        return X.shape[0] if len(X.shape) else 0
    return len(X) if hasattr(X, "__len__") else 0  # such data are refused later
