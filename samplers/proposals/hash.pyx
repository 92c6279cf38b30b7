"""Proposal by sign codes of random projections.

All K clusters are scored by popcounts of codes, and a shortlist of them by exact predictives. To first order the log
predictive of a datum under a cluster is an inner product of the datum and the cluster's natural parameter (Ahmed et al.
2012). The direction of the parameter is kept as a code of l bits; norms, prior weights and scalar terms of a score are
exact. For counts, codes depend only on integers, so every sequence of shifts and single moves gives the same bits as a
refresh. For real-valued families, codes of changed clusters are computed again from float64 sums.

Centre, scale and temperature are computed from the first snapshot and then kept, because q must be one function of the
statistics while a chain is to be exact. A draw costs O(K l / 64 + K) and O(shortlist) predictives.
"""

import operator

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from cpython.pycapsule cimport PyCapsule_New
from cython cimport final
from libc.math cimport INFINITY, ldexp, log, log1p, rint, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset
from numpy.random cimport bitgen_t

from expfam.contracts cimport (
    EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, proposal_v1,
)
from expfam.families.counts.rows cimport csr_rows, entry_column, entry_value, open_rows, row_start
from expfam.families.components cimport Components
from expfam.samplers.proposals.masses cimport Masses, mass_enter, mass_leave
from expfam.structures.simd.elementary cimport expfam_exp1, expfam_log1, expfam_log_rising1
from expfam.structures.simd.float_softmax cimport expfam_sign_pick, expfam_sign_weights
from expfam.structures.simd.hamming cimport expfam_sign_scores
from expfam.structures.simd.sign_codes cimport (
    expfam_mix64, expfam_sign_bits_32, expfam_sign_bits_64, expfam_sign_bits_real,
)
from expfam.structures.hashing.sign_hash cimport SignCodes, SignHash
from expfam.structures.top_l cimport top_row, top_work_size

from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.families.support import dense_rows
from expfam.samplers.proposals.base import MODES as _MODES
from expfam.samplers.proposals.base import Proposal
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers
from expfam.structures.ground.threads import run
from expfam.structures.hashing.sign_hash import cosine_table

cdef enum:
    CHUNK = 64                  # words of a datum that are moved together

