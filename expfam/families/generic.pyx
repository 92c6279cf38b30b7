"""Components of any NumPy family, behind the same struct as the compiled ones.

Each function of the struct is one vectorised call of `log_marginal` on reused buffers, under the gil; log evidences
of the clusters as they stand are cached. A call costs what that `log_marginal` costs, plus about 5 microseconds.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, components_v1

from expfam.families.base import dense_rows

cdef Py_ssize_t PHI_ROWS = 4096     # rows of phi made at once when phi is not held


cdef class GenericComponents:
    """Owner of the statistics of a family that has no compiled components.

    Parameters
    ----------
    family : Family
    data : Dataset
    capacity : int
    """

    cdef components_v1 api
    cdef readonly object capsule
    cdef readonly Py_ssize_t capacity
    cdef public object pending
    cdef object family, data, phi, marginal_of
    cdef Py_ssize_t phi_start, phi_rows
    cdef object n, S, A             # (capacity,), (capacity, F), (capacity,) log evidences
    cdef object n_buffer, S_buffer  # the same shapes, for the arguments of a call

    def __init__(self, family, data, Py_ssize_t capacity):
        self.family, self.data = family, data
        self.marginal_of = family.log_marginal
        self.pending = None
        whole = 8 * data.n_statistics <= 2 * max(1, 8 * data.n_features) and not data.is_sparse
        self.phi_rows = data.n_rows if whole else PHI_ROWS
        self.phi_start = -1
        self.phi = None
        self._allocate(capacity)
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(components_v1)
        self.api.flags = EXPFAM_NEEDS_GIL
        self.api.self = <void *> self
        self.api.work_size = 0
        self.api.log_predictive = generic_log_predictive
        self.api.log_predictive_self = generic_log_predictive_self
        self.api.log_marginal = generic_log_marginal
        self.api.log_merged = generic_log_merged
        self.api.log_remainder = generic_log_remainder
        self.api.add = generic_add
        self.api.remove = generic_remove
        self.api.absorb = generic_absorb
        self.api.subtract = generic_subtract
        self.api.clear = generic_clear
        self.api.swap = generic_swap
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)

    def _allocate(self, Py_ssize_t capacity):
        F = self.data.n_statistics
        n, S, A = np.zeros(capacity), np.zeros((capacity, F)), np.zeros(capacity)
        if self.n is not None:
            n[: self.capacity], S[: self.capacity], A[: self.capacity] = self.n, self.S, self.A
        self.n, self.S, self.A, self.capacity = n, S, A, capacity
        self.n_buffer, self.S_buffer = np.empty(capacity), np.empty((capacity, F))

    cdef object row(self, Py_ssize_t i):
        """phi of one datum, from the block that is held."""
        if self.phi is None or not self.phi_start <= i < self.phi_start + self.phi.shape[0]:
            self.phi_start = i // self.phi_rows * self.phi_rows
            self.phi = self.data.phi(self.phi_start, min(self.phi_start + self.phi_rows, self.data.n_rows))
        return self.phi[i - self.phi_start]

    cdef object evidence(self, n, S):
        """log_marginal of one cluster as a float."""
        return float(self.marginal_of(np.array([n]), S[None])[0])

    cdef object set(self, Py_ssize_t k, n, S):
        """Store statistics; a cluster without data is exactly empty."""
        if n == 0:
            S = np.zeros_like(S)
        A = self.evidence(n, S) if n else 0.0
        self.n[k] = n
        self.S[k] = S
        self.A[k] = A

    def reserve(self, Py_ssize_t capacity):
        """Room for more slots, at least doubled."""
        if capacity > self.capacity:
            self._allocate(max(capacity, 2 * self.capacity))

    def refresh(self, labels):
        """Statistics recomputed from the members of each slot."""
        n, S = self.data.statistics(labels, self.capacity)
        self.load(n, S)

    def rebind(self, family):
        """Other hyper-parameters, the same statistics."""
        self.family, self.marginal_of = family, family.log_marginal
        self.A = np.where(self.n > 0, family.log_marginal(self.n, self.S), 0.0)

    def load(self, n, S):
        """Statistics set from arrays; further slots are emptied."""
        self.reserve(len(n))
        self.n[:], self.S[:] = 0.0, 0.0
        self.n[: len(n)] = n
        self.S[: len(n)] = dense_rows(S)
        self.rebind(self.family)

    def export(self):
        """Copies of (n, S)."""
        return self.n.copy(), self.S.copy()

    def to_arrays(self):
        """All that a later call reads."""
        return {"n": self.n.copy(), "S": self.S.copy(), "A": self.A.copy()}

    def from_arrays(self, arrays):
        """Restore `to_arrays`."""
        self._allocate(max(len(arrays["n"]), 1))
        m = len(arrays["n"])
        self.n[:m], self.S[:m], self.A[:m] = arrays["n"], arrays["S"], arrays["A"]

    cdef int predict(self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m, double *out) except -3:
        cdef Py_ssize_t j
        cdef double[::1] result
        n_buffer, S_buffer = self.n_buffer[:m], self.S_buffer[:m]
        if ks == NULL:
            chosen = slice(0, m)
        else:
            chosen = np.asarray(<const Py_ssize_t[:m]> ks)
        if m > self.capacity:
            n_buffer, S_buffer = np.empty(m), np.empty((m, self.S.shape[1]))
        np.add(self.n[chosen], 1.0, out=n_buffer)
        np.add(self.S[chosen], self.row(i), out=S_buffer)
        values = np.ascontiguousarray(self.marginal_of(n_buffer, S_buffer) - self.A[chosen], dtype=np.float64)
        result = values
        for j in range(m):
            out[j] = result[j]
        return 0


cdef int generic_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                double *out, double *work) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if m:
                owner.predict(i, ks, m, out)
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if owner.n[k] < 1:
                return EXPFAM_RANGE
            if owner.n[k] == 1:     # the rest is exactly the prior, not a difference of rounded sums
                out[0] = owner.evidence(1.0, owner.row(i))
            else:
                out[0] = owner.A[k] - owner.evidence(owner.n[k] - 1, owner.S[k] - owner.row(i))
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef Py_ssize_t j
    with gil:
        owner = <GenericComponents> self
        for j in range(m):
            out[j] = owner.A[j if ks == NULL else ks[j]]
    return EXPFAM_OK


cdef int generic_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                            double *out, double *work) noexcept nogil:
    cdef Py_ssize_t j
    with gil:
        owner = <GenericComponents> self
        try:
            chosen = np.array([ls[j] for j in range(m)], dtype=np.intp)
            values = owner.marginal_of(owner.n[chosen] + owner.n[k], owner.S[chosen] + owner.S[k])
            for j in range(m):
                out[j] = values[j]
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if owner.n[l] > owner.n[k]:
                return EXPFAM_RANGE
            rest = owner.n[k] - owner.n[l]
            out[0] = owner.evidence(rest, owner.S[k] - owner.S[l]) if rest else 0.0
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if not 0 <= k < owner.capacity:
                return EXPFAM_RANGE
            owner.set(k, owner.n[k] + 1.0, owner.S[k] + owner.row(i))
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if not 0 <= k < owner.capacity or owner.n[k] < 1:
                return EXPFAM_RANGE
            owner.set(k, owner.n[k] - 1.0, owner.S[k] - owner.row(i))
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if k == l:
                return EXPFAM_RANGE
            owner.set(k, owner.n[k] + owner.n[l], owner.S[k] + owner.S[l])
            owner.set(l, 0.0, owner.S[l])
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        try:
            if k == l or owner.n[l] > owner.n[k]:
                return EXPFAM_RANGE
            owner.set(k, owner.n[k] - owner.n[l], owner.S[k] - owner.S[l])
            return EXPFAM_OK
        except BaseException as error:
            owner.pending = error
            return EXPFAM_PYTHON


cdef int generic_clear(void *self, Py_ssize_t k) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        owner.set(k, 0.0, owner.S[k])
    return EXPFAM_OK


cdef int generic_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    with gil:
        owner = <GenericComponents> self
        for array in (owner.n, owner.S, owner.A):
            array[[k, l]] = array[[l, k]]
    return EXPFAM_OK
