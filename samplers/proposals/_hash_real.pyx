"""Bound hash proposal of real-valued data: codes from float64 sums.

The codes of changed clusters are computed again. Fractional counts are coded here too.
"""

import numpy as np

from cython cimport final
from libc.stdint cimport int32_t, uint64_t

from expfam.contracts cimport EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE
from expfam.families.components cimport Components
from expfam.families.natural cimport NaturalLaw
from expfam.families.row_statistics cimport RowStatistics
from expfam.samplers.proposals._hash cimport BoundHash, address, moved_t, recount, scratch, single_t
from expfam.samplers.proposals.masses cimport mass_enter, mass_leave

from expfam.families.natural import natural_law_of
from expfam.families.support import dense_rows
from expfam.structures.ground.threads import run

FEW = 8                         # clusters for which a call of C for each costs less than one of NumPy
BLOCK_BYTES = 1 << 25           # statistics and dot products of a block of rows


@final
cdef class RealHash(BoundHash):
    """A bound `HashProposal` of real-valued data."""

    cdef object _planes, _norms, _slopes
    cdef object S, matrix, kept
    cdef NaturalLaw law
    cdef RowStatistics statistics       # of the rows of the data

    def _open(self):
        F, N = self.n_features, self.data.n_rows
        self.family.expected_natural(np.zeros(1), np.zeros((1, F)))     # a family without it raises an error here
        self.law = natural_law_of(self.family)
        components = Components(self.family, self.data, 1) if self.components is None else self.components
        self.statistics = RowStatistics(components.owner, self.data)
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
        rows = max(1, BLOCK_BYTES // (8 * (self.n_features + self.hash.n_bits)))
        return [(start, min(start + rows, self.data.n_rows)) for start in range(0, self.data.n_rows, rows)]

    def _set_moves(self):
        self.api.hold_out = <single_t> <void *> dense_hold_out
        self.api.restore = <single_t> <void *> dense_restore
        self.api.moved = <moved_t> <void *> dense_moved

    def _moments(self, snapshot, used):
        n, S = snapshot.n[used], dense_rows(snapshot.S)[used]
        if len(used) == 0:
            n, S = np.zeros(1), np.zeros((1, self.n_features))
        theta = self.family.expected_natural(n, S)[0]
        centre = theta.mean(axis=0)
        about = theta - centre
        square = np.zeros(self.n_features)
        for start, stop in self._blocks():
            square += ((self.data.phi(start, stop) - self.mean) ** 2).sum(axis=0)
        return centre, (about * about).sum(axis=0) / max(len(used), 1), square

    def _fill_codes(self, keep):
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

    def _make_clusters(self):
        self.S = np.zeros((self.width, self.n_features))
        self._planes = np.zeros((self.n_words, self.width), dtype=np.uint64)
        self._norms = np.zeros(self.width, dtype=np.float32)
        self._slopes = np.zeros(self.width, dtype=np.float32)

    def _point(self):
        self.planes = <uint64_t *> address(self._planes)
        self.norms, self.slopes = <float *> address(self._norms), <float *> address(self._slopes)
        BoundHash._point(self)

    def _add_columns(self, more):
        self.S = np.concatenate([self.S, np.zeros((more, self.n_features))])
        self._planes = np.concatenate([self._planes, np.zeros((self.n_words, more), dtype=np.uint64)], axis=1)
        self._norms = np.concatenate([self._norms, np.zeros(more, dtype=np.float32)])
        self._slopes = np.concatenate([self._slopes, np.zeros(more, dtype=np.float32)])
        self._point()

    def _load(self, snapshot):
        self.S[:] = 0.0
        self.S[snapshot.slots] = dense_rows(snapshot.S)
        self._recode(np.arange(self.width))

    def _shift(self, added, removed, changed):
        for (rows, slots), sign in ((added, 1.0), (removed, -1.0)):
            for i, k in zip(rows, slots):
                self._add(i, k, sign)
        self.S[changed[self.masses.n[changed] == 0]] = 0.0
        self._recode(changed)

    def _recode(self, ks):
        """Compute codes, norms and scalars of clusters from their float64 sums."""
        n = self.masses.n[ks].astype(np.float64)
        live = ks[n > 0]
        self._norms[ks] = 0.0
        self._rows[0, ks] = 0.0
        rows = max(1, BLOCK_BYTES // (8 * (self.n_features + self.hash.n_bits)))

        def fill(start, stop):
            at = live[start:stop]
            theta, g = self._natural(at)
            V = (theta - self.centre) / self.scale
            self._planes[:, at] = self._words(V, self._ties).T
            self._norms[at] = np.sqrt((V * V).sum(axis=1))
            self._rows[0, at] = V @ (self.mean * self.scale) - g

        run(fill, [(start, start + rows) for start in range(0, len(live), rows)], 1)

    def _natural(self, at):
        """Compute theta (m, F) and g (m,) of clusters.

        Those of few clusters are computed in C, if the law of the family is compiled.
        """
        n = self.masses.n[at].astype(np.float64)
        if not self.law.is_compiled or len(at) > FEW:
            return self.family.expected_natural(n, self.S[at])
        pairs = [self.law(count, S) for count, S in zip(n, self.S[at])]
        return np.array([theta for theta, _ in pairs]), np.array([g for _, g in pairs])

    def _add(self, Py_ssize_t i, Py_ssize_t k, double sign):
        """Add a datum to the sums of a cluster, or subtract it if `sign` is -1."""
        cdef double[:, ::1] S = self.S
        if self.statistics.c.add(self.statistics.c.self, i, sign, &S[k, 0]):
            error, self.statistics.pending = self.statistics.pending, None
            raise error

    def _plane_view(self):
        return self._planes

    def _by_cluster(self):
        return self._norms, self._slopes

    # -- single moves --

    def _hold(self, Py_ssize_t i, Py_ssize_t k):
        self.kept = (self.S[k].copy(), self._planes[:, k].copy(), self._norms[k], self._rows[:, k].copy())
        mass_leave(&self.masses.t, k)
        # i stays in the components, which can compute the predictive of its cluster without it
        self.held_datum, self.held_slot = i, k
        self._add(i, k, -1.0)
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
        self._add(i, target, 1.0)
        mass_enter(&self.masses.t, target)
        self._recode(np.array([target]))

    cdef const uint64_t *make_code(self, Py_ssize_t i, scratch *s) noexcept nogil:
        return code_with_gil(self, i, s.code)


# ---- calls from C: with the gil, an exception is kept in `pending` ---------------------------------------------------

cdef int dense_hold_out(RealHash self, Py_ssize_t i, Py_ssize_t k) noexcept with gil:
    if not 0 <= k < self.width or self.masses.t.n[k] < 1:
        return EXPFAM_RANGE
    try:
        self._hold(i, k)
        recount(self)
    except BaseException as error:      # interrupts too; the driver raises the error later
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef int dense_restore(RealHash self, Py_ssize_t i, Py_ssize_t k) noexcept with gil:
    if self.held_datum != i or self.held_slot != k:
        return EXPFAM_RANGE
    try:
        self._restore(k)
        recount(self)
    except BaseException as error:
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef int dense_moved(RealHash self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target) noexcept with gil:
    if self.held_datum != i or self.held_slot != source or not 0 <= target < self.width:
        return EXPFAM_RANGE
    try:
        self._moved(i, source, target)
        recount(self)
    except BaseException as error:
        self.raised = error
        return EXPFAM_PYTHON
    return EXPFAM_OK


cdef const uint64_t *code_with_gil(RealHash self, Py_ssize_t i, uint64_t *out) noexcept with gil:
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
