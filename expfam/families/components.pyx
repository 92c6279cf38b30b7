"""Handle on the sufficient statistics of K clusters, behind a versioned C struct.

`Components` copies the struct of any owner, of this package or of a plugin, and checks its version. Its methods make
each function of the struct available in Python, for tests and prediction. Samplers cimport the class and call the
struct without the gil. A call costs 4 ns more than the function of the owner.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.math cimport INFINITY, exp, isnan, log
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy, memset

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NEEDS_GIL, EXPFAM_NUMERICAL, EXPFAM_PYTHON, EXPFAM_RANGE
from expfam.families.growth cimport GROWTH, growth_line, log_growth_v1
from expfam.structures.selection.top_l cimport TOP_PADDING, top_row, top_work_size
from expfam.structures.simd.softmax cimport expfam_max
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.amounts import counted
from expfam.errors import PluginError, SupportError
from expfam.families._stored_statistics import check_stored

cdef const char *CAPSULE = "expfam.components_v1"
cdef Py_ssize_t FEW_SLOTS = 64  # the highest of fewer is found in one pass over them
cdef double DEPTH = 46.0        # slots that lie this many nats below the best one have no probability


ctypedef struct struct_head:        # first members of every struct of contracts.pxd
    uint32_t abi_version
    uint32_t struct_size


cdef int copy_struct(capsule, const char *name, void *target, size_t size, size_t least, what) except -1:
    """Check name, version and size of the struct in an owner's capsule, then copy it.

    `what` names the owner in messages. `least` is the size of the first version. Members that were appended later
    are zero in the copy if the owner was built without them.
    """
    if not PyCapsule_IsValid(capsule, name):
        raise PluginError(f"{what} must hand over a capsule named {name.decode()!r}; got {capsule!r}")
    cdef struct_head *given = <struct_head *> PyCapsule_GetPointer(capsule, name)
    if given.abi_version != EXPFAM_ABI:
        raise PluginError(
            f"{what} were built for interface version {given.abi_version}, this expfam has version {EXPFAM_ABI}:"
            f" upgrade the {'plugin' if given.abi_version < EXPFAM_ABI else 'expfam package'}"
        )
    if given.struct_size < least:
        raise PluginError(
            f"{what} have a struct of {counted(given.struct_size, 'byte')}, the first version has {least}"
        )
    memset(target, 0, size)
    memcpy(target, given, min(<size_t> given.struct_size, size))
    return 0


def require_functions(what, **is_there):
    """Raise PluginError if a struct lacks a function: calling NULL would crash the process."""
    absent = [name for name, there in is_there.items() if not there]
    if absent:
        raise PluginError(f"{what} lack {', '.join(absent)}: fill in every function that is not optional")


cdef int copy_growth(capsule, log_growth_v1 *target, family) except -1:
    """Copy the struct in the capsule `growth` of a family's components."""
    what = f"bounds of growth of family {family.name!r}"
    copy_struct(capsule, GROWTH, target, sizeof(log_growth_v1), sizeof(log_growth_v1), what)
    require_functions(what, line=target.line != NULL)
    return 0


