"""The clusters with the largest weights, found by search, and all others alike.

Given parameters, a datum's k best clusters are found exactly by branch and bound over a tree of the clusters; they are
proposed by their weights, each other cluster by the weight of the last of them. Where the k hold nearly all of the
weight, draws are nearly independent ones from the conditional law, and moves within the k are always accepted, but for
the floor. O(visits F) for the first draw of a datum after a refresh, O(k) for the others.
"""

import numbers

import numpy as np

from cython cimport final
from libc.math cimport exp, log
from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.structures.cluster_tree.cells cimport cluster_query
from expfam.structures.cluster_tree.search cimport search, tree_search
from expfam.samplers.proposals._on_tree cimport OnTree, aim, column_of, tree_state

from expfam.samplers.proposals.base import Proposal


class NearestProposal(Proposal):
    """The k best clusters of each datum by their weights, all others by the weight of the last of these.

    Parameters
    ----------
    k : int, default 16
        At least 2 to say anything: all others have the weight of the k-th.
    floor : float in (0, 1), default 0.01
        Share of the draws that go to any cluster with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, SphericalGaussian, SymmetricDirichlet
    >>> from expfam.samplers.proposals.handle import ProposalHandle
    >>> from expfam.samplers.proposals.nearest import NearestProposal
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> data = Dataset(np.array([[-1.0], [0.0], [9.0]]), SphericalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2))
    >>> handle = ProposalHandle(NearestProposal(k=1).bind(model, data, seed=0), "nearest")
    >>> n, S = data.statistics(np.array([0, 0, 1]), 2)
    >>> handle.refresh(Snapshot(data.family, n, [0, 1], lambda: S, log_weight=np.log(n)))
    >>> k_new, log_back = handle.draw(2, 0, np.random.default_rng(0))

    Notes
    -----
    q(z | x) = (1 - floor) w_z / (w_1 + ... + w_k + (K - k) w_k) + floor / K, with w_k in place of w_z beyond the k.
    The k are exact, so a cluster outside has at most the weight that it is proposed with: that is a rejection sampler
    of the conditional law in the form of Metropolis steps. A datum's search is made at its first step after the
    proposal has been told of parameters and serves until it is told of others: for all steps of a sweep, and with
    ``refresh="never"`` or ``m`` of `UncollapsedMetropolis` for the sweeps between.
    """

    modes = frozenset({"frozen"})

    def __init__(self, k=16, *, floor=0.01):
        self.k, self.floor = k, floor

    def memory(self, model, data, n_clusters):
        """Bytes of what is known of each datum, and of phi in single precision; sparse phi is read in place."""
        phi = 0 if data.has_sparse_phi else 4 * data.n_statistics
        return data.n_rows * (12 * min(self.k, n_clusters) + 12 + phi)

    def bind(self, model, data, *, seed):
        """Working object.

        Raises
        ------
        ValueError
            Naming the parameter.
        """
        if not isinstance(self.k, numbers.Integral) or self.k < 1:
            raise ValueError(f"NearestProposal: k must be a positive integer; got {self.k!r}")
        if not isinstance(self.floor, numbers.Real) or not 0 < self.floor < 1:
            raise ValueError(f"NearestProposal: floor must lie in (0, 1); got {self.floor!r}")
        return BoundNearest(self, data)


ctypedef struct nearest_state:
    tree_state *on              # the tree of the last refresh, and the data
    Py_ssize_t k                # best clusters of a datum, where there are so many
    int32_t *found              # (N,) how many of them are known, -1 before the datum's first search
    int32_t *columns            # (N, k) which, the best first
    double *weight              # (N, k) relative to the first
    double *total               # (N,) of all clusters, those beyond the k with the weight of the last


cdef inline Py_ssize_t place_of(const nearest_state *s, Py_ssize_t i, Py_ssize_t column) noexcept nogil:
    """Number of a cluster among the best of datum i, or -1."""
    cdef Py_ssize_t j
    for j in range(s.found[i]):
        if s.columns[i * s.k + j] == column:
            return j
    return -1


