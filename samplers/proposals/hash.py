"""Proposal by sign codes of random projections.

All K clusters are scored by popcounts of codes, and a shortlist of them by exact predictives. To first order the log
predictive of a datum under a cluster is an inner product of the datum and the cluster's natural parameter (Ahmed et al.
2012). The direction of the parameter is kept as a code of l bits; norms, prior weights and scalar terms of a score are
exact. For counts, codes depend only on integers, so every sequence of shifts and single moves gives the same bits as a
refresh. For real-valued families, codes of changed clusters are computed again from float64 sums.

Centre, scale and temperature are computed from the first snapshot and then kept, because q must be one function of the
statistics while a chain is to be exact. A draw costs O(K l / 64 + K) and O(shortlist) predictives.
"""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from expfam.params import Integer, Real, check_settings
from expfam.samplers.proposals._hash import BoundHash, layout
from expfam.samplers.proposals._hash_counts import LENGTHS, CountHash
from expfam.samplers.proposals._hash_real import BLOCK_BYTES, RealHash
from expfam.samplers.proposals.base import MODES, Proposal
from expfam.structures.hashing.pair_counts import table_size


class HashProposal(Proposal):
    """Proposal by sign codes of random projections, for many clusters or many features.

    Parameters
    ----------
    n_bits : int in [1, 4096]
        Length of a code; it is rounded up to a multiple of 64.
    shortlist : int
        Maximal number of clusters that codes choose and that get exact predictives. With 0 only codes are used, as
        published; the chain then mixes slowly on short texts.
    entries : {"rademacher", "gaussian8"}
        Entries of the random matrix, see `SignHash`.
    temperature : "auto" or float in (0, 1]
        Factor of the part of a score that codes estimate. ``"auto"`` is the share of the variance of this part over
        clusters that is not noise; it is estimated once from 256 data.
    bound : {None, "hoeffding", "kl"}
        Whether to use the lower end of a confidence interval of each angle, as published, in place of the estimate.
    balance : bool
        Whether to scale coordinates so that norms are as small as possible. It does not change inner products.
    floor : float in (0, 1)
        Share of the draws that choose any cluster with equal probability; only used with a shortlist.
    memory_limit : int
        Largest number of bytes of the codes of the data. If they need more, each draw computes the code of its datum.

    Notes
    -----
    The proposal differs from Ahmed et al. 2012. Scalar terms of a cluster, namely its length term and its prior weight,
    are not hashed. Clusters and data are centred. Scores have a temperature. There is a shortlist. Empty clusters are
    scored exactly. All this changes only q, and the Metropolis test keeps the chain exact. A word that occurs c times
    counts as kappa_c = sum_n f_c f_1 / n / sum_n f_1^2 / n words, f_c(n) = log[(n + a)_c / (a)_c], n = 1..30. With
    `shortlist` memory grows with the number of clusters times the number of words, or with the words present.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Multinomial
    >>> from expfam.samplers.proposals.handle import ProposalHandle
    >>> from expfam.samplers.proposals.hash import HashProposal
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> data = Dataset(np.repeat([[4, 0, 1], [0, 5, 1]], 5, axis=0), Multinomial(concentration=0.5))
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> handle = ProposalHandle(HashProposal(n_bits=128).bind(model, data, seed=1), "hash")
    >>> n, S = data.statistics(np.repeat([0, 1], 5), 2)
    >>> view = Snapshot(data.family, n, [0, 1], lambda: S, log_weight=np.log(n), log_weight_new=0.0)
    >>> handle.refresh(view)
    >>> np.exp(handle.log_prob(0, 0, [0, 1, -1])).round(2)
    array([0.96, 0.  , 0.03])
    """

    modes = frozenset(MODES)
    _constraints: ClassVar = {
        "n_bits": Integer(1, 4096),
        "shortlist": Integer(0, 1 << 20),
        "entries": ("rademacher", "gaussian8"),
        "temperature": ("auto", Real(0, 1, "(]")),
        "bound": (None, "hoeffding", "kl"),
        "floor": Real(0, 1, why="or clusters off the list have no probability"),
        "memory_limit": Integer(0, 1 << 62),
    }

    def __init__(
        self,
        *,
        n_bits: int = 512,
        shortlist: int = 32,
        entries: Literal["rademacher", "gaussian8"] = "rademacher",
        temperature: Literal["auto"] | float = "auto",
        bound: Literal["hoeffding", "kl"] | None = None,
        balance: bool = True,
        floor: float = 0.01,
        memory_limit: int = 1 << 28,
    ) -> None:
        self.n_bits, self.shortlist, self.entries, self.temperature = n_bits, shortlist, entries, temperature
        self.bound, self.balance, self.floor, self.memory_limit = bound, balance, floor, memory_limit

    def _check(self):
        for name in ("n_bits", "shortlist", "memory_limit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise TypeError(f"HashProposal: {name} must be an integer; got {value!r}")
        check_settings(self)

    def check(self, model: Any, data: Any) -> None:
        """Refuse settings out of range, and families without codes."""
        self._check()
        if not _has_count_codes(data) and data.n_statistics > 64:  # up to 64 they can be differentiated
            model.family.require("variational", "HashProposal")

    def bind(self, model: Any, data: Any, *, seed: int) -> BoundHash:
        """Make the bound proposal for one model and data set.

        Parameters
        ----------
        model : MixtureModel
        data : Dataset
        seed : int in [0, 2**64)
            Seed of the random matrix, and of the choice of data from which the temperature is estimated.

        Returns
        -------
        BoundHash
        """
        self.check(model, data)
        kind = CountHash if _has_count_codes(data) else RealHash
        return kind(self, model, data, seed=seed)

    def memory(self, model: Any, data: Any, n_clusters: int) -> int:
        """Return the bytes of the codes of data and clusters, and of the tables that they need."""
        self._check()
        bits = -(-self.n_bits // 64) * 64
        width = -(-(n_clusters + 1) // 64) * 64
        F, N = data.n_statistics, data.n_rows
        rows = N * bits // 8 if N * bits // 8 <= self.memory_limit else 0
        total = (1 << 16) + rows + N * 40 + width * (bits // 8 + 64 + 4 * (LENGTHS + 1))
        if _has_count_codes(data):
            nnz = _count_nonzero(data.X)
            wide = 8 if rows or data.is_sparse else 20
            total += width * 4 * bits + F * 44 + 12 * table_size(nnz) + nnz * wide
            if self.shortlist:
                dense = layout(model, data) == "features"
                total += width * F * 4 + width * F // 8 + 16 * nnz if dense else 48 * nnz
        else:
            total += bits * F * 8 + width * F * 8 + 2 * F * 8 + BLOCK_BYTES
            if self.shortlist:
                total += 8 * width * (3 * F + 2 * data.n_features**2 * (3 * data.n_features < F))
        return int(total)


def _count_nonzero(X):
    return int(X.nnz if sparse.issparse(X) else np.count_nonzero(X))


def _has_count_codes(data):
    """Return whether codes are made from integer counts.

    Fractional counts are coded like real-valued data.
    """
    if getattr(data.family, "count_model", None) not in ("multinomial", "poisson"):
        return False
    is_whole, heaviest = data.whole_counts
    return is_whole and heaviest < 2**31
