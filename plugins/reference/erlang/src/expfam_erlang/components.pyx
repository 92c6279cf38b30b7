"""Statistics of Erlang clusters behind the C struct `components_v1` of expfam.

Each slot has n, the sums S of its data, and the sum over columns of log(b + S), which half of all functions need.
Every function is one loop over columns and does not need the gil.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport isfinite, lgamma, log
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE, components_v1


ctypedef struct clusters:
    const double *X             # (N, V)
    double *n                   # (capacity,)
    double *S                   # (capacity, V)
    double *logs                # (capacity,) sum over columns of log(b + S)
    Py_ssize_t N
    Py_ssize_t V
    Py_ssize_t capacity
    double stages
    double a
    double b


cdef inline double evidence(const clusters *c, double n, double logs) noexcept nogil:
    """Return the log evidence of n data from the sum of log(b + S)."""
    cdef double shape = c.a + c.stages * n
    if n == 0:
        return 0.0
    return c.V * (lgamma(shape) - lgamma(c.a) + c.a * log(c.b)) - shape * logs


cdef inline double logs_of(const clusters *c, const double *S, const double *other, double sign) noexcept nogil:
    """Return the sum over columns of log(b + S + sign * other)."""
    cdef Py_ssize_t v
    cdef double total = 0.0, rest
    for v in range(c.V):
        rest = S[v] + sign * other[v]
        total += log(c.b + (rest if rest > 0 else 0.0))     # rounding may leave a negative rest, which is zero
    return total


cdef inline double prior_logs(const clusters *c) noexcept nogil:
    return c.V * log(c.b)


cdef inline bint is_slot(const clusters *c, Py_ssize_t k) noexcept nogil:
    return 0 <= k < c.capacity


# ---- reading -----------------------------------------------------------------------------------------------------

cdef int log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                        double *work) noexcept nogil:
    cdef const clusters *c = <const clusters *> self
    cdef Py_ssize_t j, k
    if not 0 <= i < c.N:
        return EXPFAM_RANGE
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not is_slot(c, k):
            return EXPFAM_RANGE
        out[j] = evidence(c, c.n[k] + 1, logs_of(c, c.S + k * c.V, c.X + i * c.V, 1.0)) - evidence(c, c.n[k], c.logs[k])
    return EXPFAM_OK


cdef int log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef const clusters *c = <const clusters *> self
    cdef double n, logs
    if not (0 <= i < c.N and is_slot(c, k) and c.n[k] >= 1):
        return EXPFAM_RANGE
    n = c.n[k] - 1
    logs = logs_of(c, c.S + k * c.V, c.X + i * c.V, -1.0) if n > 0 else prior_logs(c)
    if n == 0:      # compute from the datum itself: S may have lost digits when other data left
        out[0] = evidence(c, 1.0, logs_of(c, c.X + i * c.V, c.X + i * c.V, 0.0))
    else:
        out[0] = evidence(c, c.n[k], c.logs[k]) - evidence(c, n, logs)
    return EXPFAM_OK


cdef int log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef const clusters *c = <const clusters *> self
    cdef Py_ssize_t j, k
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not is_slot(c, k):
            return EXPFAM_RANGE
        out[j] = evidence(c, c.n[k], c.logs[k])
    return EXPFAM_OK


cdef int log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out,
                    double *work) noexcept nogil:
    cdef const clusters *c = <const clusters *> self
    cdef Py_ssize_t j, other
    for j in range(m):
        other = j if ls == NULL else ls[j]
        if not (is_slot(c, k) and is_slot(c, other) and k != other):
            return EXPFAM_RANGE
        out[j] = evidence(c, c.n[k] + c.n[other], logs_of(c, c.S + k * c.V, c.S + other * c.V, 1.0))
    return EXPFAM_OK


cdef int log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    cdef const clusters *c = <const clusters *> self
    if not (is_slot(c, k) and is_slot(c, l) and k != l and c.n[k] >= c.n[l]):
        return EXPFAM_RANGE
    out[0] = evidence(c, c.n[k] - c.n[l], logs_of(c, c.S + k * c.V, c.S + l * c.V, -1.0))
    return EXPFAM_OK


# ---- writing -----------------------------------------------------------------------------------------------------

cdef void empty(clusters *c, Py_ssize_t k) noexcept nogil:
    """Empty slot k: its numbers equal the prior exactly."""
    c.n[k] = 0.0
    c.logs[k] = prior_logs(c)
    memset(c.S + k * c.V, 0, c.V * sizeof(double))


cdef int change(clusters *c, Py_ssize_t k, const double *by, double n, double sign) noexcept nogil:
    """Add, or subtract with sign -1, the sums of n data in slot k; an error changes nothing."""
    cdef Py_ssize_t v
    cdef double *S = c.S + k * c.V
    cdef double logs
    if sign < 0 and c.n[k] < n:
        return EXPFAM_RANGE
    if sign < 0 and c.n[k] == n:
        empty(c, k)
        return EXPFAM_OK
    logs = logs_of(c, S, by, sign)
    if not isfinite(logs):
        return EXPFAM_NUMERICAL
    for v in range(c.V):
        S[v] += sign * by[v]
        if S[v] < 0:
            S[v] = 0.0
    c.n[k] += sign * n
    c.logs[k] = logs
    return EXPFAM_OK


cdef int add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef clusters *c = <clusters *> self
    if not (0 <= i < c.N and is_slot(c, k)):
        return EXPFAM_RANGE
    return change(c, k, c.X + i * c.V, 1.0, 1.0)


cdef int remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef clusters *c = <clusters *> self
    if not (0 <= i < c.N and is_slot(c, k)):
        return EXPFAM_RANGE
    return change(c, k, c.X + i * c.V, 1.0, -1.0)


cdef int absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef clusters *c = <clusters *> self
    cdef int code
    if not (is_slot(c, k) and is_slot(c, l) and k != l):
        return EXPFAM_RANGE
    code = change(c, k, c.S + l * c.V, c.n[l], 1.0)
    if code == EXPFAM_OK:
        empty(c, l)
    return code


cdef int subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef clusters *c = <clusters *> self
    if not (is_slot(c, k) and is_slot(c, l) and k != l):
        return EXPFAM_RANGE
    if c.n[l] == 0:
        return EXPFAM_OK
    return change(c, k, c.S + l * c.V, c.n[l], -1.0)


cdef int clear(void *self, Py_ssize_t k) noexcept nogil:
    cdef clusters *c = <clusters *> self
    if not is_slot(c, k):
        return EXPFAM_RANGE
    empty(c, k)
    return EXPFAM_OK


cdef int swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef clusters *c = <clusters *> self
    cdef Py_ssize_t v
    if not (is_slot(c, k) and is_slot(c, l)):
        return EXPFAM_RANGE
    c.n[k], c.n[l] = c.n[l], c.n[k]
    c.logs[k], c.logs[l] = c.logs[l], c.logs[k]
    for v in range(c.V):
        c.S[k * c.V + v], c.S[l * c.V + v] = c.S[l * c.V + v], c.S[k * c.V + v]
    return EXPFAM_OK


# ---- the owner ---------------------------------------------------------------------------------------------------

cdef class ErlangComponents:
    """Owner of the memory behind the struct, for one bound family and one data set.

    Parameters
    ----------
    family : Erlang
    data : Dataset
    capacity : int
    """

    cdef components_v1 api
    cdef clusters c
    cdef readonly object capsule
    cdef public object pending          # no function here calls Python, so no error is pending
    cdef object family, data, X, n, S, logs

    def __init__(self, family, data, Py_ssize_t capacity):
        cdef const double[:, ::1] X
        memset(&self.api, 0, sizeof(components_v1))
        self.data, self.pending = data, None
        self.X = X = np.ascontiguousarray(data.X, dtype=np.float64)     # no copy if it has this form already
        self.c.X, self.c.N, self.c.V = &X[0, 0], X.shape[0], X.shape[1]
        self._set_family(family)
        self._allocate(capacity)
        self.api.abi_version, self.api.struct_size = EXPFAM_ABI, sizeof(components_v1)
        self.api.self = <void *> &self.c
        self.api.log_predictive, self.api.log_predictive_self = log_predictive, log_predictive_self
        self.api.log_marginal, self.api.log_merged = log_marginal, log_merged
        self.api.log_remainder = log_remainder
        self.api.add, self.api.remove, self.api.absorb = add, remove, absorb
        self.api.subtract, self.api.clear, self.api.swap = subtract, clear, swap
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)

    @property
    def capacity(self):
        """Return the number of slots."""
        return self.c.capacity

    def _set_family(self, family):
        self.family = family
        self.c.stages, self.c.a, self.c.b = family.stages, family.a, family.b

    def _allocate(self, Py_ssize_t capacity):
        cdef double[::1] n = np.zeros(capacity), logs = np.full(capacity, prior_logs(&self.c))
        cdef double[:, ::1] S = np.zeros((capacity, self.c.V))
        if self.n is not None:
            held = min(capacity, self.c.capacity)
            n.base[:held], S.base[:held], logs.base[:held] = self.n[:held], self.S[:held], self.logs[:held]
        self.n, self.S, self.logs = n.base, S.base, logs.base
        self.c.n, self.c.S, self.c.logs, self.c.capacity = &n[0], &S[0, 0], &logs[0], capacity

    def reserve(self, Py_ssize_t capacity):
        """Make room for at least `capacity` slots; the number of slots is at least doubled."""
        if capacity > self.c.capacity:
            self._allocate(max(capacity, 2 * self.c.capacity))

    def refresh(self, labels):
        """Compute the statistics again from the members of each slot."""
        self.load(*self.data.statistics(labels, self.c.capacity))

    def rebind(self, family):
        """Use the hyper-parameters of another family; keep the statistics."""
        self._set_family(family)
        self.logs[:] = np.log(family.b + self.S).sum(axis=1)

    def load(self, n, S):
        """Set the statistics from arrays; slots beyond them are emptied."""
        self.reserve(len(n))
        self.n[:], self.S[:] = 0.0, 0.0
        self.n[: len(n)], self.S[: len(n)] = n, S.toarray() if hasattr(S, "toarray") else S
        self.rebind(self.family)

    def export(self):
        """Return copies of (n, S)."""
        return self.n.copy(), self.S.copy()

    def to_arrays(self):
        """Return all arrays that a later call reads."""
        return {"n": self.n.copy(), "S": self.S.copy(), "logs": self.logs.copy()}

    def from_arrays(self, arrays):
        """Restore the arrays of `to_arrays`."""
        self._allocate(max(len(arrays["n"]), 1))
        held = len(arrays["n"])
        self.n[:held], self.S[:held], self.logs[:held] = arrays["n"], arrays["S"], arrays["logs"]
