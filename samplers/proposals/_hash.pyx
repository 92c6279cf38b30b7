"""Bound hash proposals: scores of all clusters by codes, the shortlist, and the draw.

The codes of counts are in `_hash_counts`, those of real-valued data in `_hash_real`. See `hash` for the law.
"""

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t, uint64_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport (
    EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_NEW, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, proposal_v1,
)
from expfam.families.components cimport Components
from expfam.samplers.proposals.masses cimport Masses
from expfam.structures.hashing.sign_hash cimport SignHash
from expfam.structures.simd.elementary cimport expfam_exp1
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks, expfam_float_pick
from expfam.structures.simd.hamming cimport expfam_sign_scores
from expfam.structures.selection.top_l cimport top_row, top_work_size

from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers
from expfam.structures.hashing.angle_bounds import cosine_table

_SAMPLE = 256                   # number of data, and of clusters, from which the temperature is estimated
_TABLE_BYTES = 1 << 30          # a larger table of counts is replaced by lists of present words
_DELTA = 0.01                   # error probability of a bound
_BALANCE = 20.0                 # scales lie within this factor about their geometric mean
_UNKNOWN = 0.25                 # temperature with fewer than two clusters, too few for an estimate
cdef float _SLACK = 10.0        # scores this many nats below the best one always get an exact score,
cdef float _DEVIATIONS = 3.0    # and so do scores within this number of standard deviations of their error

ctypedef int (*draw_t)(void *, Py_ssize_t, Py_ssize_t, bitgen_t *, Py_ssize_t *, double *, double *) noexcept nogil
ctypedef int (*log_prob_t)(void *, Py_ssize_t, Py_ssize_t, const Py_ssize_t *, Py_ssize_t, double *,
                           double *) noexcept nogil


