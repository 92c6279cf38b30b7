"""Admixtures: groups of rows that share clusters but have their own weights.

A document is a group of words; each word is a row with one count, and its cluster is called a topic. The words of one
document are given as one row of counts. For other families you give the group of each row. The model is a frozen value
and contains no algorithm. `log_joint` computes the log probability of the clusters of all rows and of the data, with
weights and parameters integrated out, directly from the definition.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.base import bound_family
from expfam.model.data import Dataset
from expfam.model.groups import Groups, as_groups
from expfam.model.statistics import weighted_statistics

if TYPE_CHECKING:
    from expfam.families.base import Family


@dataclasses.dataclass(frozen=True)
class AdmixtureModel:
    """Admixture model: groups share clusters, and each group has its own weights.

    The weights of each group have a Dirichlet(alpha) prior, and the parameters of each cluster have the family's
    prior. For counts of words in documents this is latent Dirichlet allocation.

    Parameters
    ----------
    family : Family
        Use a Multinomial for words in documents; its concentration is the pseudo-count of each word in each topic.
    n_components : int
        K, the number of topics or clusters.
    alpha : float or (K,) array_like, positive
        Pseudo-count of each topic in each document, or of each cluster in each group.
    seeds : (V, K) sparse matrix or array_like of whole numbers, optional
        Further pseudo-counts of words in topics, for words in documents only: topic k has the prior
        Dirichlet(concentration + seeds[:, k]). They act as tokens that have these topics and never change them.

    Attributes
    ----------
    pseudocounts : (K,) float64 ndarray
        `alpha` of each topic.

    Raises
    ------
    ValueError
        `n_components` is below 1; `alpha` is not positive and finite or has another length than K; or `seeds` are no
        non-negative whole numbers, or have another number of columns than K.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Multinomial
    >>> model = AdmixtureModel(Multinomial(0.1), n_components=2, alpha=0.5)
    >>> X = [[1, 1, 0], [0, 1, 1]]
    >>> model.log_joint(X, [0, 0, 1, 1]) > model.log_joint(X, [0, 1, 0, 1])
    True

    Rows of numbers in two groups:

    >>> from expfam import SphericalGaussian
    >>> model = AdmixtureModel(SphericalGaussian(variance=1.0, mean=0.0, mean_variance=9.0), n_components=2, alpha=0.5)
    >>> X, groups = [[0.0], [0.1], [5.0], [5.1]], [0, 0, 0, 1]
    >>> model.log_joint(X, [0, 0, 1, 1], groups) > model.log_joint(X, [0, 1, 0, 1], groups)
    True

    Notes
    -----
    Blei, Ng and Jordan 2003, "Latent Dirichlet allocation"; for other families the finite form of Teh, Jordan, Beal
    and Blei 2006, "Hierarchical Dirichlet processes".
    """

    family: Any
    n_components: int
    alpha: Any = 0.1
    seeds: Any = None

    __hash__ = None  # type: ignore[assignment]  # a family holds arrays, which have no hash

    def __post_init__(self):
        K = self.n_components
        if isinstance(K, bool) or not isinstance(K, (int, np.integer)) or K < 1:
            raise ValueError(f"AdmixtureModel: n_components must be an integer of at least 1; got {K!r}")
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.shape not in ((), (K,)) or not (np.isfinite(alpha) & (alpha > 0)).all():
            raise ValueError(f"AdmixtureModel: alpha must be a positive number, or {K} of them; got {self.alpha!r}")
        if self.seeds is not None:
            object.__setattr__(self, "seeds", checked_seeds(self.seeds, K))

    @property
    def pseudocounts(self) -> npt.NDArray[np.float64]:
        """Return the pseudo-count of each topic in a document: (K,) float64."""
        return np.array(np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), self.n_components))

    @property
    def is_bound(self) -> bool:
        """Say whether the family is bound to data."""
        return self.family.is_bound

    def with_family(self, family: Family) -> AdmixtureModel:
        """Return a copy with another family."""
        return dataclasses.replace(self, family=family)

    def with_alpha(self, alpha: npt.ArrayLike) -> AdmixtureModel:
        """Return a copy with other pseudo-counts of topics."""
        return dataclasses.replace(self, alpha=alpha)

    def seeded(self, word_counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return counts of words in topics (V, K) with the seeds added.

        It is a copy, or the array itself if there are no seeds.
        """
        if self.seeds is None:
            return word_counts
        found, counts = self.seeds.tocoo(), word_counts.copy()
        counts[found.coords] += found.data  # no cell twice: the seeds are canonical
        return counts

    def bind(self, X: Any) -> AdmixtureModel:
        """Return the model with its family bound to data.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V)

        Raises
        ------
        DataError
            The seeds have another number of words than X has columns.
        """
        bound = self
        if not self.is_bound:
            rows, weight = (X.X, X.weight) if isinstance(X, Dataset) else (X, None)
            bound = self.with_family(bound_family(self.family, rows, weight))
        if self.seeds is not None and self.seeds.shape[0] != bound.family.n_features_in_:
            raise DataError(
                f"seeds have {counted(self.seeds.shape[0], 'word')}, the data "
                f"{counted(bound.family.n_features_in_, 'column')}"
            )
        return bound

    def log_joint(self, X: Any, topics: npt.ArrayLike, groups: npt.ArrayLike | Groups | None = None) -> float:
        """Return the joint log probability of the rows and their clusters, nats.

        Weights and parameters are integrated out. For words, each document counts as a sequence of tokens.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V), or (N, V) with groups
        topics : (T,) array_like of int, or (N,) with groups
            Topics of the tokens, sorted by word and within a word by document; or the cluster of each row.
        groups : (N,) array_like of non-negative int, or Groups, optional
            Group of each row. If not given, the groups of the Dataset are used. If there are none, each row is a
            document.

        Returns
        -------
        float
            Nats, without the log base measure. For words this leaves out the number of orders of a document's tokens.

        Raises
        ------
        ValueError
            The clusters have another shape or lie outside of 0..K-1.
        DataError
            `groups` has another number of rows than X.

        Notes
        -----
        The result is the sum over groups of log p(z_g), a Polya urn with pseudo-counts alpha, plus the sum over
        clusters of A(n_k, S_k). For words see Griffiths and Steyvers 2004, "Finding scientific topics", eqs. 2 and 3;
        here the pseudo-counts may differ.
        """
        if groups is not None or getattr(X, "groups", None) is not None:
            return self._log_joint_of_rows(X, topics, X.groups if groups is None else groups)
        return self._log_joint_of_words(X, topics)

    def _log_joint_of_rows(self, X, labels, groups):
        bound = self.bind(X)
        data = X if isinstance(X, Dataset) else Dataset(X, bound.family)
        groups = as_groups(groups, data.n_rows)
        labels = check_clusters(labels, data.n_rows, self.n_components)
        counts = np.zeros((groups.n_groups, self.n_components))
        np.add.at(counts, (groups.of_row, labels), 1.0 if data.weight is None else data.weight)
        n, S = weighted_statistics(data, labels, self.n_components)
        return float(log_rising(self.pseudocounts, counts).sum()) + bound.family.total_log_marginal(n, S)

    def _log_joint_of_words(self, X, topics):
        bound = self.bind(X)
        docs, words, (D, V) = tokens_of(X)
        topics = np.asarray(topics)
        if topics.shape != docs.shape:
            raise ValueError(f"topics must have shape {docs.shape}, one for each token; got {topics.shape}")
        by_doc, by_topic = np.zeros((D, self.n_components)), np.zeros((self.n_components, V))
        np.add.at(by_doc, (docs, topics), 1.0)
        np.add.at(by_topic, (topics, words), 1.0)
        eta = bound.family.pseudocounts()[0]
        documents = float(log_rising(self.pseudocounts, by_doc).sum())
        if self.seeds is None:
            return documents + float(log_rising(eta, by_topic).sum())
        priors = eta + self.seeds.toarray().T
        return documents + sum(float(log_rising(a, row[None]).sum()) for a, row in zip(priors, by_topic))


