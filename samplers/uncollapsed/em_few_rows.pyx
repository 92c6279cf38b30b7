"""The expectation of few rows in double precision, one row after the other.

Tables, tiles and tasks of a pass over many rows take longer to make than a hundred rows take to be weighed.
"""

import numpy as np

from libc.math cimport INFINITY, isnan, log
from libc.stdint cimport int32_t

from expfam.families.modes cimport ModeLaw
from expfam.structures.simd.soft_rows cimport EXPFAM_LANES, expfam_add_weighed, expfam_row_scores, expfam_row_weights

from expfam.amounts import counted

cdef Py_ssize_t MOST_BYTES = 1 << 18    # of the statistics of all rows, which a data set holds up to this size
cdef Py_ssize_t MOST_SCORES = 1 << 13   # of a pass; more are computed faster in single precision
# of a climb: a step takes two thirds of the time of a pass in single precision, and less where data are fewer
cdef Py_ssize_t MOST_CLIMBED_BYTES = 1 << 22, MOST_CLIMBED_SCORES = 1 << 17, MOST_PRODUCTS = 1 << 22
cdef double DEPTH = 46.0                # components that lie this many nats below the best one have no weight


def has_few_rows(data, Py_ssize_t n_components):
    """Return whether `expectation_of_few_rows` takes the data: few rows with dense statistics."""
    cdef Py_ssize_t n_rows = data.n_rows
    if n_rows * n_components > MOST_SCORES or 8 * n_rows * data.n_statistics > MOST_BYTES:
        return False
    return not data.has_sparse_phi


def may_climb_at_once(data, Py_ssize_t n_components):
    """Return whether `FewRowsClimb` takes the data: few enough rows of dense statistics."""
    cdef Py_ssize_t n_rows = data.n_rows, F = data.n_statistics
    if n_rows * n_components > MOST_CLIMBED_SCORES or 8 * n_rows * F > MOST_CLIMBED_BYTES:
        return False
    return n_rows * n_components * F <= MOST_PRODUCTS and not data.has_sparse_phi


def expectation_of_few_rows(data, Theta, G, log_pi):
    """Return what `expectation` does: soft counts and sums, log likelihood, and labels.

    Parameters
    ----------
    data : Dataset
        See `has_few_rows`.
    Theta, G, log_pi : (K, F), (K,) and (K,) float64 ndarray

    Returns
    -------
    n, S : (K,) and (K, F) float64 ndarray
    log_likelihood : float
        Nats, without log-base.
    labels : (N,) int32 ndarray

    Raises
    ------
    FloatingPointError
        A datum has no finite score.
    """
    cdef const double[:, ::1] phi = data.phi(0, data.n_rows), theta = np.ascontiguousarray(Theta, dtype=np.float64)
    cdef const double[::1] bias = np.ascontiguousarray(log_pi - G, dtype=np.float64)
    cdef const double[::1] weight = data.weight
    cdef Py_ssize_t N = phi.shape[0], F = phi.shape[1], K = theta.shape[0], bad
    n_array, S_array, label_array = np.empty(K), np.empty((K, F)), np.empty(N, dtype=np.int32)
    cdef double[::1] n = n_array
    cdef double[:, ::1] S = S_array
    cdef int32_t[::1] labels = label_array
    cdef double log_likelihood = 0.0
    cdef Lanes lanes = Lanes(K, F)
    with nogil:
        bad = weigh_rows(phi, weight, theta, bias, lanes, n, S, labels, &log_likelihood)
    if bad >= 0:
        raise no_score(data, bad)
    return n_array, S_array, log_likelihood, label_array


