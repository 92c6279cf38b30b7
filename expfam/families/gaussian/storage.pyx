"""Storage and functions of the C struct that all compiled Gaussian components share.

Each slot stores its statistics (n, S); all other numbers are caches that follow from them. The code of each family
caches the numbers that prediction reads. One function, `commit`, changes the statistics of a slot with its caches; if
the new statistics are not usable, it changes nothing. A slot without data holds exact zeros and the caches of the
prior.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport log
from libc.string cimport memset

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE, components_v1
from expfam.families.row_statistics cimport row_statistics_capsule
from expfam.families.rows cimport (
    ROWS_FLOAT16, ROWS_FLOAT32, ROWS_FLOAT64, ROWS_INT8, ROWS_INT16, ROWS_UINT8, entry_size, open_dense_rows, open_rows,
)
from expfam.structures.ground.arrays cimport address, aligned
from expfam.structures.simd.gaussian_lanes cimport EXPFAM_LANES
from expfam.structures.simd.logs cimport expfam_log
from expfam.structures.simd.prefetch cimport expfam_prefetch

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.families.support import dense_rows

cdef extern from *:
    """
    #include "dispatch.h"

    /* The number that an IEEE half of 16 bits holds; infinity and NaN never get here */
    EXPFAM_UNUSED static inline float expfam_of_half(uint16_t bits) {
        union { uint32_t bits; float value; } wide;
        wide.bits = (uint32_t)(bits & 0x7fffu) << 13;
        wide.value *= 0x1p112f;                             /* exact, also below the normal halves */
        wide.bits |= (uint32_t)(bits & 0x8000u) << 16;
        return wide.value;
    }
    #define EXPFAM_AS_IT_IS(x) (x)

    /* A row less the centre; READ makes a number of an entry */
    #define EXPFAM_ROW_LESS_CENTRE(TYPE, READ, NAME, TARGET)                                                        \
        TARGET static void NAME(const void *values, const double *centre, ptrdiff_t d, double *out) {               \
            const TYPE *x = (const TYPE *)values;                                                                   \
            EXPFAM_SIMD                                                                                             \
            for (ptrdiff_t f = 0; f < d; f++) out[f] = (double)READ(x[f]) - centre[f];                              \
        }
    #define EXPFAM_ROW_ARGUMENTS (const void *, const double *, ptrdiff_t, double *)
    #define EXPFAM_DOUBLE_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(double, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_DOUBLE_ROW, void, expfam_double_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_FLOAT_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(float, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_FLOAT_ROW, void, expfam_float_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_HALF_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(uint16_t, expfam_of_half, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_HALF_ROW, void, expfam_half_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_INT8_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(int8_t, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_INT8_ROW, void, expfam_int8_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_UINT8_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(uint8_t, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_UINT8_ROW, void, expfam_uint8_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_INT16_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(int16_t, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_INT16_ROW, void, expfam_int16_row, EXPFAM_ROW_ARGUMENTS)
    #define EXPFAM_UINT16_ROW(NAME, TARGET) EXPFAM_ROW_LESS_CENTRE(uint16_t, EXPFAM_AS_IT_IS, NAME, TARGET)
    EXPFAM_INSTANCES(EXPFAM_UINT16_ROW, void, expfam_uint16_row, EXPFAM_ROW_ARGUMENTS)
    """
    void (*expfam_double_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_float_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_half_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_int8_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_uint8_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_int16_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil
    void (*expfam_uint16_row)(const void *x, const double *centre, Py_ssize_t d, double *out) noexcept nogil


cdef double *pointer(object array) except? NULL:
    return <double *> address(array)


cdef void real_row(const real_state *state, Py_ssize_t i, double *out) noexcept nogil:
    """Write dense row i, or its logarithm, minus the centre to `out` (d,)."""
    cdef int kind = state.rows.kind
    cdef Py_ssize_t d = state.d, place = i * d
    cdef const char *x = <const char *> state.rows.values
    if state.is_log:
        real_log_row(state, i, out)
    elif kind == ROWS_FLOAT64:
        expfam_double_row(x + 8 * place, state.center, d, out)
    elif kind == ROWS_FLOAT32:
        expfam_float_row(x + 4 * place, state.center, d, out)
    elif kind == ROWS_FLOAT16:
        expfam_half_row(x + 2 * place, state.center, d, out)
    elif kind == ROWS_INT8:
        expfam_int8_row(x + place, state.center, d, out)
    elif kind == ROWS_UINT8:
        expfam_uint8_row(x + place, state.center, d, out)
    elif kind == ROWS_INT16:
        expfam_int16_row(x + 2 * place, state.center, d, out)
    else:
        expfam_uint16_row(x + 2 * place, state.center, d, out)


cdef void real_log_row(const real_state *state, Py_ssize_t i, double *out) noexcept nogil:
    """Write the logarithms of a row of doubles or floats minus the centre; NaN stays NaN."""
    cdef const double *wide = <const double *> state.rows.values + i * state.d
    cdef const float *narrow = <const float *> state.rows.values + i * state.d
    cdef Py_ssize_t f
    cdef double x
    for f in range(state.d):
        out[f] = wide[f] if state.rows.kind == ROWS_FLOAT64 else <double> narrow[f]
    expfam_log(out, out, state.d)
    for f in range(state.d):
        x = wide[f] if state.rows.kind == ROWS_FLOAT64 else <double> narrow[f]
        if not x >= 2.3e-308:           # expfam_log takes normal numbers only
            out[f] = log(x)
        out[f] -= state.center[f]


cdef int real_is_slot(const real_state *state, Py_ssize_t k) noexcept nogil:
    return 0 <= k < state.capacity


cdef int real_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef Py_ssize_t j, k
    cdef int code
    for j in range(m):
        k = j if ks == NULL else ks[j]
        if not real_is_slot(state, k):
            return EXPFAM_RANGE
        out[j] = 0.0
        if state.n[k] != 0:
            code = state.evidence(self, state.n[k], state.S + k * state.F, out + j, work)
            if code:
                return code
    return EXPFAM_OK


cdef int real_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                         double *out, double *work) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef const double *a = state.S + k * state.F
    cdef const double *b
    cdef Py_ssize_t j, other, f
    cdef int code
    if not real_is_slot(state, k):
        return EXPFAM_RANGE
    for j in range(m):
        other = j if ls == NULL else ls[j]
        if not real_is_slot(state, other):
            return EXPFAM_RANGE
        b = state.S + other * state.F
        for f in range(state.F):
            work[f] = a[f] + b[f]
        code = state.evidence(self, state.n[k] + state.n[other], work, out + j, work + state.F)
        if code:
            return code
    return EXPFAM_OK


cdef int real_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef const double *a = state.S + k * state.F
    cdef const double *b = state.S + l * state.F
    cdef Py_ssize_t f
    if not real_is_slot(state, k) or not real_is_slot(state, l) or state.n[l] > state.n[k]:
        return EXPFAM_RANGE
    out[0] = 0.0
    if state.n[k] == state.n[l]:
        return EXPFAM_OK
    for f in range(state.F):
        work[f] = a[f] - b[f]
    return state.evidence(self, state.n[k] - state.n[l], work, out, work + state.F)


cdef int real_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef real_state *state = <real_state *> self
    if not real_is_slot(state, k):
        return EXPFAM_RANGE
    state.shifted(self, i, 1.0, state.S + k * state.F, state.fresh, state.fresh + state.F)
    return state.commit(self, k, state.n[k] + 1.0, state.fresh)


cdef int real_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef real_state *state = <real_state *> self
    if not real_is_slot(state, k) or state.n[k] < 1.0:
        return EXPFAM_RANGE
    if state.n[k] == 1.0:
        return real_clear(self, k)
    state.shifted(self, i, -1.0, state.S + k * state.F, state.fresh, state.fresh + state.F)
    return state.commit(self, k, state.n[k] - 1.0, state.fresh)


cdef int real_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef Py_ssize_t f
    cdef int code
    if k == l or not real_is_slot(state, k) or not real_is_slot(state, l):
        return EXPFAM_RANGE
    if state.n[l] == 0.0:
        return EXPFAM_OK
    for f in range(state.F):
        state.fresh[f] = state.S[k * state.F + f] + state.S[l * state.F + f]
    code = state.commit(self, k, state.n[k] + state.n[l], state.fresh)
    return code if code else real_clear(self, l)


cdef int real_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef Py_ssize_t f
    if k == l or not real_is_slot(state, k) or not real_is_slot(state, l) or state.n[l] > state.n[k]:
        return EXPFAM_RANGE
    if state.n[l] == state.n[k]:
        return real_clear(self, k)
    for f in range(state.F):
        state.fresh[f] = state.S[k * state.F + f] - state.S[l * state.F + f]
    return state.commit(self, k, state.n[k] - state.n[l], state.fresh)


cdef int real_clear(void *self, Py_ssize_t k) noexcept nogil:
    cdef real_state *state = <real_state *> self
    if not real_is_slot(state, k):
        return EXPFAM_RANGE
    memset(state.fresh, 0, state.F * sizeof(double))
    return state.commit(self, k, 0.0, state.fresh)


cdef int real_set_members(void *self, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Add up the rows in scratch memory; the caches of the slot are then computed once."""
    cdef real_state *state = <real_state *> self
    cdef Py_ssize_t j
    if not real_is_slot(state, k):
        return EXPFAM_RANGE
    memset(state.fresh, 0, state.F * sizeof(double))
    for j in range(n):
        state.shifted(self, rows[j], 1.0, state.fresh, state.fresh, state.fresh + state.F)
    return state.commit(self, k, <double> n, state.fresh)


