"""Posterior means (E theta, E g) of one cluster of a Gaussian family, computed in C.

They equal the results of `Family.expected_natural`. Proposals whose tables follow single moves use them, because a
call of NumPy for one cluster would cost more than the rest of a move. The cost is O(d), or O(d^3) with a full
covariance.
"""

import numpy as np

from libc.math cimport log

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK
from expfam.structures.simd.cholesky cimport expfam_cholesky, expfam_scale
from expfam.structures.simd.vectors cimport expfam_dot

from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian, ZeroMeanGaussian
from expfam.families.gaussian.spherical import SphericalGaussian

cdef double ROOT_HALF = 0.70710678118654752
cdef double LOG_2 = 0.69314718055994531


cdef double digamma(double x) noexcept nogil:
    """Return psi(x) for x > 0, by recurrence up to 10 and the asymptotic series from there.

    The first neglected term of the series is at most 2e-14.
    """
    cdef double below = 0.0, inverse, square
    while x < 10.0:
        below -= 1.0 / x
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    return (below + log(x) - 0.5 * inverse
            - square * (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square / 132)))))


cdef int diagonal_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                     double *work) noexcept nogil:
    g[0] = 0.0
    return columns_at(law, n, NULL, S, theta, g)


cdef int open_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                 double *work) noexcept nogil:
    """Compute theta of columns with own counts: minus their g, then their parameters."""
    g[0] = 0.0
    return columns_at(law, n, S, S + law.d, theta + law.d, theta)


cdef int columns_at(const natural_law *law, double n, const double *counts, const double *S, double *theta,
                    double *g) noexcept nogil:
    """Add the g of each column to g[0]; if there are `counts`, write it negated to g (d,)."""
    cdef Py_ssize_t f, d = law.d
    cdef double strength, about, rate, shape, mean, precision, own, last = -1.0, psi = 0.0
    for f in range(d):
        if counts != NULL:
            n = counts[f]
        strength = law.strength[f] + n
        about = S[f] - n * law.shift[f]
        # sums about the prior location do not cancel the digits of the prior rate if that lies far from the data
        rate = law.scale[f] + 0.5 * (S[d + f] - law.shift[f] * (S[f] + about) - about * about / strength)
        if not rate > 0.0:
            return EXPFAM_NUMERICAL
        shape = law.shape[f] + 0.5 * n
        if shape != last:               # most columns have the same shape
            last, psi = shape, digamma(shape)
        mean = law.shift[f] + about / strength
        precision = shape / rate
        theta[f] = mean * precision
        theta[d + f] = -0.5 * precision
        own = 0.5 * (1.0 / strength + mean * mean * precision - psi + log(rate))
        if counts != NULL:
            g[f] = -own
        else:
            g[0] += own
    return EXPFAM_OK


cdef int radial_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                   double *work) noexcept nogil:
    cdef Py_ssize_t f, d = law.d
    cdef double strength = law.strength[0] + n, shape = law.shape[0] + 0.5 * n * d, rate, precision
    cdef double about, squares = 0.0, cross = 0.0, length = 0.0
    for f in range(d):
        about = S[f] - n * law.shift[f]
        squares += about * about
        cross += law.shift[f] * (S[f] + about)
        theta[f] = law.shift[f] + about / strength
        length += theta[f] * theta[f]
    rate = law.scale[0] + 0.5 * (S[d] - cross - squares / strength)
    if not rate > 0.0:
        return EXPFAM_NUMERICAL
    precision = shape / rate
    for f in range(d):
        theta[f] *= precision
    theta[d] = -0.5 * precision
    g[0] = 0.5 * (d / strength + length * precision - d * (digamma(shape) - log(rate)))
    return EXPFAM_OK


cdef int spherical_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                      double *work) noexcept nogil:
    cdef Py_ssize_t f, d = law.d
    cdef double variance = 1.0 / (1.0 / law.mean_variance + n / law.variance), squares = d * variance, mean
    for f in range(d):
        mean = variance * (law.shift[f] / law.mean_variance + S[f] / law.variance)
        theta[f] = mean / law.variance
        squares += mean * mean
    g[0] = 0.5 * squares / law.variance
    if law.is_shared:
        theta[d] = -0.5 / law.variance
        g[0] += 0.5 * d * log(law.variance)
    return EXPFAM_OK


