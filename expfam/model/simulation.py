"""Draws of partitions and data from the prior of a mixture model, and from its predictive.

Partitions are drawn by sequential seating, parameters of clusters from the prior or from their posterior, and rows from
the family given the parameters. So the draws do not use the code by which samplers move labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.families.support import dense_rows

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel


def draw_partition(
    weights: Any, n_rows: int, rng: np.random.Generator, *, given: npt.ArrayLike = ()
) -> npt.NDArray[np.int32]:
    """Draw a partition from its prior: the cluster of one datum after the other.

    Parameters
    ----------
    weights : SymmetricDirichlet, DirichletProcess or PitmanYor
    n_rows : int
        Number of data, those of `given` included.
    rng : numpy.random.Generator
    given : (M,) array_like of int, optional
        Labels of the first data, numbered by first appearance, which stay; the others are drawn given them.

    Returns
    -------
    (n_rows,) int32 ndarray
        Clusters numbered by first appearance.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import SymmetricDirichlet
    >>> from expfam.model.simulation import draw_partition
    >>> draw_partition(SymmetricDirichlet(1), 4, np.random.default_rng(0))
    array([0, 0, 0, 0], dtype=int32)
    """
    labels = np.zeros(n_rows, dtype=np.int32)
    first = np.asarray(given, dtype=np.int32)
    labels[: first.size] = first
    counts = np.bincount(first, minlength=0).astype(np.float64).tolist()
    most = n_rows if weights.max_components is None else min(n_rows, weights.max_components)
    new = np.exp(weights.log_new_mass(n_rows - 1, most)).tolist()  # the mass depends on the number of clusters alone
    offset, uniforms = weights.offset, rng.random(n_rows).tolist()
    for i in range(first.size, n_rows):
        total = sum(counts) + offset * len(counts) + new[len(counts)]
        left, k = uniforms[i] * total, 0
        while k < len(counts) and left >= counts[k] + offset:
            left -= counts[k] + offset
            k += 1
        if k == len(counts) and new[k] <= 0:  # by rounding alone
            k -= 1
        if k == len(counts):
            counts.append(0.0)
        counts[k] += 1.0
        labels[i] = k
    return labels


def draw_stick_labels(weights: Any, n_rows: int, n_sticks: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Draw labels from the prior cut off at a number of sticks, which uncollapsed samplers use.

    Parameters
    ----------
    weights : DirichletProcess or PitmanYor
    n_rows : int
    n_sticks : int
        Number of sticks; the last one has the whole rest.
    rng : numpy Generator

    Returns
    -------
    (n_rows,) int32 ndarray
        Number of the stick of each datum.
    """
    p = np.exp(weights.draw_log(np.zeros(n_sticks), rng))
    return rng.choice(n_sticks, size=n_rows, p=p / p.sum()).astype(np.int32)


def draw_rows(
    family: Family, labels: npt.NDArray[np.integer], rng: np.random.Generator, *, given: Any = None
) -> npt.NDArray[Any]:
    """Draw data given a partition: parameters of each cluster, then rows from the family.

    Parameters
    ----------
    family : Family
        Bound to data; with the abilities "draw" and "sample".
    labels : (N,) int ndarray
        Cluster of each datum.
    rng : numpy.random.Generator
    given : (M, V) array_like or sparse matrix, optional
        The first M rows. They are left as they are, and the parameters of a cluster are drawn given those of its rows
        that are among them.

    Returns
    -------
    (N, V) ndarray
    """
    family.require("draw", "draw_rows")
    family.require("sample", "draw_rows")
    drawing: Any = family  # with the two optional methods that were just required
    used, inverse = np.unique(labels, return_inverse=True)
    n, S = np.zeros(used.size), np.zeros((used.size, family.n_statistics_))
    n_given = 0
    if given is not None:
        n_given = given.shape[0]
        np.add.at(n, inverse[:n_given], 1.0)
        np.add.at(S, inverse[:n_given], dense_rows(family.sufficient_statistics(given)))
    theta, _ = drawing.draw_natural(n, S, rng)
    parts, places = [], []
    for k in range(used.size):
        rows = np.flatnonzero(inverse[n_given:] == k) + n_given
        if rows.size:
            parts.append(drawing.sample(theta[k : k + 1], rows.size, rng))
            places.append(rows)
    drawn = np.concatenate(parts)
    X = np.empty((labels.size, drawn.shape[1]), dtype=drawn.dtype)
    X[np.concatenate(places)] = drawn
    if n_given:
        X[:n_given] = given.toarray() if hasattr(given, "toarray") else given
    return X


def simulate(
    model: MixtureModel, n_rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Draw a partition and data from the prior of a model.

    Parameters
    ----------
    model : MixtureModel
        Its family must be bound to data and have the abilities "draw" and "sample".
    n_rows : int
    rng : numpy.random.Generator

    Returns
    -------
    labels : (n_rows,) int32 ndarray
    X : (n_rows, V) ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.model.simulation import simulate
    >>> model = MixtureModel(Poisson(shape=2.0, rate=0.5), DirichletProcess()).bind([[1, 2], [3, 0]])
    >>> labels, X = simulate(model, 5, np.random.default_rng(0))
    >>> labels.shape, X.shape
    ((5,), (5, 2))
    """
    labels = draw_partition(model.weights, n_rows, rng)
    return labels, draw_rows(model.family, labels, rng)


def simulate_more(
    model: MixtureModel, X: Any, labels: npt.ArrayLike, n_rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Draw further rows with their clusters from the predictive of a model.

    If `labels` are a draw of the posterior given `X`, the result is a draw of the posterior of all labels given all
    rows.

    Parameters
    ----------
    model : MixtureModel
        Bound.
    X : (M, V) array_like or sparse matrix
    labels : (M,) array_like of int
        Clusters numbered by first appearance.
    n_rows : int
        Number of all rows, at least M.
    rng : numpy.random.Generator

    Returns
    -------
    labels : (n_rows,) int32 ndarray
    X : (n_rows, V) ndarray
        The first M rows are the given ones.
    """
    grown = draw_partition(model.weights, n_rows, rng, given=labels)
    return grown, draw_rows(model.family, grown, rng, given=X)