_LENGTHS = 32                   # largest number of lengths at which a cluster's length term is tabulated
_SAMPLE = 256                   # number of data, and of clusters, from which the temperature is estimated
_BLOCK_BYTES = 1 << 25
_TABLE_BYTES = 1 << 30          # a larger table of counts is replaced by lists of present words
_DELTA = 0.01                   # error probability of a bound
_REPEATS = 30                   # largest count for which the weight of a repeated word is fitted
_BALANCE = 20.0                 # scales lie within this factor about their geometric mean
_UNKNOWN = 0.25                 # temperature with fewer than two clusters, too few for an estimate
cdef float _SLACK = 10.0        # scores this many nats below the best one always get an exact score,
cdef float _DEVIATIONS = 3.0    # and so do scores within this number of standard deviations of their error


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

    modes = frozenset(_MODES)

    def __init__(
        self,
        *,
        n_bits=512,
        shortlist=32,
        entries="rademacher",
        temperature="auto",
        bound=None,
        balance=True,
        floor=0.01,
        memory_limit=1 << 28,
    ):
        self.n_bits, self.shortlist, self.entries, self.temperature = n_bits, shortlist, entries, temperature
        self.bound, self.balance, self.floor, self.memory_limit = bound, balance, floor, memory_limit

    def _check(self):
        _check_integer("n_bits", self.n_bits, 1, 4096)
        _check_integer("shortlist", self.shortlist, 0, 1 << 20)
        _check_integer("memory_limit", self.memory_limit, 0, 1 << 62)
        if self.entries not in ("rademacher", "gaussian8"):
            raise ValueError(f"entries must be 'rademacher' or 'gaussian8'; got {self.entries!r}")
        if self.temperature != "auto" and (isinstance(self.temperature, str) or not 0 < self.temperature <= 1):
            raise ValueError(f"temperature must be 'auto' or lie in (0, 1]; got {self.temperature!r}")
        if self.bound not in (None, "hoeffding", "kl"):
            raise ValueError(f"bound must be None, 'hoeffding' or 'kl'; got {self.bound!r}")
        if not 0 < self.floor < 1:
            raise ValueError(
                f"floor must lie in (0, 1), or clusters off the list have no probability; got {self.floor!r}"
            )

    def check(self, model, data):
        """Refuse settings out of range, and families without codes."""
        self._check()
        if not _has_count_codes(data) and data.n_statistics > 64:      # up to 64 they can be differentiated
            model.family.require("variational", "HashProposal")

    def bind(self, model, data, *, seed):
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
        return BoundHash(self, model, data, seed=seed)

    def memory(self, model, data, n_clusters):
        """Return the bytes of the codes of data and clusters, and of the tables that they need."""
        self._check()
        bits = -(-self.n_bits // 64) * 64
        width = -(-(n_clusters + 1) // 64) * 64
        F, N = data.n_statistics, data.n_rows
        rows = N * bits // 8 if N * bits // 8 <= self.memory_limit else 0
        total = (1 << 16) + rows + N * 40 + width * (bits // 8 + 64 + 4 * (_LENGTHS + 1))
        if _has_count_codes(data):
            nnz = _count_nonzero(data.X)
            wide = 8 if rows or data.is_sparse else 20
            total += width * 4 * bits + F * 44 + 12 * _pairs_size(nnz) + nnz * wide
            if self.shortlist:
                dense = _layout(model, data) == "features"
                total += width * F * 4 + width * F // 8 + 16 * nnz if dense else 48 * nnz
        else:
            total += bits * F * 8 + width * F * 8 + 2 * F * 8 + _BLOCK_BYTES
            if self.shortlist:
                total += 8 * width * (3 * F + 2 * data.n_features**2 * (F > 3 * data.n_features))
        return int(total)


def _check_integer(name, value, low, high):
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer; got {value!r}") from None
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}]; got {value}")


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


def _layout(model, data):
    """Return the layout of the components.

    It is "features", a table of words by clusters, while this table is not too large; otherwise it is "clusters", lists
    of the words present.
    """
    most = min(data.n_rows, model.weights.max_components or 1024)
    return "features" if 4 * most * data.n_statistics <= _TABLE_BYTES else "clusters"


def _pairs_size(n_pairs):
    """Return the size of a hash table that is at most three quarters full."""
    return 1 << max(6, (max(n_pairs, 1) * 4 // 3).bit_length())


def _repeat_weights(counts, a):
    """Compute kappa of each count: the number of single words with the same log predictive."""
    n = np.arange(1, _REPEATS + 1)[:, None]
    once = np.log1p(n / a)
    often = gammaln(n + a + counts) - gammaln(n + a) - (gammaln(a + counts) - gammaln(a))
    weight = (often * once / n).sum(axis=0) / (once * once / n).sum()
    return np.where(counts == 1, 1.0, weight)


def _balancing_scale(variance, square):
    """Compute (Var v / E u^2)^(1/4), which minimises the product of the norms.

    It is limited to a factor about its geometric mean.
    """
    scale = np.ones_like(variance)
    seen = (variance > 0) & (square > 0)
    if not seen.any():
        return scale
    log_scale = 0.25 * (np.log(variance[seen]) - np.log(square[seen]))
    middle = log_scale.mean()
    scale[:] = np.exp(middle) / _BALANCE
    scale[seen] = np.exp(np.clip(log_scale, middle - np.log(_BALANCE), middle + np.log(_BALANCE)))
    return scale


# ---- counts by (cluster, word) ---------------------------------------------------------------------------------------
# Hash table with open addressing and linear probing. A pair whose count becomes 0 is deleted by moving later pairs
# back, so no deleted entries remain. Memory is allocated once: there are never more pairs than nonzeros in the data.

ctypedef struct pair_table:
    int64_t *keys               # (mask + 1,) k D + w, -1 for a free place
    int32_t *counts
    Py_ssize_t mask
    Py_ssize_t used


cdef inline Py_ssize_t home_of(const pair_table *t, int64_t key) noexcept nogil:
    return <Py_ssize_t> (expfam_mix64(<uint64_t> key) & <uint64_t> t.mask)


cdef inline int32_t pair_count(const pair_table *t, int64_t key) noexcept nogil:
    cdef Py_ssize_t h = home_of(t, key)
    while t.keys[h] != -1:
        if t.keys[h] == key:
            return t.counts[h]
        h = (h + 1) & t.mask
    return 0


cdef int32_t pair_add(pair_table *t, int64_t key, int32_t step) noexcept nogil:
    """Change a count and return the new one."""
    cdef Py_ssize_t h = home_of(t, key), j
    cdef int32_t count
    while t.keys[h] != -1 and t.keys[h] != key:
        h = (h + 1) & t.mask
    if t.keys[h] == -1:
        t.keys[h], t.counts[h] = key, 0
        t.used += 1
    count = t.counts[h] + step
    t.counts[h] = count
    if count:
        return count
    t.used -= 1
    j = h
    while True:
        j = (j + 1) & t.mask
        if t.keys[j] == -1:
            break
        # a pair must not be moved before its home, in cyclic order
        if ((j - home_of(t, t.keys[j])) & t.mask) >= ((j - h) & t.mask):
            t.keys[h], t.counts[h] = t.keys[j], t.counts[j]
            h = j
    t.keys[h] = -1
    return 0


# ---- the bound proposal ----------------------------------------------------------------------------------------------

ctypedef int (*draw_t)(void *, Py_ssize_t, Py_ssize_t, bitgen_t *, Py_ssize_t *, double *, double *) noexcept nogil
ctypedef int (*log_prob_t)(void *, Py_ssize_t, Py_ssize_t, const Py_ssize_t *, Py_ssize_t, double *,
                           double *) noexcept nogil
ctypedef int (*single_t)(void *, Py_ssize_t, Py_ssize_t) noexcept nogil
ctypedef int (*moved_t)(void *, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil

ctypedef struct scratch:
    float *bias                 # (width,) exact part of each score
    float *score                # (width,)
    float *sums                 # (width / 64,)
    float *top                  # (shortlist,)
    float *top_work             # (top_work_size(width),)
    int32_t *top_at             # (shortlist,)
    Py_ssize_t *ks              # (width,) candidates
    double *w                   # (width,) weights of the candidates
    uint64_t *code              # (n_words,)
    double *dots                # (n_bits,)
    double *values              # (longest,)
    int64_t *columns            # (longest,)
    double *inner               # scratch memory of the components
    double total


@final
cdef class BoundHash:
    """A bound `HashProposal`: codes of the clusters and of the data of one run.

    Attributes
    ----------
    hash : SignHash
        Hash functions; their `n_bits` is the length of the codes.
    is_exact : bool
        Whether every sequence of shifts and moves gives the same bits as one refresh; True for counts.
    temperature : float or None
        Temperature of the scores; None before the first refresh.
    n_threads : int or None
        Number of threads that compute the codes of the data in the first refresh. Results do not depend on it.
    """

    cdef proposal_v1 api
    cdef readonly object capsule
    cdef object raised                  # exception of a call from C, see `pending`
    cdef public object n_threads        # for the codes of the data; the result does not depend on it
    cdef readonly SignHash hash
    cdef readonly bint is_exact
    cdef readonly object temperature
    cdef object settings, model, family, data, seed
    cdef Masses masses
    cdef Components components          # None without a shortlist
    cdef Py_ssize_t n_words, n_features, width, shortlist, longest
    cdef double floor
    cdef float spread                   # error of a score per unit of a datum's norm, nats
    # set by the first snapshot
    cdef object centre, scale, n_bound
    cdef object _table
    cdef float *table                   # (n_bits + 1,) cosines times temperature
    # one entry for each datum
    cdef object _code, _norm, _factor, _fresh, _row, _share, lengths
    cdef uint64_t *code                 # (N, n_words), NULL if each draw computes its code
    cdef float *norm                    # (N,) norm of the centred and scaled datum u_i
    cdef float *factor                  # (N,) factor of the slopes
    cdef float *fresh                   # (N,) score of an empty cluster without its scalars
    cdef int32_t *row                   # (N,) first of the two rows of scalars in a score
    cdef float *share                   # (N, 2) factors of these two rows
    cdef int64_t *length                # (N,) number of tokens; only for counts
    # one entry for each cluster
    cdef object _planes, _norms, _slopes, _rows, _total, _empties, _ties
    cdef uint64_t *planes               # (n_words, width)
    cdef float *norms                   # (width,), 0 for an empty cluster
    cdef float *slopes                  # (width,), 0 for an empty cluster
    cdef float *rows                    # (n_scalars, width)
    cdef Py_ssize_t n_scalars, n_empties, n_open
    cdef const Py_ssize_t *empties      # empty columns that the snapshot contains
    cdef uint64_t *ties                 # (n_words,)
    # only for counts
    cdef SignCodes codes
    cdef pair_table pairs
    cdef csr_rows x
    cdef object arrays, _keys, _counts, _prior, _grid, _grid_lengths, _record, _kept_rows
    cdef object _phi, _scaled, _multiple, mean, _mean_dots
    cdef int64_t *total                 # (width,) number of tokens
    cdef double *inverse_prior          # (D,) 1 / a
    cdef double *grid                   # (D,) grid points of a unit, divided by the scale
    cdef double *grid_lengths           # (n_scalars,)
    cdef double *multiple               # (N,) multiple of the mean that is subtracted from a datum
    cdef int64_t first_row
    cdef double *mean_dots              # (n_bits,)
    cdef double *phi                    # (nnz,) scaled counts, with weights of repeated words
    cdef double prior_total, rate
    cdef bint is_poisson
    cdef char *record                   # saved code of the cluster from which a datum is held out
    cdef float *kept_rows               # (n_scalars,) saved scalars of this cluster
    # only for real-valued families
    cdef object S, matrix, kept
    cdef Py_ssize_t held_datum, held_slot

    def __init__(self, settings, model, data, *, seed):
        family = data.family
        if data.weight is not None:
            raise CapabilityError("HashProposal serves collapsed kernels, which refuse sample_weight")
        self.settings, self.model, self.family, self.data, self.seed = settings, model, family, data, int(seed)
        self.hash = SignHash(settings.n_bits, entries=settings.entries, seed=self.seed)
        self.n_words, self.n_features = self.hash.n_words, data.n_statistics
        self.shortlist, self.floor = settings.shortlist, settings.floor
        self.is_exact = _has_count_codes(data)
        self.masses = Masses(model.weights, data.n_rows)
        self.width = self.masses.width
        self._ties = self.hash.tie_bits([-1])[0]
        self.ties = <uint64_t *> address(self._ties)
        self.components = None
        if self.shortlist:
            self.components = Components(family, data, self.width, layout=_layout(model, data))
        self.held_datum = self.held_slot = -1
        self.n_threads = 1
        self.first_row = data.row_offset
        if self.is_exact:
            self._open_counts()
        else:
            self._open_dense()
        self._set_api()

    # -- memory and numbers that depend only on the data --

    def _set_api(self):
        gil = self.shortlist and self.components.needs_gil
        keep = self.data.n_rows * self.n_words * 8 <= self.settings.memory_limit
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(proposal_v1)
        self.api.flags = EXPFAM_NEEDS_GIL if gil or not (keep or self.is_exact) else 0
        self.api.self = <void *> self
        # in C the owner is a pointer; functions that take it as a typed object can use it without the gil
        self.api.draw = <draw_t> <void *> hash_draw
        self.api.log_prob = <log_prob_t> <void *> hash_log_prob
        if self.is_exact:
            self.api.hold_out = <single_t> <void *> hash_hold_out
            self.api.restore = <single_t> <void *> hash_restore
            self.api.moved = <moved_t> <void *> hash_moved
        else:
            self.api.hold_out = <single_t> <void *> dense_hold_out
            self.api.restore = <single_t> <void *> dense_restore
            self.api.moved = <moved_t> <void *> dense_moved
        self._set_work()
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def _set_work(self):
        self.api.work_size = lay(self, NULL, NULL)
        if self.shortlist:
            self.api.work_size += self.components.c.work_size

    def _open_counts(self):
        """Open the rows of counts and the table of pairs; compute what depends only on the data."""
        X = self.data.X if sparse.issparse(self.data.X) else sparse.csr_array(self.data.X)
        values, columns, starts = (np.ascontiguousarray(a) for a in (X.data, X.indices, X.indptr))
        self.arrays = (values, columns, starts)
        open_rows(&self.x, values, columns, starts)
        self.longest = int(np.diff(starts).max(initial=0))
        size = _pairs_size(len(values))
        self._keys, self._counts = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int32)
        self.pairs.keys, self.pairs.counts = <int64_t *> address(self._keys), <int32_t *> address(self._counts)
        self.pairs.mask, self.pairs.used = size - 1, 0
        a, totals = self.family.pseudocounts()
        self._prior = 1.0 / a
        self.inverse_prior = <double *> address(self._prior)
        self.prior_total = float(totals.sum())
        self.is_poisson = self.family.count_model == "poisson"
        self.rate = float(self.family.rate) if self.is_poisson else 1.0
        whole = np.rint(values.astype(np.float64))
        self.lengths = np.zeros(self.data.n_rows, dtype=np.int64)
        filled = np.diff(starts) > 0
        self.lengths[filled] = np.add.reduceat(whole, starts[:-1][filled]) if len(whole) else 0
        self.length = <int64_t *> address(self.lengths)
        self._set_lengths()
        distinct, place = np.unique(whole, return_inverse=True)
        weights = _repeat_weights(distinct, float(np.exp(np.log(a).mean())))
        phi = weights[place.reshape(-1)]
        sums = np.bincount(columns, weights=phi, minlength=self.n_features)
        self.mean = sums / sums.sum() if sums.sum() > 0 else np.full(self.n_features, 1.0 / self.n_features)
        self._phi = phi

    def _set_lengths(self):
        """Choose lengths at which the length term is tabulated; find each datum's place between two."""
        N = self.data.n_rows
        self._row, self._share = np.zeros(N, dtype=np.int32), np.zeros((N, 2), dtype=np.float32)
        if self.is_poisson:
            grid = np.zeros(2)
            self._share[:, 0], self._share[:, 1] = 1.0, -self.lengths
        else:
            grid = np.unique(self.lengths).astype(np.float64)
            if len(grid) > _LENGTHS:
                inner = np.geomspace(max(grid[0], 1.0), grid.max(), _LENGTHS - 1)
                inner[0], inner[-1] = max(grid[0], 1.0), grid.max()
                grid = np.unique(np.concatenate([grid[:1], inner]))
            place = np.clip(np.searchsorted(grid, self.lengths, side="right") - 1, 0, max(len(grid) - 2, 0))
            step = (self.lengths - grid[place]) / np.diff(grid, append=grid.max() + 1.0)[place]
            self._row[:] = place
            self._share[:, 0], self._share[:, 1] = step - 1.0, -step
        self._grid_lengths, self.n_scalars = grid, len(grid)
        self.grid_lengths = <double *> address(self._grid_lengths)
        self.row, self.share = <int32_t *> address(self._row), <float *> address(self._share)

    def _open_dense(self):
        F, N = self.n_features, self.data.n_rows
        self.family.expected_natural(np.zeros(1), np.zeros((1, F)))     # a family without it raises an error here
        self.longest = 0
        self.matrix = self.hash.matrix(np.arange(F)).astype(np.float64)
        self._row, self._share = np.zeros(N, dtype=np.int32), np.zeros((N, 2), dtype=np.float32)
        self._share[:, 0] = 1.0
        self.row, self.share = <int32_t *> address(self._row), <float *> address(self._share)
        self.n_scalars = 1
        self.S = np.zeros((self.width, F))
        total = np.zeros(F)
        for start, stop in self._blocks():
            total += self.data.phi(start, stop).sum(axis=0)
        self.mean = total / N

    def _blocks(self):
        rows = max(1, _BLOCK_BYTES // (8 * (self.n_features + self.hash.n_bits)))
        return [(start, min(start + rows, self.data.n_rows)) for start in range(0, self.data.n_rows, rows)]

    # -- numbers that the first snapshot sets --

    def _calibrate(self, snapshot):
        """Compute centre and scale from a snapshot."""
        used = np.flatnonzero(snapshot.n > 0)
        if self.is_exact:
            S = sparse.csr_array(snapshot.S)[used]
            S.sum_duplicates()
            d = np.log1p(S.data * self._prior[S.indices])
            first = np.bincount(S.indices, weights=d, minlength=self.n_features)
            second = np.bincount(S.indices, weights=d * d, minlength=self.n_features)
            square = np.bincount(self.arrays[1], weights=self._phi**2, minlength=self.n_features)
        else:
            n, S = snapshot.n[used], dense_rows(snapshot.S)[used]
            if len(used) == 0:
                n, S = np.zeros(1), np.zeros((1, self.n_features))
            theta = self.family.expected_natural(n, S)[0]
            about = theta - theta.mean(axis=0)
            self.centre = theta.mean(axis=0)
            first, second = np.zeros(self.n_features), (about * about).sum(axis=0)
            square = np.zeros(self.n_features)
            for start, stop in self._blocks():
                square += ((self.data.phi(start, stop) - self.mean) ** 2).sum(axis=0)
        clusters = max(len(used), 1)
        if self.is_exact:
            self.centre = first / clusters
        variance = np.maximum(second / clusters - (first / clusters) ** 2, 0.0)
        self.scale = np.ones(self.n_features)
        if self.settings.balance:
            self.scale = _balancing_scale(variance, square / max(self.data.n_rows, 1))
        self.n_bound = max(len(used) + int(snapshot.log_weight_new > -np.inf), 1)

    def _set_table(self, temperature, spread):
        self.temperature, self.spread = float(temperature), spread
        self._table = cosine_table(
            self.hash.n_bits, beta=self.temperature, bound=self.settings.bound, n_codes=self.n_bound, delta=_DELTA
        )
        self.table = <float *> address(self._table)

    def _code_data(self):
        """Compute norms and scalars of all data, and their codes if they fit into memory."""
        N = self.data.n_rows
        keep = N * self.n_words * 8 <= self.settings.memory_limit
        self._norm, self._factor = np.zeros(N, dtype=np.float32), np.zeros(N, dtype=np.float32)
        self._fresh = np.zeros(N, dtype=np.float32)
        self._code = np.zeros((N, self.n_words), dtype=np.uint64) if keep else None
        if self.is_exact:
            self._code_counts(keep)
        else:
            self._code_dense(keep)
        self.code = <uint64_t *> address(self._code) if keep else NULL
        self.norm, self.factor = <float *> address(self._norm), <float *> address(self._factor)
        self.fresh = <float *> address(self._fresh)

    def _code_counts(self, keep):
        columns, starts = self.arrays[1], self.arrays[2]
        phi, mean, scale = self._phi, self.mean, self.scale
        phi_rows = sparse.csr_array((phi, columns, starts), shape=(self.data.n_rows, self.n_features))
        factor = phi_rows @ np.ones(self.n_features)
        square = scale * scale
        norm = sparse.csr_array((phi * phi, columns, starts), shape=phi_rows.shape) @ square
        norm += factor * (factor * (square @ (mean * mean)) - 2.0 * (phi_rows @ (square * mean)))
        self._norm[:] = np.sqrt(np.maximum(norm, 0.0))
        self._factor[:] = factor
        self._fresh[:] = -(phi_rows @ self.centre)
        if keep:
            first_row = self.data.row_offset
            self._code[:] = self.hash.codes(phi_rows, scale=scale, centre=mean, factor=factor, first_row=first_row,
                                            n_threads=self.n_threads)
            self.phi = NULL
        else:
            self._scaled, self._multiple = phi * scale[columns], factor
            self.phi, self.multiple = <double *> address(self._scaled), <double *> address(self._multiple)
            self._mean_dots = self.hash.project(mean[None], scale=scale)[0]
            self.mean_dots = <double *> address(self._mean_dots)

    def _code_dense(self, keep):
        empty = Components(self.family, self.data, 1)

        def fill(start, stop):
            phi = self.data.phi(start, stop)
            u = (phi - self.mean) * self.scale
            self._norm[start:stop] = np.sqrt((u * u).sum(axis=1))
            self._fresh[start:stop] = empty.log_predictive_block(start, stop, 1)[:, 0] - phi @ self.centre
            if keep:
                owners = self.data.row_offset + np.arange(start, stop)
                self._code[start:stop] = self._words(u, self.hash.tie_bits(owners))

        run(fill, self._blocks(), 1)    # `run` limits BLAS to one thread, so that its settings do not change bits

    def _words(self, V, ties):
        """Compute the codes of dense vectors: (m, n_words) uint64."""
        dots = V @ self.matrix.T
        bits = dots > 0
        if (dots == 0).any():
            rows = np.ascontiguousarray(np.broadcast_to(ties, bits.shape[:1] + (self.n_words,)), dtype="<u8")
            bits |= (dots == 0) & np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").astype(bool)
        return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)

    def _code_one(self, Py_ssize_t i):
        """Compute the code of one datum of a family with dense statistics."""
        u = (self.data.phi(i, i + 1) - self.mean) * self.scale
        words = []
        run(lambda: words.append(self._words(u, self.hash.tie_bits([self.data.row_offset + i]))), [()], 1)
        return words[0][0]

    def _make_codes(self):
        """Allocate the arrays of clusters; all clusters are empty."""
        self.width = self.masses.width
        self._rows = np.zeros((self.n_scalars, self.width), dtype=np.float32)
        if self.is_exact:
            heaviest = np.bincount(self.arrays[1], weights=np.rint(self.arrays[0].astype(np.float64)),
                                   minlength=self.n_features)
            # a little larger, because the last bits of NumPy's logarithm and of that in C may differ
            bound = np.log1p(heaviest * self._prior) / self.scale * (1 + 1e-9)
            self.codes = SignCodes(self.hash, self.width, bound=bound, centre=self.centre / self.scale,
                                   direction=self.mean * self.scale)
            self._grid = np.ldexp(1.0 / self.scale, self.codes.exponent)
            self.grid = <double *> address(self._grid)
            self._total = np.zeros(self.width, dtype=np.int64)
            self._record = np.zeros(self.codes.record_size(), dtype=np.uint8)
            self._kept_rows = np.zeros(self.n_scalars, dtype=np.float32)
            self.record, self.kept_rows = address(self._record), <float *> address(self._kept_rows)
        else:
            self.S = np.zeros((self.width, self.n_features))
            self._planes = np.zeros((self.n_words, self.width), dtype=np.uint64)
            self._norms = np.zeros(self.width, dtype=np.float32)
            self._slopes = np.zeros(self.width, dtype=np.float32)
        self._point()

    def _point(self):
        """Set the pointers to the arrays of clusters."""
        self.rows = <float *> address(self._rows)
        if self.is_exact:
            self.total = <int64_t *> address(self._total)
            self.planes, self.norms, self.slopes = self.codes.planes, self.codes.norms_32, self.codes.slopes_32
        else:
            self.planes = <uint64_t *> address(self._planes)
            self.norms, self.slopes = <float *> address(self._norms), <float *> address(self._slopes)
        if self.shortlist:
            self.components.reserve(self.width)
        self._set_work()

    def _widen(self):
        """Allocate a column for each mass, and copy the old columns."""
        cdef Py_ssize_t k, old = self.width
        more = self.masses.width - old
        self.width = self.masses.width
        if self._rows is None:
            if self.shortlist:
                self.components.reserve(self.width)
            self._set_work()
            return
        self._rows = np.concatenate([self._rows, np.zeros((self.n_scalars, more), dtype=np.float32)], axis=1)
        if self.is_exact:
            arrays = self.codes.to_arrays()
            empty = {"dots": 0, "squares": self.codes.empty_square, "slopes": self.codes.empty_slope}
            for name, value in empty.items():
                shape = (more, *arrays[name].shape[1:])
                arrays[name] = np.concatenate([arrays[name], np.full(shape, value, dtype=arrays[name].dtype)])
            self.codes = SignCodes.from_arrays(self.hash, arrays)
            self._total = np.concatenate([self._total, np.zeros(more, dtype=np.int64)])
        else:
            self.S = np.concatenate([self.S, np.zeros((more, self.n_features))])
            self._planes = np.concatenate([self._planes, np.zeros((self.n_words, more), dtype=np.uint64)], axis=1)
            self._norms = np.concatenate([self._norms, np.zeros(more, dtype=np.float32)])
            self._slopes = np.concatenate([self._slopes, np.zeros(more, dtype=np.float32)])
        self._point()
        if self.is_exact:
            for k in range(self.width):     # the bits of the codes are not copied
                settle(self, k)

    # -- methods for kernels --

    @property
    def pending(self):
        """Exception of a failed call of the proposal or of its components, or None."""
        return self.components.pending if self.raised is None and self.components is not None else self.raised

    @pending.setter
    def pending(self, error):
        self.raised = error
        if self.components is not None:
            self.components.pending = error

    def refresh(self, snapshot):
        """Use the statistics of a snapshot and forget all earlier ones.

        The first snapshot also sets centre, scale and temperature; see `release`.
        """
        if self.masses.set(snapshot):
            self._widen()
        self.held_datum = self.held_slot = -1
        if self.centre is None:
            self._calibrate(snapshot)
        if self._table is None:         # at first, after `release`, or after `from_arrays`
            self._make_codes()
            self._code_data()
        self._set_empties(snapshot)
        if self.is_exact:
            self._load_counts(snapshot)
        else:
            self.S[:] = 0.0
            self.S[snapshot.slots] = dense_rows(snapshot.S)
            self._recode(np.arange(self.width))
        if self.shortlist:
            self._load_components(self.components, snapshot)
        if self._table is None:
            if self.temperature is None:
                self._set_table(*self._estimate_temperature(snapshot))
            else:
                self._set_table(self.temperature, self.spread)

    def shift(self, snapshot, added, removed):
        """Update the statistics by data that were added and removed.

        Parameters
        ----------
        snapshot : Snapshot
            Snapshot after the change.
        added, removed : (rows, slots), both (m,) intp ndarray
        """
        if self._table is None:
            self.refresh(snapshot)
            return
        added, removed = (tuple(np.ascontiguousarray(a, dtype=np.intp) for a in pair) for pair in (added, removed))
        self.reserve(int(added[1].max(initial=0)) + 1)      # slots of `added` may be missing in the snapshot
        if self.masses.set(snapshot):
            self._widen()
        self._set_empties(snapshot)
        for rows, slots in (added, removed):
            if len(rows) != len(slots) or (len(slots) and not 0 <= slots.min() <= slots.max() < self.width):
                raise DataError("added and removed are rows with slots of the snapshots before and after")
        changed = np.unique(np.concatenate([added[1], removed[1]]))
        if self.is_exact:
            self._shift_counts(*added, 1)
            self._shift_counts(*removed, -1)
            self._settle(changed)
        else:
            for (rows, slots), sign in ((added, 1.0), (removed, -1.0)):
                for i, k in zip(rows, slots):
                    self.S[k] += sign * self.data.phi(i, i + 1)[0]
            self.S[changed[self.masses.n[changed] == 0]] = 0.0
            self._recode(changed)
        if self.shortlist:
            for i, k in zip(*added):
                self.components.add(i, k)
            for i, k in zip(*removed):
                self.components.remove(i, k)

    def reserve(self, Py_ssize_t n_slots):
        """Allocate memory for `n_slots` slots."""
        if self.masses.reserve(n_slots):
            self._widen()

    def release(self):
        """Let the next refresh or shift set centre, scale and temperature again, as in a warm-up."""
        self.centre = self.temperature = self._table = None
        self.table = NULL

    def to_arrays(self):
        """Return the numbers that the first snapshot has set; `refresh` makes everything else."""
        if self._table is None:
            return {}
        return {
            "centre": self.centre.copy(),
            "scale": self.scale.copy(),
            "temperature": np.array([self.temperature, self.spread]),
            "n_bound": np.array([self.n_bound], dtype=np.int64),
        }

    def from_arrays(self, arrays):
        """Restore these numbers from the arrays of `to_arrays`; a `refresh` must follow."""
        self.release()
        if not arrays:
            return
        for name in ("centre", "scale"):
            if arrays[name].shape != (self.n_features,):
                raise DataError(f"{name} has shape {arrays[name].shape}; expected ({self.n_features},)")
        centre, scale = (numbers(arrays, name, (self.n_features,)) for name in ("centre", "scale"))
        temperature, spread = numbers(arrays, "temperature", (2,), low=0.0, finite=False).tolist()
        if not 0 < temperature <= 1:
            raise ArchiveError(f"the stored temperature is {temperature}; it lies in (0, 1]: the file was altered")
        self.n_bound = int(integers(arrays, "n_bound", (1,))[0])
        self.centre, self.scale, self.temperature, self.spread = centre, scale, temperature, spread

    # -- statistics --

    def _set_empties(self, snapshot):
        self._empties = np.ascontiguousarray(
            snapshot.slots[(snapshot.n == 0) & (snapshot.log_weight > -np.inf)], dtype=np.intp
        )
        self.empties, self.n_empties = <const Py_ssize_t *> address(self._empties), len(self._empties)
        recount(self)

    def _load_counts(self, snapshot):
        cdef Py_ssize_t j, k, start, stop
        cdef const int64_t[::1] slot, bound, word
        cdef const int32_t[::1] count
        cdef BoundHash this = self
        S = sparse.csr_array(snapshot.S)
        S.sum_duplicates()
        S.eliminate_zeros()
        if S.nnz > self.pairs.mask * 4 // 5:
            raise DataError(f"the snapshot has {S.nnz} counts, more than the data have nonzeros: it is of other data")
        self._keys[:] = -1
        self.pairs.used = 0
        self._total[:] = 0
        self._total[snapshot.slots] = np.rint(S.sum(axis=1)).astype(np.int64).reshape(-1)
        for k in range(self.width):
            self.codes._clear(k)
        slot = snapshot.slots.astype(np.int64)
        bound, word = S.indptr.astype(np.int64), S.indices.astype(np.int64)
        count = np.rint(S.data).astype(np.int32)
        with nogil:
            for j in range(slot.shape[0]):
                start, stop = bound[j], bound[j + 1]
                if stop > start:
                    load_words(this, slot[j], &word[start], &count[start], stop - start)
            for k in range(this.width):
                settle(this, k)

    def _load_components(self, Components components, snapshot):
        n = np.zeros(self.width)
        n[snapshot.slots] = snapshot.n
        if sparse.issparse(snapshot.S):
            place = sparse.csr_array(
                (np.ones(len(snapshot.slots)), (snapshot.slots, np.arange(len(snapshot.slots)))),
                shape=(self.width, len(snapshot.slots)),
            )
            components.load(n, sparse.csr_array(place @ snapshot.S))
        else:
            S = np.zeros((self.width, self.n_features))
            S[snapshot.slots] = snapshot.S
            components.load(n, S)

    def _shift_counts(self, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] slots, int sign):
        cdef Py_ssize_t j, failed = -1
        cdef BoundHash this = self
        with nogil:
            for j in range(rows.shape[0]):
                if sign < 0 and not holds(this, rows[j], slots[j]):
                    failed = j
                    break
                shift_counts(this, rows[j], slots[j], sign)
        if failed >= 0:
            raise DataError(f"datum {rows[failed]} is not in slot {slots[failed]}: it cannot be removed from there")

    def _settle(self, const Py_ssize_t[::1] ks):
        cdef Py_ssize_t j
        for j in range(ks.shape[0]):
            settle(self, ks[j])

    def _recode(self, ks):
        """Compute codes, norms and scalars of clusters from their float64 sums."""
        n = self.masses.n[ks].astype(np.float64)
        live = ks[n > 0]
        self._norms[ks] = 0.0
        self._rows[0, ks] = 0.0
        rows = max(1, _BLOCK_BYTES // (8 * (self.n_features + self.hash.n_bits)))

        def fill(start, stop):
            at = live[start:stop]
            theta, g = self.family.expected_natural(self.masses.n[at].astype(np.float64), self.S[at])
            V = (theta - self.centre) / self.scale
            self._planes[:, at] = self._words(V, self._ties).T
            self._norms[at] = np.sqrt((V * V).sum(axis=1))
            self._rows[0, at] = V @ (self.mean * self.scale) - g

        run(fill, [(start, start + rows) for start in range(0, len(live), rows)], 1)

    # -- temperature --

    def _estimate_temperature(self, snapshot):
        """Estimate temperature and spread from exact predictives of some data under some clusters.

        Notes
        -----
        Let y be the part of the log predictive that codes estimate, and t their estimate, both minus their means over
        clusters. The temperature is sum y t / sum t^2; if noise is independent of y, it is the share of the variance of
        t that is not noise. The spread is the root mean square of y - temperature t for a datum of norm 1.
        """
        live = snapshot.slots[snapshot.n > 0]
        rng = generator(self.seed, "tables")
        given = None if self.settings.temperature == "auto" else self.settings.temperature
        if len(live) < 2:
            return given or _UNKNOWN, np.inf
        rows = np.sort(rng.choice(self.data.n_rows, min(self.data.n_rows, _SAMPLE), replace=False))
        ks = np.sort(rng.choice(live, min(len(live), _SAMPLE), replace=False))
        components = self.components
        if components is None:
            components = Components(self.family, self.data, self.width, layout=_layout(self.model, self.data))
            self._load_components(components, snapshot)
        exact = np.stack([components.log_predictive(i, ks) for i in rows])
        known, angle = self._parts(rows, ks)
        y, t = exact - known, angle
        y, t = y - y.mean(axis=1, keepdims=True), t - t.mean(axis=1, keepdims=True)
        share = float((y * t).sum() / (t * t).sum()) if (t * t).any() else 1.0
        temperature = given or min(max(share, 0.01), 1.0)
        square = float((self._norm[rows].astype(np.float64) ** 2).mean())
        error = float(((y - temperature * t) ** 2).mean())
        return temperature, float(np.sqrt(error / square)) if square > 0 else 0.0

    def _parts(self, rows, ks):
        """Compute the exact part and the angle part of scores: two (m, K) arrays.

        The temperature is 1, and prior weights are left out.
        """
        table = cosine_table(self.hash.n_bits)
        known, angle = np.empty((len(rows), len(ks))), np.empty((len(rows), len(ks)))
        words = np.ascontiguousarray(self._plane_view()[:, ks].T)
        norms, slopes = self._by_cluster()
        for j, i in enumerate(rows):
            r, (a, b) = self._row[i], self._share[i]
            known[j] = a * self._rows[r, ks] + b * self._rows[min(r + 1, self.n_scalars - 1), ks]
            known[j] += self._factor[i] * slopes[ks]
            h = np.unpackbits((words ^ self._code_of(i)).view(np.uint8), axis=1).sum(axis=1)
            angle[j] = self._norm[i] * norms[ks] * table[h]
        return known, angle

    def _code_of(self, Py_ssize_t i):
        """Return the code of one datum as draws use it: (n_words,) uint64."""
        cdef double[::1] work = np.zeros(self.api.work_size)
        cdef scratch s
        cdef uint64_t[::1] out
        cdef Py_ssize_t p
        cdef const uint64_t *code
        lay(self, &work[0], &s)
        code = code_of(self, i, &s)
        if code == NULL:
            raise self.pending
        words = np.empty(self.n_words, dtype=np.uint64)
        out = words
        for p in range(self.n_words):
            out[p] = code[p]
        return words

    def _plane_view(self):
        return self.codes._planes if self.is_exact else self._planes

    def _by_cluster(self):
        return (self.codes._norms_32, self.codes._slopes_32) if self.is_exact else (self._norms, self._slopes)

    def export(self):
        """Copy the parts of the scores of all columns, for tests.

        They are codes, norms, slopes, scalars, numbers of tokens and weights.
        """
        norms, slopes = self._by_cluster()
        arrays = {"planes": self._plane_view(), "norms": norms, "slopes": slopes, "rows": self._rows,
                  "bias": self.masses.bias, "n": self.masses.n}
        if self.is_exact:
            arrays |= {"dots": self.codes._dots, "squares": self.codes._squares, "total": self._total}
        return {name: np.array(values) for name, values in arrays.items()}

    # -- single moves of real-valued families --

    def _hold(self, Py_ssize_t i, Py_ssize_t k):
        self.kept = (self.S[k].copy(), self._planes[:, k].copy(), self._norms[k], self._rows[:, k].copy())
        mass_leave(&self.masses.t, k)
        # i stays in the components, which can compute the predictive of its cluster without it
        self.held_datum, self.held_slot = i, k
        self.S[k] -= self.data.phi(i, i + 1)[0]
        if self.masses.t.n[k] == 0:
            self.S[k] = 0.0
        self._recode(np.array([k]))

    def _restore(self, Py_ssize_t k):
        self.S[k], self._planes[:, k], self._norms[k], self._rows[:, k] = self.kept
        self.held_datum = self.held_slot = -1
        mass_enter(&self.masses.t, k)

    def _moved(self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target):
        if self.shortlist:
            self.components.remove(i, source)
            self.components.add(i, target)
        self.held_datum = self.held_slot = -1
        self.S[target] += self.data.phi(i, i + 1)[0]
        mass_enter(&self.masses.t, target)
        self._recode(np.array([target]))


cdef char *address(array):
    """Return the address of a contiguous array, which the caller must keep alive."""
    cdef size_t where = array.ctypes.data
    return <char *> where


# ---- counts ----------------------------------------------------------------------------------------------------------

cdef inline int32_t grid_value(BoundHash self, Py_ssize_t w, int32_t count) noexcept nogil:
    """Compute log((count + a) / a) divided by the scale, on the grid of the codes."""
    if count == 0:
        return 0
    return <int32_t> rint(self.grid[w] * expfam_log1(1.0 + count * self.inverse_prior[w]))


cdef bint holds(BoundHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Return whether cluster k has all words of datum i."""
    cdef Py_ssize_t p
    for p in range(row_start(&self.x, i), row_start(&self.x, i + 1)):
        if pair_count(&self.pairs, k * self.n_features + entry_column(&self.x, p)) < rint(entry_value(&self.x, p)):
            return False
    return self.total[k] >= self.length[i]


cdef void shift_counts(BoundHash self, Py_ssize_t i, Py_ssize_t k, int sign) noexcept nogil:
    """Add the words of datum i to cluster k, or remove them if `sign` is -1."""
    cdef int64_t words[CHUNK]
    cdef int32_t old[CHUNK]
    cdef int32_t new[CHUNK]
    cdef Py_ssize_t p, w, m = 0
    cdef int32_t step, count
    for p in range(row_start(&self.x, i), row_start(&self.x, i + 1)):
        step = sign * <int32_t> rint(entry_value(&self.x, p))
        if step == 0:
            continue
        w = entry_column(&self.x, p)
        count = pair_add(&self.pairs, k * self.n_features + w, step)
        words[m], old[m], new[m] = w, grid_value(self, w, count - step), grid_value(self, w, count)
        m += 1
        if m == CHUNK:
            self.codes.move(k, words, old, new, m)
            m = 0
    if m:
        self.codes.move(k, words, old, new, m)
    self.total[k] = self.total[k] + sign * self.length[i]


cdef void load_words(BoundHash self, Py_ssize_t k, const int64_t *words, const int32_t *counts,
                     Py_ssize_t n) noexcept nogil:
    """Give an empty cluster these words."""
    cdef int32_t old[CHUNK]
    cdef int32_t new[CHUNK]
    cdef Py_ssize_t at, m, j
    memset(old, 0, sizeof(old))
    for at in range(0, n, 64):  # 64 is CHUNK; in Cython the step must be a literal
        m = n - at if n - at < CHUNK else CHUNK
        for j in range(m):
            pair_add(&self.pairs, k * self.n_features + words[at + j], counts[at + j])
            new[j] = grid_value(self, words[at + j], counts[at + j])
        self.codes.move(k, words + at, old, new, m)


cdef void settle_code(BoundHash self, SignCodes codes, Py_ssize_t k) noexcept nogil:
    """Compute bits, norm and slope from the integers of a code."""
    cdef Py_ssize_t p, at
    # bits of exact ties must not depend on the number of the slot: q is a function of the statistics
    for p in range(self.n_words):
        at = (k * self.n_words + p) * 64
        if codes.wide:
            codes.planes[p * codes.n_padded + k] = expfam_sign_bits_64(
                (<int64_t *> codes.dots) + at, (<int64_t *> codes.centre_dots) + 64 * p, self.ties[p])
        else:
            codes.planes[p * codes.n_padded + k] = expfam_sign_bits_32(
                (<int32_t *> codes.dots) + at, (<int32_t *> codes.centre_dots) + 64 * p, self.ties[p])
    if self.masses.t.n[k] == 0:
        codes.norms_32[k] = codes.slopes_32[k] = 0.0    # an empty cluster is scored exactly, by `fresh`
    else:
        codes.norms_32[k] = <float> ldexp(sqrt(<double> codes.squares[k]), -codes.exponent)
        codes.slopes_32[k] = <float> ldexp(<double> codes.slopes[k], -codes.exponent - codes.slope_exponent)


cdef void settle(BoundHash self, Py_ssize_t k) noexcept nogil:
    """Compute the code and the tabulated scalars of a cluster from its integers."""
    cdef Py_ssize_t r
    cdef double level, value
    settle_code(self, self.codes, k)
    level = self.prior_total + self.total[k]
    if self.is_poisson:
        value = self.rate + self.masses.t.n[k]
        self.rows[k] = <float> (-level * log1p(1.0 / value))
        self.rows[self.width + k] = <float> log(value + 1.0)
        return
    for r in range(self.n_scalars):
        value = self.grid_lengths[r]
        if value > 0:
            value = expfam_log_rising1(level, value, 16 if level < 16 else 0)
        self.rows[r * self.width + k] = <float> value


cdef int hash_hold_out(BoundHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t r
    cdef int code
    if not 0 <= k < self.width or self.masses.t.n[k] < 1 or not holds(self, i, k):
        return EXPFAM_RANGE
    if self.shortlist:
        code = self.components.c.remove(self.components.c.self, i, k)
        if code:
            return code
    self.codes.save(k, self.record)
    for r in range(self.n_scalars):
        self.kept_rows[r] = self.rows[r * self.width + k]
    self.held_datum, self.held_slot = i, k
    mass_leave(&self.masses.t, k)
    shift_counts(self, i, k, -1)
    settle(self, k)
    recount(self)
    return EXPFAM_OK


cdef int hash_restore(BoundHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t p, r
    cdef int32_t step
    cdef int code
    if self.held_datum != i or self.held_slot != k:
        return EXPFAM_RANGE
    if self.shortlist:
        code = self.components.c.add(self.components.c.self, i, k)
        if code:
            return code
    for p in range(row_start(&self.x, i), row_start(&self.x, i + 1)):
        step = <int32_t> rint(entry_value(&self.x, p))
        if step:
            pair_add(&self.pairs, k * self.n_features + entry_column(&self.x, p), step)
    self.total[k] = self.total[k] + self.length[i]
    self.codes.restore(k, self.record)
    for r in range(self.n_scalars):
        self.rows[r * self.width + k] = self.kept_rows[r]
    mass_enter(&self.masses.t, k)
    self.held_datum = self.held_slot = -1
    recount(self)
    return EXPFAM_OK


cdef int hash_moved(BoundHash self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
    cdef int code
    if self.held_datum != i or self.held_slot != source or not 0 <= target < self.width:
        return EXPFAM_RANGE
    if self.shortlist:
        code = self.components.c.add(self.components.c.self, i, target)
        if code:
            return code
    mass_enter(&self.masses.t, target)
    shift_counts(self, i, target, 1)
    settle(self, target)
    self.held_datum = self.held_slot = -1
    recount(self)
    return EXPFAM_OK


# ---- single moves of real-valued families: with the gil, an exception is kept in `pending` ---------------------------

cdef int dense_hold_out(BoundHash self, Py_ssize_t i, Py_ssize_t k) noexcept with gil:
    if not 0 <= k < self.width or self.masses.t.n[k] < 1:
        return EXPFAM_RANGE
    try:
        self._hold(i, k)
        recount(self)
    except BaseException as error:      # interrupts too; the driver raises the error later
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef int dense_restore(BoundHash self, Py_ssize_t i, Py_ssize_t k) noexcept with gil:
    if self.held_datum != i or self.held_slot != k:
        return EXPFAM_RANGE
    try:
        self._restore(k)
        recount(self)
    except BaseException as error:
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef int dense_moved(BoundHash self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept with gil:
    if self.held_datum != i or self.held_slot != source or not 0 <= target < self.width:
        return EXPFAM_RANGE
    try:
        self._moved(i, source, target)
        recount(self)
    except BaseException as error:
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef const uint64_t *code_with_gil(BoundHash self, Py_ssize_t i, uint64_t *out) noexcept with gil:
    """Compute the code of a datum with dense statistics; return NULL if it fails."""
    cdef const uint64_t[::1] words
    cdef Py_ssize_t p
    try:
        words = self._code_one(i)
        for p in range(self.n_words):
            out[p] = words[p]
    except BaseException as error:
        self.raised = error
        return NULL
    return out


# ---- the draw --------------------------------------------------------------------------------------------------------

cdef Py_ssize_t lay(BoundHash self, double *work, scratch *s) noexcept nogil:
    """Divide a work buffer; return its size in doubles, without the part of the components."""
    cdef scratch local
    cdef Py_ssize_t half = self.width // 2, bits = 64 * self.n_words, at = 0
    if s == NULL:
        s = &local
    s.score = <float *> (work + at)
    at += half
    s.bias = <float *> (work + at)
    at += half
    s.top_work = <float *> (work + at)
    at += top_work_size(self.width) // 2 + 1
    s.sums = <float *> (work + at)
    at += self.width // 64
    s.top = <float *> (work + at)
    at += self.shortlist // 2 + 1
    s.top_at = <int32_t *> (work + at)
    at += self.shortlist // 2 + 1
    s.ks = <Py_ssize_t *> (work + at)
    at += self.width
    s.w = work + at
    at += self.width
    s.code = <uint64_t *> (work + at)
    at += self.n_words
    s.dots = work + at
    at += bits
    s.values = work + at
    at += self.longest
    s.columns = <int64_t *> (work + at)
    at += self.longest
    s.inner = work + at
    s.total = 0.0
    return at


cdef void recount(BoundHash self) noexcept nogil:
    """Count the columns that can be proposed."""
    cdef const float *bias = self.masses.t.bias
    cdef Py_ssize_t j, k, new = self.masses.t.new_column
    cdef Py_ssize_t n = self.masses.t.n_live + (bias[new] > -INFINITY)
    for j in range(self.n_empties):
        k = self.empties[j]
        if k != new and self.masses.t.n[k] == 0 and bias[k] > -INFINITY:
            n += 1
    self.n_open = n     # not in place: with checks this would need the gil


cdef const uint64_t *code_of(BoundHash self, Py_ssize_t i, scratch *s) noexcept nogil:
    """Return the code of a datum; compute it if codes are not kept."""
    cdef Py_ssize_t start, n, p, j, bits = 64 * self.n_words
    cdef double against[64]
    cdef int64_t row
    if self.code != NULL:
        return self.code + i * self.n_words
    if not self.is_exact:
        return code_with_gil(self, i, s.code)
    start = row_start(&self.x, i)
    n = row_start(&self.x, i + 1) - start
    for p in range(n):
        s.values[p], s.columns[p] = self.phi[start + p], entry_column(&self.x, start + p)
    memset(s.dots, 0, bits * sizeof(double))
    if n:
        self.hash.add_real(s.columns, s.values, n, s.dots)
    row = self.first_row + i
    for p in range(self.n_words):
        for j in range(64):
            against[j] = <double> self.multiple[i] * self.mean_dots[64 * p + j]
        s.code[p] = expfam_sign_bits_real(s.dots + 64 * p, against, self.hash.tie_word(row, p))
    return s.code


cdef int score_all(BoundHash self, Py_ssize_t i, scratch *s, float *best) noexcept nogil:
    """Compute the scores of all columns by codes."""
    cdef Py_ssize_t n = self.masses.t.n_columns, new = self.masses.t.new_column, j, k
    cdef const float *prior = self.masses.t.bias
    cdef const float *first = self.rows + self.row[i] * self.width
    cdef const float *second = first + self.width if self.row[i] + 1 < self.n_scalars else first
    cdef float a = self.share[2 * i], b = self.share[2 * i + 1]
    cdef const uint64_t *code = code_of(self, i, s)
    if code == NULL:
        return EXPFAM_PYTHON
    for k in range(n):
        s.bias[k] = prior[k] + (a * first[k] + b * second[k])
    s.bias[new] += self.fresh[i]
    for j in range(self.n_empties):
        k = self.empties[j]
        if k != new and self.masses.t.n[k] == 0:
            s.bias[k] += self.fresh[i]
    best[0] = expfam_sign_scores(self.planes, self.width, code, self.n_words, self.table, self.norms, self.norm[i],
                                 self.slopes, self.factor[i], s.bias, s.score, n)
    return EXPFAM_OK if -3.4e38 < best[0] < 3.4e38 else EXPFAM_NUMERICAL


cdef Py_ssize_t shortlist(BoundHash self, Py_ssize_t i, scratch *s, float best) noexcept nogil:
    """List the columns whose score lies within a gap below the best; return their number.

    The gap shrinks until the list is short enough.
    """
    cdef Py_ssize_t n = self.masses.t.n_columns, new = self.masses.t.new_column, m = 0, j, above = 0
    cdef Py_ssize_t keep = self.shortlist if self.shortlist < n else n
    cdef float low = best - _SLACK - _DEVIATIONS * self.spread * self.norm[i] if self.norm[i] > 0 else best - _SLACK
    cdef float last
    top_row(<const float *> s.score, n, keep, s.top, s.top_at, s.top_work)
    while m < keep and s.top[m] >= low and s.top[m] > -INFINITY:
        m += 1
    if m == keep and keep < n:
        last = s.top[keep - 1]
        for j in range(n):
            above += s.score[j] >= last
        if above > keep:            # leave out all equal scores: the choice among them would depend on the slots
            while m > 0 and s.top[m - 1] == last:
                m -= 1
    for j in range(m):
        s.ks[j] = s.top_at[j]
    if m == 0:                      # more columns than fit have the best score: list them all
        for j in range(n):
            if s.score[j] == best:
                s.ks[m] = j
                m += 1
    if self.masses.t.bias[new] > -INFINITY:
        for j in range(m):
            if s.ks[j] == new:
                return m
        s.ks[m] = new
        m += 1
    return m


cdef int rank(BoundHash self, Py_ssize_t i, scratch *s, Py_ssize_t m) noexcept nogil:
    """Compute the weights of the candidates by their exact predictives."""
    cdef Py_ssize_t j
    cdef double best = -INFINITY
    cdef int code = self.components.c.log_predictive(self.components.c.self, i, s.ks, m, s.w, s.inner)
    if code == EXPFAM_OK and not self.is_exact and i == self.held_datum:    # still in the components
        for j in range(m):
            if s.ks[j] == self.held_slot:
                code = self.components.c.log_predictive_self(self.components.c.self, i, s.ks[j], s.w + j, s.inner)
    if code:
        return code
    for j in range(m):
        s.w[j] += self.masses.t.bias[s.ks[j]]
        if s.w[j] > best:
            best = s.w[j]
    s.total = 0.0
    for j in range(m):
        s.w[j] = expfam_exp1(max(s.w[j] - best, -80.0))
        s.total += s.w[j]
    return EXPFAM_OK if 0 < s.total < INFINITY else EXPFAM_NUMERICAL


cdef int weigh(BoundHash self, Py_ssize_t i, scratch *s, Py_ssize_t *m) noexcept nogil:
    """Compute the law of the draw for datum i: weights of all columns or of m candidates."""
    cdef float best = 0.0
    cdef int code
    code = score_all(self, i, s, &best)
    if code:
        return code
    if self.shortlist:
        m[0] = shortlist(self, i, s, best)
        return rank(self, i, s, m[0])
    s.total = expfam_sign_weights(s.score, best, s.sums, (self.masses.t.n_columns + 63) // 64)
    return EXPFAM_OK if 0 < s.total < 1e300 else EXPFAM_NUMERICAL


cdef double probability(BoundHash self, const scratch *s, Py_ssize_t m, Py_ssize_t k) noexcept nogil:
    """Return the probability of column k; 0 if it cannot be proposed."""
    cdef Py_ssize_t j
    if not 0 <= k < self.masses.t.n_columns or not self.masses.t.bias[k] > -INFINITY:
        return 0.0
    if not self.shortlist:
        return s.score[k] / s.total
    for j in range(m):
        if s.ks[j] == k:
            return self.floor / self.n_open + (1.0 - self.floor) * s.w[j] / s.total
    return self.floor / self.n_open


cdef Py_ssize_t pick(BoundHash self, const scratch *s, Py_ssize_t m, double u) noexcept nogil:
    """Draw a column by one uniform number u in [0, 1)."""
    cdef Py_ssize_t j, k = -1, left
    if not self.shortlist:
        return expfam_sign_pick(s.score, s.sums, s.total, u, self.masses.t.n_columns)
    if u < self.floor:
        left = min(<Py_ssize_t> (u / self.floor * self.n_open), self.n_open - 1)
        while left >= 0:            # n_open columns have a finite weight
            k += 1
            left -= self.masses.t.bias[k] > -INFINITY
        return k
    u = (u - self.floor) / (1.0 - self.floor) * s.total
    for j in range(m - 1):
        if u < s.w[j]:
            return s.ks[j]
        u -= s.w[j]
    return s.ks[m - 1]


cdef int hash_draw(BoundHash self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                   double *work) noexcept nogil:
    cdef scratch s
    cdef Py_ssize_t new = self.masses.t.new_column, old = new if k_old == EXPFAM_NEW else k_old, k, m = 0
    cdef double q_old
    cdef int code
    if self.table == NULL:
        return EXPFAM_RANGE
    lay(self, work, &s)
    code = weigh(self, i, &s, &m)
    if code:
        return code
    q_old = probability(self, &s, m, old)
    if q_old == 0.0:
        return EXPFAM_RANGE
    k = pick(self, &s, m, rng.next_double(rng.state))
    log_back[0] = 0.0 if k == old else log(q_old) - log(probability(self, &s, m, k))
    k_new[0] = EXPFAM_NEW if k == new else k
    return EXPFAM_OK


cdef int hash_log_prob(BoundHash self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t n, double *out,
                       double *work) noexcept nogil:
    cdef scratch s
    cdef Py_ssize_t j, m = 0
    cdef double q
    cdef int code
    if self.table == NULL:
        return EXPFAM_RANGE
    lay(self, work, &s)
    code = weigh(self, i, &s, &m)
    if code:
        return code
    for j in range(n):
        q = probability(self, &s, m, self.masses.t.new_column if ks[j] == EXPFAM_NEW else ks[j])
        out[j] = log(q) if q > 0 else -INFINITY
    return EXPFAM_OK
