"""Bound hash proposal of counts: codes that depend only on integers.

Every sequence of shifts and single moves gives the same bits as a refresh.
"""

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from cython cimport final
from libc.math cimport ldexp, log, log1p, rint, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_OK, EXPFAM_RANGE
from expfam.families.rows cimport csr_rows, entry_column, entry_value, open_rows, row_start
from expfam.samplers.proposals._hash cimport BoundHash, address, moved_t, recount, scratch, single_t
from expfam.samplers.proposals.masses cimport mass_enter, mass_leave
from expfam.structures.hashing.sign_codes cimport SignCodes
from expfam.structures.hashing.pair_counts cimport PairCounts, pair_add, pair_count
from expfam.structures.simd.elementary cimport expfam_log1, expfam_log_rising1
from expfam.structures.simd.sign_codes cimport expfam_sign_bits_32, expfam_sign_bits_64, expfam_sign_bits_real

from expfam.errors import DataError

cdef enum:
    CHUNK = 64                  # words of a datum that are moved together

LENGTHS = 32                    # largest number of lengths at which a cluster's length term is tabulated
_REPEATS = 30                   # largest count for which the weight of a repeated word is fitted


def _repeat_weights(counts, a):
    """Compute kappa of each count: the number of single words with the same log predictive."""
    n = np.arange(1, _REPEATS + 1)[:, None]
    once = np.log1p(n / a)
    often = gammaln(n + a + counts) - gammaln(n + a) - (gammaln(a + counts) - gammaln(a))
    weight = (often * once / n).sum(axis=0) / (once * once / n).sum()
    return np.where(counts == 1, 1.0, weight)


@final
cdef class CountHash(BoundHash):
    """A bound `HashProposal` of counts.

    Its codes are made from integers, so single moves and shifts need no gil and lose no precision.
    """

    cdef object lengths
    cdef int64_t *length                # (N,) number of tokens
    cdef SignCodes codes
    cdef PairCounts pairs               # counts by key k D + w, of cluster k and word w
    cdef csr_rows x
    cdef object arrays, _prior, _grid, _grid_lengths, _record, _kept_rows, _total
    cdef object _phi, _scaled, _multiple, _mean_dots
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

    def _open(self):
        """Open the rows of counts and the table of pairs; compute what depends only on the data."""
        self.is_exact, self.first_row = True, self.data.row_offset
        X = self.data.X if sparse.issparse(self.data.X) else sparse.csr_array(self.data.X)
        values, columns, starts = (np.ascontiguousarray(a) for a in (X.data, X.indices, X.indptr))
        self.arrays = (values, columns, starts)
        open_rows(&self.x, values, columns, starts)
        self.longest = int(np.diff(starts).max(initial=0))
        self.pairs = PairCounts(len(values))
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
            if len(grid) > LENGTHS:
                inner = np.geomspace(max(grid[0], 1.0), grid.max(), LENGTHS - 1)
                inner[0], inner[inner.shape[0] - 1] = max(grid[0], 1.0), grid.max()
                grid = np.unique(np.concatenate([grid[:1], inner]))
            place = np.clip(np.searchsorted(grid, self.lengths, side="right") - 1, 0, max(len(grid) - 2, 0))
            step = (self.lengths - grid[place]) / np.diff(grid, append=grid.max() + 1.0)[place]
            self._row[:] = place
            self._share[:, 0], self._share[:, 1] = step - 1.0, -step
        self._grid_lengths, self.n_scalars = grid, len(grid)
        self.grid_lengths = <double *> address(self._grid_lengths)
        self.row, self.share = <int32_t *> address(self._row), <float *> address(self._share)

    def _set_moves(self):
        self.api.hold_out = <single_t> <void *> hash_hold_out
        self.api.restore = <single_t> <void *> hash_restore
        self.api.moved = <moved_t> <void *> hash_moved

    def _moments(self, snapshot, used):
        clusters = max(len(used), 1)
        S = sparse.csr_array(snapshot.S)[used]
        S.sum_duplicates()
        d = np.log1p(S.data * self._prior[S.indices])
        first = np.bincount(S.indices, weights=d, minlength=self.n_features)
        second = np.bincount(S.indices, weights=d * d, minlength=self.n_features)
        square = np.bincount(self.arrays[1], weights=self._phi**2, minlength=self.n_features)
        centre = first / clusters
        return centre, np.maximum(second / clusters - centre**2, 0.0), square

    def _fill_codes(self, keep):
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

    def _make_clusters(self):
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

    def _point(self):
        self.total = <int64_t *> address(self._total)
        self.planes, self.norms, self.slopes = self.codes.planes, self.codes.norms_32, self.codes.slopes_32
        BoundHash._point(self)

    def _add_columns(self, more):
        cdef Py_ssize_t k
        arrays = self.codes.to_arrays()
        empty = {"dots": 0, "squares": self.codes.empty_square, "slopes": self.codes.empty_slope}
        for name, value in empty.items():
            shape = (more, *arrays[name].shape[1:])
            arrays[name] = np.concatenate([arrays[name], np.full(shape, value, dtype=arrays[name].dtype)])
        self.codes = SignCodes.from_arrays(self.hash, arrays)
        self._total = np.concatenate([self._total, np.zeros(more, dtype=np.int64)])
        self._point()
        for k in range(self.width):     # the bits of the codes are not copied
            settle(self, k)

    def _load(self, snapshot):
        cdef Py_ssize_t j, k, start, stop
        cdef const int64_t[::1] slot, bound, word
        cdef const int32_t[::1] count
        cdef CountHash this = self
        S = sparse.csr_array(snapshot.S)
        S.sum_duplicates()
        S.eliminate_zeros()
        if S.nnz > self.pairs.t.mask * 4 // 5:
            raise DataError(
                f"the snapshot has {counted(S.nnz, 'count')}, more than the data have nonzeros: it is of other data"
            )
        self.pairs.clear()
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

    def _shift(self, added, removed, changed):
        self._shift_counts(*added, 1)
        self._shift_counts(*removed, -1)
        self._settle(changed)

    def _shift_counts(self, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] slots, int sign):
        cdef Py_ssize_t j, failed = -1
        cdef CountHash this = self
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

    def _plane_view(self):
        return self.codes._planes

    def _by_cluster(self):
        return self.codes._norms_32, self.codes._slopes_32

    def export(self):
        """Copy the parts of the scores of all columns, the integers of the codes among them."""
        more = {"dots": self.codes._dots, "squares": self.codes._squares, "total": self._total}
        return BoundHash.export(self) | {name: np.array(values) for name, values in more.items()}

    cdef const uint64_t *make_code(self, Py_ssize_t i, scratch *s) noexcept nogil:
        """Compute the code of a datum from its counts."""
        cdef Py_ssize_t start, n, p, j, bits = 64 * self.n_words
        cdef double against[64]
        cdef int64_t row
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


