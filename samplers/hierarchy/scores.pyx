"""Log odds that two clusters of any family are one, for the partners of a `MergeQueue`.

The scores ask the components for the evidence of two clusters together; the merging is done here too.
"""

import math

import numpy as np

from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t

from expfam.contracts cimport EXPFAM_OK, EXPFAM_PYTHON, components_v1
from expfam.families.growth cimport growth_line, log_growth_v1
from expfam.families.components cimport Components, copy_growth
from expfam.samplers.hierarchy._merge cimport PARTS, SCORES, merge_scores_v1, score_parts, softplus
from expfam.structures.merging.queue cimport MERGE_NUMERICAL, MERGE_OK, MERGE_PYTHON


def log_gammas(n_data):
    """Return lgamma(n) for n = 0..n_data, with 0 in the first place: (n_data + 1,) nats."""
    return np.array([0.0, *(math.lgamma(n) for n in range(1, n_data + 1))])


def log_sizes(n_data, by_size):
    """Return what the order by size subtracts, by number of data: (n_data + 1,) nats.

    All are zero where clusters are not ordered by size.

    Parameters
    ----------
    n_data : int
    by_size : bool
        Whether clusters are ordered by size.
    """
    return np.log(np.maximum(np.arange(n_data + 1), 1)) if by_size else np.zeros(n_data + 1)


ctypedef struct odds_state:         # what scores read; slots are those of the components
    components_v1 *c
    double *work
    double *weight                  # (L,) W of the cluster in each slot
    int64_t *count                  # (L,) its data
    const double *log_gamma         # (n_data + 1,)
    const double *log_size          # (n_data + 1,) of a merged cluster, subtracted; zeros for order="odds"
    double log_alpha
    log_growth_v1 growth            # of the components; its line is NULL where they have none


cdef int odds_score(void *self, Py_ssize_t k, const Py_ssize_t *ls, Py_ssize_t m, double *out) noexcept nogil:
    """Compute the log odds that slot k and each of ls are one cluster.

    Each is a sum of two terms, so both orders of a pair give the same bits.
    """
    cdef odds_state *s = <odds_state *> self
    cdef Py_ssize_t i
    cdef int64_t n
    cdef int code = s.c.log_merged(s.c.self, k, ls, m, out, s.work)
    if code != EXPFAM_OK:
        return MERGE_PYTHON if code == EXPFAM_PYTHON else MERGE_NUMERICAL
    for i in range(m):
        n = s.count[k] + s.count[ls[i]]
        out[i] = (s.log_alpha + s.log_gamma[n] + out[i]) - (s.weight[k] + s.weight[ls[i]]) - s.log_size[n]
    return MERGE_OK


cdef int odds_alone(void *self, Py_ssize_t k, double *out, double *rounding) noexcept nogil:
    """Compute the score of slot k with a datum whose density under k, and whose weight, are 1.

    The second result is 32 times its relative error.
    """
    cdef odds_state *s = <odds_state *> self
    cdef double evidence = 0.0
    cdef int64_t n = s.count[k] + 1
    cdef int code = s.c.log_marginal(s.c.self, &k, 1, &evidence, s.work)
    if code != EXPFAM_OK:
        return MERGE_PYTHON if code == EXPFAM_PYTHON else MERGE_NUMERICAL
    out[0] = s.log_alpha + s.log_gamma[n] + evidence - s.weight[k] - s.log_size[n]
    rounding[0] = 2.0 ** -47 * (fabs(s.log_gamma[n]) + fabs(evidence) + fabs(s.weight[k]) + 1.0)
    return MERGE_OK


cdef int odds_line(void *self, Py_ssize_t k, Py_ssize_t l, double depth, growth_line *out) noexcept nogil:
    cdef odds_state *s = <odds_state *> self
    return s.growth.line(s.growth.self, k, l, depth, out)


