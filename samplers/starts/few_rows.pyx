"""Passes of an ascent over few rows of a compiled family.

A pass over a hundred rows takes microseconds, and each NumPy call on the way as long. So statistics, scores and log
joint are computed here, in memory that is made once.
"""

import numpy as np

from libc.math cimport INFINITY, isnan, lgamma, log
from libc.stdint cimport int32_t

from expfam.families.components cimport Components
from expfam.model.statistics cimport add_segments_with

from expfam.amounts import counted
from expfam.model.assignment import LoadedClusters
from expfam.structures.ground.threads import segments

cdef Py_ssize_t MOST_BYTES = 1 << 21    # of the statistics of all rows, which are held
cdef Py_ssize_t MOST_SCORES = 1 << 17   # of a pass; more are worth several threads


def are_few_rows(model, data, Py_ssize_t n_clusters):
    """Return whether `FewRows` can be used: few rows that count once, and a compiled family."""
    cdef Py_ssize_t n_rows = data.n_rows
    if 8 * n_rows * data.n_statistics > MOST_BYTES or n_rows * n_clusters > MOST_SCORES:
        return False
    is_plain = data.weight is None and (data.known is None or data.known.stays is None)
    is_known = "compiled" in model.family.capabilities and hasattr(model.weights, "log_prior_by_number")
    return is_plain and is_known and not data.has_sparse_phi