cdef int look(const nearest_state *s, Py_ssize_t i, double *work) noexcept nogil:
    """The best clusters of datum i and their weights, searched for once after a refresh."""
    cdef cluster_query q
    cdef tree_search w
    cdef Py_ssize_t j
    cdef double total = 0.0
    cdef double *weight = s.weight + i * s.k
    if s.found[i] > 0:
        return EXPFAM_OK
    aim(s.on, i, &w, &q, work)
    search(&s.on.tree, &q, &w)
    if w.n_found == 0:
        return EXPFAM_NUMERICAL
    for j in range(w.n_found):
        s.columns[i * s.k + j] = s.on.tree.cluster[w.found[j].position]
        weight[j] = exp(w.found[j].score - w.found[0].score)
        total += weight[j]
    total += (s.on.n_columns - w.n_found) * weight[w.n_found - 1]
    if not 0.5 <= total <= 2.0 * s.on.n_columns:
        return EXPFAM_NUMERICAL
    s.total[i] = total
    s.found[i] = <int32_t> w.n_found
    return EXPFAM_OK


cdef inline double share(const nearest_state *s, Py_ssize_t i, Py_ssize_t column) noexcept nogil:
    """Probability of a cluster."""
    cdef Py_ssize_t place = place_of(s, i, column)
    place = <Py_ssize_t> s.found[i] - 1 if place < 0 else place
    return (1.0 - s.on.floor) * s.weight[i * s.k + place] / s.total[i] + s.on.floor / s.on.n_columns


cdef int nearest_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                      double *work) noexcept nogil:
    cdef const nearest_state *s = <const nearest_state *> self
    cdef double u
    cdef Py_ssize_t old = column_of(s.on, k_old), column = -1, j
    if old < 0 or not 0 <= i < s.on.n_rows:
        return EXPFAM_RANGE
    cdef int code = look(s, i, work)
    if code:
        return code
    if rng.next_double(rng.state) < s.on.floor:
        column = <Py_ssize_t> (rng.next_double(rng.state) * s.on.n_columns)
    else:
        u = rng.next_double(rng.state) * s.total[i]
        for j in range(s.found[i]):
            u -= s.weight[i * s.k + j]
            if u < 0.0:
                column = s.columns[i * s.k + j]
                break
        if column < 0 and s.found[i] == s.on.n_columns:     # rounding of the sum
            column = s.columns[i * s.k]
        while column < 0:                                   # any of the others
            column = <Py_ssize_t> (rng.next_double(rng.state) * s.on.n_columns)
            if place_of(s, i, column) >= 0:
                column = -1
    k_new[0] = s.on.slots[column]
    log_back[0] = 0.0 if column == old else log(share(s, i, old) / share(s, i, column))
    return EXPFAM_OK


cdef int nearest_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                          double *work) noexcept nogil:
    cdef const nearest_state *s = <const nearest_state *> self
    cdef Py_ssize_t j, column
    if s.on.n_slots < 0 or not 0 <= i < s.on.n_rows:
        return EXPFAM_RANGE
    cdef int code = look(s, i, work)
    if code:
        return code
    for j in range(m):
        column = column_of(s.on, ks[j])
        out[j] = log(share(s, i, column) if column >= 0 else 0.0)
    return EXPFAM_OK


@final
cdef class BoundNearest(OnTree):
    """A `NearestProposal` at work.

    Parameters
    ----------
    settings : NearestProposal
        Checked.
    data : Dataset
    """

    cdef Py_ssize_t k
    cdef nearest_state n
    cdef object found, columns, weight, total

    def __init__(self, settings, data):
        super().__init__(data, float(settings.floor))
        self.k, self.n.on = settings.k, &self.s
        self.api.self = <void *> &self.n
        self.api.draw, self.api.log_prob = nearest_draw, nearest_log_prob

    def _settle(self):
        """As many as there are clusters, at most; nothing is known of any datum."""
        cdef int32_t[::1] found, columns
        cdef double[::1] weight, total
        k = self.s.most = min(self.k, self.s.tree.n_positions)
        if k != self.n.k:
            self.found, self.columns = np.empty(self.s.n_rows, np.int32), np.empty(self.s.n_rows * k, np.int32)
            self.weight, self.total = np.empty(self.s.n_rows * k), np.empty(self.s.n_rows)
        self.found[:] = -1
        found, columns, weight, total = self.found, self.columns, self.weight, self.total
        self.n.found, self.n.columns, self.n.weight, self.n.total = &found[0], &columns[0], &weight[0], &total[0]
        self.n.k = k
        super()._settle()