cdef class Lanes:
    """Parameters with clusters in lanes, and room for the scores and weights of a row."""

    cdef Py_ssize_t n
    cdef double[:, ::1] theta
    cdef double[::1] bias, scores, weights

    def __cinit__(self, Py_ssize_t K, Py_ssize_t F):
        self.n = (K + EXPFAM_LANES - 1) // EXPFAM_LANES * EXPFAM_LANES
        self.theta, self.bias = np.zeros((F, self.n)), np.full(self.n, -INFINITY)
        self.scores, self.weights = np.empty(self.n), np.empty(self.n)

    cdef void load(self, const double[:, ::1] theta, const double[::1] bias) noexcept nogil:
        cdef Py_ssize_t k, f
        for k in range(theta.shape[0]):
            self.bias[k] = bias[k]
            for f in range(theta.shape[1]):
                self.theta[f, k] = theta[k, f]


cdef Py_ssize_t weigh_rows(const double[:, ::1] phi, const double[::1] weight, const double[:, ::1] theta,
                           const double[::1] bias, Lanes lanes, double[::1] n, double[:, ::1] S, int32_t[::1] labels,
                           double *log_likelihood) noexcept nogil:
    """Write soft sums, labels and log likelihood; return a row without a finite score, or -1."""
    cdef Py_ssize_t F = phi.shape[1], K = theta.shape[0], i, k, top
    cdef double total, w
    cdef double *scores = &lanes.scores[0]
    cdef double *weights = &lanes.weights[0]
    cdef const double *row
    lanes.load(theta, bias)
    n[:] = 0.0
    S[:, :] = 0.0
    log_likelihood[0] = 0.0
    for i in range(phi.shape[0]):
        row = &phi[i, 0]
        expfam_row_scores(row, F, &lanes.theta[0, 0], &lanes.bias[0], scores, lanes.n)
        total = expfam_row_weights(scores, DEPTH, weights, lanes.n, &top)
        if isnan(total):
            for k in range(K):
                if isnan(scores[k]):
                    scores[k] = bias[k] + product(row, &theta[k, 0], F)
            total = expfam_row_weights(scores, DEPTH, weights, lanes.n, &top)
            if isnan(total):
                return i
        labels[i] = <int32_t> top
        w = 1.0 if weight is None else weight[i]
        log_likelihood[0] += w * (scores[top] + log(total))
        expfam_add_weighed(row, F, weights, w / total, K, &n[0], &S[0, 0])
    return -1


cdef double product(const double *x, const double *y, Py_ssize_t n) noexcept nogil:
    """Return the sum of products; a statistic of 0 adds nothing, whatever the parameter is."""
    cdef double total = 0.0
    cdef Py_ssize_t f
    for f in range(n):
        if x[f] != 0.0:
            total += x[f] * y[f]
    return total


def no_score(data, Py_ssize_t row):
    """Make the error of a row that has no finite score."""
    return FloatingPointError(
        f"family {data.family.name!r}, datum {data.row_offset + row}: no component has a finite score under the"
        " parameters"
    )


