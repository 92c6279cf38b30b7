"""The clusters with the largest weights, found by search, and all others alike.

Given parameters, a datum's k best clusters are found exactly by branch and bound over a tree of the clusters; they are
proposed by their weights, each other cluster by the weight of the last of them. Where the k hold nearly all of the
weight, draws are nearly independent ones from the conditional law, and moves within the k are always accepted, but for
the floor. O(visits F) for a draw.
"""

import numbers

from cython cimport final
from libc.math cimport exp, log
from numpy.random cimport bitgen_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.samplers._cluster_cells cimport cluster_query
from expfam.samplers._cluster_search cimport search, walk
from expfam.samplers.proposals._on_tree cimport OnTree, aim, column_of, tree_state

from expfam.samplers.proposals.proposal import Proposal


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
    >>> from expfam.samplers.proposals.door import ProposalDoor
    >>> from expfam.samplers.proposals.nearest import NearestProposal
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> data = Dataset(np.array([[-1.0], [0.0], [9.0]]), SphericalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2))
    >>> door = ProposalDoor(NearestProposal(k=1).bind(model, data, seed=0), "nearest")
    >>> n, S = data.statistics(np.array([0, 0, 1]), 2)
    >>> door.refresh(Snapshot(data.family, n, [0, 1], lambda: S, log_weight=np.log(n)))
    >>> k_new, log_back = door.draw(2, 0, np.random.default_rng(0))

    Notes
    -----
    q(z | x) = (1 - floor) w_z / (w_1 + ... + w_k + (K - k) w_k) + floor / K, with w_k in place of w_z beyond the k.
    The k are exact, so a cluster outside has at most the weight that it is proposed with: that is a rejection sampler
    of the conditional law in the form of Metropolis steps.
    """

    modes = frozenset({"frozen"})

    def __init__(self, k=16, *, floor=0.01):
        self.k, self.floor = k, floor

    def memory(self, model, data, n_clusters):
        """Bytes of phi in single precision; sparse phi is read in place."""
        return 0 if data.has_sparse_phi else 4 * data.n_rows * data.n_statistics

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


cdef inline Py_ssize_t place_of(const tree_state *s, const walk *w, Py_ssize_t column) noexcept nogil:
    """Number of a cluster among the best, or -1."""
    cdef Py_ssize_t j
    for j in range(w.n_found):
        if s.tree.cluster[w.found[j].position] == column:
            return j
    return -1


cdef int look(const tree_state *s, Py_ssize_t i, walk *w, double *total, double *work) noexcept nogil:
    """The best clusters of datum i with their weights relative to the first; all weights together in `total`."""
    cdef cluster_query q
    cdef Py_ssize_t j
    cdef double top
    aim(s, i, w, &q, work)
    search(&s.tree, &q, w)
    total[0] = 0.0
    if w.n_found == 0:
        return EXPFAM_NUMERICAL
    top = w.found[0].score
    for j in range(w.n_found):
        w.found[j].score = exp(w.found[j].score - top)
        total[0] += w.found[j].score
    total[0] += (s.n_columns - w.n_found) * w.found[w.n_found - 1].score
    return EXPFAM_OK if 0.5 <= total[0] <= 2.0 * s.n_columns else EXPFAM_NUMERICAL


cdef inline double share(const tree_state *s, const walk *w, Py_ssize_t column, double total) noexcept nogil:
    """Probability of a cluster."""
    cdef Py_ssize_t place = place_of(s, w, column)
    place = w.n_found - 1 if place < 0 else place
    return (1.0 - s.floor) * w.found[place].score / total + s.floor / s.n_columns


cdef int nearest_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                      double *work) noexcept nogil:
    cdef tree_state *s = <tree_state *> self
    cdef walk w
    cdef double total, u
    cdef Py_ssize_t old = column_of(s, k_old), column = -1, j
    if old < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    cdef int code = look(s, i, &w, &total, work)
    if code:
        return code
    if rng.next_double(rng.state) < s.floor:
        column = <Py_ssize_t> (rng.next_double(rng.state) * s.n_columns)
    else:
        u = rng.next_double(rng.state) * total
        for j in range(w.n_found):
            u -= w.found[j].score
            if u < 0.0:
                column = s.tree.cluster[w.found[j].position]
                break
        if column < 0 and w.n_found == s.n_columns:     # rounding of the sum
            column = s.tree.cluster[w.found[0].position]
        while column < 0:                               # any of the others
            column = <Py_ssize_t> (rng.next_double(rng.state) * s.n_columns)
            if place_of(s, &w, column) >= 0:
                column = -1
    k_new[0] = s.slots[column]
    log_back[0] = log(share(s, &w, old, total) / share(s, &w, column, total))
    return EXPFAM_OK


cdef int nearest_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                          double *work) noexcept nogil:
    cdef tree_state *s = <tree_state *> self
    cdef walk w
    cdef double total
    cdef Py_ssize_t j, column
    if s.n_slots < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    cdef int code = look(s, i, &w, &total, work)
    if code:
        return code
    for j in range(m):
        column = column_of(s, ks[j])
        out[j] = log(share(s, &w, column, total) if column >= 0 else 0.0)
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

    def __init__(self, settings, data):
        super().__init__(data, float(settings.floor))
        self.k = settings.k
        self.api.draw, self.api.log_prob = nearest_draw, nearest_log_prob

    def _settle(self):
        """As many as there are clusters, at most."""
        self.s.most = min(self.k, self.s.tree.n_positions)
        super()._settle()
