"""What a user knows of rows before a fit: classes of some rows, and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError, DataWarning
from expfam.estimators.lines import line_of
from expfam.model.known import KINDS, Known
from expfam.params import check_value, is_auto
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.collapsed.linked import LinkedGibbs
from expfam.samplers.named import load_sampler
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.variational.mixture import SparseVariational
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset

Kind = Literal["clusters", "classes"]


class KnownRows(NamedTuple):
    """What is known of the rows of a fit.

    Attributes
    ----------
    known : Known or None
    classes : (C,) ndarray
        Names of the classes, sorted.
    """

    known: Known | None
    classes: npt.NDArray[Any]


def known_rows(owner: str, labels: Kind | None, y: Any, links: Any, n_rows: int) -> KnownRows:
    """Return what `y` and `links` say, checked.

    Parameters
    ----------
    owner : str
        Name of the estimator, for messages.
    labels : {"clusters", "classes"} or None
        What `y` stands for; None ignores it, with a warning.
    y : (N,) array_like or None
        Class of each row; -1, None, NaN or NA where it is not known.
    links : (N,) array_like of int or None
    n_rows : int

    Returns
    -------
    KnownRows

    Raises
    ------
    DataError, ValueError
        The message names what was found, and where.
    """
    check_value(f"{owner}: labels", labels, (None, *KINDS))
    nothing = np.empty(0, dtype=np.int64)
    if y is not None and labels is None:
        warn(
            f"{owner}: y is ignored: labels='clusters' keeps the rows of a class in one cluster, labels='classes' gives"
            " a class one or more clusters of its own",
            DataWarning,
        )
    if labels is not None and y is None and links is None:
        raise ValueError(f"{owner}: labels={labels!r} needs y, the class of each row, -1 where it is not known")
    codes, classes = (None, nothing) if y is None or labels is None else class_codes(y)
    for name, values in (("y", codes), ("links", links)):
        if values is not None and np.ndim(values) == 1 and len(values) != n_rows:
            raise DataError(f"{owner}: {name} has {counted(len(values), 'value')}, X has {counted(n_rows, 'row')}")
    if codes is not None and not len(classes):
        warn(f"{owner}: no row is known: all of y is missing", DataWarning)
    if codes is None and links is None:
        return KnownRows(None, classes)
    return KnownRows(Known(codes, labels or "clusters", links=links, class_names=classes), classes)


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


def class_codes(y: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Return the numbers of the classes of all rows, -1 where unknown, and the classes, sorted.

    Examples
    --------
    >>> from expfam.estimators.known_rows import class_codes
    >>> class_codes(["b", None, "a"])
    (array([ 1, -1,  0], dtype=int32), array(['a', 'b'], dtype='<U1'))
    """
    values = np.asarray(y)
    if values.ndim != 1:
        raise DataError(f"y must have one class for each row; got shape {values.shape}")
    if values.dtype.kind == "f":
        values = _whole(values)
    if values.dtype.kind in "iu":
        low = np.flatnonzero(values < -1)
        if low.size:
            raise DataError(f"y holds {values[low[0]]} in row {low[0]}: classes are at least 0, and -1 means unknown")
        is_known = values != -1
    elif values.dtype.kind == "b":
        is_known = np.ones(len(values), dtype=bool)
    else:
        is_known = np.array([not _is_missing(value) for value in values.tolist()], dtype=bool)
    codes = np.full(len(values), -1, dtype=np.int32)
    try:
        classes, codes[is_known] = np.unique(values[is_known], return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values[is_known].tolist()})
        raise DataError(f"y mixes values of the types {', '.join(kinds)}: give one type") from None
    return codes, np.asarray(classes.tolist()) if classes.dtype == object else classes  # files hold no objects


def _whole(values):
    """Return floats as integers, NaN as -1."""
    missing = np.isnan(values)
    bad = np.flatnonzero(~missing & (values != np.floor(values)))
    if bad.size:
        raise DataError(f"y holds {values[bad[0]]} in row {bad[0]}: classes are whole numbers or names")
    return np.where(missing, -1, values).astype(np.int64)


def _is_missing(value):
    if value is None or type(value).__name__ == "NAType":  # a comparison with NA of pandas has no truth value
        return True
    return bool(value != value or value == -1)


def with_links(kernel: Any) -> Any:
    """Return the kernel with draws of the link groups after each of its sweeps.

    The last kernel of a cycle is taken as the one that sweeps. EM and variational
    inference have no draws, and take the groups themselves.
    """
    if isinstance(kernel, (ExpectationMaximization, SparseVariational)):
        return kernel
    if isinstance(kernel, Cycle):
        if any(isinstance(part, LinkedGibbs) for part in kernel.kernels):
            return kernel
        return Cycle(*kernel.kernels[:-1], Cycle(kernel.kernels[-1], LinkedGibbs()))
    return Cycle(Cycle(kernel, LinkedGibbs()))


def classes_of_clusters(labels: npt.NDArray[np.int32], n_clusters: int, known: Known) -> npt.NDArray[np.int32]:
    """Return the class of the known rows of each cluster: (K,) int32, -1 where there are none."""
    found = np.full(n_clusters, -1, dtype=np.int32)
    if known.classes is not None:
        rows = np.flatnonzero(known.classes >= 0)
        found[labels[rows]] = known.classes[rows]
    return found


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
    changes: dict[str, Any] = {"labels": "classes", "n_components": None}
    if getattr(mixture.weights, "max_components", None) is not None:
        changes["weights"] = None
    if not is_auto(mixture.sampler) and "classes" not in load_sampler(mixture.sampler).takes_known:
        changes["sampler"] = "auto"
    return f"Write {line_of(mixture, **changes)}.fit(X, y): a class then has as many clusters as it has parts"


def most_probable_class(mixture: Any, X: Any, unknown: Any) -> npt.NDArray[Any]:
    """Return the most probable class of each row; see `Mixture.predict_class`."""
    of_cluster, C = np.append(mixture.cluster_classes_, -1), len(mixture.classes_)  # the last one is a new cluster
    sums = np.zeros((len(of_cluster), C + 1))
    sums[np.arange(len(of_cluster)), of_cluster] = 1.0  # a class of -1 is the last column
    names = np.empty(C + 1, dtype=object)
    names[:C], names[C] = mixture.classes_, unknown

    def reduce(scores, start, stop):
        return (np.exp(scores - scores.max(axis=1, keepdims=True)) @ sums).argmax(axis=1)

    data, clusters, log_weights = mixture._loaded(X)
    found = np.concatenate(clusters.each_block(data, log_weights, reduce, n_threads=mixture.n_threads))
    result = np.asarray(names[found].tolist())
    # a text of -1 could be taken for the name of a class
    return names[found] if result.dtype.kind == "U" and not isinstance(unknown, str) else result


__all__ = [
    "KnownRows",
    "class_codes",
    "classes_of_clusters",
    "joined_classes",
    "keep_classes",
    "known_of_chunk",
    "known_rows",
    "line_of_classes",
    "most_probable_class",
    "n_numbered_classes",
    "with_links",
]
