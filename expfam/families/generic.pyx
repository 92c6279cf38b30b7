"""Components of any NumPy family, with the same C struct as the compiled components.

Each function of the struct is one vectorised call of `log_marginal` on reused buffers, with the gil held. The log
evidences of the present clusters are cached. A call costs as much as this `log_marginal`, plus about 5 microseconds.
"""

from types import MethodType

import numpy as np

from cpython.pycapsule cimport PyCapsule_New

from libc.math cimport INFINITY, isfinite

from expfam.contracts cimport (
    EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, components_v1,
)

from expfam.families.support import dense_rows, read_only

cdef object FLOAT64 = np.dtype(np.float64)
cdef Py_ssize_t PHI_ROWS = 4096     # rows in a block of phi, where phi of all data would be too large

cdef enum:                          # codes of the functions of the struct
    PREDICTIVE, PREDICTIVE_SELF, MARGINAL, MERGED, REMAINDER, ADD, REMOVE, ABSORB, SUBTRACT, CLEAR, SWAP


cdef class GenericComponents:
    """Owner of the statistics of a family that has no compiled components."""

    cdef components_v1 api
    cdef readonly object capsule
    cdef readonly Py_ssize_t capacity
    cdef public object pending
    cdef object family, data, phi, checked, plain   # last two: log_marginal with and without its checks
    cdef Py_ssize_t phi_start, phi_rows
    cdef object n, S, A             # (capacity,), (capacity, F), (capacity,) log evidences
    cdef object n_buffer, S_buffer  # the same shapes as n and S: arguments of a call
    cdef object n_given, S_given    # read-only views of these buffers, for the author's function

    def __init__(self, family, data, Py_ssize_t capacity):
        self.set_data(data)
        self._set_family(family)
        self.pending = None
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

    def set_data(self, data):
        """Read the rows of another data set with the same statistics."""
        whole = 8 * data.n_statistics <= 2 * max(1, 8 * data.n_features) and not data.is_sparse
        self.data = data
        self.phi_rows = data.n_rows if whole else PHI_ROWS
        self.phi_start = -1
        self.phi = None

    def _allocate(self, Py_ssize_t capacity):
        F = self.data.n_statistics
        n, S, A = np.zeros(capacity), np.zeros((capacity, F)), np.zeros(capacity)
        if self.n is not None:
            n[: self.capacity], S[: self.capacity], A[: self.capacity] = self.n, self.S, self.A
        self.n, self.S, self.A, self.capacity = n, S, A, capacity
        self.n_buffer, self.S_buffer = np.empty(capacity), np.empty((capacity, F))
        self.n_given, self.S_given = read_only(self.n_buffer), read_only(self.S_buffer)

    cdef object row(self, Py_ssize_t i):
        """Return phi of one datum (F,), from the block in memory."""
        if self.phi is None or not self.phi_start <= i < self.phi_start + self.phi.shape[0]:
            self.phi_start = i // self.phi_rows * self.phi_rows
            stop = min(self.phi_start + self.phi_rows, self.data.n_rows)
            self.phi = read_only(self.data.phi(self.phi_start, stop))
        return self.phi[i - self.phi_start]

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; grow at least to twice the present capacity."""
        if capacity > self.capacity:
            self._allocate(max(capacity, 2 * self.capacity))

    def refresh(self, labels):
        """Recompute the statistics of each slot from its members; `labels` (n_rows,) are slots."""
        n, S = self.data.statistics(labels, self.capacity)
        self.load(n, S)

    def rebind(self, family):
        """Use the hyper-parameters of another family with the same statistics."""
        self._set_family(family)
        self.A = np.where(self.n > 0, family.log_marginal(self.n, self.S), 0.0)

    def load(self, n, S):
        """Set the statistics of the slots 0..len(n)-1 from arrays and empty the others."""
        self.reserve(len(n))
        self.n[:], self.S[:] = 0.0, 0.0
        self.n[: len(n)] = n
        self.S[: len(n)] = dense_rows(S)
        self.rebind(self.family)

    def export(self):
        """Return copies of n (capacity,) and S (capacity, F)."""
        return self.n.copy(), self.S.copy()

    def to_arrays(self):
        """Return all arrays that later calls read, by name."""
        return {"n": self.n.copy(), "S": self.S.copy(), "A": self.A.copy()}

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        self._allocate(max(len(arrays["n"]), 1))
        m = len(arrays["n"])
        self.n[:m], self.S[:m], self.A[:m] = arrays["n"], arrays["S"], arrays["A"]

    cdef int act(self, int what, Py_ssize_t i, Py_ssize_t k, Py_ssize_t l, const Py_ssize_t *ks, Py_ssize_t m,
                 double *out) except -3:
        """Execute the function of the struct with code `what` and return its status.

        Slots and counts are checked before anything is computed or changed.
        """
        if k >= self.capacity or l >= self.capacity or (k == l and what in (ABSORB, SUBTRACT)):
            return EXPFAM_RANGE
        if what == PREDICTIVE:
            return self.predict(i, ks, m, out)
        if what == PREDICTIVE_SELF:
            return self.predict_self(i, k, out)
        if what == MARGINAL:
            return self.give(self.A[self.chosen(ks, m)], m, out)
        if what == MERGED:
            at = self.chosen(ks, m)
            return self.give(self.marginal_of(self.n[at] + self.n[k], self.S[at] + self.S[k]), m, out)
        if what == ADD:
            return self.store(k, self.n[k] + 1.0, self.S[k] + self.row(i))
        if what == REMOVE:
            return self.store(k, self.n[k] - 1.0, self.S[k] - self.row(i))
        if what == REMAINDER:
            if self.n[l] > self.n[k]:
                return EXPFAM_RANGE
            out[0] = self.evidence(self.n[k] - self.n[l], self.S[k] - self.S[l])
            return EXPFAM_OK
        if what == SUBTRACT:
            return self.store(k, self.n[k] - self.n[l], self.S[k] - self.S[l])
        if what == ABSORB:
            code = self.store(k, self.n[k] + self.n[l], self.S[k] + self.S[l])
            return code if code else self.store(l, 0.0, self.S[l])
        if what == CLEAR:
            return self.store(k, 0.0, self.S[k])
        for array in (self.n, self.S, self.A):      # SWAP
            array[[k, l]] = array[[l, k]]
        return EXPFAM_OK

    cdef object _set_family(self, family):
        self.family, self.checked = family, family.log_marginal
        written = getattr(self.checked, "__wrapped__", None)
        self.plain = self.checked if written is None else MethodType(written, family)

    cdef object marginal_of(self, n, S):
        """Return the log evidences (m,) that the author's function computes.

        If its result is wrong, the function with checks is called, which raises an error that names the fault. The
        arguments are made read-only; they are views or belong to this call, so no other array becomes read-only.
        """
        cdef const double[::1] found
        cdef Py_ssize_t j
        n.flags.writeable = S.flags.writeable = False
        values = self.plain(n, S)
        if type(values) is not np.ndarray or values.dtype is not FLOAT64 or values.shape != n.shape:
            return self.checked(n, S)
        found = np.ascontiguousarray(values)
        for j in range(found.shape[0]):
            if not found[j] < INFINITY:
                return self.checked(n, S)
        return values

    cdef object evidence(self, n, S):
        """Return the log evidence of one cluster; 0 for n = 0, even if rounding left a nonzero S."""
        if not n:
            return 0.0
        return float(self.marginal_of(np.array([n]), S[None])[0])

    cdef int store(self, Py_ssize_t k, n, S) except -3:
        """Set the statistics of a slot; the sums of a cluster without data become exact zeros."""
        if n < 0:
            return EXPFAM_RANGE
        A = self.evidence(n, S)
        if not isfinite(A):
            return EXPFAM_NUMERICAL
        self.n[k] = n
        self.S[k] = S if n else 0.0
        self.A[k] = A
        return EXPFAM_OK

    cdef object chosen(self, const Py_ssize_t *ks, Py_ssize_t m):
        """Return an index for the m slots of a call; NULL means the first m slots."""
        return slice(0, m) if ks == NULL or m == 0 else np.asarray(<const Py_ssize_t[:m]> ks)

    cdef int give(self, values, Py_ssize_t m, double *out) except -3:
        """Copy m results to the caller's memory."""
        cdef const double[::1] result = np.ascontiguousarray(values, dtype=np.float64)
        cdef Py_ssize_t j
        for j in range(m):
            out[j] = result[j]
        return EXPFAM_OK

    cdef int predict(self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m, double *out) except -3:
        """Compute log predictives by one call of log_marginal on reused buffers."""
        if m == 0:
            return EXPFAM_OK
        at = self.chosen(ks, m)
        if m > self.capacity:                       # a call may name a slot more than once
            return self.give(self.marginal_of(self.n[at] + 1.0, self.S[at] + self.row(i)) - self.A[at], m, out)
        np.add(self.n[at], 1.0, out=self.n_buffer[:m])
        np.add(self.S[at], self.row(i), out=self.S_buffer[:m])
        return self.give(self.marginal_of(self.n_given[:m], self.S_given[:m]) - self.A[at], m, out)

    cdef int predict_self(self, Py_ssize_t i, Py_ssize_t k, double *out) except -3:
        """Compute the log predictive of a member of slot k, given the other members.

        For the only member of a cluster it is the predictive of the prior, without the rounding of a difference.
        """
        if self.n[k] < 1:
            return EXPFAM_RANGE
        if self.n[k] == 1:
            out[0] = self.evidence(1.0, self.row(i))
        else:
            out[0] = self.A[k] - self.evidence(self.n[k] - 1.0, self.S[k] - self.row(i))
        return EXPFAM_OK