def tokens_of(X: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[int, int]]:
    """Return the document and the word of each token of whole counts, and the shape (D, V).

    Both are (T,). Tokens are sorted by word, and within a word by document.
    """
    counts = sparse.csc_array(X.X if isinstance(X, Dataset) else X)
    counts.sort_indices()
    repeats = counts.data.astype(np.int64)
    words = np.repeat(np.repeat(np.arange(counts.shape[1]), np.diff(counts.indptr)), repeats)
    return np.repeat(counts.indices, repeats), words, counts.shape


def checked_seeds(seeds: Any, n_topics: int) -> Any:
    """Return seeds of topics as canonical CSR (V, K) of int32, or None if all are 0.

    Raises a ValueError for what are no whole counts, or not of K topics.
    """
    found = sparse.csr_array(seeds)
    found.sum_duplicates()
    found.eliminate_zeros()
    values = found.data
    if found.shape[1] != n_topics:
        raise ValueError(f"seeds must be (V, {n_topics}), words by topics; got shape {found.shape}")
    if (values < 0).any() or (values != np.floor(values)).any() or (values >= 1 << 30).any():
        raise ValueError("seeds must be whole numbers of at least 0 and below 2**30")
    return found.astype(np.int32) if found.nnz else None


def check_clusters(labels: npt.ArrayLike, n_rows: int, n_clusters: int) -> npt.NDArray[np.int32]:
    """Return the clusters of all rows as (N,) int32 after checking them.

    Parameters
    ----------
    labels : (N,) array_like of int
    n_rows : int
        N.
    n_clusters : int
        K, above all labels.

    Raises
    ------
    ValueError
        The labels have another shape or type, or lie outside of 0..K-1.
    """
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        wanted = counted(n_rows, "integer")
        raise ValueError(f"clusters must be {wanted}, one for each row; got {labels.dtype} {labels.shape}")
    if n_rows and not 0 <= labels.min() <= labels.max() < n_clusters:
        raise ValueError(f"clusters must lie in 0..{n_clusters - 1}; found {labels.min()} to {labels.max()}")
    return labels.astype(np.int32)


def log_rising(a: npt.NDArray[np.float64], counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the log Polya probability of one sequence for each row of counts: (R,), nats.

    `counts` is (R, M), and the prior is Dirichlet(a) with `a` (M,).
    """
    total = a.sum()
    inner = (gammaln(a + counts) - gammaln(a)).sum(axis=1)
    return inner + gammaln(total) - gammaln(total + counts.sum(axis=1))
