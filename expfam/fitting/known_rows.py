"""What a user knows of rows before a fit, classes and links, and the kernel for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataError, DataWarning
from expfam.model.known import KINDS, Known
from expfam.params import check_value
from expfam.samplers.chain.kernel import Cycle, check_known
from expfam.samplers.collapsed.linked import LinkedGibbs
from expfam.samplers.named import load_sampler
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.variational.mixture import SparseVariational
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

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


def class_codes(y: Any) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Return the numbers of the classes of all rows, -1 where unknown, and the classes, sorted.

    Examples
    --------
    >>> from expfam.fitting.known_rows import class_codes
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


def kernel_of_rows(sampler: Any, model: MixtureModel, data: Dataset, *, n_threads: int | None) -> Kernel:
    """Return the kernel that was given or named, with draws of links where rows have some.

    Parameters
    ----------
    sampler : str or Kernel
    model : MixtureModel
        Bound to the data.
    data : Dataset
    n_threads : int or None

    Raises
    ------
    CapabilityError
        The kernel takes no known rows of this kind.
    """
    kernel = load_sampler(sampler, model=model, data=data, n_threads=n_threads)
    if data.known is None:
        return kernel
    check_known(kernel, model, data.known)
    return with_links(kernel) if data.known.groups else kernel