cdef int real_set_sums(void *self, Py_ssize_t k, double n, const double *S) noexcept nogil:
    cdef real_state *state = <real_state *> self
    if not real_is_slot(state, k):
        return EXPFAM_RANGE
    return state.commit(self, k, n, S) if n else real_clear(self, k)


cdef int real_add_statistics(void *self, Py_ssize_t i, double sign, double *S) noexcept nogil:
    cdef real_state *state = <real_state *> self
    state.shifted(self, i, sign, S, S, state.fresh + state.F)
    return EXPFAM_OK


cdef void real_add_rows(void *self, const Py_ssize_t *rows, Py_ssize_t n, double sign, double *S,
                        double *work) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef Py_ssize_t j, size = state.d * entry_size(state.rows.kind)
    for j in range(n):
        if j + AHEAD < n:
            expfam_prefetch(<const char *> state.rows.values + rows[j + AHEAD] * size, size)
        state.shifted(self, rows[j], sign, S, S, work)


cdef int real_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef real_state *state = <real_state *> self
    cdef double *a = state.S + k * state.F
    cdef double *b = state.S + l * state.F
    cdef Py_ssize_t f
    cdef double t
    if not real_is_slot(state, k) or not real_is_slot(state, l):
        return EXPFAM_RANGE
    if k == l:
        return EXPFAM_OK
    for f in range(state.F):
        t = a[f]
        a[f] = b[f]
        b[f] = t
    t = state.n[k]
    state.n[k] = state.n[l]
    state.n[l] = t
    state.exchange(self, k, l)
    return EXPFAM_OK