cdef class OddsScores:
    """Log odds of merging two clusters of any family, for the partners of a `MergeQueue`.

    The model's family is bound, its weights are a Dirichlet process. `labels` (N,) are the leaves of the data, 0..L-1
    and none empty. `leaf_weight` (L,) is W of the leaves, or None for one block each. With `by_size`, the log number of
    data of the merged cluster is subtracted.

    Attributes
    ----------
    capsule : PyCapsule
        ``"expfam.merge_scores_v1"``: scores of given pairs.
    parts : PyCapsule or None
        ``"expfam.score_parts_v1"``, for bounds of scores; None of a family that has none.
    components : Components
        Statistics by slot.
    weight, count : (L,) float64 and int64 ndarrays
        W and number of data by slot.
    block : (L,) float64 ndarray
        Log weight of each leaf as one block, nats.
    """

    cdef readonly object capsule, parts, weight, count, block
    cdef readonly Components components
    cdef odds_state s
    cdef merge_scores_v1 functions
    cdef score_parts of_scores
    cdef object log_gamma, log_size
    cdef double[::1] work

    def __init__(self, model, data, labels, *, leaf_weight, by_size):
        cdef const int32_t[::1] leaf = labels
        L, N = int(labels.max()) + 1, data.n_rows
        self.components = Components(model.family, data, L, layout="clusters")
        self.count = np.bincount(labels, minlength=L).astype(np.int64)
        self.log_gamma, self.log_size = log_gammas(N), log_sizes(N, by_size)
        self.s.log_alpha = math.log(model.weights.alpha)
        self._add(leaf)
        self.block = self.s.log_alpha + self.log_gamma[self.count] + self.components.log_marginal(np.arange(L))
        self.weight = np.array(self.block if leaf_weight is None else leaf_weight, dtype=np.float64)
        self._aim()
        self._set_growth()

    def _set_growth(self):
        """Set the functions that bound scores, where the components have such bounds."""
        growth = getattr(self.components.owner, "growth", None)
        if growth is None:
            return
        copy_growth(growth, &self.s.growth, self.components.family)
        self.of_scores.self = &self.s
        self.of_scores.alone = odds_alone
        self.of_scores.line = odds_line
        self.parts = PyCapsule_New(&self.of_scores, PARTS, NULL)

    def _add(self, const int32_t[::1] leaf):
        cdef Py_ssize_t i, n_rows = leaf.shape[0]
        cdef int code = EXPFAM_OK
        cdef components_v1 *c = &self.components.c
        with nogil:
            for i in range(n_rows):
                code = c.add(c.self, i, leaf[i])
                if code != EXPFAM_OK:
                    break
        if code != EXPFAM_OK:
            raise self.components.fail(code, i, leaf[i])

    def _aim(self):
        cdef double[::1] weight = self.weight
        cdef const double[::1] log_gamma = self.log_gamma, log_size = self.log_size
        cdef int64_t[::1] count = self.count
        self.work = np.empty(max(self.components.c.work_size, 1))
        self.s.c, self.s.work = &self.components.c, &self.work[0]
        self.s.weight, self.s.count = &weight[0], &count[0]
        self.s.log_gamma, self.s.log_size = &log_gamma[0], &log_size[0]
        self._publish()

    cdef _publish(self):
        self.functions.self = &self.s
        self.functions.score = odds_score
        self.capsule = PyCapsule_New(&self.functions, SCORES, NULL)

    def fork(self):
        """Return the same scores with scratch memory of their own, for another thread."""
        cdef OddsScores other = OddsScores.__new__(OddsScores)
        other.components, other.weight, other.count = self.components, self.weight, self.count
        other.log_gamma, other.log_size, other.s = self.log_gamma, self.log_size, self.s
        other.work = np.empty(max(self.components.c.work_size, 1))
        other.s.work = &other.work[0]
        other._publish()
        return other

    def bounds(self, n_positions):
        """Return bounds of the evidence of pairs of these components, or None where they have none.

        Parameters
        ----------
        n_positions : int
            To which clusters may be written.
        """
        make = getattr(self.components.owner, "merged_bounds", None)
        return None if make is None else make(n_data=len(self.log_gamma) - 1, n_positions=n_positions)

    def levels_with(self, levels):
        """Return what a score adds by the number of data of both clusters: (n_data + 1,) nats.

        Parameters
        ----------
        levels : (n_data + 1,) float64 ndarray
            Such terms of the evidence.
        """
        return levels + self.s.log_alpha + self.log_gamma - self.log_size

    @property
    def can_fork(self):
        """Return whether several threads may score at once."""
        return not self.components.needs_gil

    @property
    def pending(self):
        """Return the exception of a score that failed in a family in Python, or None."""
        return self.components.pending

    def score(self, Py_ssize_t k, slots):
        """Return the scores of slot k with other slots: (m,) nats.

        Parameters
        ----------
        k : int
        slots : (m,) sequence of int
        """
        cdef const Py_ssize_t[::1] ls = np.ascontiguousarray(slots, dtype=np.intp)
        out = np.empty(ls.shape[0])
        cdef double[::1] view = out
        if ls.shape[0] and odds_score(&self.s, k, &ls[0], ls.shape[0], &view[0]) != MERGE_OK:
            raise self.components.fail(EXPFAM_PYTHON, -1, k)
        return out

    def absorb(self, Py_ssize_t k, Py_ssize_t l):
        """Move the data of slot l into slot k.

        Parameters
        ----------
        k, l : int

        Returns
        -------
        block : float
            Log weight of both clusters as one block, nats.
        growth : float
            How much more it is than the log weight of the two apart, nats.
        """
        cdef double together = 0.0, block, apart, growth
        cdef int code = self.s.c.log_merged(self.s.c.self, k, &l, 1, &together, self.s.work)
        if code == EXPFAM_OK:
            code = self.s.c.absorb(self.s.c.self, k, l)
        if code != EXPFAM_OK:
            raise self.components.fail(code, k, l)
        self.s.count[k] += self.s.count[l]
        self.s.count[l] = 0
        block = self.s.log_alpha + self.s.log_gamma[self.s.count[k]] + together
        apart = self.s.weight[k] + self.s.weight[l]
        growth = softplus(block - apart)
        self.s.weight[k] = apart + growth
        return block, growth

    def to_arrays(self):
        """Return weights, numbers of data and statistics of each slot as a dict of arrays."""
        return {"weight": self.weight.copy(), "count": self.count.copy(), "components": self.components.to_arrays()}

    def from_arrays(self, arrays):
        """Restore the arrays that `to_arrays` returned."""
        self.weight[:] = arrays["weight"]
        self.count[:] = arrays["count"]
        self.components.from_arrays(arrays["components"])
        self._aim()
