"""Scores that compare partitions: variation of information, and purity.

Other scores are in scikit-learn. Both work on the sparse table of label pairs that occur: O(N log N) time and O(N)
memory, without N x N or K x K arrays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from expfam.errors import DataError
from expfam.model.partitions import contingency

if TYPE_CHECKING:
    import numpy.typing as npt

_UNIT = {"nats": 1.0, "bits": math.log(2.0)}


def variation_of_information(
    labels_a: npt.ArrayLike, labels_b: npt.ArrayLike, base: Literal["nats", "bits"] = "nats"
) -> float:
    """Return the variation of information of two partitions, H(A | B) + H(B | A).

    Parameters
    ----------
    labels_a, labels_b : (N,) array_like
        Label of each datum, of any type; names of labels do not matter.
    base : {"nats", "bits"}
        Unit of the result.

    Returns
    -------
    float
        0.0 for equal partitions, at most log N.

    Notes
    -----
    It is a metric on partitions: Meila 2007, "Comparing clusterings - an information based distance", eq. 16.

    Examples
    --------
    >>> from expfam import variation_of_information
    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1], base="bits")
    2.0
    """
    if base not in _UNIT:
        raise ValueError(f"base must be 'nats' or 'bits'; got {base!r}")
    counts = _contingency(labels_a, labels_b)
    joint = counts.n_ab
    # one sum of non-negative terms instead of a difference of entropies: equal partitions give exactly zero
    terms = joint * (np.log(counts.n_a[counts.a] / joint) + np.log(counts.n_b[counts.b] / joint))
    return float(math.fsum(terms) / joint.sum() / _UNIT[base])


def purity(labels_true: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of data in the most frequent true class of their cluster.

    Parameters
    ----------
    labels_true : (N,) array_like
        Class of each datum.
    labels : (N,) array_like
        Cluster of each datum.

    Returns
    -------
    float
        In (0, 1]. It is 1.0 if no cluster mixes classes; clusters of one datum each always reach it.

    Examples
    --------
    >>> from expfam import purity
    >>> purity(["cat", "cat", "dog", "dog"], [0, 0, 0, 1])
    0.75
    """
    counts = _contingency(labels_true, labels)
    largest = np.zeros(counts.n_b.size)
    np.maximum.at(largest, counts.b, counts.n_ab)
    return float(largest.sum() / counts.n_ab.sum())


def _contingency(labels_a, labels_b):
    """Count pairs of labels of any type; raise a DataError unless both vectors have one length."""
    labels_a, labels_b = np.asarray(labels_a), np.asarray(labels_b)
    if labels_a.ndim != 1 or labels_a.shape != labels_b.shape or not labels_a.size:
        raise DataError(
            f"two label vectors of one length >= 1 are needed; got shapes {labels_a.shape}, {labels_b.shape}"
        )
    return contingency(*(np.unique(labels, return_inverse=True)[1] for labels in (labels_a, labels_b)))