cdef int components_set_members(components_v1 *c, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Let slot k hold the data `rows` and no others; it may be empty after a failure."""
    cdef Py_ssize_t j
    cdef int code
    if c.set_members != NULL:
        return c.set_members(c.self, rows, n, k)
    code = c.clear(c.self, k)
    for j in range(n):
        if not code:
            code = c.add(c.self, rows[j], k)
    if code:
        c.clear(c.self, k)
    return code


cdef Py_ssize_t add_masses(double *scores, const double *mass, Py_ssize_t m) noexcept nogil:
    """Add log masses to scores; return the first slot whose score is NaN, m if there is none."""
    cdef Py_ssize_t k, n_bad = 0
    expfam_add_row(scores, mass, 1.0, m)
    for k in range(m):
        n_bad += scores[k] != scores[k]
    if n_bad:
        for k in range(m):
            if isnan(scores[k]):
                return k
    return m


cdef Py_ssize_t first_of_highest(const double *scores, Py_ssize_t m) noexcept nogil:
    """Return the slot of the highest score, of equal ones the first."""
    cdef double best = expfam_max(scores, m)
    cdef Py_ssize_t k = 0
    while scores[k] != best:
        k += 1
    return k


cdef Py_ssize_t add_masses_and_compare(double *scores, const double *mass, Py_ssize_t m,
                                       Py_ssize_t *top) noexcept nogil:
    """Do as `add_masses`; if no score is NaN, set `top` to the first of the highest."""
    cdef Py_ssize_t k, n_bad = 0
    if m >= FEW_SLOTS:
        k = add_masses(scores, mass, m)
        if k == m:
            top[0] = first_of_highest(scores, m)
        return k
    top[0] = 0
    for k in range(m):
        scores[k] += mass[k]
        n_bad += scores[k] != scores[k]
        if scores[k] > scores[top[0]]:
            top[0] = k
    if n_bad:
        for k in range(m):
            if isnan(scores[k]):
                return k
    return m


cdef class Components:
    """Statistics of the clusters in numbered slots, for one bound family and one data set.

    It wraps the C struct of `owner`, the result of ``family.components``, which owns the memory, and refuses a struct
    of another name, version or size, or without a required function, by a PluginError. `capacity` slots can be used
    without `reserve`. The layout of the counts of count families is "features", a table with a row for each word, which
    suits samplers, or "clusters", a sparse list for each cluster, which suits hierarchies.
    """

    def __init__(self, family, data, Py_ssize_t capacity, *, layout="features"):
        self.family = family
        self.n_rows = data.n_rows
        self.owner = family.components(data, capacity, layout=layout)
        self.take()

    cdef int take(self) except -1:
        cdef size_t least = <const char *> &self.c.expect - <const char *> &self.c  # optional from here on
        what = f"components of family {self.family.name!r}"
        copy_struct(self.owner.capsule, CAPSULE, &self.c, sizeof(components_v1), least, what)
        require_functions(
            what,
            log_predictive=self.c.log_predictive != NULL, log_predictive_self=self.c.log_predictive_self != NULL,
            log_marginal=self.c.log_marginal != NULL, log_merged=self.c.log_merged != NULL,
            log_remainder=self.c.log_remainder != NULL, add=self.c.add != NULL, remove=self.c.remove != NULL,
            absorb=self.c.absorb != NULL, subtract=self.c.subtract != NULL, clear=self.c.clear != NULL,
            swap=self.c.swap != NULL,
        )
        self.capacity = self.owner.capacity
        self.work = np.empty(max(self.c.work_size, 1))
        return 0

    cdef object fail(self, int code, Py_ssize_t i, Py_ssize_t k):
        where = f"family {self.family.name!r}, datum {i}, slot {k}"
        if code == EXPFAM_PYTHON:
            pending, self.pending = self.pending, None
            return pending if pending is not None else PluginError(f"{where}: failed without leaving its exception")
        if code == EXPFAM_NUMERICAL:
            return FloatingPointError(f"{where}: the statistics are not finite or no longer positive definite")
        if code == EXPFAM_RANGE:
            return SupportError(f"{where}: removing what is not there, or a slot beyond the capacity {self.capacity}")
        return PluginError(f"{where}: unknown result {code}")

    @property
    def needs_gil(self):
        """Return whether the functions acquire the gil; then only one thread should call them."""
        return bool(self.c.flags & EXPFAM_NEEDS_GIL)

    def _check(self, Py_ssize_t i, Py_ssize_t k):
        if not 0 <= i < self.n_rows:
            raise IndexError(f"datum {i} does not exist: there are {self.n_rows}")
        if not 0 <= k < self.capacity:
            raise IndexError(f"slot {k} of {self.capacity}")

    @property
    def pending(self):
        """Return the exception of a function that returned EXPFAM_PYTHON, or None.

        It is set to None when the exception is raised.
        """
        return getattr(self.owner, "pending", None)

    @pending.setter
    def pending(self, error):
        self.owner.pending = error

    def _slots(self, ks):
        slots = np.ascontiguousarray(ks, dtype=np.intp)
        if slots.size and (np.minimum.reduce(slots) < 0 or np.maximum.reduce(slots) >= self.capacity):
            raise IndexError(f"slots must lie in 0..{self.capacity - 1}; got {slots.min()}..{slots.max()}")
        return slots

    def log_predictive(self, Py_ssize_t i, ks=None):
        """Return the log predictive of datum `i` under the slots `ks`, or under all slots.

        Parameters
        ----------
        i : int
        ks : sequence of int, optional
            Slots; all if not given.

        Returns
        -------
        (m,) float64 ndarray
            Nats, without log-base.
        """
        self._check(i, 0)
        cdef Py_ssize_t[::1] slots = None if ks is None else self._slots(ks)
        cdef Py_ssize_t m = self.capacity if ks is None else slots.shape[0]
        out = np.empty(m)
        cdef double[::1] view = out
        cdef int code
        if m:
            code = self.c.log_predictive(self.c.self, i, NULL if ks is None else &slots[0], m, &view[0], &self.work[0])
            if code:
                raise self.fail(code, i, -1)
        return out

    def log_predictive_block(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t m, out=None):
        """Return the log predictives of the data start..stop-1 under the slots 0..m-1.

        The method releases the gil; several threads may call it.

        Parameters
        ----------
        start, stop : int
        m : int
            Number of slots.
        out : (stop - start, m) float64 ndarray, optional
            Memory for the result.

        Returns
        -------
        (stop - start, m) float64 ndarray
            Nats, without log-base.
        """
        if not 0 <= start <= stop <= self.n_rows or not 0 <= m <= self.capacity:
            raise IndexError(f"rows {start}:{stop} of {self.n_rows}, slots {m} of {self.capacity}")
        if out is None:
            out = np.empty((stop - start, m))
        cdef double[:, ::1] view = out
        cdef double[::1] work = np.empty(max(self.c.work_size, 1))
        cdef Py_ssize_t i = start
        cdef int code = 0
        if m:
            with nogil:
                for i in range(start, stop):
                    code = self.c.log_predictive(self.c.self, i, NULL, m, &view[i - start, 0], &work[0])
                    if code:
                        break
            if code:
                raise self.fail(code, i, -1)
        return out

    def most_probable(self, Py_ssize_t start, Py_ssize_t stop, log_mass, labels, best=None, total=None):
        """Write the most probable slot of consecutive data into the caller's memory.

        The score of a slot is its log mass plus the log predictive of the datum, which is not taken out of its slot.
        The method releases the gil; several threads may call it. No array of scores is made.

        Parameters
        ----------
        start, stop : int
            First datum, and the one after the last.
        log_mass : (m,) float64 ndarray
            Log mass of the slots 0..m-1, nats; -inf for slots that no datum may choose.
        labels : (stop - start,) int32 ndarray
            Receives the slot with the highest score, of equal ones the first.
        best : (stop - start,) float64 ndarray, optional
            Receives the highest score, nats, without log-base.
        total : (stop - start,) float64 ndarray, optional
            Receives the log of the sum of the exponentials of all scores, nats.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the datum and the slot.
        """
        cdef const double[::1] mass = log_mass
        cdef int32_t[::1] chosen = labels
        cdef double[::1] highest = best
        cdef double[::1] sums = total
        cdef Py_ssize_t m = mass.shape[0], i = start, j, k = m, top, size = stop - start
        if not 0 <= start <= stop <= self.n_rows or not 1 <= m <= self.capacity:
            raise IndexError(f"rows {start}:{stop} of {self.n_rows}, slots {m} of {self.capacity}")
        for name, given in (("labels", labels), ("best", best), ("total", total)):
            if given is not None and given.shape != (size,):
                raise ValueError(f"{name} must have shape ({size},); got {given.shape}")
        cdef double[::1] scores = np.empty(m)
        cdef double[::1] work = np.empty(max(self.c.work_size, 1))
        cdef bint wants_best = best is not None, wants_total = total is not None
        cdef double sum_
        cdef int code = 0
        with nogil:
            for i in range(start, stop):
                code = self.c.log_predictive(self.c.self, i, NULL, m, &scores[0], &work[0])
                if code:
                    break
                k = add_masses_and_compare(&scores[0], &mass[0], m, &top)
                if k < m:
                    break
                chosen[i - start] = <int32_t> top
                if wants_best:
                    highest[i - start] = scores[top]
                if wants_total:
                    sum_ = 0.0
                    for j in range(m):
                        sum_ += exp(scores[j] - scores[top])
                    sums[i - start] = scores[top] + log(sum_) if scores[top] > -INFINITY else -INFINITY
        if code:
            raise self.fail(code, i, -1)
        if k < m:
            raise FloatingPointError(f"family {self.family.name!r}, datum {i}, slot {k}: the score is NaN")

    def shares(self, Py_ssize_t start, Py_ssize_t stop, log_mass, labels, out):
        """Write the probability of the given slot of each datum into the caller's memory.

        Scores are those of `most_probable`. The method releases the gil; several threads may call it.

        Parameters
        ----------
        start, stop : int
            First datum, and the one after the last.
        log_mass : (m,) float64 ndarray
            Log mass of the slots 0..m-1, nats.
        labels : (stop - start,) int32 ndarray
            Slot of each datum, below m.
        out : (stop - start,) float32 ndarray
            Receives the probabilities; NaN where all scores are -inf.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the datum and the slot.
        """
        cdef const double[::1] mass = log_mass
        cdef const int32_t[::1] own = labels
        cdef float[::1] share = out
        cdef Py_ssize_t m = mass.shape[0], i = start, j, k = m
        self._check_block(start, stop, m, own.shape[0], share.shape[0])
        if own.shape[0] and not 0 <= np.min(labels) <= np.max(labels) < m:
            raise IndexError(f"labels from {np.min(labels)} to {np.max(labels)} of {counted(m, 'slot')}")
        cdef double[::1] scores = np.empty(m), work = np.empty(max(self.c.work_size, 1))
        cdef double top, total
        cdef int code = 0
        with nogil:
            for i in range(start, stop):
                code = self.c.log_predictive(self.c.self, i, NULL, m, &scores[0], &work[0])
                if code:
                    break
                k = add_masses(&scores[0], &mass[0], m)
                if k < m:
                    break
                top, total = expfam_max(&scores[0], m), 0.0
                for j in range(m):
                    if scores[j] > top - DEPTH:
                        total += exp(scores[j] - top)
                share[i - start] = <float> (exp(scores[own[i - start]] - top) / total)
        if code:
            raise self.fail(code, i, -1)
        if k < m:
            raise FloatingPointError(f"family {self.family.name!r}, datum {i}, slot {k}: the score is NaN")

    def ranked(self, Py_ssize_t start, Py_ssize_t stop, log_mass, slots, margins):
        """Write the slots with the highest scores of consecutive data into the caller's memory.

        Scores are those of `most_probable`. The method releases the gil; several threads may call it.

        Parameters
        ----------
        start, stop : int
            First datum, and the one after the last.
        log_mass : (m,) float64 ndarray
            Log mass of the slots 0..m-1, nats.
        slots : (stop - start, L) int32 ndarray
            Receives the L best slots of each datum, the best one first, of equal ones the lower one first. L is from 2
            to m.
        margins : (stop - start,) float64 ndarray
            Receives by how much the best score exceeds the second one, nats.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the datum and the slot.
        """
        cdef const double[::1] mass = log_mass
        cdef int32_t[:, ::1] best = slots
        cdef double[::1] margin = margins
        cdef Py_ssize_t m = mass.shape[0], i = start, k = m, j, L = best.shape[1]
        self._check_block(start, stop, m, best.shape[0], margin.shape[0])
        if not 2 <= L <= m:
            raise IndexError(f"{L} best slots of {m}")
        cdef double[::1] scores = np.empty(m), work = np.empty(max(self.c.work_size, 1))
        cdef double[::1] top = np.empty(L + TOP_PADDING), selecting = np.empty(top_work_size(m))
        cdef int code = 0
        with nogil:
            for i in range(start, stop):
                code = self.c.log_predictive(self.c.self, i, NULL, m, &scores[0], &work[0])
                if code:
                    break
                k = add_masses(&scores[0], &mass[0], m)
                if k < m:
                    break
                if top_row(&scores[0], m, L, &top[0], &best[i - start, 0], &selecting[0]):     # all are -inf
                    for j in range(L):
                        best[i - start, j], top[j] = <int32_t> j, -INFINITY
                margin[i - start] = top[0] - top[1]
        if code:
            raise self.fail(code, i, -1)
        if k < m:
            raise FloatingPointError(f"family {self.family.name!r}, datum {i}, slot {k}: the score is NaN")

    def most_probable_of(self, Py_ssize_t start, Py_ssize_t stop, log_mass, slots, labels, margins, rows=None):
        """Write the most probable of some slots of each datum into the caller's memory.

        Scores are those of `most_probable`. The method releases the gil; several threads may call it.

        Parameters
        ----------
        start, stop : int
            First datum, and the one after the last; or the places of their numbers in `rows`.
        log_mass : (m,) float64 ndarray
            Log mass of the slots 0..m-1, nats.
        slots : (stop - start, L) int32 ndarray
            Different slots of each datum among which it chooses; L is at least 2.
        labels : (stop - start,) int32 ndarray
            Receives the slot with the highest score, of equal ones the lowest.
        margins : (stop - start,) float64 ndarray
            Receives by how much the best score exceeds the second one, nats.
        rows : (R,) intp ndarray, optional
            Numbers of the data, where only some of them choose.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the datum and the slot.
        """
        cdef const double[::1] mass = log_mass
        cdef const int32_t[:, ::1] given = slots
        cdef int32_t[::1] chosen = labels
        cdef double[::1] margin = margins
        cdef const Py_ssize_t[::1] number = rows
        cdef Py_ssize_t m = mass.shape[0], i = start, j = 0, L = given.shape[1], row = start
        self._check_block(start, stop, m, given.shape[0], margin.shape[0], n_rows=None if rows is None else len(rows))
        if rows is not None and stop > start and not 0 <= np.min(rows) <= np.max(rows) < self.n_rows:
            raise IndexError(f"data from {np.min(rows)} to {np.max(rows)} of {self.n_rows}")
        if L < 2 or chosen.shape[0] != stop - start or (given.size and not 0 <= np.min(slots) <= np.max(slots) < m):
            raise IndexError(f"{counted(L, 'slot')} of {m}, {counted(chosen.shape[0], 'label')} for"
                             f" {counted(stop - start, 'row')}")
        cdef Py_ssize_t[::1] ks = np.empty(L, dtype=np.intp)
        cdef double[::1] scores = np.empty(L), work = np.empty(max(self.c.work_size, 1))
        cdef double first, second
        cdef Py_ssize_t top
        cdef bint found_nan = False
        cdef int code = 0
        with nogil:
            for i in range(start, stop):
                for j in range(L):
                    ks[j] = given[i - start, j]
                row = i if number is None else number[i]
                code = self.c.log_predictive(self.c.self, row, &ks[0], L, &scores[0], &work[0])
                if code:
                    break
                first, second, top = -INFINITY, -INFINITY, m
                for j in range(L):
                    scores[j] += mass[ks[j]]
                    if isnan(scores[j]):
                        found_nan = True
                        break
                    if scores[j] > first or (scores[j] == first and ks[j] < top):
                        first, second, top = scores[j], first, ks[j]
                    elif scores[j] > second:
                        second = scores[j]
                if found_nan:
                    break
                chosen[i - start], margin[i - start] = <int32_t> top, first - second
        if code:
            raise self.fail(code, row, -1)
        if found_nan:
            raise FloatingPointError(f"family {self.family.name!r}, datum {row}, slot {ks[j]}: the score is NaN")

    def _check_block(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t m, *sizes, n_rows=None):
        n_rows = self.n_rows if n_rows is None else n_rows
        if not 0 <= start <= stop <= n_rows or not 1 <= m <= self.capacity:
            raise IndexError(f"rows {start}:{stop} of {n_rows}, slots {m} of {self.capacity}")
        if any(size != stop - start for size in sizes):
            raise ValueError(f"rows of the results: {sizes}, not {stop - start}")

    def likelier_of_two(self, pairs, log_mass, chosen):
        """Write which of two slots is more probable for each datum into the caller's memory.

        Slots 2 p and 2 p + 1 are pair p. The score of a slot is its log mass plus the log predictive of the datum,
        which is not taken out of its slot. The method releases the gil.

        Parameters
        ----------
        pairs : (n_rows,) int32 ndarray
            Pair between whose slots each datum chooses.
        log_mass : (2 P,) float64 ndarray
            Log mass of the slots, nats; -inf for slots that no datum may choose.
        chosen : (n_rows,) int32 ndarray
            Receives 1 where the score of slot 2 p + 1 is higher than that of slot 2 p, else 0.

        Raises
        ------
        FloatingPointError
            A score is NaN; the message names the datum and the pair.
        IndexError
            There are other numbers of data or of slots.
        """
        cdef const int32_t[::1] pair = pairs
        cdef const double[::1] mass = log_mass
        cdef int32_t[::1] half = chosen
        cdef Py_ssize_t i = 0, n = self.n_rows
        cdef Py_ssize_t slots[2]
        cdef double scores[2]
        cdef double[::1] work = np.empty(max(self.c.work_size, 1))
        cdef bint found_nan = False
        cdef int code = 0
        if pair.shape[0] != n or half.shape[0] != n or mass.shape[0] > self.capacity or mass.shape[0] % 2:
            raise IndexError(
                f"{counted(pair.shape[0], 'pair')}, {counted(half.shape[0], 'result')} for {counted(n, 'row')}, "
                f"{counted(mass.shape[0], 'slot')}"
            )
        if n and not (0 <= np.min(pairs) and 2 * np.max(pairs) < mass.shape[0]):
            raise IndexError(f"pairs from {np.min(pairs)} to {np.max(pairs)} of {mass.shape[0] // 2}")
        with nogil:
            for i in range(n):
                slots[0] = 2 * pair[i]
                slots[1] = slots[0] + 1
                code = self.c.log_predictive(self.c.self, i, slots, 2, scores, &work[0])
                if code:
                    break
                scores[0] += mass[slots[0]]
                scores[1] += mass[slots[1]]
                if isnan(scores[0]) or isnan(scores[1]):
                    found_nan = True
                    break
                half[i] = scores[1] > scores[0]
        if code:
            raise self.fail(code, i, -1)
        if found_nan:
            raise FloatingPointError(f"family {self.family.name!r}, datum {i}, pair {slots[0] // 2}: a score is NaN")

    def growth_line(self, Py_ssize_t k, Py_ssize_t l, double depth):
        """Return a line that bounds the log density of any datum x after a merge of k and l.

        Parameters
        ----------
        k, l : int
            Slots of the two clusters.
        depth : float
            Log density under k at which the bound is as low as possible, nats.

        Returns
        -------
        (slope, level) or None
            The bound is log p(x | k and l) <= (1 - slope) log p(x | k) + level. None if the family's components have no
            attribute ``growth``.
        """
        cdef log_growth_v1 growth
        cdef growth_line line
        cdef int code
        self._slots([k, l])
        capsule = getattr(self.owner, "growth", None)
        if capsule is None:
            return None
        copy_growth(capsule, &growth, self.family)
        code = growth.line(growth.self, k, l, depth, &line)
        if code:
            raise self.fail(code, -1, k)
        return line.slope, line.level

    def log_predictive_self(self, Py_ssize_t i, Py_ssize_t k):
        """Return the log predictive of datum `i` of cluster `k`, given the other data of `k`, nats.

        Parameters
        ----------
        i : int
            Number of a datum of cluster `k`.
        k : int
            Its slot.

        Returns
        -------
        float
            Without log-base.
        """
        self._check(i, k)
        cdef double out = 0.0
        cdef int code = self.c.log_predictive_self(self.c.self, i, k, &out, &self.work[0])
        if code:
            raise self.fail(code, i, k)
        return out

    def log_marginal(self, ks=None):
        """Return the log evidence of the clusters `ks`, or of all slots, nats, without log-base."""
        cdef Py_ssize_t[::1] slots = self._slots(range(self.capacity) if ks is None else ks)
        out = np.empty(slots.shape[0])
        cdef double[::1] view = out
        cdef int code
        if slots.shape[0]:
            code = self.c.log_marginal(self.c.self, &slots[0], slots.shape[0], &view[0], &self.work[0])
            if code:
                raise self.fail(code, -1, -1)
        return out

    def log_merged(self, Py_ssize_t k, ls):
        """Return the log evidence of cluster `k` merged with each cluster of `ls`: (len(ls),) nats.

        The log base measure is left out.

        Parameters
        ----------
        k : int
            Slot of a cluster.
        ls : sequence of int
            Slots of the other clusters.
        """
        self._check(0, k)
        cdef Py_ssize_t[::1] slots = self._slots(ls)
        out = np.empty(slots.shape[0])
        cdef double[::1] view = out
        cdef int code
        if slots.shape[0]:
            code = self.c.log_merged(self.c.self, k, &slots[0], slots.shape[0], &view[0], &self.work[0])
            if code:
                raise self.fail(code, -1, k)
        return out

    def log_joint_predictive(self, Py_ssize_t k, ls):
        """Return the joint log predictive of all data of cluster `k` under each of `ls`, in nats.

        It is `log_merged` less the log evidence of the cluster of `ls`, and computed so where the owner has no function
        for it.

        Parameters
        ----------
        k : int
            Slot of the cluster whose data are scored.
        ls : sequence of int
            Slots of the clusters under which they are scored.
        """
        self._check(0, k)
        cdef Py_ssize_t[::1] slots = self._slots(ls)
        cdef bint is_range = bool((np.asarray(slots) == np.arange(len(slots))).all())
        out = np.empty(slots.shape[0])
        cdef double[::1] view = out
        cdef int code
        if self.c.log_joint_predictive == NULL:
            return self.log_merged(k, ls) - self.log_marginal(ls)
        if slots.shape[0]:
            code = self.c.log_joint_predictive(
                self.c.self, k, NULL if is_range else &slots[0], slots.shape[0], &view[0], &self.work[0]
            )
            if code:
                raise self.fail(code, -1, k)
        return out

    def log_remainder(self, Py_ssize_t k, Py_ssize_t l):
        """Return the log evidence of cluster `k` without the data of cluster `l`, nats.

        The log base measure is left out.

        Parameters
        ----------
        k, l : int
            Slots; the data of cluster `l` are among those of cluster `k`.
        """
        self._check(0, k)
        self._check(0, l)
        cdef double out = 0.0
        cdef int code = self.c.log_remainder(self.c.self, k, l, &out, &self.work[0])
        if code:
            raise self.fail(code, -1, k)
        return out

    def add(self, Py_ssize_t i, Py_ssize_t k):
        """Add datum `i` to cluster `k`.

        Parameters
        ----------
        i : int
            Number of the datum.
        k : int
            Slot, empty or not.
        """
        self._check(i, k)
        cdef int code = self.c.add(self.c.self, i, k)
        if code:
            raise self.fail(code, i, k)

    def remove(self, Py_ssize_t i, Py_ssize_t k):
        """Remove datum `i` from cluster `k`.

        Parameters
        ----------
        i : int
            Number of a datum of cluster `k`.
        k : int
            Its slot.
        """
        self._check(i, k)
        cdef int code = self.c.remove(self.c.self, i, k)
        if code:
            raise self.fail(code, i, k)

    def set_members(self, rows, Py_ssize_t k):
        """Let cluster `k` hold the data `rows` and no others.

        Parameters
        ----------
        rows : (m,) array_like of int
            Numbers of the data; none empties the cluster.
        k : int
            Slot.
        """
        cdef const Py_ssize_t[::1] members = np.ascontiguousarray(rows, dtype=np.intp)
        for i in members:
            self._check(i, k)
        if members.shape[0] == 0:
            self.clear(k)
            return
        cdef int code = components_set_members(&self.c, &members[0], members.shape[0], k)
        if code:
            raise self.fail(code, -1, k)

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Move all data of cluster `l` into cluster `k`; `l` becomes empty.

        Parameters
        ----------
        k, l : int
            Slots of two clusters with data.
        """
        self._check(0, k)
        self._check(0, l)
        cdef int code = self.c.absorb(self.c.self, k, l)
        if code:
            raise self.fail(code, -1, k)

    def subtract(self, Py_ssize_t k, Py_ssize_t l):
        """Subtract the statistics of cluster `l` from cluster `k`; `l` does not change.

        Parameters
        ----------
        k, l : int
            Slots; the data of cluster `l` are among those of cluster `k`.
        """
        self._check(0, k)
        self._check(0, l)
        cdef int code = self.c.subtract(self.c.self, k, l)
        if code:
            raise self.fail(code, -1, k)

    def clear(self, Py_ssize_t k):
        """Empty cluster `k`."""
        self._check(0, k)
        cdef int code = self.c.clear(self.c.self, k)
        if code:
            raise self.fail(code, -1, k)

    def swap(self, Py_ssize_t k, Py_ssize_t l):
        """Exchange the clusters in the slots `k` and `l`."""
        self._check(0, k)
        self._check(0, l)
        cdef int code = self.c.swap(self.c.self, k, l)
        if code:
            raise self.fail(code, -1, k)

    def reserve(self, Py_ssize_t capacity):
        """Make room for at least `capacity` slots; the capacity at least doubles if it grows."""
        if capacity > self.capacity:
            self.owner.reserve(capacity)
            self.take()

    def refresh(self, labels):
        """Recompute the statistics from the members of the clusters.

        `labels` (n_rows,) int32 are slots, negative for data in no cluster.
        """
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        if labels.shape != (self.n_rows,):
            raise ValueError(f"labels must have shape ({self.n_rows},); got {labels.shape}")
        if labels.size and labels.max() >= self.capacity:
            raise IndexError(f"label {labels.max()} needs a slot beyond the capacity {self.capacity}")
        self.owner.refresh(labels)

    def rebind(self, family):
        """Use other hyper-parameters with the same statistics."""
        self.owner.rebind(family)
        self.family = family
        self.take()

    @property
    def can_set_data(self):
        """Return whether the owner has the optional method `set_data`."""
        return hasattr(self.owner, "set_data")

    def set_data(self, data):
        """Read the rows of another data set with the same statistics.

        No other thread may use the components during the call.

        Parameters
        ----------
        data : Dataset
            Of the same bound family, and CSR if and only if the former data are CSR.

        Raises
        ------
        DataError
            The data are of another kind; nothing was changed.
        """
        self.owner.set_data(data)
        self.n_rows = data.n_rows
        self.take()

    def load(self, n, S):
        """Set the statistics of the slots 0..len(n)-1 and empty the others.

        Parameters
        ----------
        n : (K,) array_like of float
            Number of data of each cluster.
        S : (K, F) ndarray or CSR
            Sums of their phi.
        """
        n = np.ascontiguousarray(n, dtype=np.float64)
        self.reserve(n.shape[0])
        self.owner.load(n, S)

    def export(self):
        """Return the statistics of all slots: n (capacity,) float64 and S (capacity, F).

        S is CSR for count families.
        """
        return self.owner.export()

    def watch_work(self, Py_ssize_t extra=64):
        """Return sentinels that lie directly behind a work buffer of exactly the stated size.

        Tests use them to find owners that write behind the buffer. The view (extra,) holds NaN as long as no call has
        written there. It is valid until the next `reserve`, `rebind` or `from_arrays`.
        """
        buffer = np.full(self.c.work_size + max(extra, 1), np.nan)
        self.work = buffer
        return buffer[self.c.work_size :]

    def to_arrays(self):
        """Return all numbers that later calls read, as a dict of arrays."""
        return self.owner.to_arrays()

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned, bit for bit.

        Raises
        ------
        ArchiveError
            The arrays belong to other columns or are damaged; nothing was changed.
        """
        if type(self.owner).__module__.partition(".")[0] == "expfam":       # a plugin checks its own arrays
            check_stored(arrays, self.owner.to_arrays())
        self.owner.from_arrays(arrays)
        self.take()