cdef inline int32_t grid_value(CountHash self, Py_ssize_t w, int32_t count) noexcept nogil:
    """Compute log((count + a) / a) divided by the scale, on the grid of the codes."""
    if count == 0:
        return 0
    return <int32_t> rint(self.grid[w] * expfam_log1(1.0 + count * self.inverse_prior[w]))


cdef bint holds(CountHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Return whether cluster k has all words of datum i."""
    cdef Py_ssize_t p
    for p in range(row_start(&self.x, i), row_start(&self.x, i + 1)):
        if pair_count(&self.pairs.t, k * self.n_features + entry_column(&self.x, p)) < rint(entry_value(&self.x, p)):
            return False
    return self.total[k] >= self.length[i]


cdef void shift_counts(CountHash self, Py_ssize_t i, Py_ssize_t k, int sign) noexcept nogil:
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
        count = pair_add(&self.pairs.t, k * self.n_features + w, step)
        words[m], old[m], new[m] = w, grid_value(self, w, count - step), grid_value(self, w, count)
        m += 1
        if m == CHUNK:
            self.codes.move(k, words, old, new, m)
            m = 0
    if m:
        self.codes.move(k, words, old, new, m)
    self.total[k] = self.total[k] + sign * self.length[i]


cdef void load_words(CountHash self, Py_ssize_t k, const int64_t *words, const int32_t *counts,
                     Py_ssize_t n) noexcept nogil:
    """Give an empty cluster these words."""
    cdef int32_t old[CHUNK]
    cdef int32_t new[CHUNK]
    cdef Py_ssize_t at, m, j
    memset(old, 0, sizeof(old))
    for at in range(0, n, 64):  # 64 is CHUNK; in Cython the step must be a literal
        m = n - at if n - at < CHUNK else CHUNK
        for j in range(m):
            pair_add(&self.pairs.t, k * self.n_features + words[at + j], counts[at + j])
            new[j] = grid_value(self, words[at + j], counts[at + j])
        self.codes.move(k, words + at, old, new, m)


cdef void settle_code(CountHash self, SignCodes codes, Py_ssize_t k) noexcept nogil:
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


cdef void settle(CountHash self, Py_ssize_t k) noexcept nogil:
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


cdef int hash_hold_out(CountHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
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


cdef int hash_restore(CountHash self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
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
            pair_add(&self.pairs.t, k * self.n_features + entry_column(&self.x, p), step)
    self.total[k] = self.total[k] + self.length[i]
    self.codes.restore(k, self.record)
    for r in range(self.n_scalars):
        self.rows[r * self.width + k] = self.kept_rows[r]
    mass_enter(&self.masses.t, k)
    self.held_datum = self.held_slot = -1
    recount(self)
    return EXPFAM_OK


cdef int hash_moved(CountHash self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
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
