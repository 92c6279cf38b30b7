"""Checks of models and data of kernels for rows in groups, and the clusters of their starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.errors import CapabilityError
from expfam.model.admixture import check_clusters
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.samplers.starts.rules import starting_labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from expfam.model.admixture import AdmixtureModel
    from expfam.model.data import Dataset


def check_grouped(model: Any, data: Dataset, kernel: str) -> None:
    """Raise CapabilityError for models that are no admixtures, and for data without groups.

    Parameters
    ----------
    model, data
        Of the kernel; an AdmixtureModel and a Dataset with groups are taken.
    kernel : str
        Its name, for the message.
    """
    if getattr(model, "n_components", None) is None:
        raise CapabilityError(f"{kernel} works on an AdmixtureModel; got {model!r}")
    if data.groups is None:
        raise CapabilityError(f"{kernel} needs the group of each row: give it a Dataset(X, family, groups=...)")


def first_clusters(
    start: Any,
    model: AdmixtureModel,
    data: Dataset,
    seed: int,
    n_clusters: int | None,
    n_threads: int | None = None,
) -> npt.NDArray[np.int32]:
    """Return the starting clusters (N,) of rows in groups, by the rules of mixtures.

    Parameters
    ----------
    start, model, data, seed, n_clusters
        As in `Kernel.first_labels`.
    n_threads : int or None
        Number of threads; the result does not depend on it.
    """
    if not isinstance(start, str) and not callable(getattr(start, "labels", None)):
        return check_clusters(start, data.n_rows, model.n_components)
    mixture = MixtureModel(model.family, SymmetricDirichlet(model.n_components))
    return starting_labels(start, mixture, data, seed=seed, n_clusters=n_clusters, n_threads=n_threads)
