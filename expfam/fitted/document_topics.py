"""The most probable topic of the tokens behind each count of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.topics.new_documents import collapsed_weights

if TYPE_CHECKING:
    from expfam.protocols import Floats

_SCORES = 1 << 20  # of a block of counts


def topics_of_counts(components: Floats, alpha: Floats, X: Any, n_threads: int | None) -> npt.NDArray[np.int32]:
    """Return the most probable topic of the tokens behind each stored count: (nnz,) int32.

    Tokens of one word in one document have the same topic here.

    Parameters
    ----------
    components : (K, V) array
        Pseudo-counts of words in topics.
    alpha : (K,) array
        Pseudo-count of each topic in a document.
    X : CSR array, shape (D, V)
    n_threads : int or None

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from expfam.fitted.document_topics import topics_of_counts
    >>> topics = np.array([[9.0, 1.0, 5.0], [1.0, 9.0, 5.0]])
    >>> topics_of_counts(topics, np.full(2, 0.1), csr_array([[5, 0, 1], [0, 4, 2]]), 1)
    array([0, 0, 1, 1], dtype=int32)
    """
    weights = collapsed_weights(components, alpha, X, n_threads) + alpha
    phi = np.ascontiguousarray((components / components.sum(axis=1, keepdims=True)).T)
    documents = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    found, step = np.empty(X.nnz, dtype=np.int32), max(1, _SCORES // len(components))
    for start in range(0, X.nnz, step):
        part = slice(start, start + step)
        found[part] = (weights[documents[part]] * phi[X.indices[part]]).argmax(axis=1)
    return found
