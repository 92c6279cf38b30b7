"""Mixture models: a family for the data of each cluster and a prior on the weights.

The model is a frozen value and contains no algorithm. `log_joint` computes the log probability that every sampler
targets directly from the definition, O(N + K F). Tests compare the running sums of the samplers with it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import DataError
from expfam.families.base import bound_family
from expfam.model.data import Dataset
from expfam.model.partitions import compact_labels
from expfam.model.statistics import weighted_statistics
from expfam.near_names import near_names
from expfam.structures.ground.threads import rows_read_by

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.weights import DirichletProcess, PitmanYor, SymmetricDirichlet

_PRIORS = {
    "dirichlet_process": "DirichletProcess()",
    "pitman_yor": "PitmanYor(discount=0.25)",
    "symmetric_dirichlet": "SymmetricDirichlet(10)",
}
_SYNONYMS = {
    **dict.fromkeys(
        ("dp", "dpm", "dpmm", "crp", "chinese_restaurant_process", "dirichletprocess", "stick_breaking", "infinite"),
        ("dirichlet_process",),
    ),
    **dict.fromkeys(("py", "pyp", "pitmanyor", "pitman_yor_process"), ("pitman_yor",)),
    **dict.fromkeys(
        ("dirichlet", "dirichlet_distribution", "uniform", "finite", "symmetricdirichlet", "symmetric"),
        ("symmetric_dirichlet",),
    ),
}


@dataclasses.dataclass(frozen=True)
class MixtureModel:
    """Mixture model: a family for the data of each cluster and a prior on the weights.

    Parameters
    ----------
    family : Family
        Likelihood of the data of a cluster with its conjugate prior.
    weights : SymmetricDirichlet, DirichletProcess or PitmanYor
        Prior on the weights of the clusters.

    Examples
    --------
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> model = MixtureModel(Poisson(shape=1.0, rate=1.0), DirichletProcess(alpha=1.0))
    >>> X = [[0.0], [1.0], [9.0]]
    >>> model = model.bind(X)
    >>> model.log_joint(X, [0, 0, 1]) > model.log_joint(X, [0, 1, 1])
    True
    """

    family: Any
    weights: Any

    __hash__ = None  # type: ignore[assignment]  # a family holds arrays, which have no hash

    def __post_init__(self) -> None:
        """Check that the weights are a prior."""
        checked_weights(self.weights, owner="MixtureModel")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return family and weights by name, as in scikit-learn; `deep` has no effect."""
        return {"family": self.family, "weights": self.weights}

    @property
    def is_bound(self) -> bool:
        """Say whether the family is bound to data."""
        return self.family.is_bound

    def with_family(self, family: Family) -> MixtureModel:
        """Return a copy with another family."""
        return type(self)(family, self.weights)

    def with_weights(self, weights: SymmetricDirichlet | DirichletProcess | PitmanYor) -> MixtureModel:
        """Return a copy with another prior on weights."""
        return type(self)(self.family, weights)

    def bind(self, X: Any, *, n_threads: int | None = None) -> MixtureModel:
        """Return the model with its family bound to data.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (N, V)
            If the family is bound already, X is only checked.
        n_threads : int or None
            Number of threads that read a dense X; the result does not depend on it.

        Raises
        ------
        DataError
            The data cannot be used, or X is a Dataset that was made for another class of families.
        SupportError
            A value lies outside the support of the family.
        """
        if not isinstance(X, Dataset):
            with rows_read_by(n_threads):
                return self.with_family(self.family.bind(X))
        if type(X.family) is not type(self.family):
            raise DataError(f"{X!r} was made for another family than {self.family.name!r}: make a Dataset for this one")
        if self.is_bound:
            return self
        with rows_read_by(n_threads):
            return self.with_family(bound_family(self.family, X.X, X.weight))

    def log_joint(self, X: Any, labels: npt.ArrayLike, *, include_base: bool = False) -> float:
        """Return the joint log probability of a partition and the data, nats.

        Weights and parameters are integrated out.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (N, V)
            Rows of a Dataset count as often as their weights say.
        labels : (N,) array_like of int
            Cluster of each datum. The numbers themselves do not matter, only which data have the same label.
        include_base : bool
            Whether to add the log base measure of the data, which is the same for every partition.

        Returns
        -------
        float
            Nats; -inf for more clusters than the weights allow.

        Raises
        ------
        ValueError
            The labels have the wrong shape, are not integers, or are negative.

        Notes
        -----
        The result is log p(partition) + sum over clusters with data of A(n_k, S_k).
        """
        family = self.bind(X).family
        data = X if isinstance(X, Dataset) else Dataset(X, family)
        labels = np.asarray(labels)
        if labels.shape != (data.n_rows,):
            raise ValueError(f"labels must have shape ({data.n_rows},); got {labels.shape}")
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be integers; got dtype {labels.dtype}")
        if labels.size and labels.min() < 0:
            raise ValueError(f"labels must be non-negative; row {int(np.argmin(labels))} holds {labels.min()}")
        n_clusters, labels = _without_gaps(labels)
        n, S = weighted_statistics(data, labels, n_clusters)
        total = self.weights.log_prior(n) + family.total_log_marginal(n, S)
        if not include_base:
            return total
        return total + float(data.log_base.sum() if data.weight is None else data.weight @ data.log_base)


def _without_gaps(labels):
    """Return the number of distinct labels, and labels in the same order without gaps."""
    if not labels.size or labels.max() >= 4 * labels.size + 1024:  # a table up to the largest label would be too long
        used, labels = np.unique(labels, return_inverse=True)
        return used.size, labels
    labels = compact_labels(labels)
    return int(labels.max()) + 1, labels


def checked_weights(weights: Any, *, owner: str, n_components: int | None = None) -> Any:
    """Return the prior on the weights; for what is none, raise TypeError with the line to type.

    Parameters
    ----------
    weights : Weights
    owner : str
        Name of the estimator or model, for the message.
    n_components : int, optional
        Number of clusters that was given, for the message.

    Examples
    --------
    >>> from expfam import DirichletProcess
    >>> from expfam.model.mixture import checked_weights
    >>> checked_weights(DirichletProcess(), owner="Mixture").max_components is None
    True
    """
    if not isinstance(weights, type) and hasattr(weights, "max_components"):
        return weights
    word = weights.__name__ if isinstance(weights, type) else weights
    near = near_names(word, _PRIORS, _SYNONYMS) if isinstance(word, str) else ()
    prior = _PRIORS[near[0] if near else "dirichlet_process"]
    if isinstance(weights, int):
        prior = f"SymmetricDirichlet({max(int(weights), 1)})"
    elif prior == _PRIORS["symmetric_dirichlet"] and n_components is not None:
        prior = f"SymmetricDirichlet({n_components})"
    line = f"{owner}(weights={prior})" if owner != "MixtureModel" else f"MixtureModel(family, {prior})"
    raise TypeError(f"{owner}: weights must be a prior such as {prior}; got {weights!r}: write {line}")
