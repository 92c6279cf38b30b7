"""Classes of the rows of a mixture: those of chunks, of united clusters, and of new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.estimators.lines import line_of
from expfam.fitting.known_rows import class_codes, known_rows
from expfam.model.known import KINDS, Known
from expfam.params import check_value, is_auto
from expfam.samplers.named import load_sampler

if TYPE_CHECKING:
    from expfam.model.data import Dataset


def known_of_chunk(
    mixture: Any, y: Any, classes: Any, n_rows: int, *, is_anew: bool, links: Any = None
) -> Known | None:
    """Return what `y` and `links` say of the rows of a chunk.

    The first chunk sets `classes_` of the mixture.

    Parameters
    ----------
    mixture : Mixture
        With `labels`; with `classes_` where classes are known already.
    y : (m,) array_like or None
    classes : array_like or None
        All classes, if the first chunk may lack some.
    n_rows : int
    is_anew : bool
        Whether no clusters were learned before this run.
    links : (m,) array_like of int or None
        Rows of this chunk with the same number belong together.

    Returns
    -------
    Known or None
        None where `labels` and `links` are None.

    Raises
    ------
    DataError, ValueError, CapabilityError
    """
    owner, labels = type(mixture).__name__, mixture.labels
    if links is not None and np.ndim(links) == 1 and len(links) != n_rows:
        raise DataError(f"{owner}: links has {counted(len(links), 'value')}, the chunk has {counted(n_rows, 'row')}")
    if labels is None:
        return known_rows(owner, labels, y, links, n_rows).known  # warns that y is ignored
    check_value(f"{owner}: labels", labels, KINDS)
    if labels != "clusters":
        raise CapabilityError(
            f"{owner}: chunks are learned with labels='clusters', and labels={labels!r} needs all rows at once:"
            f" write {owner}(labels='clusters'), or fit(X, y)"
        )
    codes, names = class_codes([] if y is None else y)
    if y is not None and len(codes) != n_rows:
        raise DataError(f"{owner}: y has {counted(len(codes), 'value')}, the chunk has {counted(n_rows, 'row')}")
    if not hasattr(mixture, "classes_"):
        _set_classes(mixture, names, classes, is_anew)
    elif classes is not None and not np.array_equal(np.unique(classes), mixture.classes_):
        raise ValueError(f"{owner}: classes={classes!r} are not those of the first chunk, {mixture.classes_.tolist()}")
    of_name = {name: place for place, name in enumerate(mixture.classes_.tolist())}
    strange = [name for name in names.tolist() if name not in of_name]
    if strange:
        row = int(np.flatnonzero(codes == names.tolist().index(strange[0]))[0])
        raise DataError(
            f"{owner}: row {row} of the chunk is of class {strange[0]!r}, which the first chunk did not have: give it"
            " all classes, classes=[...]"
        )
    places = np.array([of_name[name] for name in names.tolist()] + [-1], dtype=np.int32)
    found = places[codes] if y is not None else np.full(n_rows, -1)
    return Known(found, labels, links=links, n_classes=len(of_name), class_names=mixture.classes_)


def n_numbered_classes(mixture: Any) -> int:
    """Return the number of classes if cluster j of a fitted mixture is that of class j, else 0."""
    if not hasattr(mixture, "cluster_classes_"):
        return 0
    C = len(mixture.classes_)
    return C if np.array_equal(mixture.cluster_classes_[:C], np.arange(C)) else 0


def _set_classes(mixture, names, classes, is_anew):
    """Set the classes of all chunks: those given, or those of the first chunk."""
    if not is_anew:
        raise CapabilityError(
            f"{type(mixture).__name__}: the fit before had no classes, so its clusters stand for none: fit anew with y"
        )
    names = names if classes is None else np.unique(classes)
    if not len(names):
        raise ValueError(
            f"{type(mixture).__name__}: labels={mixture.labels!r} needs the classes: y of the first chunk, or classes="
        )
    mixture.classes_ = names


def joined_classes(parts: Sequence[Any]) -> tuple[npt.NDArray[Any], list[npt.NDArray[np.int32]]]:
    """Return the classes of several fitted mixtures, and the class of each of their clusters.

    Parameters
    ----------
    parts : sequence of Mixture
        Clusters of one without classes have the class -1.

    Returns
    -------
    names : (C,) ndarray
        Sorted.
    classes : list of (K,) int32 ndarrays

    Raises
    ------
    CapabilityError
        The classes of one are text and those of another are numbers.
    """
    known = [part for part in parts if hasattr(part, "cluster_classes_")]
    all_names = [part.classes_ for part in known if len(part.classes_)]
    kinds = {names.dtype.kind in "US": names.tolist()[0] for names in all_names}
    if len(kinds) > 1:
        raise CapabilityError(
            f"the classes of one model are text, such as {kinds[True]!r}, and those of another are not, such as"
            f" {kinds[False]!r}: fit both with names of one type"
        )
    names = np.unique(np.concatenate(all_names)) if all_names else np.empty(0, dtype=np.int64)
    classes = []
    for part in parts:
        of_cluster = getattr(part, "cluster_classes_", np.full(len(part.n_), -1))
        places = np.append(np.searchsorted(names, part.classes_) if (of_cluster >= 0).any() else [], -1)
        classes.append(places[of_cluster].astype(np.int32))
    return names, classes


def keep_classes(united: Any, parts: Sequence[Any], homes: Sequence[npt.NDArray[np.integer]]) -> None:
    """Give a mixture the classes of the mixtures whose clusters it unites, if they have any.

    Parameters
    ----------
    united : Mixture
        Each of its clusters has clusters of one class at most.
    parts : sequence of Mixture
    homes : sequence of (K,) integer ndarrays
        For each of them the new cluster of each cluster.
    """
    if not any(hasattr(part, "cluster_classes_") for part in parts):
        return
    united.classes_, classes = joined_classes(parts)
    united.cluster_classes_ = np.full(len(united.n_), -1, dtype=np.int32)
    for of_cluster, home in zip(classes, homes):
        np.maximum.at(united.cluster_classes_, home, of_cluster)
    if all(hasattr(part, "n_known_") for part in parts if hasattr(part, "cluster_classes_")):
        united.n_known_ = sum(getattr(part, "n_known_", 0) for part in parts)


def line_of_classes(mixture: Any, data: Dataset) -> str:
    """Return what to do about classes that have parts, with the line to type."""
    if data.weight is not None and bool((data.weight != 1.0).any()):
        return "Give the parts of these classes names of their own in y, or leave their rows unknown"
    return f"Write {_line_of_parts(mixture)}.fit(X, y): a class then has as many clusters as it has parts"


def _line_of_parts(mixture):
    """Return the line in which a class may have several clusters, whose number is open."""
    changes: dict[str, Any] = {"labels": "classes", "n_components": None}
    if getattr(mixture.weights, "max_components", None) is not None:
        changes["weights"] = None
    if not _takes(mixture, "classes"):
        changes["sampler"] = "auto"
    return line_of(mixture, **changes)


def line_with_classes(mixture: Any) -> str:
    """Return the line that makes a mixture use `y`, by the sampler that it has where that can."""
    is_fixed = not _takes(mixture, "classes") and _takes(mixture, "clusters")
    return line_of(mixture, labels="clusters") if is_fixed else _line_of_parts(mixture)


def _takes(mixture, kind):
    """Return whether the sampler of a mixture takes labels of a kind."""
    return is_auto(mixture.sampler) or kind in load_sampler(mixture.sampler).takes_known


def most_probable_class(mixture: Any, X: Any, unknown: Any) -> npt.NDArray[Any]:
    """Return the most probable class of each row; see `Mixture.predict_class`."""
    of_cluster, C = np.append(mixture.cluster_classes_, -1), len(mixture.classes_)  # the last one is a new cluster
    sums = np.zeros((len(of_cluster), C + 1))
    sums[np.arange(len(of_cluster)), of_cluster] = 1.0  # a class of -1 is the last column
    names = np.empty(C + 1, dtype=object)
    names[:C], names[C] = mixture.classes_, unknown

    def reduce(scores, start, stop):
        return (np.exp(scores - scores.max(axis=1, keepdims=True)) @ sums).argmax(axis=1)

    blocks, _ = mixture._clusters().each_block(mixture._validate(X, reset=False), reduce)
    found = np.concatenate(blocks)
    result = np.asarray(names[found].tolist())
    # a text of -1 could be taken for the name of a class
    return names[found] if result.dtype.kind == "U" and not isinstance(unknown, str) else result