cdef class FewRowsClimb:
    """EM from labels of few rows under a symmetric Dirichlet prior; a step is one compiled call.

    It goes the way of `ExpectationMaximization`, up to rounding, without a state that can be stored.

    Parameters
    ----------
    law : ModeLaw
        Of the family of the data.
    data : Dataset
        See `may_climb_at_once`.
    labels : (N,) array_like of int
        Below the number of components.
    weights : SymmetricDirichlet
    tol : float
        As of `ExpectationMaximization`.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Most probable component of each row.
    log_joint : float
        Log posterior density of the parameters and weights, nats, up to a constant; -inf before the first step.
    converged : bool
        Whether the last step has raised it by no more than the tolerance.

    Examples
    --------
    >>> from expfam import Dataset, DiagonalGaussian, SymmetricDirichlet
    >>> from expfam.families.modes import mode_law_of
    >>> from expfam.samplers.uncollapsed.em_few_rows import FewRowsClimb
    >>> data = Dataset([[0.0], [0.1], [8.0], [8.1]], DiagonalGaussian())
    >>> climb = FewRowsClimb(mode_law_of(data.family), data, [0, 0, 1, 0], SymmetricDirichlet(2, 1.0), tol=1e-3)
    >>> [climb.step() for _ in range(3)], climb.labels
    ([1, 0, 0], array([0, 0, 1, 1], dtype=int32))
    """

    cdef readonly object labels
    cdef readonly double log_joint
    cdef readonly bint converged
    cdef object data
    cdef ModeLaw law
    cdef const double[:, ::1] phi
    cdef const double[::1] weight
    cdef double[:, ::1] S, theta
    cdef double[::1] n, bias
    cdef Lanes lanes
    cdef int32_t[::1] label_view, spare
    cdef double tol, offset, strength, level

    def __init__(self, ModeLaw law, data, labels, weights, *, double tol):
        cdef Py_ssize_t K = weights.n_components, i, k, f
        self.law, self.data, self.tol = law, data, tol
        self.phi, self.weight = data.phi(0, data.n_rows), data.weight
        self.labels = np.array(labels, dtype=np.int32)
        if self.labels.shape != (data.n_rows,) or not 0 <= self.labels.min() <= self.labels.max() < K:
            raise ValueError(f"labels must be {counted(data.n_rows, 'number')} from 0 to {K - 1}; got {self.labels!r}")
        self.label_view, self.spare = self.labels, np.empty(data.n_rows, dtype=np.int32)
        self.n, self.S, self.theta = np.zeros(K), np.zeros((K, self.phi.shape[1])), np.empty((K, self.phi.shape[1]))
        self.bias, self.lanes = np.empty(K), Lanes(K, self.phi.shape[1])
        self.offset, self.strength = weights.offset, weights.strength
        self.level = weights.log_density(np.zeros(K))   # the rest is linear in the log weights
        self.log_joint, self.converged = -INFINITY, False
        for i in range(self.phi.shape[0]):
            k = self.label_view[i]
            self.n[k] += 1.0 if self.weight is None else self.weight[i]
            for f in range(self.phi.shape[1]):
                self.S[k, f] += self.phi[i, f] if self.weight is None else self.weight[i] * self.phi[i, f]

    def step(self):
        """Set parameters to their mode, then weigh the rows; return how many labels change.

        After convergence nothing changes.

        Raises
        ------
        FloatingPointError
            Statistics are impossible, or a datum has no finite score.
        """
        cdef Py_ssize_t i, n_moved = 0, bad = -1, none = -1
        cdef double before = self.log_joint, prior = 0.0, log_likelihood = 0.0, total = 0.0
        if self.converged:
            return 0
        with nogil:
            none = self.set_parameters(&prior)
            if none < 0:
                bad = weigh_rows(self.phi, self.weight, self.theta, self.bias, self.lanes, self.n, self.S, self.spare,
                                 &log_likelihood)
        if none >= 0:
            raise FloatingPointError(f"family {self.data.family.name!r}, cluster {none}: the posterior rate or scale is"
                                     " not finite and positive")
        if bad >= 0:
            raise no_score(self.data, bad)
        for i in range(self.n.shape[0]):
            total += self.n[i]
        for i in range(self.spare.shape[0]):
            n_moved += self.spare[i] != self.label_view[i]
        if n_moved:
            self.labels, self.spare = np.array(self.spare), np.empty(self.spare.shape[0], dtype=np.int32)
            self.label_view = self.labels
        self.log_joint = log_likelihood + prior
        self.converged = self.log_joint - before <= self.tol * total
        return n_moved

    cdef Py_ssize_t set_parameters(self, double *prior) noexcept nogil:
        """Set parameters to their mode, sum log priors; return an impossible cluster, or -1."""
        cdef Py_ssize_t k, K = self.n.shape[0]
        cdef double total = self.strength, g = 0.0, log_pi
        prior[0] = self.level
        for k in range(K):
            total += self.n[k]
        for k in range(K):
            if self.law.law.at(self.law.law, self.n[k], &self.S[k, 0], &self.theta[k, 0], &g):
                return k
            log_pi = log(self.offset + self.n[k]) - log(total)
            self.bias[k] = log_pi - g
            prior[0] += self.offset * log_pi + self.law.law.log_prior(self.law.law, &self.theta[k, 0], g)
        return -1