cdef class FewRows:
    """Labels of few rows, and the clusters that they make.

    Parameters
    ----------
    model : MixtureModel
        Bound to the data.
    data : Dataset
        See `are_few_rows`.
    n_clusters : int
        Number K of clusters, with those that hold no row.

    Attributes
    ----------
    n : (K,) float64 ndarray
        Number of rows in each cluster.
    """

    cdef readonly object n
    cdef object S_array, data, bounds_array
    cdef Components components
    cdef const double[:, ::1] phi
    cdef const double[::1] by_number
    cdef const Py_ssize_t[::1] bounds
    cdef Py_ssize_t[::1] slots
    cdef double[:, ::1] S, part
    cdef double[::1] count, mass, scores, work, evidence
    cdef double offset, strength

    def __init__(self, model, data, Py_ssize_t n_clusters):
        self.data = data
        F = data.n_statistics
        self.n, self.S_array = np.zeros(n_clusters), np.zeros((n_clusters, F))
        self.components = LoadedClusters(model.family, self.n, self.S_array).loaded(data)
        self.count, self.S, self.part = self.n, self.S_array, np.zeros((n_clusters, F))
        self.phi = data.phi(0, data.n_rows)
        ends = [start for start, _ in segments(data.n_rows)] + [data.n_rows]
        self.bounds = np.array(ends, dtype=np.intp)
        self.slots = np.arange(n_clusters, dtype=np.intp)
        self.mass, self.scores, self.evidence = np.empty(n_clusters), np.empty(n_clusters), np.empty(n_clusters)
        self.work = np.empty(max(self.components.c.work_size, 1))
        self.by_number = model.weights.log_prior_by_number(data.n_rows, n_clusters)
        self.offset, self.strength = model.weights.offset, model.weights.strength

    def load(self, const int32_t[::1] labels):
        """Let the clusters hold the rows of their labels, which are below K."""
        cdef Py_ssize_t i
        if labels.shape[0] != self.phi.shape[0]:
            raise ValueError(f"{counted(labels.shape[0], 'label')} for {counted(self.phi.shape[0], 'row')}")
        with nogil:
            self.count[:] = 0.0
            self.S[:, :] = 0.0
            for i in range(labels.shape[0]):
                self.count[labels[i]] += 1.0
            add_segments_with(self.S, self.part, self.phi, labels, self.bounds)
        self.components.load(self.n, self.S_array)

    def log_joint(self):
        """Return the log joint of the labels that were loaded last, nats, without log-base."""
        cdef Py_ssize_t k, K = self.count.shape[0], n_used = 0
        cdef double total = 0.0
        cdef int code
        with nogil:
            code = self.components.c.log_marginal(
                self.components.c.self, &self.slots[0], K, &self.evidence[0], &self.work[0]
            )
            for k in range(K):
                total += self.evidence[k]
                if self.count[k] > 0.0:
                    total += lgamma(self.count[k] + self.offset)
                    n_used += 1
        if code:
            raise self.components.fail(code, -1, -1)
        return total + self.by_number[n_used]

    def most_probable(self):
        """Return the cluster with the highest log mass plus log predictive for each row: (N,) int32.

        Of equal ones it is the first. No row is taken out of its cluster, and none chooses an empty one.

        Raises
        ------
        FloatingPointError
            A score is NaN.
        """
        found = np.empty(self.phi.shape[0], dtype=np.int32)
        cdef int32_t[::1] labels = found
        cdef Py_ssize_t i = 0, k = 0, top, K = self.count.shape[0]
        cdef double total = self.phi.shape[0] + self.strength
        cdef bint found_nan = False
        cdef int code = 0
        with nogil:
            for k in range(K):
                self.mass[k] = log((self.count[k] + self.offset) / total) if self.count[k] > 0.0 else -INFINITY
            for i in range(self.phi.shape[0]):
                code = self.components.c.log_predictive(
                    self.components.c.self, i, NULL, K, &self.scores[0], &self.work[0]
                )
                if code:
                    break
                top = 0
                for k in range(K):
                    self.scores[k] += self.mass[k]
                    if isnan(self.scores[k]):
                        found_nan = True
                        break
                    if self.scores[k] > self.scores[top]:
                        top = k
                if found_nan:
                    break
                labels[i] = <int32_t> top
        if code:
            raise self.components.fail(code, i, -1)
        if found_nan:
            name = self.components.family.name
            raise FloatingPointError(f"family {name!r}, datum {i}, slot {k}: the score is NaN")
        return found

    def climb(self, const int32_t[::1] labels, Py_ssize_t max_passes, *, hold=None, known=None,
              double least=-INFINITY, double hope=0.0, double least_rise=0.0):
        """Move all rows to their most probable clusters, again and again while the log joint rises.

        Parameters
        ----------
        labels : (N,) int32 ndarray
            First labels.
        max_passes : int
        hold : callable, optional
            ``hold(wanted, labels)`` gives rows back to clusters that a pass would empty, in a copy. Clusters may be
            emptied where it is not given.
        known : callable, optional
            Tells whether labels are the end of an earlier ascent.
        least, hope, least_rise : float
            The ascent ends early where a log joint of `least` is out of reach although each pass gains `hope`, or twice
            what the last one has gained, and where a pass gains less than `least_rise`.

        Returns
        -------
        labels, wanted : (N,) int32 ndarray
            Labels, and the most probable clusters as of the last pass; both are the caller's own.
        is_mode, is_hopeless : bool
            Whether no row moves that may, and whether the ascent has ended early.
        """
        cdef double log_joint = 0.0, reached, before
        cdef Py_ssize_t number
        cdef bint is_mode = False
        cdef object own = np.array(labels), wanted = own, moved
        self.load(own)
        for number in range(max_passes):
            moved = wanted = self.most_probable()
            if hold is not None and first_lost(own, wanted, self.count.shape[0]) >= 0:
                moved = hold(wanted, own)
            is_mode = are_equal(moved, own)
            if is_mode:
                break
            if number == 0:
                log_joint = self.log_joint()
            self.load(moved)
            reached = self.log_joint()
            if not reached > log_joint:
                break
            own, before, log_joint = moved, log_joint, reached
            if known is not None and known(own):
                return own, own, False, False
            if number > 0 and log_joint + (max_passes - 1 - number) * max(2.0 * (log_joint - before), hope) < least:
                return own, wanted, False, True     # the first pass is no guide: it takes a partition to another law
            if log_joint - before < least_rise:
                break
        return own, wanted, is_mode, False

    def log_predictive(self, data, rows, Py_ssize_t k):
        """Return the log predictive of rows under cluster k: (len(rows),) nats, without log-base."""
        return np.array([self.components.log_predictive(i, [k])[0] for i in rows])


cdef bint are_equal(const int32_t[::1] a, const int32_t[::1] b) noexcept:
    cdef Py_ssize_t i
    for i in range(a.shape[0]):
        if a[i] != b[i]:
            return False
    return True


def first_lost(const int32_t[::1] before, const int32_t[::1] after, Py_ssize_t n_clusters):
    """Return the first cluster that holds a datum before and none after, -1 if there is none.

    Labels are from 0 to n_clusters - 1.
    """
    cdef Py_ssize_t i, k
    cdef signed char[::1] seen = np.zeros(n_clusters, dtype=np.int8)
    if before.shape[0] != after.shape[0]:
        raise ValueError(f"{counted(before.shape[0], 'label')} before, {after.shape[0]} after")
    with nogil:
        for i in range(before.shape[0]):
            seen[before[i]] |= 1
            seen[after[i]] |= 2
        for k in range(n_clusters):
            if seen[k] == 1:
                break
        else:
            k = -1
    return k
