"""Hierarchical Dirichlet processes: groups share clusters whose number is unknown.

The model is a frozen value and contains no algorithm. Its `log_joint` sums over all numbers of tables of the Chinese
restaurant franchise, directly from the definition: it serves tests and small data.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, logsumexp

from expfam.amounts import counted
from expfam.families.base import bound_family
from expfam.model.admixture import check_clusters, checked_seeds, log_rising, tokens_of
from expfam.model.data import Dataset
from expfam.model.groups import Groups, as_groups
from expfam.model.statistics import weighted_statistics
from expfam.params import Integer, check_value

if TYPE_CHECKING:
    from expfam.families.base import Family


@dataclasses.dataclass(frozen=True)
class HierarchicalProcess:
    """Hierarchical Dirichlet process: groups share clusters whose number is unknown.

    Each group has its own weights of the clusters. The weights of all clusters together are those of a Dirichlet
    process, beta ~ GEM(gamma). The weights of a group have a Dirichlet process with the base measure beta and the
    concentration alpha: in a group of n rows, the next row is in cluster k with probability (n_k + alpha beta_k) / (n
    + alpha). Words in documents are rows of one count each; a document is their group, and a cluster is a topic.

    Parameters
    ----------
    family : Family
        Use a Multinomial for words in documents; its concentration is the pseudo-count of each word in each topic.
    alpha : float, positive
        Concentration of the groups: the larger, the more clusters in a group.
    gamma : float, positive
        Concentration of the base measure: the larger, the more clusters in all.
    n_known : int
        The clusters 0..n_known - 1 are known to exist, and may hold no row. Their weights and that of all others
        together have the law Dirichlet(1, ..., 1, gamma).
    seeds : (V, n_known) sparse matrix or array_like of whole numbers, optional
        Further pseudo-counts of words in the known topics, as in `AdmixtureModel`.

    Raises
    ------
    ValueError
        `alpha` or `gamma` is no positive, finite number, or `seeds` are those of another number of topics.

    Examples
    --------
    >>> from expfam import HierarchicalProcess, Multinomial
    >>> model = HierarchicalProcess(Multinomial(0.1), alpha=0.5)
    >>> X = [[1, 1, 0], [0, 1, 1]]
    >>> model.log_joint(X, [0, 0, 1, 1]) > model.log_joint(X, [0, 1, 2, 3])
    True

    Notes
    -----
    Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes".
    """

    family: Any
    alpha: float = 1.0
    gamma: float = 1.0
    n_known: int = 0
    seeds: Any = None

    __hash__ = None  # type: ignore[assignment]  # a family holds arrays, which have no hash

    def __post_init__(self):
        for name in ("alpha", "gamma"):
            value = getattr(self, name)
            is_number = np.ndim(value) == 0 and not isinstance(value, (bool, str)) and np.isreal(value)
            if not is_number or not 0 < value < np.inf:
                raise ValueError(f"HierarchicalProcess: {name} must be one positive number; got {value!r}")
        check_value("HierarchicalProcess: n_known", self.n_known, (Integer(0),))
        if self.seeds is not None:
            n_seeded = int(np.shape(self.seeds)[-1])
            if self.n_known not in (0, n_seeded):
                raise ValueError(
                    f"HierarchicalProcess: seeds of {counted(n_seeded, 'topic')} need n_known={n_seeded}; got"
                    f" {self.n_known}"
                )
            object.__setattr__(self, "n_known", n_seeded)
            object.__setattr__(self, "seeds", checked_seeds(self.seeds, n_seeded))

    @property
    def is_bound(self) -> bool:
        """Say whether the family is bound to data."""
        return self.family.is_bound

    def with_family(self, family: Family) -> HierarchicalProcess:
        """Return a copy with another family."""
        return dataclasses.replace(self, family=family)

    def with_concentrations(self, alpha: float, gamma: float) -> HierarchicalProcess:
        """Return a copy with other concentrations.

        Parameters
        ----------
        alpha, gamma : float
            Concentrations of the process of each group and of the process that the groups share.
        """
        return dataclasses.replace(self, alpha=alpha, gamma=gamma)

    def seeds_of(self, n_topics: int) -> Any:
        """Return the seeds of so many topics, the known ones first: (V, n_topics) CSR, or None."""
        if self.seeds is None:
            return None
        return sparse.csr_array(
            (self.seeds.data, self.seeds.indices, self.seeds.indptr), shape=(self.seeds.shape[0], n_topics)
        )

    def bind(self, X: Any) -> HierarchicalProcess:
        """Return the model with its family bound to data.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V)
        """
        if self.is_bound:
            return self
        rows, weight = (X.X, X.weight) if isinstance(X, Dataset) else (X, None)
        return self.with_family(bound_family(self.family, rows, weight))

    def log_prior(self, counts: npt.ArrayLike) -> float:
        """Return the log probability of the clusters of all rows, nats.

        Parameters
        ----------
        counts : (G, K) array_like of int
            Rows of each group in each cluster, the known clusters first. All others have rows.

        Returns
        -------
        float
            Log probability of the partition of all rows; weights are integrated out. O(sum of squared counts).

        Notes
        -----
        Sum over the numbers of tables m_gk, 1..n_gk, of

            prod |s(n_gk, m_gk)| alpha^m_gk / prod R(alpha, n_g)  *  gamma^K prod (m_k - 1)! / R(gamma, M)

        where s are Stirling numbers of the first kind, R(a, n) = G(a + n) / G(a), m_k = sum_g m_gk, M = sum_k m_k. A
        known cluster has the factor m_k! in place of gamma (m_k - 1)!; where there are C of them, R(gamma, M) is
        R(gamma + C, M).

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import HierarchicalProcess, Poisson
        >>> model = HierarchicalProcess(Poisson(), alpha=1.0, gamma=1.0)
        >>> together = model.log_prior([[1], [1]])  # two groups of one row
        >>> round(float(np.exp(together)), 3)
        0.5
        """
        counts = np.asarray(counts)
        is_known = np.arange(counts.shape[1]) < self.n_known
        used = counts.sum(axis=0) > 0
        counts, is_known = counts[:, used], is_known[used]
        sizes = counts.sum(axis=1).astype(np.float64)
        stirling = log_stirling(int(counts.max(initial=0)))
        total = np.zeros(1)  # log weight of M = 0, 1, ... tables in all
        for column, known in zip(counts.T, is_known):
            tables = np.zeros(1)
            for n in column[column > 0]:
                tables = _log_convolved(tables, stirling[n, : n + 1] + np.arange(n + 1) * np.log(self.alpha))
            tables[1:] += gammaln(np.arange(1, len(tables)) + float(known))
            total = _log_convolved(total, tables)
        M = np.arange(len(total), dtype=np.float64)
        total += np.count_nonzero(~is_known) * np.log(self.gamma) - _log_rising_of(self.gamma + self.n_known, M)
        return float(logsumexp(total) - _log_rising_of(self.alpha, sizes).sum())

    def log_joint(self, X: Any, labels: npt.ArrayLike, groups: npt.ArrayLike | Groups | None = None) -> float:
        """Return the joint log probability of the rows and their clusters, nats.

        Weights and parameters are integrated out. For words, each document counts as a sequence of tokens.

        Parameters
        ----------
        X : array_like, sparse matrix or Dataset, shape (D, V), or (N, V) with groups
        labels : (T,) array_like of non-negative int, or (N,) with groups
            Topics of the tokens, sorted by word and within a word by document; or the cluster of each row. The known
            clusters come first; not every number has to occur.
        groups
            As of `AdmixtureModel.log_joint`.

        Returns
        -------
        float
            Nats, without the log base measure.
        """
        bound = self.bind(X)
        labels, C = np.asarray(labels).ravel(), self.n_known
        others = np.unique(labels[labels >= C])
        labels = np.where(labels < C, labels, C + np.searchsorted(others, labels))
        K = C + len(others)
        if groups is None and getattr(X, "groups", None) is None:
            docs, words, shape = tokens_of(X)
            labels = check_clusters(labels, len(docs), K)
            counts, by_topic = np.zeros((shape[0], K), dtype=np.int64), np.zeros((K, shape[1]))
            np.add.at(counts, (docs, labels), 1)
            np.add.at(by_topic, (labels, words), 1.0)
            prior = np.tile(bound.family.pseudocounts()[0], (K, 1))
            if self.seeds is not None:
                prior[:C] += self.seeds.toarray().T
            evidence = [float(log_rising(prior[k], by_topic[k][None]).sum()) for k in range(K)]
            return self.log_prior(counts) + sum(evidence)
        data = X if isinstance(X, Dataset) else Dataset(X, bound.family)
        held = as_groups(X.groups if groups is None else groups, data.n_rows)
        labels = check_clusters(labels, data.n_rows, K)
        counts = np.zeros((held.n_groups, K), dtype=np.int64)
        np.add.at(counts, (held.of_row, labels), 1)
        n, S = weighted_statistics(data, labels, K)
        return self.log_prior(counts) + bound.family.total_log_marginal(n, S)


def log_stirling(n: int) -> npt.NDArray[np.float64]:
    """Return logs of unsigned Stirling numbers of the first kind: (n + 1, n + 1), -inf for 0.

    >>> import numpy as np
    >>> from expfam.model.hierarchical import log_stirling
    >>> np.exp(log_stirling(4)[4]).round().astype(int).tolist()
    [0, 6, 11, 6, 1]
    """
    table = np.full((n + 1, n + 1), -np.inf)
    table[0, 0] = 0.0
    for m in range(n):
        table[m + 1, 1:] = table[m, :-1]
        if m:
            table[m + 1] = np.logaddexp(table[m + 1], table[m] + np.log(m))
    return table


def _log_convolved(a, b):
    """Return the log of the convolution of exp(a) and exp(b)."""
    out = np.full(len(a) + len(b) - 1, -np.inf)
    for i, first in enumerate(a):
        out[i : i + len(b)] = np.logaddexp(out[i : i + len(b)], first + b)
    return out


def _log_rising_of(a, n):
    """Return log G(a + n) - log G(a)."""
    return gammaln(a + n) - gammaln(a)
