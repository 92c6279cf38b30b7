"""Components of a table: those of its parts, behind one C struct.

Each part has components of its own over the rows that have it. A score is the sum of the scores of the parts; a part
that the row lacks is passed over. So a part's count of its rows is kept by its own components, and the statistics of
`Columns` are written and read only by `export` and `load`.
"""

import numpy as np
from scipy import sparse

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport isfinite
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset

from expfam.contracts cimport (
    EXPFAM_ABI, EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_PYTHON, EXPFAM_RANGE, components_v1,
)
from expfam.families.components cimport Components
from expfam.families.row_statistics cimport RowStatistics, row_statistics_capsule, row_statistics_v1

from expfam.errors import DataError
from expfam.families.columns.table import OBSERVED, Rows, cells_of
from expfam.families.support import dense_rows


ctypedef struct part_state:
    components_v1 c
    row_statistics_v1 rows
    Py_ssize_t start                # first column of phi of the part, its indicator if it has one
    bint has_indicator
    const int32_t *row              # (N,) row of the part's data, -1 where it is missing; NULL if no row lacks the part
    bint needs_all                  # the statistics have no count for the part, so that rows without it cannot be added

ctypedef struct columns_state:
    part_state *parts
    Py_ssize_t n_parts
    Py_ssize_t capacity
    double *n                       # (capacity,) rows of each cluster
    double *work                    # scratch of the writing thread


cdef inline Py_ssize_t row_of(const part_state *part, Py_ssize_t i) noexcept nogil:
    return i if part.row == NULL else part.row[i]


cdef inline bint is_slot(const columns_state *s, Py_ssize_t k) noexcept nogil:
    return 0 <= k < s.capacity