cdef class RealComponents:
    """Base class of the owners of the statistics of Gaussian families.

    A subclass adds the caches and the predictives of its family.
    """

    cdef int prepare(self, real_state *state) except -1:
        """Point the state at the data and fill the struct with the shared functions.

        The constructor of the subclass then adds the functions of its family.
        """
        self.state = state
        state.d = self.data.X.shape[1]
        state.F = self.data.n_statistics
        self.read_rows()
        self.center = np.zeros(state.d) + getattr(self.family, "center_", 0.0)
        state.center = pointer(self.center)
        state.is_log = bool(getattr(self.family, "of_logs", False))
        self.fresh = np.zeros(state.F + state.d)
        state.fresh = pointer(self.fresh)
        self.pending = None
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(components_v1)
        self.api.self = <void *> state
        self.api.log_marginal = real_log_marginal
        self.api.log_merged = real_log_merged
        self.api.log_remainder = real_log_remainder
        self.api.add = real_add
        self.api.remove = real_remove
        self.api.absorb = real_absorb
        self.api.subtract = real_subtract
        self.api.clear = real_clear
        self.api.swap = real_swap
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)
        self.statistics.self, self.statistics.add = <void *> state, real_add_statistics
        self.row_statistics = row_statistics_capsule(&self.statistics)
        return 0

    cdef int read_rows(self) except -1:
        """Point the state at the rows of the data."""
        cdef real_state *state = self.state
        X = self.X = self.data.X
        if self.data.is_sparse:
            open_rows(&state.rows, X.data, X.indices, X.indptr)
        else:
            open_dense_rows(&state.rows, X)
        return 0

    cdef void offer_sums(self):
        """Offer sums of many rows; for dense rows, where all caches follow from (n, S)."""
        self.statistics.add_rows, self.statistics.set_sums = real_add_rows, real_set_sums
        self.statistics.work_size = self.state.d

    def set_data(self, data):
        """Read the rows of another data set with the same statistics.

        Raises
        ------
        DataError
            The data have other columns, or are sparse where the former data are dense or the other way round.
        """
        if data.is_sparse != self.data.is_sparse or data.X.shape[1] != self.state.d:
            raise DataError(f"{self.family.name}: components of {self.data!r} cannot read {data!r}")
        self.data = data
        self.read_rows()

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """Allocate n and S in whole blocks, with all slots empty; return the number of slots.

        The subclass then allocates its caches.
        """
        cdef Py_ssize_t slots = max(1, (capacity + EXPFAM_LANES - 1) // EXPFAM_LANES) * EXPFAM_LANES
        self.n, self.S = aligned(slots), aligned(slots * self.state.F)
        self.state.n, self.state.S = pointer(self.n), pointer(self.S)
        self.state.capacity = self.capacity = capacity
        return slots

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; grow at least to twice the present capacity."""
        if capacity > self.capacity:
            arrays = self.to_arrays()
            more = max(capacity, 2 * self.capacity) - self.capacity
            self.from_arrays({name: _extended(value, more) for name, value in arrays.items()})

    def refresh(self, labels):
        """Recompute the statistics of each slot from its members; `labels` (n_rows,) are slots."""
        n, S = self.data.statistics(labels, self.capacity)
        self.load(n, S)

    def rebind(self, family):
        """Use the hyper-parameters of another family with the same statistics."""
        self.family = family
        self.set_prior()
        self.rebuild_caches()

    def load(self, n, S):
        """Set the statistics of the slots 0..len(n)-1 from arrays and empty the others.

        Raises
        ------
        FloatingPointError
            The statistics of a slot are not usable; the message names the first of them.
        """
        self.reserve(len(n))
        cdef const double[::1] counts = np.ascontiguousarray(n, dtype=np.float64)
        if type(S) is not np.ndarray:   # to ask whether sums are sparse takes as long as to copy those of few clusters
            S = dense_rows(S)
        cdef const double[:, ::1] sums = np.ascontiguousarray(S, dtype=np.float64)
        cdef double[::1] own_n = self.n, own_S = self.S
        cdef Py_ssize_t k, f, F = self.state.F
        if sums.shape[0] != counts.shape[0] or sums.shape[1] != F:
            raise ValueError(f"sums of {counted(counts.shape[0], 'cluster')} have shape {np.shape(S)}; F is {F}")
        with nogil:
            own_n[:] = 0.0
            own_S[:] = 0.0
            for k in range(counts.shape[0]):
                own_n[k] = counts[k]
                if counts[k] != 0.0:
                    for f in range(F):
                        own_S[k * F + f] = sums[k, f]
        self.rebuild_caches()

    def rebuild_caches(self):
        """Rebuild all caches from (n, S)."""
        cdef Py_ssize_t k
        cdef int code
        for k in range(self.n.shape[0]):
            code = self.state.commit(<void *> self.state, k, self.state.n[k], self.state.S + k * self.state.F)
            if code == EXPFAM_NUMERICAL:
                raise FloatingPointError(
                    f"{self.family.name}: the posterior of slot {k} (n = {self.state.n[k]:g}) is not finite or not"
                    " positive definite: rescale the columns, or give a prior of their scale"
                )

    def export(self):
        """Return copies of n (capacity,) and S (capacity, F)."""
        return self.n[: self.capacity].copy(), self.S[: self.capacity * self.state.F].reshape(self.capacity, -1).copy()

    def to_arrays(self):
        """Return (n, S) and the numbers that they do not determine to the last bit, by name."""
        n, S = self.export()
        return {"n": n, "S": S}

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        n, S = arrays["n"], arrays["S"]
        self.resize(len(n))
        self.n[: n.size], self.S[: S.size] = n, np.asarray(S).ravel()
        self.rebuild_caches()


def _extended(array, Py_ssize_t more):
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), dtype=array.dtype)])