cdef int guarded(void *self, int what, Py_ssize_t i, Py_ssize_t k, Py_ssize_t l, const Py_ssize_t *ks, Py_ssize_t m,
                 double *out) noexcept with gil:
    """Call `act` and turn an exception into a status; the exception is kept in `pending`."""
    cdef GenericComponents owner = <GenericComponents> self
    try:
        return owner.act(what, i, k, l, ks, m, out)
    except FloatingPointError as error:
        owner.pending = FloatingPointError(f"{error} (datum {i}, slot {k})")
    except BaseException as error:      # a KeyboardInterrupt too: the calling driver raises it
        owner.pending = error
    return EXPFAM_PYTHON


cdef int generic_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                double *out, double *work) noexcept nogil:
    return guarded(self, PREDICTIVE, i, 0, 0, ks, m, out)


cdef int generic_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    return guarded(self, PREDICTIVE_SELF, i, k, 0, NULL, 0, out)


cdef int generic_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    return guarded(self, MARGINAL, 0, 0, 0, ks, m, out)


cdef int generic_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                            double *out, double *work) noexcept nogil:
    return guarded(self, MERGED, 0, k, 0, ls, m, out)


cdef int generic_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    return guarded(self, REMAINDER, 0, k, l, NULL, 0, out)


cdef int generic_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    return guarded(self, ADD, i, k, 0, NULL, 0, NULL)


cdef int generic_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    return guarded(self, REMOVE, i, k, 0, NULL, 0, NULL)


cdef int generic_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    return guarded(self, ABSORB, 0, k, l, NULL, 0, NULL)


cdef int generic_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    return guarded(self, SUBTRACT, 0, k, l, NULL, 0, NULL)


cdef int generic_clear(void *self, Py_ssize_t k) noexcept nogil:
    return guarded(self, CLEAR, 0, k, 0, NULL, 0, NULL)


cdef int generic_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    return guarded(self, SWAP, 0, k, l, NULL, 0, NULL)