cdef inline void add_to(double *out, const double *more, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(m):
        out[j] += more[j]


cdef int columns_log_predictive(void *self, Py_ssize_t i, const Py_ssize_t *ks, Py_ssize_t m,
                                double *out, double *work) noexcept nogil:
    """Add up the scores of the parts that the row has, at most `capacity` slots at a time."""
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p, row, start = 0, size
    cdef bint is_first
    cdef int code
    if ks == NULL and m > s.capacity:
        return EXPFAM_RANGE
    while start < m:
        size = min(m - start, s.capacity)
        is_first = True
        for p in range(s.n_parts):
            row = row_of(s.parts + p, i)
            if row < 0:
                continue
            code = s.parts[p].c.log_predictive(s.parts[p].c.self, row, NULL if ks == NULL else ks + start, size,
                                               out + start if is_first else work, work + s.capacity)
            if code:
                return code
            if not is_first:
                add_to(out + start, work, size)
            is_first = False
        if is_first:                # a row without cells says nothing
            memset(out + start, 0, size * sizeof(double))
        start += size
    return EXPFAM_OK


cdef int columns_log_predictive_self(void *self, Py_ssize_t i, Py_ssize_t k, double *out, double *work) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p, row
    cdef double part, total = 0.0
    cdef int code
    if not is_slot(s, k) or s.n[k] < 1.0:
        return EXPFAM_RANGE
    for p in range(s.n_parts):
        row = row_of(s.parts + p, i)
        if row >= 0:
            code = s.parts[p].c.log_predictive_self(s.parts[p].c.self, row, k, &part, work)
            if code:
                return code
            total += part
    out[0] = total
    return EXPFAM_OK


cdef int columns_log_marginal(void *self, const Py_ssize_t *ks, Py_ssize_t m, double *out, double *work) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p, start = 0, size
    cdef int code
    if ks == NULL and m > s.capacity:
        return EXPFAM_RANGE
    while start < m:
        size = min(m - start, s.capacity)
        for p in range(s.n_parts):
            code = s.parts[p].c.log_marginal(s.parts[p].c.self, NULL if ks == NULL else ks + start, size,
                                             work if p else out + start, work + s.capacity)
            if code:
                return code
            if p:
                add_to(out + start, work, size)
        start += size
    return EXPFAM_OK


cdef int columns_log_merged(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m,
                            double *out, double *work) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p, start = 0, size
    cdef int code
    if not is_slot(s, k) or (ls == NULL and m > s.capacity):
        return EXPFAM_RANGE
    while start < m:
        size = min(m - start, s.capacity)
        for p in range(s.n_parts):
            code = s.parts[p].c.log_merged(s.parts[p].c.self, k, NULL if ls == NULL else ls + start, size,
                                           work if p else out + start, work + s.capacity)
            if code:
                return code
            if p:
                add_to(out + start, work, size)
        start += size
    return EXPFAM_OK


cdef int columns_log_remainder(void *self, Py_ssize_t k, Py_ssize_t l, double *out, double *work) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p
    cdef double part, total = 0.0
    cdef int code
    if not is_slot(s, k) or not is_slot(s, l) or s.n[l] > s.n[k]:
        return EXPFAM_RANGE
    for p in range(s.n_parts):
        code = s.parts[p].c.log_remainder(s.parts[p].c.self, k, l, &part, work)
        if code:
            return code
        total += part
    out[0] = total
    return EXPFAM_OK


cdef inline int move_row(part_state *part, Py_ssize_t i, Py_ssize_t k, bint is_added) noexcept nogil:
    """Add a row to a part, or remove it, if it has the part."""
    cdef Py_ssize_t row = row_of(part, i)
    if row < 0:
        return EXPFAM_OK
    return part.c.add(part.c.self, row, k) if is_added else part.c.remove(part.c.self, row, k)


cdef int move_all(columns_state *s, Py_ssize_t i, Py_ssize_t k, bint is_added) noexcept nogil:
    """Add a row to each part that it has, or remove it; undo it all if one part fails."""
    cdef Py_ssize_t p
    cdef int code = EXPFAM_OK
    for p in range(s.n_parts):
        code = move_row(s.parts + p, i, k, is_added)
        if code:
            break
    else:
        s.n[k] += 1.0 if is_added else -1.0
        return EXPFAM_OK
    while p > 0:
        p -= 1
        move_row(s.parts + p, i, k, not is_added)
    return code


cdef int columns_add(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p
    if not is_slot(s, k):
        return EXPFAM_RANGE
    for p in range(s.n_parts):
        if s.parts[p].needs_all and row_of(s.parts + p, i) < 0:
            return EXPFAM_PYTHON    # the owner's `pending` says which cell is missing
    return move_all(s, i, k, True)


cdef int columns_remove(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    if not is_slot(s, k) or s.n[k] < 1.0:
        return EXPFAM_RANGE
    return move_all(s, i, k, False)


cdef int combine(columns_state *s, Py_ssize_t k, Py_ssize_t l, bint is_merge) noexcept nogil:
    """Merge slot l into k in all parts, or subtract it from k.

    Neither can be undone. So the parts compute the evidence of the result first, which finds statistics that a part
    refuses before any part is changed.
    """
    cdef Py_ssize_t p
    cdef components_v1 *c
    cdef double evidence
    cdef int code
    for p in range(s.n_parts if s.n_parts > 1 else 0):
        c = &s.parts[p].c
        if is_merge:
            code = c.log_merged(c.self, k, &l, 1, &evidence, s.work)
        else:
            code = c.log_remainder(c.self, k, l, &evidence, s.work)
        if code:
            return code
        if not isfinite(evidence):
            return EXPFAM_NUMERICAL
    for p in range(s.n_parts):
        c = &s.parts[p].c
        code = c.absorb(c.self, k, l) if is_merge else c.subtract(c.self, k, l)
        if code:
            return code
    return EXPFAM_OK


cdef int columns_absorb(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef int code
    if k == l or not is_slot(s, k) or not is_slot(s, l):
        return EXPFAM_RANGE
    code = combine(s, k, l, True)
    if not code:
        s.n[k] += s.n[l]
        s.n[l] = 0.0
    return code


cdef int columns_subtract(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef int code
    if k == l or not is_slot(s, k) or not is_slot(s, l) or s.n[l] > s.n[k]:
        return EXPFAM_RANGE
    code = combine(s, k, l, False)
    if not code:
        s.n[k] -= s.n[l]
    return code


cdef int columns_clear(void *self, Py_ssize_t k) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p
    cdef int code, first = EXPFAM_OK
    if not is_slot(s, k):
        return EXPFAM_RANGE
    for p in range(s.n_parts):
        code = s.parts[p].c.clear(s.parts[p].c.self, k)
        if code and not first:
            first = code
    s.n[k] = 0.0
    return first


cdef int columns_swap(void *self, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p
    cdef int code = EXPFAM_OK
    cdef double t
    if not is_slot(s, k) or not is_slot(s, l):
        return EXPFAM_RANGE
    for p in range(s.n_parts):
        code = s.parts[p].c.swap(s.parts[p].c.self, k, l)
        if code:
            break
    else:
        t = s.n[k]
        s.n[k] = s.n[l]
        s.n[l] = t
        return EXPFAM_OK
    while p > 0:
        p -= 1
        s.parts[p].c.swap(s.parts[p].c.self, k, l)
    return code


cdef void columns_expect(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef columns_state *s = <columns_state *> self
    cdef Py_ssize_t p, row
    for p in range(s.n_parts):
        row = row_of(s.parts + p, i)
        if row >= 0 and s.parts[p].c.expect != NULL:
            s.parts[p].c.expect(s.parts[p].c.self, row, k)


cdef int columns_add_statistics(void *self, Py_ssize_t i, double sign, double *S) noexcept nogil:
    """Add the statistics of the parts that a row has; what it lacks is 0 in phi."""
    cdef columns_state *s = <columns_state *> self
    cdef part_state *part
    cdef Py_ssize_t p, row
    cdef int code
    for p in range(s.n_parts):
        part = s.parts + p
        row = row_of(part, i)
        if row < 0:
            continue
        code = part.rows.add(part.rows.self, row, sign, S + part.start + part.has_indicator)
        if code:
            return code
        if part.has_indicator:
            S[part.start] += sign
    return EXPFAM_OK


# ---- the owner -----------------------------------------------------------------------------------------------------

cdef class ColumnsComponents:
    """Owner of the components of the parts of a bound `Columns`.

    It holds a copy of the cells of each part, without rows that lack the part, and 4 bytes a row for each part that
    rows lack.
    """

    cdef components_v1 api
    cdef columns_state s
    cdef row_statistics_v1 statistics
    cdef readonly object capsule, row_statistics
    cdef object family, data, layout, refusal, error
    cdef list parts                 # Components of each part
    cdef list readers               # RowStatistics of each part
    cdef list rows                  # (N,) int32 arrays behind `row`, None where it is NULL
    cdef double[::1] n, scratch

    def __cinit__(self):
        memset(&self.s, 0, sizeof(columns_state))

    def __dealloc__(self):
        PyMem_Free(self.s.parts)

    def __init__(self, family, data, Py_ssize_t capacity, layout="features"):
        family.require_bound()
        self.family, self.data, self.layout = family, data, layout
        self.error = None
        capacity = max(capacity, 1)
        found = self._open(data)
        self.parts = [Components(part.family, rows, capacity, layout=layout) for part, rows in found]
        self._read_rows(found)
        self.s.n_parts = len(self.parts)
        self.s.parts = <part_state *> PyMem_Malloc(self.s.n_parts * sizeof(part_state))
        if self.s.parts == NULL:
            raise MemoryError()
        self._lay_out()
        self._set_capacity(capacity, np.zeros(capacity))
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(components_v1)
        self.api.self = <void *> &self.s
        self.api.log_predictive = columns_log_predictive
        self.api.log_predictive_self = columns_log_predictive_self
        self.api.log_marginal = columns_log_marginal
        self.api.log_merged = columns_log_merged
        self.api.log_remainder = columns_log_remainder
        self.api.add = columns_add
        self.api.remove = columns_remove
        self.api.absorb = columns_absorb
        self.api.subtract = columns_subtract
        self.api.clear = columns_clear
        self.api.swap = columns_swap
        self.api.expect = columns_expect
        self.capsule = PyCapsule_New(&self.api, "expfam.components_v1", NULL)
        self.statistics.self, self.statistics.add = <void *> &self.s, columns_add_statistics
        self.row_statistics = row_statistics_capsule(&self.statistics)

    def _open(self, data):
        """Return pairs of part and rows that have it; set `rows` and `refusal`."""
        self.rows, self.refusal, found = [], None, []
        for part in self.family.parts:
            rows, cells = cells_of(part, data.X)
            self.rows.append(None if rows is None else self._places(part, rows, data.n_rows))
            # components of no rows would have no memory to point at; nobody reads the row of ones
            found.append((part, Rows(cells if cells.shape[0] else np.ones((1, cells.shape[1])), part.family)))
        return found

    def _read_rows(self, found):
        """Set `readers` from the components of the parts and the pairs of `_open`."""
        self.readers = [RowStatistics(components.owner, rows) for components, (_, rows) in zip(self.parts, found)]

    def _places(self, part, rows, n_rows):
        """Return the number of each row among those that have a part, -1 for the others: (N,) int32."""
        places = np.full(n_rows, -1, dtype=np.int32)
        places[rows] = np.arange(len(rows), dtype=np.int32)
        if part.reading != OBSERVED:
            row = int(np.argmax(places < 0))
            self.refusal = (
                f"columns: row {row} lacks {self.family.names_of(part.columns)} or one of them, and the family was"
                " bound to data without such holes: bind it to these data, or write family.set_params(holes='any')"
                " before `bind`"
            )
        return places

    def _set_capacity(self, Py_ssize_t capacity, n):
        self.n = n
        self.s.n = &self.n[0]
        self.s.capacity = capacity
        self._take()

    def _lay_out(self):
        """Set where each part stands in phi; all families of `rebind` have the same layout."""
        cdef Py_ssize_t p
        for p, part in enumerate(self.family.parts):
            self.s.parts[p].start = self.family.offsets_[p]
            self.s.parts[p].has_indicator = part.reading == OBSERVED

    def _take(self):
        """Copy the structs of the parts, which may have moved."""
        cdef Py_ssize_t p, work = 0
        cdef Components components
        cdef RowStatistics reader
        cdef const int32_t[::1] row
        cdef uint32_t flags = 0
        for p in range(self.s.n_parts):
            components = self.parts[p]
            self.s.parts[p].c = components.c
            reader = self.readers[p]
            self.s.parts[p].rows = reader.c
            self.s.parts[p].row = NULL
            self.s.parts[p].needs_all = False
            if self.rows[p] is not None:
                row = self.rows[p]
                self.s.parts[p].row = &row[0]
                self.s.parts[p].needs_all = not self.s.parts[p].has_indicator
            flags |= components.c.flags
            work = max(work, components.c.work_size)
        self.api.flags = flags
        self.api.work_size = self.s.capacity + work
        self.scratch = np.empty(work + 1)
        self.s.work = &self.scratch[0]

    @property
    def capacity(self):
        """Return the number of slots that can be used."""
        return self.s.capacity

    @property
    def pending(self):
        """Return the exception that a part keeps, or why the last row was refused."""
        for part in (*self.parts, *self.readers):
            if part.pending is not None:
                return part.pending
        return self.error if self.refusal is None else DataError(self.refusal)

    @pending.setter
    def pending(self, error):
        self.error = error
        for part in (*self.parts, *self.readers):
            part.pending = None

    def reserve(self, Py_ssize_t capacity):
        """Make room for `capacity` slots; grow at least to twice the present capacity."""
        if capacity > self.s.capacity:
            self._grow(max(capacity, 2 * self.s.capacity))

    def _grow(self, capacity):
        for components in self.parts:
            components.reserve(capacity)
        n = np.zeros(capacity)
        n[: self.s.capacity] = self.n
        self._set_capacity(capacity, n)

    def refresh(self, labels):
        """Recompute the statistics of each slot from its members; `labels` (n_rows,) are slots."""
        n, S = self.data.statistics(labels, self.s.capacity)
        self.load(n, S)

    def rebind(self, family):
        """Use the hyper-parameters of another family of the same layout with the same statistics."""
        for components, part in zip(self.parts, family.parts):
            components.rebind(part.family)
        self.family = family
        self._take()

    def set_data(self, data):
        """Read the rows of another data set of the same columns."""
        if data.is_sparse or data.X.shape[1] != self.data.X.shape[1]:
            raise DataError(f"columns: components of {self.data!r} cannot read {data!r}")
        found = self._open(data)
        for p, (part, rows) in enumerate(found):
            if self.parts[p].can_set_data:
                self.parts[p].set_data(rows)
            else:
                arrays = self.parts[p].to_arrays()
                self.parts[p] = Components(part.family, rows, self.s.capacity, layout=self.layout)
                self.parts[p].from_arrays(arrays)
        self._read_rows(found)
        self.data = data
        self._take()

    def _places_of_parts(self):
        """Yield components and columns of phi of each part, and whether an indicator is before them."""
        cdef Py_ssize_t p
        offsets = self.family.offsets_
        for p in range(self.s.n_parts):
            has_indicator = bool(self.s.parts[p].has_indicator)
            yield self.parts[p], slice(offsets[p] + has_indicator, offsets[p + 1]), has_indicator

    def load(self, n, S):
        """Set the statistics of the slots 0..len(n)-1 from arrays and empty the others."""
        n = np.ascontiguousarray(n, dtype=np.float64)
        self.reserve(len(n))
        S = sparse.csc_array(S) if sparse.issparse(S) else np.asarray(S, dtype=np.float64)
        for components, place, has_indicator in self._places_of_parts():
            count, sums = n, S[:, place]
            if has_indicator:
                count = dense_rows(S[:, [place.start - 1]]).ravel()
            components.load(count, sums.tocsr() if sparse.issparse(sums) else np.ascontiguousarray(sums))
        every = np.zeros(self.s.capacity)
        every[: len(n)] = n
        self._set_capacity(self.s.capacity, every)

    def export(self):
        """Return copies of n (capacity,) and S (capacity, F), which is CSR where phi is."""
        blocks = []
        for components, _, has_indicator in self._places_of_parts():
            count, sums = components.export()
            if has_indicator:
                blocks.append(count[: self.s.capacity, None])
            blocks.append(sums[: self.s.capacity])
        if self.family._is_sparse:
            return np.array(self.n), sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
        return np.array(self.n), np.concatenate([dense_rows(block) for block in blocks], axis=1)

    def to_arrays(self):
        """Return all arrays that later calls read, those of part p under names that begin with "p."."""
        arrays = {"n": np.array(self.n)}
        for p, components in enumerate(self.parts):
            arrays |= {f"{p}.{name}": array for name, array in components.to_arrays().items()}
        return arrays

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        n = np.ascontiguousarray(arrays["n"], dtype=np.float64)
        for p, components in enumerate(self.parts):
            prefix = f"{p}."
            own = {name[len(prefix):]: array for name, array in arrays.items() if name.startswith(prefix)}
            components.from_arrays(own)
        self._set_capacity(len(n), n.copy())
