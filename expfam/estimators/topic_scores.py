"""Lower bound of the log probability of documents, given topics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

_BLOCK = 1 << 20  # numbers that are held at a time


def bounds_of_documents(
    X: Any, phi: npt.NDArray[np.float64], alpha: npt.NDArray[np.float64], gamma: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return a lower bound of the log probability of each document: (D,) nats, without log-base.

    Parameters
    ----------
    X : (D, V) CSR array
        Counts of words.
    phi : (K, V) float64
        Probabilities of words in topics.
    alpha : (K,) float64
        Pseudo-counts of topics in a document.
    gamma : (D, K) float64
        Pseudo-counts of the posterior of the weights of each document; any positive numbers give a bound, and those
        near the posterior a good one.

    Notes
    -----
    With q(weights) = Dirichlet(gamma) and the best topics of tokens given q, the bound is
    sum_v x_v log sum_k exp(E_q log weight_k) phi_kv - KL(q, Dirichlet(alpha)) (Blei, Ng and Jordan 2003, "Latent
    Dirichlet allocation"). It is exact for one topic.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam.estimators.topic_scores import bounds_of_documents
    >>> X = sparse.csr_array([[2, 1]])
    >>> float(bounds_of_documents(X, np.array([[0.5, 0.5]]), np.ones(1), np.array([[4.0]]))[0] / np.log(0.5))
    3.0
    """
    log_weights = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
    found = -_divergence(gamma, alpha, log_weights)
    weights, columns = np.exp(log_weights), np.ascontiguousarray(phi.T)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    step = max(1, _BLOCK // phi.shape[0])
    for start in range(0, X.nnz, step):
        part = slice(start, start + step)
        p = np.einsum("ik,ik->i", weights[rows[part]], columns[X.indices[part]])
        np.add.at(found, rows[part], X.data[part] * np.log(p))
    return found


def _divergence(gamma, alpha, log_weights):
    """Return the divergence KL(Dirichlet(gamma), Dirichlet(alpha)) of each document: (D,) nats."""
    normaliser = gammaln(gamma.sum(axis=1)) - gammaln(gamma).sum(axis=1) - gammaln(alpha.sum()) + gammaln(alpha).sum()
    return normaliser + ((gamma - alpha) * log_weights).sum(axis=1)
