"""A mixture model: a family for each cluster's data and a prior on the weights of clusters.

The model is a frozen value; it knows no algorithm. `log_joint` computes the log probability that every sampler
targets from its plain definition, O(N + K F), and is the reference their running sums are tested against.
"""

import dataclasses

import numpy as np

from expfam.errors import DataError
from expfam.model.data import Dataset


@dataclasses.dataclass(frozen=True)
class MixtureModel:
    """Family of each cluster's data and prior on the clusters' weights.

    Parameters
    ----------
    family : Family
    weights : SymmetricDirichlet, DirichletProcess or PitmanYor

    Examples
    --------
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> model = MixtureModel(Poisson(shape=1.0, rate=1.0), DirichletProcess(alpha=1.0))
    >>> X = [[0.0], [1.0], [9.0]]
    >>> model = model.bind(X)
    >>> model.log_joint(X, [0, 0, 1]) > model.log_joint(X, [0, 1, 1])
    True
    """

    family: object
    weights: object

    __hash__ = None  # type: ignore[assignment]  # families hold arrays

    def get_params(self, deep=True):
        """Family and weights by name, as in scikit-learn."""
        return {"family": self.family, "weights": self.weights}

    @property
    def is_bound(self):
        """Whether the family is bound to data."""
        return self.family.is_bound

    def with_family(self, family):
        """Copy with another family."""
        return dataclasses.replace(self, family=family)

    def with_weights(self, weights):
        """Copy with another prior on weights."""
        return dataclasses.replace(self, weights=weights)

    def bind(self, X):
        """Model whose family is bound to data.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (N, V)
            A bound family only checks X.

        Returns
        -------
        MixtureModel

        Raises
        ------
        DataError
            Also for a Dataset made for another class of families, whose statistics are not this family's.
        SupportError
        """
        if not isinstance(X, Dataset):
            return self.with_family(self.family.bind(X))
        if type(X.family) is not type(self.family):
            raise DataError(f"{X!r} was made for another family than {self.family.name!r}: make a Dataset for this one")
        return self if self.is_bound else self.with_family(self.family.bind(X.X))

    def log_joint(self, X, labels, *, include_base=False):
        """Log probability of a partition and the data, weights and parameters integrated out.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (N, V)
        labels : (N,) array_like of int
            Cluster of each datum; only which data share a label matters.
        include_base : bool
            Whether to add the log base measure of the data, which no partition changes.

        Returns
        -------
        float
            Nats; -inf for more clusters than the weights allow.

        Raises
        ------
        ValueError
            For labels of a wrong shape, or negative.

        Notes
        -----
        log p(partition) + sum over used clusters of A(n_k, S_k).
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
        used, labels = np.unique(labels, return_inverse=True)
        n, S = data.statistics(labels, used.size)
        total = self.weights.log_prior(n) + family.total_log_marginal(n, S)
        return total + float(data.log_base.sum()) if include_base else total