cdef int full_at(const natural_law *law, double n, const double *S, double *theta, double *g,
                 double *work) noexcept nogil:
    """Compute theta and g from the Cholesky factor L of the posterior scale.

    Triangles are stored by columns of L, each from its diagonal on. The packed statistics have the same order.
    """
    cdef Py_ssize_t i, j, k, d = law.d, size = d * (d + 1) // 2
    cdef double *location = work                # sums about the prior location, later the posterior location
    cdef double *solved = work + d              # one column of the inverse
    cdef double *triangle = work + 2 * d
    cdef double *inverse = triangle + size
    cdef double *second = theta if law.zero_mean else theta + d
    cdef double *column
    cdef double *a
    cdef double *b
    cdef double dof = law.shape[0] + n, strength = 1.0 if law.zero_mean else law.strength[0] + n
    cdef double spread = 0.0, expected_log = d * LOG_2, entry
    for j in range(d):
        location[j] = 0.0 if law.zero_mean else S[j] - n * law.shift[j]
    expfam_scale(law.scale, S if law.zero_mean else S + d, law.shift if law.zero_mean else S, law.shift, n, location,
                 0.0 if law.zero_mean else 1.0 / strength, triangle, d)
    if expfam_cholesky(triangle, d):
        return EXPFAM_NUMERICAL
    column = inverse
    for j in range(d):
        for i in range(j, d):
            solved[i] = 1.0 if i == j else 0.0
        a = triangle + j * d - j * (j - 1) // 2
        for k in range(j, d):
            solved[k] /= a[0]
            for i in range(1, d - k):
                solved[k + i] -= a[i] * solved[k]
            column[k - j] = solved[k]
            a += d - k
        column += d - j
    a = triangle
    for j in range(d):
        expected_log += digamma(0.5 * (dof - j)) - 2.0 * log(a[0])
        a += d - j
    if not law.zero_mean:
        spread = d / strength
        for j in range(d):
            location[j] = law.shift[j] + location[j] / strength
            theta[j] = 0.0
    a = inverse
    for i in range(d):
        b = a
        for j in range(i, d):
            entry = dof * expfam_dot(a + (j - i), b, d - j)
            second[0] = -0.5 * entry if i == j else -ROOT_HALF * entry
            second += 1
            if not law.zero_mean:
                theta[i] += entry * location[j]
                if i != j:
                    theta[j] += entry * location[i]
            b += d - j
        a += d - i
    if not law.zero_mean:
        for j in range(d):
            spread += theta[j] * location[j]
    g[0] = 0.5 * (spread - expected_log)
    return EXPFAM_OK


cdef class NaturalLaw:
    """Function from statistics to posterior means of theta and g, for one bound Gaussian family.

    The family is one that `knows` accepts.

    >>> from expfam import SphericalGaussian
    >>> from expfam.families.gaussian.natural import NaturalLaw
    >>> family = SphericalGaussian(variance=1.0, mean=0.0, mean_variance=1.0).bind([[-1.0], [1.0]])
    >>> NaturalLaw(family)(1.0, [2.0])
    (array([1.]), 0.75)
    """

    def __init__(self, family):
        d = family.n_features_in_
        self.arrays = []
        self.law.d = d
        self.law.zero_mean = isinstance(family, ZeroMeanGaussian)
        self.law.shift = self.keep(np.zeros(d) if self.law.zero_mean else family.mean - family.center_)
        if isinstance(family, DiagonalGaussian):
            self.law.at, self.law.work_size = open_at if family.missing else diagonal_at, 0
            self.law.strength, self.law.shape = self.keep(family.mean_strength), self.keep(family.shape)
            self.law.scale = self.keep(family.rate)
        elif isinstance(family, SphericalGaussian) and family.variance == "auto":
            self.law.at, self.law.work_size = radial_at, 0
            self.law.strength, self.law.shape = self.keep(family.mean_strength), self.keep(family.shape)
            self.law.scale = self.keep(family.rate)
        elif isinstance(family, SphericalGaussian):
            self.law.at, self.law.work_size = spherical_at, 0
            self.law.is_shared = family.variance == "shared"
            self.law.variance = family.shared_variance if self.law.is_shared else family.variance
            self.law.mean_variance = family.mean_variance
        else:
            self.law.at, self.law.work_size = full_at, 2 * d + d * (d + 1)
            self.law.strength = self.keep(0.0 if self.law.zero_mean else family.mean_strength)
            self.law.shape = self.keep(family.dof)
            self.law.scale = self.keep(np.asarray(family.scale)[np.triu_indices(d)])

    @staticmethod
    def knows(family):
        """Return whether this module computes the expected_natural of the family."""
        known = (DiagonalGaussian, SphericalGaussian, Gaussian, ZeroMeanGaussian)
        return any(getattr(type(family), "expected_natural", None) is kind.expected_natural for kind in known)

    cdef const double *keep(self, values) except NULL:
        cdef const double[::1] view = np.array(values, dtype=np.float64).ravel()
        self.arrays.append(view)
        return &view[0]

    def __call__(self, double n, S):
        """Return the posterior means of theta (F,) and g of one cluster."""
        cdef const double[::1] statistics = np.ascontiguousarray(S, dtype=np.float64)
        out = np.empty(statistics.shape[0])
        cdef double[::1] theta = out
        cdef double[::1] work = np.empty(self.law.work_size + 1)
        cdef double g = 0.0
        if self.law.at(&self.law, n, &statistics[0], &theta[0], &g, &work[0]):
            raise FloatingPointError("the statistics of the cluster are not finite or not positive definite")
        return out, g
