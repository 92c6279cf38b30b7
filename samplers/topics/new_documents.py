"""Weights of given topics in documents that no fit has seen."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from expfam.families.counts.multinomial import Multinomial
from expfam.families.support import as_matrix
from expfam.model.data import Dataset
from expfam.params import check_value
from expfam.samplers.topics.held_out import collapsed_counts
from expfam.samplers.topics.local_step import TopicPass
from expfam.samplers.topics.variational import TopicVariational
from expfam.structures.ground.threads import run, segments

_ITERATIONS, _TOLERANCE = 100, 1e-2  # of a document's weights, in tokens


def document_weights(
    components: npt.ArrayLike,
    alpha: npt.ArrayLike,
    X: Any,
    *,
    rule: Literal["collapsed", "variational"] = "collapsed",
    n_threads: int | None = None,
) -> npt.NDArray[np.float64]:
    """Return the weights of given topics in documents.

    Parameters
    ----------
    components : (K, V) array_like
        Pseudo-counts of words in topics.
    alpha : float or (K,) array_like
        Pseudo-count of each topic in a document.
    X : array_like or sparse matrix, shape (D, V)
    rule : {"collapsed", "variational"}
        Collapsed responsibilities at the topics' means (CVB0), or coordinate ascent of the variational bound over all
        topics, neither with restarts.
    n_threads : int or None

    Returns
    -------
    (D, K) float64 ndarray
        Rows sum to 1.

    Examples
    --------
    >>> from expfam.samplers.topics.new_documents import document_weights
    >>> document_weights([[9.0, 1.0], [1.0, 9.0]], 0.1, [[5, 0]]).round(1)
    array([[1., 0.]])
    """
    components = np.asarray(components, dtype=np.float64)
    K = len(components)
    alpha = np.array(np.broadcast_to(np.asarray(alpha, dtype=np.float64), K))
    check_value("rule", rule, ("collapsed", "variational"))
    X = sparse.csr_array(as_matrix(X, family="document_weights", accepts_sparse=True, n_features=components.shape[1]))
    N = (collapsed_weights if rule == "collapsed" else _variational)(components, alpha, X, n_threads)
    N += alpha
    return N / N.sum(axis=1, keepdims=True)


def collapsed_weights(
    components: npt.NDArray[np.float64], alpha: npt.NDArray[np.float64], X: Any, n_threads: int | None
) -> npt.NDArray[np.float64]:
    """Return the expected tokens of each topic in documents, by collapsed responsibilities.

    Parameters
    ----------
    components : (K, V) float64 ndarray
    alpha : (K,) float64 ndarray
    X : (D, V) CSR array
    n_threads : int or None

    Returns
    -------
    (D, K) float64 ndarray
    """
    phi = (components / components.sum(axis=1, keepdims=True)).T
    phi = np.ascontiguousarray(phi / phi.max(axis=1, keepdims=True), dtype=np.float32)
    indices, counts = X.indices.astype(np.int32, copy=False), X.data.astype(np.float64)
    N = np.zeros((X.shape[0], len(components)))
    if len(indices):
        documents = (X.indptr.astype(np.int64), indices, counts)
        tasks = [(documents, phi, alpha, a, b, _ITERATIONS, _TOLERANCE, N[a:b]) for a, b in segments(X.shape[0])]
        run(collapsed_counts, tasks, n_threads, uses_blas=False)
    return N


def _variational(components, alpha, X, n_threads):
    settings = TopicVariational(local="dense", n_restarts=0, tol=_TOLERANCE, n_threads=n_threads)
    data = Dataset(X, Multinomial(1.0, allow_fractional=True))
    passes = TopicPass(data, len(components), settings)
    tables = passes.tables(np.ascontiguousarray(components.T), np.zeros(components.shape[1]))
    N = np.zeros((X.shape[0], len(components)))
    for part in passes.parts(passes.step(tables, alpha), np.arange(X.shape[0])):
        counts = part.counts()
        N[np.repeat(part.rows, part.sizes), counts.topics] = counts.N
    return N
