"""An admixture: every document has its own weights of topics that all documents share.

The model is a frozen value; it knows no algorithm. `log_joint` computes the log probability of topics of tokens and
the data, weights and topics integrated out, from its plain definition.
"""

import dataclasses

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from expfam.model.data import Dataset


@dataclasses.dataclass(frozen=True)
class AdmixtureModel:
    """Latent Dirichlet allocation: topics ~ Dirichlet(concentration of the family), weights ~ Dirichlet(alpha).

    Parameters
    ----------
    family : Multinomial
        Its concentration is the pseudo-count of each word in each topic.
    n_topics : int
        K.
    alpha : float or (K,) array_like, positive
        Pseudo-count of each topic in each document.

    Attributes
    ----------
    pseudocounts : (K,) float64 ndarray
        `alpha` of each topic.

    Raises
    ------
    ValueError
        For fewer topics than one, or an `alpha` that is not positive and finite or of another length than K.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Multinomial
    >>> model = AdmixtureModel(Multinomial(0.1), n_topics=2, alpha=0.5)
    >>> X = [[1, 1, 0], [0, 1, 1]]
    >>> model.log_joint(X, [0, 0, 1, 1]) > model.log_joint(X, [0, 1, 0, 1])
    True

    Notes
    -----
    Blei, Ng and Jordan 2003, "Latent Dirichlet allocation".
    """

    family: object
    n_topics: int
    alpha: object = 0.1

    __hash__ = None  # type: ignore[assignment]  # families hold arrays

    def __post_init__(self):
        K = self.n_topics
        if isinstance(K, bool) or not isinstance(K, (int, np.integer)) or K < 1:
            raise ValueError(f"AdmixtureModel: n_topics must be an integer of at least 1; got {K!r}")
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.shape not in ((), (K,)) or not (np.isfinite(alpha) & (alpha > 0)).all():
            raise ValueError(f"AdmixtureModel: alpha must be a positive number, or {K} of them; got {self.alpha!r}")

    @property
    def pseudocounts(self):
        """Pseudo-count of each topic in a document: (K,) float64."""
        return np.array(np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), self.n_topics))

    @property
    def is_bound(self):
        """Whether the family is bound to data."""
        return self.family.is_bound

    def with_family(self, family):
        """Copy with another family."""
        return dataclasses.replace(self, family=family)

    def with_alpha(self, alpha):
        """Copy with other pseudo-counts of topics."""
        return dataclasses.replace(self, alpha=alpha)

    def bind(self, X):
        """Model whose family is bound to data.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V)

        Returns
        -------
        AdmixtureModel
        """
        if self.is_bound:
            return self
        return self.with_family(self.family.bind(X.X if isinstance(X, Dataset) else X))

    def log_joint(self, X, topics):
        """Log probability of the topics of all tokens and of the tokens as sequences.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V)
        topics : (T,) array_like of int
            Topics of the tokens, sorted by word and within a word by document.

        Returns
        -------
        float
            Nats, without the number of orders of a document's tokens.

        Notes
        -----
        Griffiths and Steyvers 2004, "Finding scientific topics", eqs. 2 and 3, for any pseudo-counts.
        """
        bound = self.bind(X)
        counts = sparse.csc_array(X.X if isinstance(X, Dataset) else X)
        counts.sort_indices()
        repeats = counts.data.astype(np.int64)
        D, V = counts.shape
        docs = np.repeat(counts.indices, repeats)
        words = np.repeat(np.repeat(np.arange(V), np.diff(counts.indptr)), repeats)
        topics = np.asarray(topics)
        if topics.shape != docs.shape:
            raise ValueError(f"topics must have shape {docs.shape}, one for each token; got {topics.shape}")
        by_doc, by_topic = np.zeros((D, self.n_topics)), np.zeros((self.n_topics, V))
        np.add.at(by_doc, (docs, topics), 1.0)
        np.add.at(by_topic, (topics, words), 1.0)
        eta = bound.family.pseudocounts()[0]
        return float(log_rising(self.pseudocounts, by_doc).sum() + log_rising(eta, by_topic).sum())


def log_rising(a, counts):
    """Log Polya probability of sequences with these counts (R, M) under Dirichlet(a), a (M,): (R,) nats."""
    total = a.sum()
    inner = (gammaln(a + counts) - gammaln(a)).sum(axis=1)
    return inner + gammaln(total) - gammaln(total + counts.sum(axis=1))