def layout(model, data):
    """Return the layout of the components.

    It is "features", a table of words by clusters, while this table is not too large; otherwise it is "clusters", lists
    of the words present.
    """
    most = min(data.n_rows, model.weights.max_components or 1024)
    return "features" if 4 * most * data.n_statistics <= _TABLE_BYTES else "clusters"


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

    def __init__(self, settings, model, data, *, seed):
        family = data.family
        if data.weight is not None:
            raise CapabilityError("HashProposal serves collapsed kernels, which refuse sample_weight")
        self.settings, self.model, self.family, self.data, self.seed = settings, model, family, data, int(seed)
        self.hash = SignHash(settings.n_bits, entries=settings.entries, seed=self.seed)
        self.n_words, self.n_features = self.hash.n_words, data.n_statistics
        self.shortlist, self.floor = settings.shortlist, settings.floor
        self.masses = Masses(model.weights, data.n_rows)
        self.width = self.masses.width
        self._ties = self.hash.tie_bits([-1])[0]
        self.ties = <uint64_t *> address(self._ties)
        self.components = None
        if self.shortlist:
            self.components = Components(family, data, self.width, layout=layout(model, data))
        self.held_datum = self.held_slot = -1
        self.n_threads = 1
        self._open()
        self._set_api()

    # -- what depends on the kind of data --

    def _open(self):
        """Set `is_exact`, and compute what depends only on the data."""
        raise NotImplementedError

    def _set_moves(self):
        """Set the functions for single moves."""
        raise NotImplementedError

    def _moments(self, snapshot, used):
        """Return centre and variance of the clusters' parameters, and sums of squares of the data.

        Each is an (F,) array; only the clusters `used` count.
        """
        raise NotImplementedError

    def _fill_codes(self, keep):
        """Compute norms and scalars of all data; if `keep`, also their codes."""
        raise NotImplementedError

    def _make_clusters(self):
        """Allocate the arrays of empty clusters that depend on the kind of data."""
        raise NotImplementedError

    def _add_columns(self, more):
        """Add `more` empty clusters to these arrays, and set the pointers to all arrays."""
        raise NotImplementedError

    def _load(self, snapshot):
        """Compute all codes from the statistics of a snapshot."""
        raise NotImplementedError

    def _shift(self, added, removed, changed):
        """Add and remove data, and compute the codes of the `changed` slots."""
        raise NotImplementedError

    def _plane_view(self):
        """Return the codes of the clusters: (n_words, width) uint64."""
        raise NotImplementedError

    def _by_cluster(self):
        """Return norms and slopes: two (width,) arrays."""
        raise NotImplementedError

    cdef const uint64_t *make_code(self, Py_ssize_t i, scratch *s) noexcept nogil:
        """Compute the code of a datum; return NULL if it fails."""
        return NULL

    # -- memory --

    def _set_api(self):
        gil = self.shortlist and self.components.needs_gil
        keep = self.data.n_rows * self.n_words * 8 <= self.settings.memory_limit
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(proposal_v1)
        self.api.flags = EXPFAM_NEEDS_GIL if gil or not (keep or self.is_exact) else 0
        self.api.self = <void *> self
        # in C the owner is a pointer; functions that take it as a typed object can use it without the gil
        self.api.draw = <draw_t> <void *> hash_draw
        self.api.log_prob = <log_prob_t> <void *> hash_log_prob
        self._set_moves()
        self._set_work()
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def _set_work(self):
        self.api.work_size = lay(self, NULL, NULL)
        if self.shortlist:
            self.api.work_size += self.components.c.work_size

    def _make_codes(self):
        """Allocate the arrays of clusters; all clusters are empty."""
        self.width = self.masses.width
        self._rows = np.zeros((self.n_scalars, self.width), dtype=np.float32)
        self._make_clusters()
        self._point()

    def _point(self):
        """Set the pointers to the arrays of clusters."""
        self.rows = <float *> address(self._rows)
        if self.shortlist:
            self.components.reserve(self.width)
        self._set_work()

    def _widen(self):
        """Allocate a column for each mass, and copy the old columns."""
        more = self.masses.width - self.width
        self.width = self.masses.width
        if self._rows is None:
            if self.shortlist:
                self.components.reserve(self.width)
            self._set_work()
            return
        self._rows = np.concatenate([self._rows, np.zeros((self.n_scalars, more), dtype=np.float32)], axis=1)
        self._add_columns(more)

    # -- numbers that the first snapshot sets --

    def _calibrate(self, snapshot):
        """Compute centre and scale from a snapshot."""
        used = np.flatnonzero(snapshot.n > 0)
        self.centre, variance, square = self._moments(snapshot, used)
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
        self._fill_codes(keep)
        self.code = <uint64_t *> address(self._code) if keep else NULL
        self.norm, self.factor = <float *> address(self._norm), <float *> address(self._factor)
        self.fresh = <float *> address(self._fresh)

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
        self._load(snapshot)
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
        self._shift(added, removed, changed)
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
            components = Components(self.family, self.data, self.width, layout=layout(self.model, self.data))
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

    def export(self):
        """Copy the parts of the scores of all columns, for tests.

        They are codes, norms, slopes, scalars, numbers of tokens and weights.
        """
        norms, slopes = self._by_cluster()
        arrays = {"planes": self._plane_view(), "norms": norms, "slopes": slopes, "rows": self._rows,
                  "bias": self.masses.bias, "n": self.masses.n}
        return {name: np.array(values) for name, values in arrays.items()}


cdef char *address(array):
    """Return the address of a contiguous array, which the caller must keep alive."""
    cdef size_t where = array.ctypes.data
    return <char *> where


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


cdef inline const uint64_t *code_of(BoundHash self, Py_ssize_t i, scratch *s) noexcept nogil:
    """Return the code of a datum; compute it if codes are not kept."""
    if self.code != NULL:
        return self.code + i * self.n_words
    return self.make_code(i, s)


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
    s.total = expfam_float_exp_blocks(s.score, best, s.sums, (self.masses.t.n_columns + 63) // 64)
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
        return expfam_float_pick(s.score, s.sums, s.total, u, self.masses.t.n_columns)
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
